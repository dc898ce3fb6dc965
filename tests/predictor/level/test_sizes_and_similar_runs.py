"""Numbers among arguments by which run time goes."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.level.experts import RunRequest, typical
from predictor.level.sizes import SizedRun, as_references, choose, log_factor
from predictor.table import at, encode, for_sizes
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.types import Run
from sacct_ingest.records import KeyLevel
from slurm_plugin.decision.lookup import PredictionLookup, attributes_of
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.reports.curve_text import render
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import row

STEPS = (500, 5000, 1000, 4000, 2000, 3000)


def runs_of(time_s, numbers, noise=0.02):
    rng = random.Random(1)
    return [
        SizedRun(
            2, math.log(time_s(x) * rng.lognormvariate(0, noise)), {"--steps": x}, (2, 8, 8), {}
        )
        for x in numbers
    ]


def test_five_runs_are_enough_where_one_number_explains_them():
    runs = runs_of(lambda steps: 20 + 0.6 * steps, STEPS[:5])
    (term,) = choose(runs, [None] * 5)
    assert term.exponent == pytest.approx(0.97, abs=0.05)
    assert (term.low, term.high) == (500, 5000)
    assert log_factor((term,), {"--steps": term.reference}) == 0
    assert choose(runs[:4], [None] * 4) == ()


def test_a_cost_that_a_number_does_not_change_is_a_shift():
    numbers = [100 * 1.3**i for i in range(20)]
    (term,) = choose(runs_of(lambda steps: 3000 + steps, numbers), [None] * 20)
    assert term.shift > 0
    ratio = log_factor((term,), {"--steps": 14_000}) - log_factor((term,), {"--steps": 100})
    assert ratio == pytest.approx(math.log(17_000 / 3100), rel=0.05)


@pytest.mark.parametrize("given", ["chance", "request", "told apart"])
def test_a_number_does_not_count_that_says_no_more_than_others(given):
    numbers = [float(random.Random(i).choice(STEPS)) for i in range(40)]
    runs = runs_of(lambda steps: 20 + 0.6 * steps, numbers)
    believed = [None] * 40
    if given == "chance":
        runs = [replace(one, log_s=float(i % 5)) for i, one in enumerate(runs)]
    elif given == "request":
        runs = [replace(one, counts=(one.numbers["--steps"] / 4, 1, 1)) for one in runs]
    else:
        believed = [one.log_s for one in runs]
    assert choose(runs, believed) == ()


def asked_with(noise=0.0):
    """Three sizes, each on three counts of CPUs with two of memory; little memory takes thrice."""
    rng, runs = random.Random(2), []
    for size in (1.0, 2.0, 4.0):
        for cpus in (1, 2, 4):
            for memory in (2.0, 8.0):
                time_s = 600 * size / cpus * (3 if memory < 8 else 1) * rng.lognormvariate(0, noise)
                asked = (1, cpus, 1, memory)
                runs.append(SizedRun(1, math.log(time_s), {"size": size}, asked, {}))
    return runs


def test_a_number_is_found_where_several_resources_vary():
    runs = asked_with(noise=0.05)
    (term,) = choose(runs, [None] * 18)
    assert term.exponent == pytest.approx(1.0, abs=0.05)
    constant = [replace(one, log_s=one.log_s - math.log(one.numbers["size"])) for one in runs]
    assert choose(constant, [None] * 18) == ()
    unnamed = [replace(one, numbers={"-s": one.numbers["size"]}) for one in runs]
    assert choose(unnamed, [None] * 18) == ()  # only a tag says what is a size


def test_runs_as_references_keep_what_resources_do_and_few_are_farther_off():
    exact = asked_with()
    terms = choose(exact, [None] * 18)
    moved = [one.log_s - log_factor(terms, one.numbers) for one in exact]
    assert as_references(exact, terms) == pytest.approx(moved, abs=1e-6)
    few = asked_with(noise=0.1)[:8]
    moved = [one.log_s - log_factor(terms, one.numbers) for one in few]
    farther = [a - b for a, b in zip(as_references(few, terms), moved, strict=True)]
    assert 0.005 < max(map(abs, farther)) < 0.1


def test_one_run_that_hung_does_not_move_the_others():
    runs = runs_of(lambda steps: 0.6 * steps, STEPS * 3)
    hung = [*runs[:7], replace(runs[7], log_s=runs[7].log_s + 3), *runs[8:]]
    (term,) = choose(hung, [None] * 18)
    assert term.exponent == pytest.approx(1.0, abs=0.1)


def rows(count):
    """Runs of one command with steps and one of two methods, the other of which takes twice."""
    rng = random.Random(2)
    made = []
    for number in range(count):
        steps, method = rng.choice(STEPS), rng.choice(("a", "b"))
        elapsed_s = (20 + 0.6 * steps) * (1 + (method == "b")) * rng.lognormvariate(0, 0.02)
        line = f"sbatch md.sh --steps {steps} --method {method}"
        one = row(number, 2, round(elapsed_s))
        made.append(submitted(one, line, line=f"l{steps}{method}"))
    return made


def fitted(given):
    return tables_of(IdentityRuns(KeyLevel.NAME, "ann/solve", given, 9e9), TableSettings())


def test_a_job_with_a_new_number_gets_its_own_time():
    made = fitted(rows(60))
    tables = PredictionLookup(
        (one.table.level, one.table.key, encode(one.table)) for one in made if one.table
    )
    identity = replace(rows(1)[0].identity, script="", line="new")

    def asked(steps, method):
        values = {"--steps": f"{steps}", "--method": method}
        table = tables.find(identity, attributes=lambda: values)
        assert table.sizes[0].reference == steps
        said = at(table, 2)
        return said.low_s, said.time_s, said.high_s

    for steps, method in ((2500, "a"), (2500, "b"), (700, "a")):
        low, time_s, high = asked(steps, method)
        true_s = (20 + 0.6 * steps) * (1 + (method == "b"))
        assert low < true_s < high
        assert time_s == pytest.approx(true_s, rel=0.05)
    near, far = asked(5000, "a"), asked(40_000, "a")
    assert far[0] < 24_020 < far[2]
    assert math.log(far[2] / far[0]) > 2 * math.log(near[2] / near[0])


def test_numbers_and_node_counts_together_leave_the_interval_narrow():
    rng, given = random.Random(2), []
    for number in range(60):
        nodes, steps = rng.choice((1, 2, 4, 8)), rng.choice(STEPS)
        elapsed_s = (20 + 0.6 * steps * (0.1 + 0.9 / nodes)) * rng.lognormvariate(0, 0.02)
        line = f"sbatch -N {nodes} md.sh --steps {steps}"
        one = row(9000 * number, nodes, round(elapsed_s))
        given.append(submitted(one, line, line=f"l{steps}"))
    whole = fitted(given)[0].table
    said = at(for_sizes(whole, {"--steps": 2500.0}), 8)
    assert said.low_s < 340 < said.high_s < 1.3 * said.low_s


@pytest.mark.parametrize("beside", ["export", "array", "tag"])
def test_numbers_beside_the_command_are_sizes_too(beside):
    """All runs have one line; the numbers of an array's tasks together widen the interval."""
    rng, given = random.Random(3), []
    for number in range(40):
        steps = rng.choice(STEPS)
        more = {
            "export": {"submit_line": f"sbatch --export=ALL,STEPS={steps},OMP_NUM_THREADS=4 md.sh"},
            "array": {"array_task_id": steps},
            "tag": {"comment": f"nimo:size={steps}"},
        }[beside]
        elapsed_s = round((20 + 0.6 * steps) * rng.lognormvariate(0, 0.02))
        line = {"submit_line": "sbatch md.sh"} | more
        given.append(submitted(row(number, 2, elapsed_s), **line))
    key = given[0].line
    made = tables_of(IdentityRuns(KeyLevel.LINE, key, given, 9e9), TableSettings())
    tables = PredictionLookup((t.level, t.key, encode(t)) for one in made if (t := one.table))

    def asked(**fields):
        job = Job(user_name="ann", argv=["md.sh"], **fields)
        values = attributes_of(job, None, "", "")
        table = tables.find(replace(given[0].identity, script=""), attributes=lambda: values)
        return at(table, 2)

    one = asked(export="ALL,STEPS=2500", array_inx="2500%1", comment="nimo:size=2500")
    assert one.time_s == pytest.approx(1520, rel=0.05)
    assert one.low_s < 1520 < one.high_s < 1.3 * one.low_s
    many = asked(array_inx="500-5000")
    assert many.low_s < 600 < 2500 < many.high_s


def test_a_table_without_the_number_of_a_job_is_as_wide_as_all_numbers():
    whole = fitted(rows(60))[0].table
    said, known = (at(for_sizes(whole, one), 2) for one in ({}, {"--steps": 2000.0}))
    assert said.low_s < 600
    assert "run time goes by --steps to the power 0.9" in render(whole, verbose=True)
    assert said.high_s > 3 * known.high_s / 2


def test_what_was_chosen_stays_and_its_record_goes_on():
    given = rows(60)
    before = {one.key: one.record for one in fitted(given[:50])}
    assert "size: --steps" in before["ann/solve"].split
    after = tables_of(
        IdentityRuns(KeyLevel.NAME, "ann/solve", given, 9e9), TableSettings(), records=before
    )
    (whole,) = [one.record for one in after if one.key == "ann/solve"]
    first = before["ann/solve"].entries
    assert whole.entries[: len(first)] == first
    assert len(whole.entries) > len(first)


ASKED = RunRequest(4, 3600)


def ran(nodes, limit_s, elapsed_s):
    return Run(nodes, elapsed_s, limit_s=limit_s)


def test_runs_that_match_outweigh_those_that_do_not():
    past = [ran(1, 600, 50.0)] * 20 + [ran(4, 3600, 1000.0)]
    assert typical(ASKED, past) == 1000.0
    assert typical(RunRequest(1, 600), past) == 50.0


@pytest.mark.parametrize(
    "asked", [RunRequest(16, 3600), RunRequest(6, 3600), RunRequest(4, 9000), RunRequest(4, 2000)]
)
def test_the_nearer_of_two_runs_that_both_differ_says_more(asked):
    near, far = ran(asked.nodes * 2, asked.limit_s * 2, 100.0), 900.0
    older = [near, ran(asked.nodes * 2, asked.limit_s * 32, far)]
    smaller = [near, ran(asked.nodes * 64, asked.limit_s * 2, far)]
    assert typical(asked, older) == typical(asked, smaller) == 100.0


def test_a_run_without_a_limit_is_far_from_those_with_one():
    free = Run(4, 900.0)
    past = [ran(4, 1800, 100.0), free]
    assert typical(ASKED, past) == 100.0
    assert typical(RunRequest(4, math.inf), past) == 900.0


def test_newer_runs_outweigh_older_ones():
    past = [ran(4, 3600, 100.0), ran(4, 3600, 900.0)]
    assert typical(ASKED, past) == 900.0


def test_without_a_past_nothing_is_typical():
    with pytest.raises(ValueError, match="no earlier run"):
        typical(ASKED, [])


def test_nothing_exceeds_the_limit():
    assert typical(ASKED, [ran(4, 3600, 9e9)]) == 3600


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=12))
def test_typical_has_the_highest_expected_accuracy(times):
    weights = [(len(times) - i) ** -0.3 for i in range(len(times))]

    def accuracy(p):
        return sum(w * min(p, t) / max(p, t) for t, w in zip(times, weights, strict=True))

    free = RunRequest(4, math.inf)
    best = accuracy(typical(free, [Run(4, t) for t in times]))
    lowest, highest = min(times), max(times)
    tries = [lowest * (highest / lowest) ** (i / 50) for i in range(51)]
    assert best >= max(map(accuracy, tries)) - 1e-9
