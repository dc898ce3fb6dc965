"""A real, throw-away Slurm for tests and for playing: ``python -m tests.cluster --help``."""

from tests.cluster.host import missing_programs
from tests.cluster.slurm import SlurmCluster

__all__ = ["SlurmCluster", "missing_programs"]
