"""What is checked of an installation, in the order in which an admin would fix the problems."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from slurm_plugin.config.settings import Config
from slurm_plugin.doctor import hooks_checks, nimo_checks, slurm_checks
from slurm_plugin.doctor.installation import Finding, FindingState, Installation, skipped

__all__ = ["CHECKS", "Finding", "FindingState", "Installation", "examine"]
#: Checks on a login node: what users' commands and the relay need.
_THERE = (
    *("configuration", "munge", "slurmctld", "security", "clock", "cli_filter", "hook files"),
    *("hook syntax", "Lua modules", "hook settings", "forwarding", "socket"),
)


class Need(StrEnum):
    """What a check needs; the value is the message where that is missing."""

    NOTHING = ""
    SLURMCTLD = "slurmctld does not answer"
    CONFIGURATION = "the configuration cannot be read"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what is looked at, and what it needs."""

    name: str
    make: Callable[[Installation], Iterator[Finding]]
    needs: Need = Need.NOTHING


CHECKS = (
    Check("configuration", nimo_checks.configuration),
    Check("munge", slurm_checks.munge),
    Check("slurmctld", slurm_checks.slurmctld),
    Check("security", slurm_checks.security, Need.SLURMCTLD),
    Check("clock", slurm_checks.clock, Need.SLURMCTLD),
    Check("hook files", hooks_checks.hook_files),
    Check("hook syntax", hooks_checks.syntax),
    Check("Lua modules", hooks_checks.modules),
    # After the files: with a plugin and without its file sbatch fails for everybody.
    Check("job_submit", hooks_checks.job_submit, Need.SLURMCTLD),
    Check("cli_filter", hooks_checks.cli_filter, Need.SLURMCTLD),
    Check("hooks loaded", hooks_checks.loaded, Need.SLURMCTLD),
    Check("hook settings", hooks_checks.hook_settings, Need.CONFIGURATION),
    Check("forwarding", hooks_checks.forwarding, Need.SLURMCTLD),
    Check("slurmdbd", slurm_checks.slurmdbd),
    Check("retention", slurm_checks.retention),
    Check("comments", slurm_checks.comments, Need.SLURMCTLD),
    Check("measurements", slurm_checks.gathering, Need.SLURMCTLD),
    Check("limits", slurm_checks.limits, Need.SLURMCTLD),
    Check("store", nimo_checks.store, Need.CONFIGURATION),
    Check("ingest and fit", nimo_checks.learned, Need.CONFIGURATION),
    Check("values", nimo_checks.values, Need.CONFIGURATION),
    Check("nimod", nimo_checks.nimod, Need.CONFIGURATION),
    Check("socket", nimo_checks.reach, Need.CONFIGURATION),
)


LOGIN_NODE_CHECKS = (
    *(check for check in CHECKS if check.name in _THERE),
    Check("relay", nimo_checks.relay),
    Check("link", nimo_checks.link),
)


def examine(installation: Installation, *, limits: bool = False) -> Iterator[Finding]:
    """Make all checks that this host needs, one after the other.

    limits: try limits to plan with, too, with two jobs of a minute.
    """
    there = {
        Need.NOTHING: True,
        Need.SLURMCTLD: bool(installation.slurm),
        Need.CONFIGURATION: isinstance(installation.config, Config),
    }
    for check in LOGIN_NODE_CHECKS if installation.settings.relay.controllers else CHECKS:
        findings = check.make(installation) if there[check.needs] else iter([skipped(check.needs)])
        for finding in findings:
            yield replace(finding, check=check.name)
    for finding in slurm_checks.limits_for_real(installation) if limits else ():
        yield replace(finding, check="limits")
