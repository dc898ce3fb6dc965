"""What is asked of Slurm, in the background: never while a job is being submitted."""
