"""Read-only pages for browsers: ``nimo web``.  Needs the extra ``web``; nothing else loads it."""
