"""How much memory the next run needs, by count and by the sizes that runs name."""

import math
import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.job_table import for_numbers
from predictor.memory import Memory
from predictor.product_limit import ProductLimit
from predictor.tables.memory_need import FEWEST, LEVEL, memory_need
from sacct_ingest.records import JobState
from sacct_ingest.runs.evidence import ran_short
from tests.predictor.rows import row, submitted
from tests.predictor.tables.test_parts import made

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


def test_runs_that_are_all_alike_need_little_room_and_few_of_them_more():
    rooms = [high(need_of(*[run(100, given=200)] * n)) for n in (3, 5, 10, 30, 100)]
    assert rooms == sorted(rooms, reverse=True)
    assert 100 < rooms[-1] < 110
    assert rooms[0] > 130


@settings(max_examples=40, deadline=None)
@given(least=st.integers(FEWEST, 40), more=st.integers(1, 40), need=st.integers(1, 8000))
def test_more_runs_that_are_alike_never_need_more_room(least, more, need):
    assert high(need_of(*[run(need)] * (least + more))) <= high(need_of(*[run(need)] * least))


def test_fewer_than_three_runs_say_nothing():
    need = need_of(run(100), run(110))
    assert (need.high, need.runs) == ((), 2)
    # One that failed for another reason needed what it had, too.
    assert high(need_of(run(100), run(100), run(700, state=JobState.FAILED))) > 700


def test_a_giant_now_and_then_has_room_where_a_rerun_is_dear():
    def given_to(asked):
        usual = [run(100, given=asked)] * 29
        return high(need_of(*usual, run(1000, given=asked), *usual, run(1000, given=asked)))

    assert given_to(1100) < 110
    assert given_to(8000) >= 1000


def test_where_memory_that_runs_had_is_unknown_there_is_room_too():
    assert 100 < high(need_of(*[run(100, given=0)] * 10)) < 200


@settings(max_examples=60, deadline=None)
@given(
    needs=st.lists(st.integers(50, 5000), min_size=3, max_size=60),
    short=st.lists(st.integers(50, 5000), max_size=10),
)
def test_no_more_runs_than_one_in_twenty_outlasted_what_is_advised(needs, short):
    ended = [run(1, given=n, state=JobState.OUT_OF_MEMORY) for n in short]
    said = high(need_of(*map(run, needs), *ended))
    pairs = [(float(n), False) for n in needs] + [(float(n), True) for n in short]
    quantile = ProductLimit.of(pairs).quantile(LEVEL)
    assert said * 1.001 >= (max(short) if quantile is None else quantile)


def test_a_run_that_ended_for_lack_of_memory_needed_more_than_it_had():
    short = run(90, given=500, state=JobState.OUT_OF_MEMORY)
    need = need_of(*[run(100)] * 9, short, run(100, given=900))
    assert high(need) > 500
    # What completed before it, with less, is no proof any more.
    assert (need.runs, need.given) == (1, (Memory(1, 900 * MIB),))


def test_what_was_cut_off_by_something_else_needed_at_least_that():
    late = [run(300, state=JobState.TIMEOUT)] * 3
    assert high(need_of(*[run(100)] * 30, *late)) >= 300
    early = [run(50, state=JobState.TIMEOUT)] * 30
    assert 100 < high(need_of(*[run(100)] * 30, *early)) <= high(need_of(*[run(100)] * 30))


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


def test_the_need_of_a_node_follows_the_count():
    for needed in (lambda n: 100 * n, lambda n: 800 // n):
        need = need_of(*[run(needed(n), given=1000, nodes=n) for n in (1, 2, 4, 8)] * 8)
        assert all(needed(n) < high(need, n) < 1.3 * needed(n) for n in (1, 2, 4, 8))


def test_the_record_says_for_how_many_it_would_have_been_enough():
    steep = [run(round(100 * 1.6**i), given=20_000) for i in range(10)]
    without, with_margin = (need_of(*steep, margin=margin) for margin in (0.5, 1.5))
    assert (without.predictions, without.inside) == (7, 0)
    assert (with_margin.predictions, with_margin.inside) == (7, 7)


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


def of_size(size, need, *, name="size", **fields):
    """A run whose tag, or one of its arguments, names a size."""
    if name == "size":
        return submitted(run(need, **fields), "sbatch solve.sh", comment=f"nimo:app=a,size={size}")
    return submitted(run(need, **fields), f"sbatch solve.sh {name}={size}")


def asked(rows, **numbers):
    """Memory for a job with these numbers, MiB."""
    (table,) = made([replace(one, run_id=i, job_id=i, end_s=10 + i) for i, one in enumerate(rows)])
    return high(for_numbers(table, numbers).need)


def growing(count, needed, *, noise=0.03, seed=1, name="size"):
    rng = random.Random(seed)
    for _ in range(count):
        size = rng.randint(10, 200)
        yield of_size(size, round(needed(size) * math.exp(rng.gauss(0, noise))), name=name)


@pytest.mark.parametrize("name", ["size", "--cells"])
@pytest.mark.parametrize(
    "needed", [lambda x: 500 + 20 * x, lambda x: 300 * x**0.5, lambda x: 25 * x]
)
def test_a_job_that_names_a_size_is_given_what_that_size_needs(name, needed):
    rows = list(growing(40, needed, name=name))
    for size in (20, 100, 180):
        assert needed(size) < asked(rows, **{name: size}) < 1.45 * needed(size)
    # One that names none is given what all of them need.
    assert asked(rows) > 0.9 * needed(200)


def test_a_larger_size_than_any_that_ran_needs_no_less_than_in_proportion():
    rows = list(growing(40, lambda x: 300 * x**0.5))
    largest = max(float(one.submission.said.size) for one in rows)
    most = asked(rows, size=largest)
    assert asked(rows, size=3 * largest) == pytest.approx(3 * most, rel=0.01)
    # A smaller one than any is taken for the smallest.
    assert asked(rows, size=0.01) == asked(rows, size=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_number_that_needs_do_not_go_by_is_no_size(seed):
    rows = list(growing(60, lambda _: 900, noise=0.3, seed=seed))
    assert asked(rows, size=10) == asked(rows, size=200) == asked(rows)


def test_a_size_with_runs_of_its_own_is_given_no_less_than_these_needed():
    """Needs grow with the size, but for one size, which has need of more or of less."""
    usual = list(growing(40, lambda x: 500 + 20 * x))
    odd = [of_size(100, 3300)] * 4
    assert asked([*usual, *odd], size=100) >= 3300
    spare = [of_size(100, 700)] * 12
    assert 700 < asked([*usual, *spare], size=100) < 1800


def test_two_sizes_may_both_matter():
    rng = random.Random(3)
    rows = []
    for _ in range(60):
        x, y = rng.randint(10, 100), rng.randint(10, 100)
        need = round((200 + x * y) * math.exp(rng.gauss(0, 0.02)))
        rows.append(submitted(run(need, given=16_000), f"sbatch solve.sh --x={x} --y={y}"))
    for x, y in ((20, 80), (90, 90), (30, 30)):
        assert 0.95 * x * y < asked(rows, **{"--x": x, "--y": y}) < 1.7 * (200 + x * y)


def test_tables_of_other_sizes_are_told_apart_by_their_hash():
    """Where they are not, each look in a cache compares with all others of the application."""
    rows = list(growing(40, lambda x: 500 + 20 * x))
    (table,) = made([replace(one, run_id=i, job_id=i, end_s=10 + i) for i, one in enumerate(rows)])
    assert table.need.terms
    assert len({hash(for_numbers(table, {"size": size})) for size in range(10, 200)}) == 190
