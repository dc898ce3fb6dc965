"""What is checked of an installation, from munge to the last fit: one finding for each check."""

from slurm_plugin.doctor.checks import CHECKS, examine
from slurm_plugin.doctor.findings import Finding, State
from slurm_plugin.doctor.installation import Patient

__all__ = ["CHECKS", "Finding", "Patient", "State", "examine"]
