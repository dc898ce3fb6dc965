"""The first configuration of a site: what Slurm says, what the admin answers, what is written."""

from slurm_plugin.setup.answers import Answers, check, propose
from slurm_plugin.setup.hooks import FileState, Planned, install, plan, write

__all__ = ["Answers", "FileState", "Planned", "check", "install", "plan", "propose", "write"]
