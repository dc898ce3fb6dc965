"""How much memory the next run needs, by its size and by the runs before it."""

from dataclasses import replace

import pytest

from predictor.memory_need import memory_need, ran_short
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
