"""One module for each command of ``nimo``; only the one that is asked for is imported."""
