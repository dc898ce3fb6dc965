"""Summary of ``nimo init``: Slurm's settings, the files written, and the steps that are left."""

import pwd
from collections.abc import Sequence
from pathlib import Path

import msgspec

from slurm_plugin.doctor.installation import Installation, line, missing_lines
from slurm_plugin.doctor.slurm_checks import purge_days
from slurm_plugin.setup.answers import Answers, partitions
from slurm_plugin.setup.hooks import Planned
from slurm_plugin.slurm.slurm_conf import read_settings

_FORWARD = "sed -i -E 's/^(forward_deadline|look_at_inputs) = no/\\1 = yes/'"
ACCOUNT = "nimo"  #: the account that nimod runs as
_USERADD = f"useradd --system --home-dir /var/lib/{ACCOUNT} --create-home {ACCOUNT}"


class SetupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of ``nimo init``."""

    slurm: dict[str, str]  #: what Slurm said; empty if it did not answer
    files: dict[str, str]  #: file -> what became of it
    hooks: list[str]  #: hooks that were written
    slurm_conf: list[str]  #: lines that slurm.conf lacks
    next: list[str]  #: commands that are left to give


def report(
    installation: Installation, answers: Answers, planned: Sequence[Planned], hooks: Sequence[Path]
) -> SetupSummary:
    """Collect the summary."""
    return SetupSummary(
        slurm=_facts(installation),
        files={str(file.path): str(file.state) for file in planned},
        hooks=[str(path) for path in hooks],
        slurm_conf=missing_lines(installation.slurm) if installation.slurm else [],
        next=_steps(installation, answers),
    )


def _facts(installation: Installation) -> dict[str, str]:
    if not installation.slurm:
        return {}
    days = purge_days(installation)
    return {
        "cluster": installation.slurm.get("ClusterName", ""),
        "release": installation.slurm.get("SLURM_VERSION", ""),
        "partitions": " ".join(partitions(installation)),
        "slurm.conf": str(installation.slurm_conf),
        "plugins": installation.slurm.get("PluginDir", ""),
        "job_submit": installation.slurm.get("JobSubmitPlugins", ""),
        "history in slurmdbd": "unlimited" if days is None else f"{days:g} days",
    }


def _steps(installation: Installation, answers: Answers) -> list[str]:
    """List the steps that are left; of a login node also those on the controllers."""
    text = installation.slurm_text if isinstance(installation.slurm_text, str) else ""
    no_account = ACCOUNT not in {entry.pw_name for entry in pwd.getpwall()}
    hooks = f"nimo hook-path --install {installation.hooks}"
    no_hooks = not (installation.hooks / "nimo_submit.lua").exists()
    if answers.controllers:
        where = " and ".join(answers.controllers)
        steps = {
            f"on {where}: relay.listen in nimo.yaml, then: systemctl restart nimod": True,
            f"{_USERADD}, with the uid that it has on {answers.controllers[0]}": no_account,
            hooks: no_hooks,
            "systemctl enable --now nimo-relay": True,
        }
    else:
        forward = f"{_FORWARD} {installation.hooks}/nimo_hook.conf"
        private = f"sacctmgr add user {ACCOUNT} account=root adminlevel=operator"
        steps = {
            _USERADD: no_account,
            private: read_settings(text).private,
            hooks: no_hooks,
            "scontrol reconfigure": bool(text and missing_lines(installation.slurm)),
            forward: bool(text and not hooks_run(installation)),
            f"sudo -u {ACCOUNT} nimo ingest -S now-{answers.first_days}days": True,
            f"sudo -u {ACCOUNT} nimo fit": True,
            "systemctl enable --now nimod nimo-ingest.timer": True,
        }
    return [*(step for step, needed in steps.items() if needed), "nimo doctor"]


def hooks_run(installation: Installation) -> bool:
    """Whether slurmctld runs job_submit.lua: only it takes away what cli_filter forwards."""
    there = (installation.hooks / "nimo_submit.lua").exists() and bool(installation.slurm)
    return there and not line(installation.slurm, "JobSubmitPlugins")


def render(summary: SetupSummary) -> str:
    """Text for a terminal."""
    parts = [
        ("Found in Slurm", [f"{name}: {value}" for name, value in summary.slurm.items()]),
        ("Settings", [f"{state:9}  {path}" for path, state in summary.files.items()]),
        ("Hooks written", summary.hooks),
        ("Add to slurm.conf, where slurmctld runs and on login nodes", summary.slurm_conf),
        ("Do next, in this order", summary.next),
    ]
    if "untouched" in summary.files.values():
        parts.append(
            (
                "These files were changed before, so they stay as they are",
                ["see the differences: nimo init --dry-run"],
            )
        )
    return "\n".join(
        line for head, lines in parts if lines for line in (f"{head}:", *(f"  {x}" for x in lines))
    )
