"""How Slurm's commands are run."""

import os
import shutil

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.sources import squeue_command


def policy_of_a_command() -> str:
    return commands.run(["sh", "-c", "cut -d' ' -f41 /proc/self/stat"], timeout_s=60).strip()


@pytest.mark.skipif(shutil.which("chrt") is None, reason="chrt is not installed")
def test_no_command_runs_in_the_real_time_class_of_nimod():
    usual = os.sched_getscheduler(0)
    assert policy_of_a_command() == str(usual)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pytest.skip("only root may choose a real-time class")
    try:
        assert policy_of_a_command() == str(os.SCHED_OTHER)
        with pytest.raises(SlurmError, match="sqeue: not found"):
            commands.run(["sqeue"], timeout_s=60)
    finally:
        os.sched_setscheduler(0, usual, os.sched_param(0))


def test_the_format_of_squeue_is_not_in_its_command_line(tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\necho "$*;$SQUEUE_FORMAT;$SQUEUE_FORMAT2"\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    *options, _, word = argv = squeue_command((26, 5), "nsecret")
    assert commands.run(argv, timeout_s=60) == f"{' '.join(options[1:])};;{word}\n"
    assert commands.run(["squeue", "-o", "%A", "-h"], timeout_s=60) == "-h;%A;\n"
