"""Slurm's small texts: durations, sizes, host lists, points in time, tags, admin comments."""
