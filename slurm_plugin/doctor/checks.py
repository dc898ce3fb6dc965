"""All checks, in the order in which one would mend what they find."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from slurm_plugin.config import Config
from slurm_plugin.doctor import of_hooks, of_nimo, of_slurm
from slurm_plugin.doctor.findings import Finding, skipped
from slurm_plugin.doctor.patient import Patient


class Need(StrEnum):
    """Without what a check says nothing; the value is what is told then."""

    NOTHING = ""
    SLURMCTLD = "slurmctld does not answer"
    CONFIGURATION = "the configuration cannot be read"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what is looked at, and what it needs."""

    name: str
    make: Callable[[Patient], Iterator[Finding]]
    needs: Need = Need.NOTHING


CHECKS = (
    Check("configuration", of_nimo.configuration),
    Check("munge", of_slurm.munge),
    Check("slurmctld", of_slurm.slurmctld),
    Check("clock", of_slurm.clock, Need.SLURMCTLD),
    Check("job_submit", of_slurm.job_submit, Need.SLURMCTLD),
    Check("cli_filter", of_slurm.cli_filter, Need.SLURMCTLD),
    Check("hook files", of_hooks.hook_files),
    Check("hook syntax", of_hooks.syntax),
    Check("Lua modules", of_hooks.modules),
    Check("hooks loaded", of_hooks.loaded, Need.SLURMCTLD),
    Check("hook settings", of_hooks.hook_settings, Need.CONFIGURATION),
    Check("forwarding", of_hooks.forwarding, Need.SLURMCTLD),
    Check("slurmdbd", of_slurm.slurmdbd),
    Check("retention", of_slurm.retention),
    Check("comments", of_slurm.comments, Need.SLURMCTLD),
    Check("gathering", of_slurm.gathering, Need.SLURMCTLD),
    Check("store", of_nimo.store, Need.CONFIGURATION),
    Check("learned", of_nimo.learned, Need.CONFIGURATION),
    Check("nimod", of_nimo.nimod, Need.CONFIGURATION),
    Check("socket", of_nimo.reach, Need.CONFIGURATION),
)


def examine(patient: Patient) -> Iterator[Finding]:
    """Make all checks, one after the other."""
    there = {
        Need.NOTHING: True,
        Need.SLURMCTLD: bool(patient.slurm),
        Need.CONFIGURATION: isinstance(patient.config, Config),
    }
    for check in CHECKS:
        found = check.make(patient) if there[check.needs] else iter([skipped(check.needs)])
        for finding in found:
            yield replace(finding, check=check.name)
