"""How much memory the next run needs, by its size and by the runs before it."""

import math
import random
from dataclasses import replace
from statistics import median

import pytest

from predictor.tables.resource_use import memory_need, ran_short
from predictor.types import Memory
from sacct_ingest.records import JobState
from tests.predictor.rows import row

MIB = 2**20


def run(need, *, given=8000, nodes=1, state=JobState.COMPLETED):
    return replace(
        row(nodes, 10),
        state=state,
        tasks=nodes,
        mem_bytes=need * MIB,
        req_mem_bytes=given * nodes * MIB,
    )


def need_of(*runs, margin=1.2):
    return memory_need(runs, margin=margin)


def high(need, size=1):
    return next(one.mem_bytes for one in need.high if one.nodes == size) / MIB


def test_nothing_is_said_of_runs_that_were_not_measured():
    assert need_of(replace(run(100), mem_bytes=None)) is None
    assert need_of(run(100, state=JobState.FAILED)) is None


def test_it_is_never_less_than_was_ever_needed():
    assert high(need_of(*[run(100)] * 9, run(300), *[run(100)] * 30)) == 300
    # A run that failed for another reason needed what it had, too.
    assert high(need_of(run(100), run(700, state=JobState.FAILED))) == 700


def test_many_runs_that_vary_have_a_quantile_beyond_the_highest():
    grows = [run(round(100 * 1.03**i)) for i in range(40)]
    assert high(need_of(*grows)) > 100 * 1.03**39


def test_few_runs_say_no_quantile():
    grows = [run(round(100 * 1.03**i)) for i in range(10)]
    assert high(need_of(*grows)) == round(100 * 1.03**9)


def test_a_run_that_ended_for_lack_of_memory_needed_what_it_had():
    short = run(90, given=500, state=JobState.OUT_OF_MEMORY)
    need = need_of(*[run(100)] * 9, short, run(100, given=900))
    assert high(need) == 500
    # What completed before it, with less, is no proof any more.
    assert (need.runs, need.given) == (1, (Memory(1, 900 * MIB),))


def test_censored_runs_count_as_needing_more_than_any():
    many = [run(100 + i % 3) for i in range(60)]
    short = [run(100, given=101, state=JobState.OUT_OF_MEMORY)] * 6
    # One in ten ended for lack of memory: nineteen in twenty cannot be promised.
    assert high(need_of(*many, *short)) == 102
    assert high(need_of(*many)) >= 102


def test_a_failed_run_with_more_memory_than_it_had_ended_for_lack_of_it():
    assert ran_short(run(0, state=JobState.OUT_OF_MEMORY))
    assert ran_short(run(600, given=500, state=JobState.FAILED))
    assert ran_short(run(600, given=500, state=JobState.REQUEUED))
    assert not ran_short(run(400, given=500, state=JobState.FAILED))
    assert not ran_short(run(400, given=500, state=JobState.REQUEUED))
    assert not ran_short(run(600, given=500))
    assert not ran_short(replace(run(600, state=JobState.FAILED), req_mem_bytes=None))


def test_what_runs_completed_with_is_reported_by_size():
    runs = [run(100, given=g, nodes=n) for n, g in ((1, 900), (1, 800), (2, 500), (1, 950))]
    assert need_of(*runs).given == (Memory(1, 800 * MIB), Memory(2, 500 * MIB))


def test_larger_runs_that_need_more_say_nothing_of_smaller_ones():
    grows = [run(100 * n, nodes=n) for n in (1, 2, 4, 8)]
    assert [high(need_of(*grows), n) for n in (1, 2, 4, 8)] == [100, 200, 400, 800]
    shared = [run(800 // n, nodes=n) for n in (1, 2, 4, 8)]
    assert [high(need_of(*shared), n) for n in (1, 8)] == [800, 800]


@pytest.mark.parametrize(("margin", "inside"), [(1.05, 0), (1.2, 7)])
def test_the_record_says_for_how_many_it_would_have_been_enough(margin, inside):
    need = need_of(*[run(round(100 * 1.1**i)) for i in range(10)], margin=margin)
    assert (need.predictions, need.inside) == (7, inside)


def test_a_run_that_had_less_than_would_be_asked_for_is_not_judged():
    short = run(90, given=50, state=JobState.OUT_OF_MEMORY)
    assert need_of(*[run(100)] * 5, short).predictions == 2
    enough = replace(short, req_mem_bytes=500 * MIB)
    need = need_of(*[run(100)] * 5, enough)
    assert (need.predictions, need.inside) == (3, 2)


def normal(rng):
    return rng.gauss(0, 1)


def heavy(rng):
    """Draw Student's t with four degrees of freedom."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(2, 0.5))


def two_inputs(rng):
    return rng.choice([-2, 2]) + rng.gauss(0, 0.2)


def application(seed, deviate, *, runs, stopped_above=math.inf):
    """Runs of an application whose need follows a power of the nodes, and each one's true need.

    A run whose deviate is above ``stopped_above`` had less memory, and ended for lack of it.
    """
    rng = random.Random(seed)
    slope, spread = rng.choice([-1.0, -0.5, 0.0, 0.5]), rng.choice([0.02, 0.1, 0.3])
    least, tasks = rng.uniform(200, 4000) * MIB, rng.choice([1, 4])
    for _ in range(runs):
        nodes, off = rng.choice((1, 2, 4, 8)), deviate(rng)
        usual, short = least * nodes**slope, off > stopped_above
        given = usual * math.exp(spread * min(stopped_above, 9.0))
        need = usual * math.exp(spread * off)
        state = JobState.OUT_OF_MEMORY if short else JobState.COMPLETED
        measured = given * rng.uniform(0.5, 0.99) if short else need
        one = run(1, given=given / MIB, nodes=nodes, state=state)
        yield replace(one, tasks=nodes * tasks, mem_bytes=round(measured / tasks)), need


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviate", "stopped_above", "least"),
    [
        (normal, math.inf, 0.95),
        (heavy, math.inf, 0.95),
        (two_inputs, math.inf, 0.95),
        (normal, 1.3, 0.9),
    ],
)
def test_nineteen_in_twenty_new_runs_need_no_more_than_the_quantile(deviate, stopped_above, least):
    """In the last case one run in ten ends for lack of memory, which hides what it needed."""
    held, over = [], []
    for seed in range(200):
        rows = list(application(seed, deviate, runs=61, stopped_above=stopped_above))
        *before, (last, need) = rows
        asked = high(need_of(*[one for one, _ in before]), last.nodes) * MIB
        held.append(need <= asked * 1.001)
        over.append(asked / need)
    assert sum(held) >= least * len(held)
    assert median(over) <= 2.5
