"""Numbers, times and tables as text, and the streams that they are printed to."""
