"""``nimo scale``: a scaling study with the fewest runs that settle it."""
