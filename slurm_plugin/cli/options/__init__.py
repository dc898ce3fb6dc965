"""Help and options of each command of ``nimo``, a module each, which loads nothing heavy."""
