"""What sbatch prints as a whole: nothing where nothing changed, what stands against a job first."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.facts import Failures, LimitReached
from predictor.memory import Memory
from predictor.types import Prediction
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.better_count import better_count
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, job, partition, table
from tests.slurm_plugin.reports.test_whole_answers import SAME_ENDS

_MIB = 2**20
MOST_WORDS = 25  #: of a line of sbatch
_FAILURES = Failures(5, 5, 20, 3.0, 3.2, 2, 299)
_FAILED = "nimo: the last 5 runs failed after 3 s (exit 2); the last output was in slurm-299.out\n"
_BETTER = """\
nimo: --nodes=10 would be better than 16: it runs 7.7 min instead of 5.4 min, \
for 12 % fewer node-hours
"""
_ON_TEN = "nimo: this job runs on 10 nodes instead of 16\n"
_SHORT = "nimo: such runs take 15 to 18 min, and the time limit is 5 min\n"
_REACHED = """\
nimo: the last 3 runs of this job reached their time limit of 10 min; ask for --time=00:23:00
"""
_LITTLE = "nimo: its runs needed up to 158M on a node, and it asks for 80M\n"
_NO_MEMORY = "nimo: the last 3 runs of this job ran out of memory with 158M; ask for --mem=316M\n"
_NEEDED = tuple(Memory(nodes, 158 * _MIB) for nodes in (1, 4))
_IDLE = cluster(partition(queue=0))

#: By what came of earlier runs.
RUNS = {
    "that ended well": {},
    "that failed": {"failures": _FAILURES},
    "that reached their limit": {"limit_reached": LimitReached("TIMEOUT", 3, 600.0)},
    "that ran out of memory": {
        "limit_reached": LimitReached("OUT_OF_MEMORY", 3, float(158 * _MIB))
    },
    "that needed memory": {"memory": _NEEDED},
    "that failed, reached their limit and needed memory": {
        "failures": _FAILURES,
        "limit_reached": LimitReached("TIMEOUT", 3, 600.0),
        "memory": _NEEDED,
    },
}
#: By what the job asks for.
JOBS = {
    "a range": {},
    "one count": {"min_nodes": 4, "max_nodes": 4, "time_limit": 600},
    "too little": {"min_nodes": 4, "max_nodes": 4, "time_limit": 5, "min_mem_per_node": 80},
}
#: By runs and job: all that is printed where jobs are changed, and where they are only advised.
LINES = {
    ("that ended well", "a range"): (_ON_TEN, _BETTER),
    ("that ended well", "one count"): ("", ""),
    ("that ended well", "too little"): (_SHORT, _SHORT),
    ("that failed", "a range"): (_FAILED + _ON_TEN, _FAILED + _BETTER),
    ("that failed", "one count"): (_FAILED, _FAILED),
    ("that failed", "too little"): (_FAILED + _SHORT, _FAILED + _SHORT),
    ("that reached their limit", "a range"): (_ON_TEN, _BETTER),
    ("that reached their limit", "one count"): ("", ""),
    ("that reached their limit", "too little"): (_REACHED, _REACHED),
    ("that ran out of memory", "a range"): (_ON_TEN, _BETTER),
    ("that ran out of memory", "one count"): ("", ""),
    ("that ran out of memory", "too little"): (_SHORT + _NO_MEMORY, _SHORT + _NO_MEMORY),
    ("that needed memory", "a range"): (_ON_TEN, _BETTER),
    ("that needed memory", "one count"): ("", ""),
    ("that needed memory", "too little"): (_SHORT + _LITTLE, _SHORT + _LITTLE),
    ("that failed, reached their limit and needed memory", "a range"): (
        _FAILED + _ON_TEN,
        _FAILED + _BETTER,
    ),
    ("that failed, reached their limit and needed memory", "one count"): (_FAILED, _FAILED),
    ("that failed, reached their limit and needed memory", "too little"): (
        _FAILED + _REACHED + _LITTLE,
        _FAILED + _REACHED + _LITTLE,
    ),
}
SITUATIONS = list(product(RUNS, JOBS))


def answered(runs, asked, mode, **learned):
    known = table(**{**RUNS[runs], **learned})
    return submit(advisor(mode=mode, tables=[known], look=_IDLE), job(**JOBS[asked]))[0]


@pytest.mark.parametrize("situation", SITUATIONS, ids=" / ".join)
def test_all_that_sbatch_prints(situation):
    changed, advised = LINES[situation]
    assert answered(*situation, Mode.ENFORCE).message == changed.removesuffix("\n")
    assert answered(*situation, Mode.ADVISE).message == advised.removesuffix("\n")
    assert answered(*situation, Mode.OBSERVE).message == ""


@pytest.mark.parametrize("runs", RUNS)
def test_a_serial_job_is_told_all_that_matters_too(runs):
    serial = {"nodes": (1,), "observed": (1,), "one_cpu": True}
    known = table(lambda _: 1000.0, **RUNS[runs], **serial)
    asked = job(max_nodes=1, time_limit=5, min_mem_per_node=80)
    for mode in (Mode.ENFORCE, Mode.ADVISE):
        said = submit(advisor(mode=mode, tables=[known], look=_IDLE), asked)[0].message
        assert said == LINES[runs, "too little"][0].removesuffix("\n")


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.ADVISE])
@pytest.mark.parametrize("situation", SITUATIONS, ids=" / ".join)
def test_each_line_is_one_plain_sentence(situation, mode):
    for line in answered(*situation, mode).message.splitlines():
        assert line.startswith("nimo: ")
        assert len(line.split()) <= MOST_WORDS, line
        assert not re.search(SAME_ENDS, line), line
        assert not re.search(r"\b0 s\b|\bNone\b|\bnan\b|\binf\b", line), line
        assert not re.search(r"(?<![/\w-])[a-z]+_[a-z_]+\b", line), line


def test_a_better_count_says_what_the_one_asked_for_had_too_little_of():
    needed = (Memory(1, 3072 * _MIB), Memory(4, 768 * _MIB))
    look = cluster(partition(profile([(NOW, 1), (NOW + 900, 32)])))
    made = advisor(mode=Mode.ADVISE, tables=[table(memory=needed)], look=look)
    said = submit(made, job(max_nodes=4, min_mem_per_node=1024))[0].message
    assert said == (
        "nimo: --nodes=4 would be better than 1, where runs had too little memory: it ends within "
        "32 min"
    )


def option(nodes, time_s, wait_s=0.0):
    """A count with its run time and wait, all else as if it did not matter."""
    return Option(
        nodes=nodes,
        time_s=time_s,
        prediction=Prediction(nodes, time_s, time_s / 2, 2 * time_s, 0.9),
        limit_s=None,
        wait_s=wait_s,
        cost_s=time_s,
        in_guard=True,
        no_later=True,
        opens=False,
        most_wait_s=wait_s,
        in_limit=True,
        leaves_room=True,
        fits=True,
        worthwhile=True,
        late_s=0.0,
    )


def line(better, asked, reason=Reason.CHEAPEST, unit=Unit.NODES):
    decided = Decision(action=Action.SET, reason=reason, chosen=better, request=asked)
    return better_count(decided, unit)


def test_a_better_count_says_what_changes():
    than = "nimo: --nodes=4 would be better than 8: it"
    assert line(option(4, 3500.0), option(8, 3300.0)) == (
        f"{than} runs 58 min instead of 55 min, for 47 % fewer node-hours"
    )
    assert line(option(4, 600.0), option(8, 601.0)) == (
        f"{than} runs about as long, for 50 % fewer node-hours"
    )
    assert line(option(4, 600.0), option(8, 300.0, 3600.0)) == (
        f"{than} ends in about 10 min instead of 1.1 h"
    )
    assert line(option(4, 3600.0, 600.0), option(8, 3600.0)) == (
        f"{than} ends in about 1.2 h instead of 1 h, for 50 % fewer node-hours"
    )
    assert line(option(4, 600.0), option(2, 1200.0), Reason.DEADLINE) == (
        "nimo: --nodes=4 would be better than 2: it runs 10 min instead of 20 min, and makes the "
        "deadline"
    )


@given(
    times_s=st.tuples(*[st.floats(1.0, 1e7)] * 2),
    waits_s=st.tuples(*[st.floats(0.0, 1e6)] * 2),
    nodes=st.tuples(st.integers(1, 5000), st.integers(1, 5000)).filter(
        lambda two: two[0] != two[1]
    ),
    reason=st.sampled_from([Reason.CHEAPEST, Reason.DEADLINE, Reason.MEMORY, Reason.PROVEN]),
    unit=st.sampled_from(Unit),
)
def test_the_line_of_a_better_count_is_short(times_s, waits_s, nodes, reason, unit):
    better, asked = map(option, nodes, times_s, waits_s)
    said = line(better, asked, reason, unit)
    assert len(said.split()) <= MOST_WORDS, said
    assert not re.search(r"\b(\S+ \w+) instead of \1\b|\b0 %", said), said


@given(
    run_s=st.floats(60.0, 20_000.0),
    share=st.floats(0.3, 1.0),
    runs=st.integers(2, 5),
    longer=st.integers(0, 5),
    minutes=st.integers(1, 200),
)
def test_sbatch_asks_for_the_limit_that_is_advised(run_s, share, runs, longer, minutes):
    reached = LimitReached("TIMEOUT", runs, share * run_s, runs + longer, 12)
    known = table(lambda _: run_s, limit_reached=reached)
    asked = job(min_nodes=4, max_nodes=4, time_limit=minutes)
    service = advisor(mode=Mode.ADVISE, tables=[known], look=_IDLE)
    lines = re.findall(r"ask for --time=(\S+)", submit(service, asked)[0].message)
    if lines:
        advice = service.advise(asked, now_s=NOW)
        assert lines == re.findall(r"--time=(\S+)", advice.time_directive)
