"""What NIMO may change of a job, one way a module: size, start, times, memory, place."""
