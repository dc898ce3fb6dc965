"""What is checked of an installation, from munge to the last fit: one finding for each check."""

from slurm_plugin.doctor.checks import CHECKS, examine
from slurm_plugin.doctor.installation import Finding, FindingState, Installation

__all__ = ["CHECKS", "Finding", "FindingState", "Installation", "examine"]
