"""A nimod that somebody has taken over, and what it can do to jobs on a real cluster: little.

Whatever it answers, each job comes in as its user's, within the range and limits asked for.
"""

import json

import pytest

from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.lua.canned_nimod import CannedNimod, say

pytestmark = pytest.mark.cluster

ASKED = ("-H", "-N", "1-8", "-t", "30", "-J", "honest", "--comment=mine")
LEAST_MIN = 2  # of half an hour, by default


def answer(**fields):
    return json.dumps({"v": 1, "ok": True, **fields}).encode() + b"\n"


def change(**fields):
    return answer(action="set", set=fields)


def both(nodes, **fields):
    return change(min_nodes=nodes, max_nodes=nodes, **fields)


#: None of it can change a job: the hook's Lua, the same on all releases, hands nothing on.
TURNED_DOWN = {
    "refusal": answer(action="refuse", message="nope"),
    "refusal without a word": answer(action="refuse"),
    "limit of a minute": change(time_limit=1),
    "limit of a minute on other nodes": both(2, time_limit=1),
    "limit and least of a minute": change(time_limit=20, time_min=1),
    "no limit": change(time_limit=0),
    "infinite limit": change(time_limit=4294967295),
    "longer limit": change(time_limit=31),
    "limit beyond the partition's": both(2, time_limit=100_000),
    "NaN": b'{"v":1,"action":"set","set":{"min_nodes":NaN,"max_nodes":NaN}}\n',
    "1e400": b'{"v":1,"action":"set","set":{"min_nodes":1e400,"max_nodes":1e400}}\n',
    "negative": both(-1),
    "none": both(0),
    "a part of one": both(2.5),
    "text": both("2"),
    "2^32": both(2**32),
    "NO_VAL": both(4294967294),
    "more than asked": both(9),
    "a range": change(min_nodes=1, max_nodes=8),
    "tasks": both(8, num_tasks=16),
    "CPUs": both(2, min_cpus=2**31),
    "a list": answer(action="set", set=[1, 2]),
    "true": answer(action="set", set=True),
    "action 5": answer(action=5),
    "long note": answer(admin_comment="A" * 1025),
    "note that is a number": answer(admin_comment=5),
    "long message": answer(message="M" * 4097),
    "message that is a list": answer(message=[1]),
    "other version": b'{"v":2}\n',
    "no JSON": b"hello\n",
    "two answers": answer() * 2,
    "no end": b"x" * 70_000,
    "zeros": b"\0" * 100 + b"\n",
    "deep lists": b"[" * 60_000 + b"\n",
    "deep lists that end": b'{"v":1,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    "deep objects": b'{"a":' * 12_000 + b"\n",
    "error of formats": b'{"v":1,"ok":false,"error":"%s%n\\u001b[31m"}\n',
}
#: The job may have these nodes or this note, and nothing else.
CARRIED_OUT = {
    "fields of others": both(2, user_id=0, priority=1, work_dir="/root", script="#!/bin/sh\nid"),
    "metatable": both(3, __index=1),
    "formats": answer(message="%s%s%n%p", admin_comment="%s%n"),
    "escapes": answer(message="\x1b[2J\x1b]0;pwn\x07 hi", admin_comment="\x1b]0;pwn\x07\nJobId=1"),
    "broken UTF-8": b'{"v":1,"admin_comment":"\xff\xfe\xed\xa0\x80"}\n',
    "zero": answer(message="a\0b", admin_comment="a\0b"),
    "quiet in words": answer(quiet="yes"),
}
SAME = ("UserId", "JobName", "Comment", "WorkDir", "Priority", "TimeLimit", "Partition", "Account")


@pytest.fixture(scope="module")
def folder():
    with scratch_directory("nimo-hostile-") as directory:
        yield directory


@pytest.fixture(scope="module")
def cluster(folder, slurm_cluster):
    hooks = hooks_for(folder)
    conf = hooks / "nimo_hook.conf"
    conf.write_text(conf.read_text().replace("allow_refusal = yes\n", ""))
    with slurm_cluster(lua=hooks) as made:
        yield made


@pytest.fixture(scope="module")
def nimod(folder, cluster):
    server = CannedNimod(folder / "nimod.sock", say(answer()))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def untouched(cluster, nimod):
    nimod.behave = say(answer())
    return submitted(cluster)


def submitted(cluster):
    job_id = cluster.sbatch(*ASKED, script="#!/bin/sh\n")
    job = cluster.job(job_id)
    cluster.run("scancel", str(job_id))
    return job


@pytest.mark.parametrize("text", TURNED_DOWN.values(), ids=TURNED_DOWN.keys())
def test_the_job_stays_as_its_user_wrote_it(cluster, nimod, untouched, text):
    nimod.behave = say(text)
    job = submitted(cluster)
    fields = (*SAME, "NumNodes", "TimeMin", "NumCPUs", "NumTasks")
    assert {field: job.get(field) for field in fields} == {f: untouched.get(f) for f in fields}
    assert "AdminComment" not in job


@pytest.mark.releases
@pytest.mark.parametrize("text", CARRIED_OUT.values(), ids=CARRIED_OUT.keys())
def test_what_may_be_written_is_all_that_is_written(cluster, nimod, untouched, text):
    nimod.behave = say(text)
    job = submitted(cluster)
    assert {field: job.get(field) for field in SAME} == {f: untouched.get(f) for f in SAME}
    assert "\x1b" not in str(job)


@pytest.mark.releases
def test_the_least_limit_is_a_share_of_the_users(cluster, nimod):
    nimod.behave = say(change(time_limit=LEAST_MIN))
    assert submitted(cluster)["TimeLimit"] == f"00:{LEAST_MIN:02}:00"


@pytest.mark.releases
def test_slurmctld_has_lived_through_it(cluster, nimod):
    assert cluster.processes.running("slurmctld")
    assert len(nimod.jobs) > len(CARRIED_OUT)
