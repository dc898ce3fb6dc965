"""What the doctor says where Slurm's commands say less than Slurm's own do."""

from argparse import Namespace
from pathlib import Path

import pytest

from slurm_plugin.cli.installation import installation_of
from slurm_plugin.doctor import slurm_checks
from slurm_plugin.doctor.findings import FindingState
from slurm_plugin.doctor.installation import Installation


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho ClusterName = pine\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return installation_of(Namespace(config=None, store=""))


def test_no_release_is_told(patient: Installation) -> None:
    (found,) = slurm_checks.slurmctld(patient)
    assert (found.state, found.told) == (
        FindingState.ERROR,
        "scontrol show config names no release",
    )


def test_no_folder_of_plugins_is_skipped(patient: Installation) -> None:
    assert [found.state for found in slurm_checks.job_submit(patient)] == [
        FindingState.ERROR,
        FindingState.SKIPPED,
    ]
