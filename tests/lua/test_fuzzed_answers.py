"""Whatever nimod answers: no error, nothing outside of the request, all or nothing."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PARTITIONS = {
    "batch": {"flag_default": 1, "total_nodes": 8, "max_nodes": 4294967295, "max_time": 60},
    "small": {"flag_default": 0, "total_nodes": 8, "max_nodes": 3, "max_time": 20},
}
#: Written together; all that a hook may touch.
WRITABLE = {
    *("min_nodes", "max_nodes", "num_tasks", "min_cpus", "time_limit", "time_min"),
    "admin_comment",
}

COUNT = st.integers(-2, 12) | st.sampled_from([2**31, 2**32 - 2, 2**32, 10**30, -(10**30), 2.5])
ANYTHING = st.recursive(
    st.none() | st.booleans() | COUNT | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FIELD = COUNT | ANYTHING
CHANGE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(sorted(WRITABLE - {"admin_comment"}), FIELD)
)
NODES = st.integers(1, 9)
LIKELY = NODES.flatmap(
    lambda n: st.fixed_dictionaries(
        {"min_nodes": st.just(n), "max_nodes": st.just(n)},
        optional={
            "min_cpus": st.integers(0, 40),
            "num_tasks": st.integers(0, 20),
            "time_limit": st.integers(0, 70),
            "time_min": st.integers(0, 70),
        },
    )
)
ANSWER = st.fixed_dictionaries(
    {"v": st.just(1) | ANYTHING},
    optional={
        "ok": st.just(True) | ANYTHING,
        "action": st.sampled_from(["set", "set", "keep", "refuse", "hold"]) | ANYTHING,
        "set": LIKELY | CHANGE | ANYTHING,
        "admin_comment": st.text(max_size=20) | ANYTHING,
        "message": st.text(max_size=20) | ANYTHING,
    },
)
#: Nearly right: what gets as far as the checks of the counts.
PLAUSIBLE = st.fixed_dictionaries(
    {"v": st.just(1), "action": st.just("set"), "set": LIKELY},
    optional={"admin_comment": st.text(st.characters(max_codepoint=127), max_size=20)},
)
RANGE = st.tuples(st.integers(1, 8), st.integers(1, 8)).map(sorted)
REQUEST = st.fixed_dictionaries(
    {"min_cpus": st.integers(1, 16)},
    optional={
        "range": RANGE,
        "num_tasks": st.integers(1, 16),
        "ntasks_per_node": st.integers(1, 3),
        "cpus_per_task": st.integers(1, 3),
        "time_limit": st.integers(1, 60),
        "script": st.just("#!/bin/sh\n"),
        "partition": st.sampled_from(["small", "batch", "small,batch", "unknown"]),
    },
)
LINES = (ANSWER | PLAUSIBLE | ANYTHING).map(lambda value: json.dumps(value) + "\n")
BYTES = st.binary(max_size=40).map(lambda raw: raw.decode("latin-1") + "\n")
MANY = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def submitted(hooks, request, line):
    job = {k: v for k, v in request.items() if k != "range"}
    if "range" in request:
        job["min_nodes"], job["max_nodes"] = request["range"]
    hooks.answer(line)
    return job, hooks.submit(partitions=PARTITIONS, **job)


def most_nodes(job):
    names = job.get("partition", "batch").split(",")
    recorded = [PARTITIONS[name] for name in names if name in PARTITIONS]
    sizes = [min(one["total_nodes"], one["max_nodes"]) for one in recorded]
    return min(job.get("max_nodes", 2**31), max(sizes, default=2**31))


def check_nodes(job, left):
    nodes = left["min_nodes"]
    assert nodes == left["max_nodes"]
    assert job.get("min_nodes", 1) <= nodes <= most_nodes(job)
    tasks = left.get("num_tasks")
    assert tasks is None or tasks >= nodes, "slurmctld 22.05 dies of it"
    assert "num_tasks" in job or tasks is None


def check_limits(job, left):
    limit = left.get("time_limit")
    if limit != job.get("time_limit"):
        assert 1 <= limit <= 60
        assert limit < job.get("time_limit", 61) or "time_limit" in job
    if "time_min" in left:
        assert 1 <= left["time_min"] <= limit


@MANY
@given(request=REQUEST, line=LINES | BYTES)
def test_no_answer_hurts(hooks, request, line):
    job, outcome = submitted(hooks, request, line)
    assert outcome.code in (0, 2051)
    assert set(outcome.writes) <= WRITABLE
    assert all("\n" not in text and "\x1b" not in text for text in outcome.log)
    if "min_nodes" in outcome.writes:
        check_nodes(job, outcome.job)
    check_limits(job, outcome.job)
    if not outcome.writes:
        assert {k: v for k, v in outcome.job.items() if k in job} == job


@MANY
@given(request=REQUEST, answer=PLAUSIBLE)
def test_a_fit_answer_is_taken_whole_or_not_at_all(hooks, request, answer):
    job, outcome = submitted(hooks, request, json.dumps(answer) + "\n")
    if outcome.writes:
        check_nodes(job, outcome.job)
        assert {k: outcome.job[k] for k in answer["set"]} == answer["set"]
    else:
        assert len(outcome.log) <= 1


def test_no_answer_drives_a_users_terminal(hooks):
    """Users read the message on theirs, admins the comment and the log."""
    reported = "4 nodes\x1b]0;mine\x07\x00\r\x7f\x9b2J\u202eedon\u2066\u200f\ufeff\u2028\xad"
    hooks.answer({"v": 1, "action": "keep", "message": reported, "admin_comment": reported})
    outcome = hooks.submit(min_cpus=1)
    written = [*outcome.messages, *outcome.log, outcome.job.get("admin_comment", "")]
    assert outcome.messages
    shown = [utf8(text).replace("\n", "") for text in written]
    assert not [text for text in shown if not text.isprintable()]


def test_letters_of_all_scripts_pass(hooks):
    reported = "für 4 Knoten, 4 个节点, 4 узла, ≤ 1 h …"
    hooks.answer({"v": 1, "action": "keep", "message": reported})
    assert list(map(utf8, hooks.submit(min_cpus=1).messages)) == [reported]


def utf8(text):
    """Text whose bytes Lua gave as characters."""
    return text.encode("latin-1").decode()
