"""What the doctor says where Slurm's commands say less than Slurm's own do."""

from argparse import Namespace
from pathlib import Path

import pytest

from slurm_plugin.cli.commands.doctor import patient_of
from slurm_plugin.doctor import slurm_checks
from slurm_plugin.doctor.findings import State
from slurm_plugin.doctor.installation import Patient


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho ClusterName = pine\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return patient_of(Namespace(config=None, store=""))


def test_no_release_is_told(patient: Patient) -> None:
    (found,) = slurm_checks.slurmctld(patient)
    assert (found.state, found.told) == (State.ERROR, "scontrol show config names no release")


def test_no_folder_of_plugins_is_skipped(patient: Patient) -> None:
    assert [found.state for found in slurm_checks.job_submit(patient)] == [
        State.ERROR,
        State.SKIPPED,
    ]
