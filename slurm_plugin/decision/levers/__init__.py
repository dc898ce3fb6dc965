"""What NIMO may change of a job, one way a module: size, time limit, memory, limit to plan with."""
