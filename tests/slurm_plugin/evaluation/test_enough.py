"""How much of what a job ran out of would have been enough."""

from random import Random

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.evaluation.enough import (
    Lack,
    enough_memory,
    enough_time,
    lack_of,
    round_memory,
    round_time,
    within,
)
from tests.predictor.rows import row, submitted

GIB = 2**30


def times(*elapsed_s, state=JobState.COMPLETED, nodes=1):
    return [row(nodes, one, state) for one in elapsed_s]


def memories(*gib, state=JobState.COMPLETED, asked=64):
    given = {"tasks": 1, "req_mem_bytes": asked * GIB}
    return [submitted(row(1, 60.0, state), mem_bytes=int(one * GIB), **given) for one in gib]


@pytest.mark.parametrize(
    ("state", "given", "lack"),
    [
        (JobState.TIMEOUT, {}, Lack.TIME),
        (JobState.DEADLINE, {}, Lack.TIME),
        (JobState.OUT_OF_MEMORY, {}, Lack.MEMORY),
        (JobState.FAILED, {}, Lack.NOTHING),
        (JobState.FAILED, {"mem_bytes": GIB, "req_mem_bytes": GIB, "tasks": 1}, Lack.MEMORY),
        (JobState.NODE_FAIL, {}, Lack.NOTHING),
        (JobState.PREEMPTED, {}, Lack.NOTHING),
    ],
)
def test_what_ran_out(state, given, lack):
    assert lack_of(submitted(row(1, 60.0, state), **given)) is lack


def test_without_longer_runs_it_is_twice_the_limit():
    assert enough_time([], 3600.0, 1).amount == 7200
    # Runs that it was enough for say nothing of those that it was not.
    shorter = enough_time(times(*[1800.0] * 50), 3600.0, 1)
    assert (shorter.amount, shorter.runs) == (7200, 0)


def test_longer_runs_say_how_long():
    made = enough_time(times(*[1800.0] * 50, 4000, 4500, 5000), 3600.0, 1)
    assert made.amount == pytest.approx(1.2 * 5000)
    assert made.runs == 3


def test_runs_on_as_many_nodes_count_first():
    rows = times(4000, 4000, 4000, nodes=2) + times(*[9000] * 9)
    assert enough_time(rows, 3600.0, 2).amount == pytest.approx(4800)
    assert enough_time(rows, 3600.0, 4).amount == pytest.approx(1.2 * 9000)


def test_runs_that_were_cut_off_took_at_least_as_long():
    cut_off = times(*[6000] * 30, state=JobState.TIMEOUT)
    # Most are beyond all that was seen to end.
    assert enough_time(times(4000, 4100, 4200) + cut_off, 3600.0, 1).runs == 0


def test_memory_by_the_runs_that_needed_more():
    rows = memories(6, 6.5, 7, 6, 6.2, 6.4) + memories(4, state=JobState.OUT_OF_MEMORY, asked=4)
    made = enough_memory(rows, 4 * GIB)
    assert 7 * GIB <= made.amount <= 12 * GIB
    assert made.runs == 6
    alone = memories(4, state=JobState.OUT_OF_MEMORY, asked=4)
    assert enough_memory(alone, 4 * GIB).amount == 8 * GIB


@pytest.mark.parametrize("seed", range(60))
def test_it_is_always_more_than_the_job_had(seed):
    rng = Random(seed)
    states = [*JobState, *[JobState.COMPLETED] * 9]
    rows = [
        submitted(
            row(rng.choice([0, 1, 4]), rng.choice([0.0, 1.0, 10 ** rng.uniform(0, 6)]), state),
            mem_bytes=rng.choice([None, 0, int(10 ** rng.uniform(0, 13))]),
            req_mem_bytes=rng.choice([None, 0, int(10 ** rng.uniform(0, 13))]),
            tasks=rng.choice([None, 0, 1, 64]),
        )
        for state in rng.choices(states, k=rng.randint(0, 40))
    ]
    had = 10 ** rng.uniform(0, 7)
    for enough in (enough_time(rows, had, 1), enough_memory(rows, had)):
        assert enough.amount >= 1.2 * had * (1 - 1e-9)
        assert within(enough, had / 2).amount == had / 2
        assert within(enough, None) == enough
        assert round_time(enough.amount) >= enough.amount
        assert round_memory(enough.amount) * 2**20 >= int(enough.amount)
