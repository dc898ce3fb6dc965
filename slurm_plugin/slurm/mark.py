"""How a request says that it only asks Slurm when it would start (``sbatch --test-only``)."""

#: Comment of such a request.
MARK = "nimo:estimate"
