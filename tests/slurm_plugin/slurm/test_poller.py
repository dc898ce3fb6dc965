"""Asking Slurm: with commands made for the test, then with the real ones."""

import logging
import os
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.sources import ask_json, ask_text
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.slurm.slurm_text import CONFIG, JSON, TEXT, as_asked
from tests.slurm_plugin.slurm.test_limits import ASSOC_MGR_TEXT

ENFORCING = f"{CONFIG}AccountingStorageEnforce = associations,limits,qos\n"


class Slurm:
    """Stands in for Slurm's commands and counts the questions."""

    def __init__(self, config=CONFIG, texts=None, limits="", broken=()):
        self.config, self.limits, self.broken = config, limits, broken
        self.texts = texts or TEXT
        self.asked = []

    def __call__(self, argv, *, timeout_s):
        words = " ".join(argv)
        self.asked.append(words)
        if any(word in words for word in self.broken):
            raise SlurmError(f"{argv[0]}: down")
        if "config" in words:
            return self.config
        if "assoc_mgr" in words or "sacctmgr" in words:
            return self.limits if "assoc_mgr" in words else ""
        texts = JSON if "--json" in words else self.texts
        return as_asked(argv, next(text for word, text in texts.items() if word in words))

    def count(self, word):
        return sum(word in words for words in self.asked)


def watch(slurm, clock=lambda: 1e9, *, cluster="", stopwatch=time.monotonic, **how):
    return ClusterPoller(
        clock, cluster=cluster, how=Snapshot(**how), run=slurm, stopwatch=stopwatch
    )


def test_a_look_is_one_call_of_each_command():
    slurm = Slurm()
    moments = iter(range(10**9, 10**9 + 100, 10))
    observed = watch(slurm, lambda: float(next(moments)))
    first, second = observed.look(), observed.look()
    assert [words.split()[0] for words in slurm.asked] == [
        "scontrol",
        *["squeue", "sinfo", "scontrol", "scontrol", "scontrol"] * 2,
    ]
    assert second.taken_s > first.taken_s >= 1e9


def test_json_is_asked_for_where_the_site_wants_it_and_the_release_has_it():
    for release, source, asked in (
        ("22.05.8", Source.JSON, "sinfo -a -N --json"),
        ("24.11.5", Source.JSON, "scontrol show nodes --json"),
        ("21.08.8", Source.JSON, "sinfo -h"),
        ("24.11.5", Source.AUTO, "sinfo -h"),
    ):
        slurm = Slurm(CONFIG.replace("22.05.8", release))
        watch(slurm, source=source).look()
        assert slurm.count(asked) == 1
        assert slurm.count("--json") == (2 if "--json" in asked else 0)


def test_json_that_cannot_be_read_makes_way_for_text(caplog):
    slurm = Slurm(broken=("--json",))
    observed = watch(slurm, source=Source.JSON)
    assert observed.look().partitions["batch"].nodes
    observed.look()
    assert observed.source is Source.TEXT
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "squeue: down; asking for text from now on"
    ]


def test_slow_answers_make_longer_pauses_and_json_makes_way_for_text(caplog):
    ticks = iter([0.0, 3.0, 10.0, 11.0, 20.0, 20.5])
    clock = {"stopwatch": lambda: next(ticks)}
    observed = watch(Slurm(), interval_s=20.0, share=0.1, source=Source.JSON, **clock)
    observed.look()
    assert (observed.source, observed.pause_s()) == (Source.TEXT, pytest.approx(27.0))
    assert "as JSON took 3.0 s" in caplog.text
    observed.look()
    assert observed.pause_s() == 20.0


@given(
    took_s=st.floats(0.0, 300.0),
    interval_s=st.floats(1.0, 60.0),
    max_age_s=st.floats(10.0, 600.0),
    share=st.floats(0.01, 1.0),
)
def test_no_pause_makes_a_view_older_than_it_may_be(took_s, interval_s, max_age_s, share):
    """It was taken a look ago when the pause begins, and the next one takes a look after it."""
    how = {"interval_s": interval_s, "max_age_s": max_age_s, "share": share}
    ticks = iter([0.0, took_s])
    observed = watch(Slurm(), stopwatch=lambda: next(ticks), **how)
    observed.look()
    pause_s = observed.pause_s()
    assert pause_s >= interval_s
    if pause_s > max(interval_s, took_s):
        assert took_s + pause_s + took_s <= max_age_s
    # Slurm has rest all the same.
    assert pause_s >= min(took_s, took_s * (1 / share - 1)) * 0.999


def test_a_look_that_fails_counts_too():
    ticks = iter([0.0, 30.0])
    observed = watch(Slurm(broken=("squeue",)), share=0.5, stopwatch=lambda: next(ticks))
    with pytest.raises(SlurmError, match="down"):
        observed.look()
    assert observed.pause_s() == 30.0  # as much rest as it took


def test_limits_are_asked_for_at_their_own_pace_where_they_are_enforced():
    now = [1e9]
    slurm = Slurm(ENFORCING, limits=ASSOC_MGR_TEXT)
    observed = watch(slurm, lambda: now[0], cluster="nimo")
    for later in (0, 20, 70):
        now[0] = 1e9 + later
        assert "three" in observed.look().limits.qos
    assert slurm.count("assoc_mgr") == 2
    assert slurm.count("sacctmgr") == 2


def test_a_cluster_that_does_not_tell_its_limits_is_read_all_the_same():
    slurm = Slurm(ENFORCING, broken=("assoc_mgr", "sacctmgr"))
    assert watch(slurm).look().limits.qos == {}


def test_slurm_tells_its_name_its_user_and_what_is_private():
    observed = watch(Slurm())
    assert observed.private
    assert observed.look().name == "pine"
    assert observed.slurm_users == {64030}
    assert not observed.private
    hiding = watch(Slurm(f"{CONFIG}PrivateData = jobs\n"))
    hiding.look()
    assert hiding.private


def test_private_data_counts_within_a_minute_and_at_once_when_asked():
    now, slurm = [1e9], Slurm()
    observed = watch(slurm, lambda: now[0])
    observed.look()
    slurm.config = f"{CONFIG}PrivateData = jobs\n"
    observed.look()
    assert not observed.private
    observed.forget()
    observed.look()
    assert observed.private
    slurm.config = CONFIG
    now[0] += 60.0
    observed.look()
    assert not observed.private


def test_a_configuration_without_a_name_is_an_error():
    with pytest.raises(SlurmError, match="no ClusterName"):
        watch(Slurm("SLURM_VERSION = 22.05.8\n")).look()


class Record:
    """An object of PySlurm: its attributes."""

    def __init__(self, **fields):
        self.__dict__ |= fields


class Loaded:
    """A collection of PySlurm's."""

    def __init__(self, items):
        self._items = items

    def load(self):
        return self._items  # dict-like, as MultiClusterMap


NODE = {
    "state": "MIXED", "total_cpus": 4, "allocated_cpus": 3, "real_memory": 2000,
    "threads_per_core": 1, "allocated_memory": 0, "configured_gres": {"gpu": {"a100": 2}},
    "allocated_gres": {}, "active_features": ["ib"], "partitions": ["batch"],
}  # fmt: skip
JOB = {
    "state": "RUNNING", "array_tasks_waiting": None, "partition": "batch", "num_nodes": 1,
    "start_time": 10**9, "end_time": 10**9 + 600, "state_reason": "None",
    "scheduled_nodes": None, "licenses": None, "reservation": None, "allocated_nodes": "n1",
    "cpus": 3, "memory": None, "gres": {}, "id": 7, "resource_sharing": "OK", "admin_comment": None,
}  # fmt: skip


def pyslurm(version="22.5.1", jobs=None, nodes=None):
    return Record(
        __version__=version,
        Nodes=Loaded(nodes or {"n1": Record(name="n1", **NODE), "n2": Record(name="n2", **NODE)}),
        Jobs=Loaded(jobs or {1: Record(**JOB), 2: Record(**JOB | {"state": "COMPLETED"})}),
    )


@pytest.fixture
def installed(monkeypatch):
    """Install a PySlurm of one's making."""

    def install(module, library=None):
        monkeypatch.setitem(sources.importlib.sys.modules, "pyslurm", module)
        monkeypatch.setattr(sources, "library_release", lambda: library)

    return install


def test_pyslurm_is_asked_where_it_fits(installed):
    installed(pyslurm())
    slurm = Slurm()
    observed = watch(slurm)
    part = observed.look().partitions["batch"]
    assert observed.source is Source.PYSLURM
    assert slurm.count("squeue") + slurm.count("sinfo") == 0
    assert part.nodes == 2
    assert part.profile.earliest_start(1, 1.0) == 1e9 + 600
    (group,) = {g for g in part.pool.groups if g.empty_s < float("inf")}
    assert (group.gres, group.features) == ((("gpu", 2),), frozenset({"ib"}))


def test_the_library_in_use_counts_not_what_pyslurm_was_written_for(installed):
    installed(pyslurm("25.11.2"), library=(22, 5))
    observed = watch(Slurm())
    observed.look()
    assert observed.source is Source.PYSLURM


def test_a_pyslurm_of_another_release_is_left_alone_with_one_line(installed, caplog):
    caplog.set_level(logging.INFO)
    installed(pyslurm("25.11.2"))
    observed = watch(Slurm())
    observed.look(), observed.look()
    assert observed.source is Source.TEXT
    assert [r.message for r in caplog.records] == [
        "PySlurm is for Slurm 25.11, slurmctld is 22.05; Slurm's commands are asked"
    ]


def test_a_pyslurm_that_breaks_makes_way_for_the_commands(installed, caplog):
    installed(pyslurm(jobs={1: Record(state="RUNNING")}))
    observed = watch(Slurm())
    assert observed.look().partitions["batch"].nodes
    assert observed.source is Source.TEXT
    assert "PySlurm: AttributeError" in caplog.text


def test_a_configured_name_goes_before_slurms():
    assert watch(Slurm(), cluster="oak").look().name == "oak"


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


def test_a_command_that_fails_says_why(tmp_path):
    argv = program(tmp_path, "squeue", "echo 'slurm_load_jobs error: down' >&2; exit 1")
    with pytest.raises(SlurmError, match="slurm_load_jobs error: down"):
        commands.run(argv, timeout_s=LONGEST_WAIT_S)


def test_a_command_that_hangs_is_given_up(tmp_path):
    with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
        commands.run(program(tmp_path, "squeue", "exec sleep 60"), timeout_s=0.2)


def test_a_command_that_is_missing_says_so():
    with pytest.raises(SlurmError, match="not found on PATH"):
        commands.run(["no-such-squeue"], timeout_s=LONGEST_WAIT_S)


def test_a_users_own_formats_do_not_get_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    argv = program(tmp_path, "squeue", 'echo "$SQUEUE_STATES,$SLURM_TIME_FORMAT"')
    assert commands.run(argv, timeout_s=LONGEST_WAIT_S) == ",%s\n"


@pytest.fixture
def real(slurm, monkeypatch):
    """Slurm's commands of the cluster on PATH."""
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    return slurm


def test_the_real_cluster_is_read(real, request):
    job = real.sbatch("-N2", "--exclusive", "-t", "10", "--wrap", "sleep 60")
    request.addfinalizer(lambda: (real.run("scancel", str(job)), real.wait(job)))
    wait_until(lambda: real.job(job)["JobState"] == "RUNNING", what="the job")
    visible_to = ClusterPoller(time.time)
    observed = visible_to.look()
    part = observed.partitions[observed.default_partition]
    assert part.nodes == 8
    assert part.profile.earliest_start(6, 60.0) == observed.taken_s
    assert part.profile.earliest_start(7, 60.0) - observed.taken_s == pytest.approx(600, abs=60)
    assert visible_to.slurm_users


def test_json_and_text_of_the_real_cluster_say_the_same(real, request):
    busy = real.sbatch("-N2", "-t", "10", "--mem=100", "--wrap", "sleep 60")
    queued = real.sbatch("-N8", "--exclusive", "-t", "10", "--array=1-9:2%2", "--wrap", "sleep 60")
    real.run("scontrol", "update", "nodename=n8", "state=drain", "reason=a b|c")
    real.run(
        *("scontrol", "create", "reservation=kept", "starttime=now+1hour", "duration=10"),
        *("nodes=n7", "users=root", "flags=maint"),
    )

    def clean():
        real.run("scontrol", "delete", "reservation=kept")
        real.run("scontrol", "update", "nodename=n8", "state=resume")
        real.run("scancel", str(busy), str(queued))
        real.wait(busy, queued)

    request.addfinalizer(clean)
    wait_until(lambda: real.job(busy)["JobState"] == "RUNNING", what="the job")
    real.run("scontrol", "update", f"JobId={busy}", "AdminComment=JS1:abc NIMO1:def")

    def run(argv):
        return commands.run(argv, timeout_s=LONGEST_WAIT_S)

    def reported_jobs(observed):
        # JSON of 22.05 does not tell which nodes backfill has planned.
        return sorted((replace(job, planned_names=()) for job in observed.jobs), key=str)

    def same():
        text, reported = (ask(run, real.settings.version) for ask in (ask_text, ask_json))
        return (
            sorted(text.nodes, key=str) == sorted(reported.nodes, key=str)
            and reported_jobs(text) == reported_jobs(reported)
            and (text.reservations, text.partitions) == (reported.reservations, reported.partitions)
        )

    # Between the two questions the scheduler may have planned anew.
    wait_until(same, what="text and JSON to say the same")
    observed = ask_text(run, real.settings.version)
    states = {node.name: node.state for node in observed.nodes}
    assert "DRAIN" in states["n8"]
    assert [(job.state, job.jobs) for job in observed.jobs if job.state == "PENDING"] == [
        ("PENDING", 5)
    ]
    assert [one.node_names for one in observed.reservations] == [("n7",)]
