"""The workbench: runs of an application that teach most, submitted to Slurm and learned from."""
