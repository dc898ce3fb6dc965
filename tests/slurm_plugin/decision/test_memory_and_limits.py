"""Fewest nodes that hold a problem, by the memory that its runs were seen to need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.types import LimitReached, Memory
from sacct_ingest.records import KeyLevel
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.context import identity_of
from slurm_plugin.decision.memory_and_limits import NEVER, memory_floor
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, history, job, partition, table

GIB = 2**30


def floor(gib, *look, margin=1.0):
    recorded = table(memory=tuple(Memory(nodes, need * GIB) for nodes, need in look))
    return memory_floor(recorded, None if gib is None else gib * GIB, margin=margin)


@pytest.mark.parametrize(
    ("gib", "look", "margin", "fewest"),
    [
        (None, [(4, 64)], 1.0, 1),
        (64, [], 1.0, 1),
        # Below the fewest observed each node needs more.
        (64, [(4, 64), (8, 40)], 1.0, 4),
        (128, [(4, 64), (8, 40)], 1.0, 2),
        (100, [(4, 64), (8, 40)], 1.0, 3),
        # The margin counts where nothing was observed.
        (128, [(4, 64)], 1.2, 3),
        (64, [(4, 64)], 1.2, 4),
        # A count whose need was too large is excluded.
        (50, [(2, 100), (4, 64), (8, 40)], 1.0, 7),  # 8 · 40 / 50
        (40, [(2, 100), (4, 64), (8, 40)], 1.2, 8),
        (30, [(2, 100), (4, 64), (8, 40)], 1.0, NEVER),
    ],
)
def test_the_fewest_nodes_whose_memory_holds_it(gib, look, margin, fewest):
    assert floor(gib, *look, margin=margin) == fewest


look = st.dictionaries(st.integers(1, 64), st.integers(1, 500), min_size=1, max_size=6)


@given(look, st.integers(1, 500), st.floats(1, 2))
def test_more_memory_never_needs_more_nodes(needs, gib, margin):
    rising = sorted(needs.items())
    assert floor(gib + 1, *rising, margin=margin) <= floor(gib, *rising, margin=margin)


@given(look, st.floats(1, 2))
def test_what_ran_on_all_counts_fits_on_all(needs, margin):
    assert floor(max(needs.values()), *sorted(needs.items()), margin=margin) <= min(needs)


TIME = LimitReached("TIMEOUT", 2, 600.0)
MEMORY = LimitReached("OUT_OF_MEMORY", 3, 2.0**30)
LAST = "nimo: the last 2 runs of this job reached their time limit of 00:10:00; "
SHORT = "nimo: the last 3 runs of this job ran out of memory with 1024M; "
PART = partition(max_time_s=900.0, node_mem_bytes=3 * 2**30, node_cpus=4)


def message(reached, made=history, **fields):
    service = advisor(tables=[made(limit_reached=reached)], look=cluster(PART), mode=Mode.ADVISE)
    return submit(service, job(**{"min_nodes": 4, "max_nodes": 4, **fields}))[0].message


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"time_limit": 10}, f"{LAST}ask for --time=00:15:00"),
        ({"time_limit": 5}, f"{LAST}ask for --time=00:10:00"),
        ({"time_limit": 11}, ""),
        ({"time_limit": None}, ""),
        ({"time_limit": 10, "user_name": "bob"}, ""),
    ],
)
def test_a_time_limit_that_did_not_do_is_named_with_the_next(fields, line):
    assert message(TIME, **fields) == line


def test_where_no_longer_limit_is_allowed_it_says_so():
    line = message(LimitReached("TIMEOUT", 2, 900.0), time_limit=15)
    assert line.endswith(
        "00:15:00; no longer one is allowed here: use more nodes, or let the job save its state"
    )


def test_a_good_prediction_says_which_limit_does():
    # T(4) = 1000 s, at most 1100 s.
    assert message(TIME, table, time_limit=10) == f"{LAST}ask for --time=00:15:00"
    assert message(TIME, table, time_limit=10, min_nodes=16, max_nodes=16) == ""


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"min_mem_per_node": 1024}, f"{SHORT}ask for --mem=2048M"),
        ({"min_mem_per_cpu": 512, "cpus_per_task": 2}, f"{SHORT}ask for --mem-per-cpu=1024M"),
        ({"min_mem_per_node": 1025}, ""),
    ],
)
def test_memory_that_did_not_do_is_named_with_the_next(fields, line):
    assert message(MEMORY, **fields) == line


def test_more_memory_than_a_node_has_is_not_named():
    line = message(LimitReached("OUT_OF_MEMORY", 2, 2.0**31), min_mem_per_node=2048)
    assert line.endswith("a node has 3072M: ask for all of it with --mem=0, or for more nodes")


def test_advice_says_it_too_and_observing_says_nothing():
    made = advisor(tables=[history(limit_reached=TIME)], look=cluster(PART), mode=Mode.OBSERVE)
    asked = job(min_nodes=4, max_nodes=4, time_limit=10)
    assert submit(made, asked)[0].message == ""
    advice = made.advise(asked, now_s=NOW)
    assert advice.limit_text == f"The{LAST.removeprefix('nimo: the')}ask for --time=00:15:00."


def test_a_limit_that_ends_some_runs_is_named_in_advice_alone():
    often = LimitReached("TIMEOUT", 0, 600.0, 19, 60)
    assert message(often, time_limit=10) == ""
    made = advisor(tables=[history(limit_reached=often)], look=cluster(PART), mode=Mode.ADVISE)
    advice = made.advise(job(min_nodes=4, max_nodes=4, time_limit=10), now_s=NOW)
    assert advice.limit_text == (
        "19 of the last 60 runs of this job reached their time limit of 00:10:00; "
        "ask for --time=00:15:00."
    )
    key = identity_of(job()).key(KeyLevel.LINE)
    for minutes, named in ((10, "--time=00:22:00"), (17, "--time=00:26:00")):
        often = LimitReached("TIMEOUT", 0, 60.0 * minutes, 19, 60)
        known = history(limit_reached=often, level="line", key=key)
        asked = job(min_nodes=4, max_nodes=4, time_limit=minutes)
        made = advisor(tables=[known], mode=Mode.ADVISE).advise(asked, now_s=NOW)
        assert made.time_directive == f"#SBATCH {named}"
        assert made.limit_text.endswith(f"ask for {named}.")
