"""How much of their CPUs and GPUs runs use, and how much memory the next one needs."""

import math
import random
from dataclasses import replace
from statistics import median

import pytest

from predictor.tables.resource_use import memory_need, resource_uses
from predictor.types import Memory, ResourceUse
from sacct_ingest.records import JobState
from sacct_ingest.runs.evidence import ran_short
from sacct_ingest.runs.layout import Unit
from tests.predictor.rows import row
from tests.predictor.tables.test_parts import made
from tests.predictor.tables.test_parts import row as numbered


def using(number, share, *, gpus=0, percent=None):
    """A run of 100 s on four CPUs that used this share of them."""
    run = numbered(number, 1, 100.0)
    return replace(run, cpu_s=share * 400, gpus=gpus or None, gpu_percent=percent)


def test_use_is_cpu_time_over_elapsed_time_and_cpus_with_its_record():
    shares = (0.9, 0.8, 0.85, 0.88, 0.5)
    (use,) = resource_uses([using(i, share) for i, share in enumerate(shares)])
    assert (use.unit, use.share, use.low, use.high) == (Unit.CPUS, 0.85, 0.5, 0.9)
    # The fourth run was between those before it, the fifth was not.
    assert (use.runs, use.predictions, use.inside) == (5, 2, 1)


def test_use_of_gpus_is_a_share_of_those_that_the_run_had():
    runs = [using(i, 0.5, gpus=4, percent=p) for i, p in enumerate((100.0, 200.0, 300.0))]
    of_cpus, of_gpus = resource_uses(runs)
    assert (of_cpus.unit, of_gpus.unit) == (Unit.CPUS, Unit.GPUS)
    assert (of_gpus.low, of_gpus.share, of_gpus.high) == (0.25, 0.5, 0.75)


def test_of_many_runs_the_extreme_ones_are_outside():
    shares = [0.5 + 0.001 * (i % 40) for i in range(38)] + [0.01, 0.99]
    (use,) = resource_uses([using(i, share) for i, share in enumerate(shares)])
    assert 0.49 < use.low < use.share < use.high < 0.55


def test_less_than_a_percent_is_no_other_use():
    (use,) = resource_uses([using(i, share) for i, share in enumerate((0.9, 0.9, 0.9, 0.898))])
    assert (use.predictions, use.inside) == (1, 1)


def test_what_the_accounting_does_not_say_is_left_out():
    silent = replace(using(1, 0.5), cpu_s=None)
    failed = replace(using(2, 0.5), state=JobState.FAILED)
    assert resource_uses([silent, failed]) == ()
    (table,) = made([replace(using(i, 0.6), nodes=1 + i % 2) for i in range(6)])
    (use,) = table.uses
    assert isinstance(use, ResourceUse)
    assert use.share == pytest.approx(0.6)


def test_cpus_that_came_with_memory_are_not_unused():
    runs = [replace(using(i, 0.5), cpus=16, req_cpus=2, tasks=1, cpu_s=180.0) for i in range(4)]
    (table,) = made(runs)
    assert table.uses[0].share == pytest.approx(0.9)


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


def test_many_runs_that_vary_have_a_quantile_beyond_the_highest_and_few_do_not():
    grows = [run(round(100 * 1.03**i)) for i in range(40)]
    assert high(need_of(*grows)) > 100 * 1.03**39
    assert high(need_of(*grows[:10])) == round(100 * 1.03**9)


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
