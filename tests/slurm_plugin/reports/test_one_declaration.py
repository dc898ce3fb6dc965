"""A column says once what it is: all forms of a table have the same columns and raw values."""
