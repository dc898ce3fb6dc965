"""Asking Slurm: with commands made for the test, then with the real ones."""

import itertools
import os
import time

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.watch import Watch
from tests.processes import wait_until
from tests.slurm_plugin.slurm.test_limits import ASSOC_MGR_TEXT
from tests.slurm_plugin.slurm.test_snapshot import PARTITIONS, SINFO, SQUEUE

CONFIG = "Configuration data\nClusterName             = pine\nSlurmUser = slurm(64030)\n"
ENFORCING = f"{CONFIG}AccountingStorageEnforce = associations,limits,qos\n"


def answers(argv, *, timeout_s):
    given = {"squeue": SQUEUE, "sinfo": SINFO, "config": CONFIG, "partition": PARTITIONS}
    return next((text for word, text in given.items() if word in argv), "")


def test_a_look_is_one_call_of_each_command():
    asked = []

    def run(argv, *, timeout_s):
        asked.append(argv[0])
        return answers(argv, timeout_s=timeout_s)

    watch = Watch(itertools.count(1e9).__next__, timeout_s=1.0, run=run)
    first, second = watch.look(), watch.look()
    assert asked == ["scontrol", *["squeue", "sinfo", "scontrol"] * 2]
    assert (first.taken_s, second.taken_s) == (1e9, 1e9 + 1)


def test_limits_are_asked_for_at_their_own_pace_where_they_are_enforced():
    asked = []

    def run(argv, *, timeout_s):
        asked.append(argv[:3])
        if "config" in argv:
            return ENFORCING
        return ASSOC_MGR_TEXT if "assoc_mgr" in argv else answers(argv, timeout_s=timeout_s)

    now = [1e9]
    watch = Watch(lambda: now[0], timeout_s=1.0, cluster="nimo", run=run)
    for later in (0, 20, 70):
        now[0] = 1e9 + later
        assert "three" in watch.look().limits.qos
    assert asked.count(("scontrol", "show", "assoc_mgr")) == 2
    assert asked.count(("sacctmgr", "-nP", "show")) == 2


def test_limits_known_before_hold_while_slurm_does_not_tell_them():
    def run(argv, *, timeout_s):
        if "assoc_mgr" in argv or "sacctmgr" in argv:
            raise SlurmError("scontrol: accounting is not enabled")
        return ENFORCING if "config" in argv else answers(argv, timeout_s=timeout_s)

    assert Watch(lambda: 0.0, timeout_s=1.0, run=run).look().limits.qos == {}


def test_slurm_tells_its_name_and_user():
    watch = Watch(lambda: 0.0, timeout_s=1.0, run=answers)
    assert watch.look().name == "pine"
    assert watch.slurm_users == {64030}


def test_a_configured_name_goes_before_slurms():
    assert Watch(lambda: 0.0, timeout_s=1.0, cluster="oak", run=answers).look().name == "oak"


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


def test_a_command_that_fails_says_why(tmp_path):
    argv = program(tmp_path, "squeue", "echo 'slurm_load_jobs error: down' >&2; exit 1")
    with pytest.raises(SlurmError, match="slurm_load_jobs error: down"):
        commands.run(argv, timeout_s=5)


def test_a_command_that_hangs_is_given_up(tmp_path):
    with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
        commands.run(program(tmp_path, "squeue", "exec sleep 60"), timeout_s=0.2)


def test_a_command_that_is_missing_says_so():
    with pytest.raises(SlurmError, match="not found on PATH"):
        commands.run(["no-such-squeue"], timeout_s=1)


def test_a_users_own_formats_do_not_get_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    argv = program(tmp_path, "squeue", 'echo "$SQUEUE_STATES,$SLURM_TIME_FORMAT"')
    assert commands.run(argv, timeout_s=5) == ",%s\n"


def test_the_real_cluster_is_seen(slurm, monkeypatch, request):
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    job = slurm.sbatch("-N2", "--exclusive", "-t", "10", "--wrap", "sleep 60")
    request.addfinalizer(lambda: slurm.run("scancel", str(job)))
    wait_until(lambda: slurm.job(job)["JobState"] == "RUNNING", timeout_s=20, what="the job")
    watch = Watch(time.time, timeout_s=10)
    seen = watch.look()
    part = seen.partitions[seen.default_partition]
    assert part.nodes == 8
    assert part.profile.earliest_start(6, 60.0) == seen.taken_s
    assert part.profile.earliest_start(7, 60.0) - seen.taken_s == pytest.approx(600, abs=60)
    assert watch.slurm_users
