"""Job scripts and command lines: what sbatch reads in them, and which application they run."""
