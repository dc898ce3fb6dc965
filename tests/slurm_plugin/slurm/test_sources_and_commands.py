"""Text and JSON of each release become the same records."""

import os
import shutil

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import commands, converters, fields
from slurm_plugin.slurm.cluster_state import RawPartition, RawReservation
from slurm_plugin.slurm.sources import (
    SEPARATOR,
    ask_text,
    job_fields,
    line,
    read_json,
    read_text,
    squeue_command,
)
from tests.slurm_plugin.slurm import slurm_text as reported

FEW = (reported.PARTITIONS, reported.RESERVATIONS, reported.LICENCES)


def test_all_say_the_same():
    text = read_text(reported.SQUEUE, reported.SINFO, *FEW)
    assert text == read_json(reported.SQUEUE_22, reported.SINFO_22, *FEW)
    assert text == read_json(reported.SQUEUE_24, reported.NODES_24, *FEW)


@pytest.mark.parametrize(
    ("detail", "reserved"),
    [
        ("Reserved for maintenance", True),
        ("May be reserved for other job", True),
        ("UnavailableNodes:n1", False),
        ("", False),
    ],
)
def test_a_job_behind_a_reservation_is_recognised_in_text_and_json(detail, reserved):
    reason = f"ReqNodeNotAvail, {detail}" if detail else "ReqNodeNotAvail"
    text = fields.read(fields.JOB, {"Reason": reason})
    item = {"state_reason": "ReqNodeNotAvail", "state_description": detail and reason}
    from_json = fields.read_json(fields.JOB, item)
    for record in (text, from_json):
        assert record["reason"] == "ReqNodeNotAvail"
        assert record.get("reserved", False) is reserved


def test_jobs():
    array, several, running = read_text(reported.SQUEUE, reported.SINFO, *FEW).jobs
    assert (array.jobs, array.nodes, array.licences) == (10, 4, {"matlab": 2})
    assert (array.array_id, array.tasks, several.array_id, several.tasks) == (4, "1-9,20", None, "")
    assert (array.start_s, array.planned_names) == (1795259400.0, ("n1", "n2"))
    assert (several.partitions, several.start_s, several.jobs) == (
        ("debug", "batch"), float("inf"), 1,
    )  # fmt: skip
    assert (running.node_names, running.end_s) == (("n1", "n2"), 1795257000.0)
    assert running.tres == {"cpu": 4, "mem": 1024, "node": 2, "billing": 4, "gres/gpu": 2}


def test_what_users_write_makes_no_other_jobs():
    fake = line(fields.JOB, {"JobID": 9, "State": "RUNNING", "NodeList": "n1"})
    words = {"JobID": 8, "State": "PENDING", "Name": f"a\x1fb\n{fake}", "Comment": "c\n\x1f"}

    def run(argv):
        text = line(fields.JOB, words | {"Command": "/x/job.sh in.dat"})
        whole = text[: -len(SEPARATOR) - 1].replace(fake, "FAKE")
        return reported.as_asked(argv, whole).replace("FAKE", fake) + reported.as_asked(
            argv, f"{SEPARATOR}\n"
        )

    separators = set()

    def answer(argv):
        separators.add(argv[-1].rpartition(":")[2])
        return run(argv) if argv[0] == "squeue" else ""

    for _ in range(2):
        (job,) = ask_text(answer).jobs
        assert (job.job_id, job.command, job.comment) == (8, "/x/job.sh in.dat", "c\n\x1f")
        assert job.name == f"a\x1fb\n{fake}"
    assert len({one for one in separators if one.startswith("n")}) == 2


def test_nodes():
    one, two, four = read_text(reported.SQUEUE, reported.SINFO, *FEW).nodes
    assert (one.cpus, one.cpus_used, one.mem_used_mib) == (4, 2, 512)
    assert (one.gres, one.gres_used, one.features) == ({"gpu": 2}, {"gpu": 1}, {"ib", "a100"})
    assert two.state == {"MIXED", "DRAIN"}
    assert four.partitions == ("batch", "debug")


def test_whole_nodes_have_a_field_of_their_own_since_26_05():
    def squeue(release, word):
        rows = job_fields(release)
        values = {row.text: "" for row in rows} | {"JobID": 7, "State": "PENDING"}
        return line(rows, values | {"OverSubscribe": "NO", "Exclusive": word})

    reported_by = {
        release: read_text(squeue(release, word), "", *FEW, job=job_fields(release)).jobs[0].alone
        for release, word in (((24, 11), ""), ((26, 5), "NODE"), ((26, 11), "NO"))
    }
    assert reported_by == {(24, 11): True, (26, 5): True, (26, 11): False}
    assert "Exclusive" not in squeue_command((25, 11))[-1]
    assert "OverSubscribe" not in squeue_command((26, 5))[-1]


def test_partitions_reservations_and_licences():
    observed = read_text("", "", *FEW)
    batch, debug = observed.partitions
    assert batch == RawPartition(
        name="batch", default=True, max_time_s=86400.0, default_time_s=3600.0
    )
    assert debug == RawPartition(
        name="debug",
        up=False,
        max_nodes=2,
        max_cpus_node=2,
        mem_cpu_mib=100,
        exclusive=True,
        qos="pq",
        denied_accounts=frozenset({"art", "play"}),
        allowed_qos=frozenset({"short", "normal"}),
    )
    assert observed.reservations == [
        RawReservation(
            name="maint",
            start_s=1795270983.0,
            end_s=1795274583.0,
            node_names=("n1", "n2"),
            flags=frozenset({"MAINT", "SPEC_NODES"}),
        )
    ]
    assert observed.licences == {"matlab": 4}


def test_a_cluster_that_has_none_of_them():
    few = "No reservations in the system\n", "No licenses configured in Slurm.\n"
    observed = read_text("", "", reported.PARTITIONS, *few)
    assert (observed.reservations, observed.licences) == ([], {})


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("idle*", {"IDLE", "NOT_RESPONDING"}),
        ("DOWN*+CLOUD+POWERED_DOWN", {"DOWN", "NOT_RESPONDING", "CLOUD", "POWERED_DOWN"}),
        (["IDLE", "DRAIN"], {"IDLE", "DRAIN"}),
        ("mixed~", {"MIXED"}),
        ("", set()),
    ],
)
def test_states_of_nodes(value, state):
    assert converters.flags(value) == state


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ({"set": True, "infinite": False, "number": 3}, 3),
        ({"set": True, "infinite": True, "number": 3}, None),
        ({"set": False, "number": 3}, None),
        ("4000+", 4000),
        ("UNLIMITED", None),
        (0xFFFFFFFE, None),
        (7, 7),
        (None, None),
    ],
)
def test_numbers_of_all_releases(value, number):
    assert converters.number(value) == number


@pytest.mark.parametrize(
    "broken",
    [
        ("1\x1fR\n", reported.SINFO, reported.PARTITIONS),
        (reported.SQUEUE, "n1 batch idle\n", reported.PARTITIONS),
        (reported.SQUEUE, reported.SINFO, "Default=YES\n"),
        (reported.SQUEUE, reported.SINFO, reported.PARTITIONS.replace("01:00:00", "soon")),
    ],
)
def test_text_of_another_kind_is_an_error_of_ours(broken):
    with pytest.raises(SlurmError, match="cannot read"):
        read_text(*broken)


@pytest.mark.parametrize(
    "broken",
    [("", "{}"), ("{}", reported.SINFO_22), ('{"jobs": 3}', reported.SINFO_22), ("[]", "[]")],
)
def test_json_of_another_kind_is_an_error_of_ours(broken):
    with pytest.raises(SlurmError, match="cannot read"):
        read_json(*broken, reported.PARTITIONS)


def policy_of_a_command():
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
