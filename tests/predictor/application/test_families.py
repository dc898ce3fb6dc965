"""Sizes and counts learnt together, held against programs whose truth is known."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.application.count_changes import log_ratios
from predictor.application.family import fit_family
from predictor.application.request import for_request
from predictor.application.sizes import choose
from predictor.application.surface import OWN_ROW, Slice, beside_own, for_sizes, spread
from predictor.sample import Sample
from predictor.sizes import Form, Surface
from predictor.stored_table import encode
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.of_family import reach
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.reports.curve_text import render
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import row

pytestmark = pytest.mark.kernels

STEPS = (500, 5000, 1000, 4000, 2000, 3000)
COUNTS = (1, 2, 4, 8, 16)


def runs_of(time_s, numbers, noise=0.02):
    rng = random.Random(1)
    return [
        Sample(
            nodes=2,
            elapsed_s=time_s(x) * rng.lognormvariate(0, noise),
            numbers={"--steps": x},
            requested=(2, 8, 8),
        )
        for x in numbers
    ]


def program(time_s, count, *, seed=1, noise=0.02):
    """Runs of a program that names two sizes, at random sizes and counts."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        n, x, y = rng.choice(COUNTS), float(rng.choice(STEPS)), float(rng.choice((1, 2, 5, 10)))
        elapsed_s = time_s(n, x, y) * math.exp(rng.gauss(0, noise))
        made.append(Sample(n, elapsed_s, numbers={"x": x, "y": y}, requested=(n, 8 * n, n)))
    return made


def said(family, count, **numbers):
    sizes = [numbers[term.name] for term in family.terms]
    return math.exp(Slice(family.surface, sizes).logs(count)[0])


def serial_and_work(n, x, y):
    return 20 + 0.05 * x * y / n


def a_product(n, x, y):
    return 0.3 * x * y**0.5 / n**0.9


def with_overhead(n, x, y):
    return 10 + 0.02 * x * y / n + 4 * math.log2(n)


def flat(n, x, y):
    return 0.1 * x + 3 * y


def too_large_for_one_node(n, x, y):
    return a_product(n, x, y) * (8 if n == 1 else 1)


def test_a_cliff_where_memory_is_short_is_followed_at_sizes_that_never_ran():
    errors = []
    for seed in range(20):
        family = choose(program(too_large_for_one_node, 14, seed=seed), [None] * 14)
        if family is not None and 1 in family.surface.counts:
            truth = too_large_for_one_node(1, 1500, 3)
            errors.append(abs(math.log(said(family, 1, x=1500.0, y=3.0) / truth)))
    assert len(errors) > 10
    assert np.median(errors) < 0.1


def test_few_runs_use_the_sizes_that_they_name_though_noise_leaves_these_unsure():
    histories = (program(flat, 8, seed=seed, noise=0.6) for seed in range(40))
    assert sum(choose(runs, [None] * 8) is not None for runs in histories) > 25


@pytest.mark.parametrize("time_s", [serial_and_work, a_product, with_overhead, flat])
def test_new_sizes_on_new_counts_are_as_a_dozen_runs_of_others_say(time_s):
    family = choose(program(time_s, 15), [None] * 15)
    errors = [
        abs(math.log(said(family, n, x=x, y=y) / time_s(n, x, y)))
        for n in (2, 6, 12)
        for x in (700.0, 2500.0)
        for y in (3.0, 8.0)
    ]
    assert np.mean(errors) < 0.1


def test_where_counts_and_sizes_act_on_each_other_the_change_of_count_goes_by_the_size():
    """A log-linear regression has one change for all sizes."""
    family = choose(program(serial_and_work, 30), [None] * 30)
    small, large = (said(family, 1, x=x, y=1) / said(family, 16, x=x, y=1) for x in (500, 5000))
    assert small == pytest.approx(45 / (20 + 25 / 16), rel=0.15)
    assert large == pytest.approx(270 / (20 + 250 / 16), rel=0.15)


def test_five_runs_are_enough_where_one_number_explains_them():
    runs = runs_of(lambda steps: 20 + 0.6 * steps, STEPS[:5])
    family = choose(runs, [None] * 5)
    (term,) = family.terms
    assert term.exponent == pytest.approx(0.97, abs=0.05)
    assert (term.low, term.high) == pytest.approx((500, 5000))
    assert choose(runs[:4], [None] * 4) is None


def test_a_cost_that_a_number_does_not_change_is_a_part_of_its_own():
    numbers = [100 * 1.3**i for i in range(20)]
    family = choose(runs_of(lambda steps: 3000 + steps, numbers), [None] * 20)
    ratio = math.log(said(family, 2, **{"--steps": 14_000}) / said(family, 2, **{"--steps": 100}))
    assert ratio == pytest.approx(math.log(17_000 / 3100), rel=0.05)


@pytest.mark.parametrize("given", ["chance", "request", "told apart"])
def test_a_number_does_not_count_that_says_no_more_than_others(given):
    numbers = [float(random.Random(i).choice(STEPS)) for i in range(40)]
    runs = runs_of(lambda steps: 20 + 0.6 * steps, numbers)
    believed = [None] * 40
    if given == "chance":
        runs = [replace(one, elapsed_s=math.exp(i % 5)) for i, one in enumerate(runs)]
    elif given == "request":
        runs = [replace(one, requested=(one.numbers["--steps"] / 4, 1, 1)) for one in runs]
    else:
        believed = [math.log(one.elapsed_s) for one in runs]
    assert choose(runs, believed) is None


def asked_with(noise=0.0):
    """Three sizes, each on three counts of CPUs with two of memory; little memory takes thrice."""
    rng, runs = random.Random(2), []
    for size in (1.0, 2.0, 4.0):
        for cpus in (1, 2, 4):
            for memory in (2.0, 8.0):
                time_s = 600 * size / cpus * (3 if memory < 8 else 1) * rng.lognormvariate(0, noise)
                asked = (1, cpus, 1, memory)
                runs.append(Sample(1, time_s, numbers={"size": size}, requested=asked))
    return runs


def test_a_number_is_found_where_several_resources_vary():
    runs = asked_with(noise=0.05)
    (term,) = choose(runs, [None] * 18).terms
    assert term.exponent == pytest.approx(1.0, abs=0.05)
    constant = [replace(one, elapsed_s=one.elapsed_s / one.numbers["size"]) for one in runs]
    assert choose(constant, [None] * 18) is None
    unnamed = [replace(one, numbers={"-s": one.numbers["size"]}) for one in runs]
    found = choose(unnamed, [None] * 18)
    assert found is None or not found.several  # only a tag says what is a size beside resources


def test_runs_as_references_keep_what_resources_do():
    exact = asked_with()
    family = choose(exact, [None] * 18)
    (term,) = family.terms
    moved = [math.log(one.elapsed_s / one.numbers["size"] * term.reference) for one in exact]
    assert family.as_references == pytest.approx(moved, abs=0.05)


def test_one_run_that_hung_does_not_move_the_others():
    runs = runs_of(lambda steps: 0.6 * steps, STEPS * 3)
    hung = [*runs[:7], replace(runs[7], elapsed_s=20 * runs[7].elapsed_s), *runs[8:]]
    (term,) = choose(hung, [None] * 18).terms
    assert term.exponent == pytest.approx(1.0, abs=0.1)


def test_a_part_of_the_input_that_all_problems_have_does_not_hide_the_rest():
    """Sizes of inputs that name reference files, which are most of the bytes, beside samples."""
    reference, samples = 700.0, (1, 2, 4, 6, 9, 12, 17, 25, 30, 36)
    runs = runs_of(lambda x: 40 * (x - reference), [reference + own for own in samples], noise=0.05)
    family = choose(runs, [None] * len(runs))
    assert family is not None
    assert said(family, 2, **{"--steps": reference + 100}) == pytest.approx(4000, rel=0.15)
    assert said(family, 2, **{"--steps": reference + 3}) == pytest.approx(120, rel=0.25)
    # Less than the smallest, and less than the reference files alone.
    assert 0 < said(family, 2, **{"--steps": reference / 2}) < 40


@settings(max_examples=20, deadline=None)
@given(
    st.floats(0, 100),
    st.floats(0.01, 1),
    st.floats(0.5, 1.3),
    st.floats(0.5, 1),
    st.integers(0, 99),
)
def test_a_family_is_never_much_worse_than_a_product_of_powers(serial, work, size, power, seed):
    def time_s(n, x, y):
        return serial + work * x**size * y**0.5 / n**power

    runs = program(time_s, 15, seed=seed)
    family = choose(runs, [None] * 15)
    columns = np.array([[1, math.log(r.nodes), *map(math.log, r.numbers.values())] for r in runs])
    logs = np.log([r.elapsed_s for r in runs])
    slopes = np.linalg.lstsq(columns, logs, rcond=None)[0]
    places = [(n, x, y) for n in COUNTS for x in STEPS for y in (1.0, 3.0, 10.0)]
    truth = np.log([time_s(*place) for place in places])
    plain = np.array([[1, *map(math.log, place)] for place in places]) @ slopes
    mean = float(logs.mean())
    ours = [math.log(said(family, n, x=x, y=y)) if family else mean for n, x, y in places]
    assert np.abs(ours - truth).mean() < 1.5 * np.abs(plain - truth).mean() + 0.08


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9999), st.integers(8, 40))
def test_the_order_of_names_and_a_unit_of_a_size_do_not_matter(seed, count):
    runs = program(serial_and_work, count, seed=seed)
    other = [replace(r, numbers={"y": r.numbers["y"], "x": 1024 * r.numbers["x"]}) for r in runs]
    one, same = choose(runs, [None] * count), choose(other, [None] * count)
    assert (one is None) == (same is None)
    if one is not None and len(one.terms) == len(same.terms) == 2:
        expected = said(one, 4, x=2500.0, y=4.0)
        assert said(same, 4, x=1024 * 2500.0, y=4.0) == pytest.approx(expected, rel=1e-3)


def test_folds_that_agree_are_sure_and_far_from_the_runs_they_disagree():
    family = choose(program(serial_and_work, 15, noise=0.1), [None] * 15)

    def sd(count, x, y):
        sizes = {"x": x, "y": y}
        own = Slice(family.surface, [sizes[term.name] for term in family.terms])
        return spread(own.logs(count))

    assert sd(4, 2000.0, 3.0) < 0.5 * sd(256, 500_000.0, 3.0)
    assert spread([0.0]) == spread([0.0, 1.0]) == 0.0


@pytest.mark.parametrize("together", [True, False])
def test_what_runs_do_not_tell_of_a_size_is_unsure_though_all_folds_say_the_same(together):
    """Two sizes that always grew together: folds share the work out between them by one prior."""
    runs = program(a_product, 30)
    for i, one in enumerate(runs):
        x, y = one.numbers["x"], one.numbers["y"]
        y = x / 500 if together else y
        elapsed_s = a_product(one.nodes, x, y) * math.exp(0.01 * (i % 5 - 2))
        runs[i] = replace(one, elapsed_s=elapsed_s, numbers={"x": x, "y": y})
    columns = {name: np.array([one.numbers[name] for one in runs]) for name in ("x", "y")}
    family = fit_family(runs, columns, [np.ones(30)], [])
    far, near = (Slice(family.surface, sizes) for sizes in ((5000.0, 1.0), (500.0, 1.0)))
    assert spread(far.logs(2)) < 0.1
    assert near.deviation(2) < 0.05
    # Exponents may be anything between 0 and 1; what is known of them is their sum.
    unsure = 0.3 / math.sqrt(2) * math.log(10) if together else 0.0
    assert far.deviation(2) == pytest.approx(unsure, rel=0.1, abs=0.1)
    assert far.ratio(2, near)[1] == pytest.approx(unsure, rel=0.1, abs=0.1)
    assert near.ratio(2, near) == (0.0, 0.0)


def test_a_slice_is_what_its_forms_say():
    forms = (
        Form(0, 0.5, ((math.log(100), 1.0, -1.0), (math.log(10), 0.0, 0.0)), (0.0, 0.2)),
        Form(0, 0.5, ((math.log(110), 1.0, -1.0),)),
    )
    one = Slice(Surface((2.0,), 1.0, forms, (1.0, 4.0)), [4.0])
    expected = 0.5 * (math.log(100 * 2 / 2 + 10) + 0.1) + 0.5 * math.log(110 * 2 / 2)
    assert one.logs(2) == pytest.approx([expected])
    with pytest.raises(ValueError, match="zip"):
        Slice(Surface((2.0,), 1.0, forms), [4.0, 1.0])


def test_few_runs_reach_as_far_as_normal_errors_of_their_scale():
    errors = [0.01 * i for i in range(1, 10)]
    assert reach(errors, 0.9) == 0.09
    assert reach(errors, 0.99) > 0.09
    assert reach(errors[:4], 0.9) > errors[3]


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
        values = SubmittedJob.of(job, None).attributes("")
        table = tables.find(replace(given[0].identity, script=""), attributes=lambda: values)
        return at(table, 2)

    one = asked(export="ALL,STEPS=2500", array_inx="2500%1", comment="nimo:size=2500")
    assert one.time_s == pytest.approx(1520, rel=0.05)
    assert one.low_s < 1520 < one.high_s < 1.3 * one.low_s
    many = asked(array_inx="500-5000")
    assert many.low_s < 600 < 2500 < many.high_s


def test_where_most_of_an_input_is_the_same_nimo_predict_says_so():
    samples = (1, 2, 4, 6, 9, 12, 17, 25, 30, 36)
    given = []
    for number, sample in enumerate(samples):
        line = f"sbatch call.sh --input {700 + sample}"
        one = row(number, 2, 40 * sample)
        given.append(submitted(one, line, line=f"i{sample}"))
    whole = fitted(given)[0].table
    text = " ".join(render(whole, verbose=True).split())
    assert "run time goes by what --input has beyond about 700 (runs had 701 to 736)" in text
    assert at(for_sizes(whole, {"--input": 720.0}), 2).time_s == pytest.approx(800, rel=0.1)


def test_a_table_without_the_number_of_a_job_is_as_wide_as_all_numbers():
    whole = fitted(rows(60))[0].table
    said, known = (at(for_sizes(whole, one), 2) for one in ({}, {"--steps": 2000.0}))
    assert said.low_s < 650
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


def test_rows_between_runs_follow_the_sizes_and_so_does_the_change_of_count():
    rng, made = random.Random(4), []
    for number in range(14):
        nodes, steps = rng.choice(COUNTS), rng.choice(STEPS)
        elapsed_s = (20 + 0.6 * steps / nodes) * rng.lognormvariate(0, 0.02)
        line = f"sbatch -N {nodes} md.sh --steps {steps}"
        made.append(submitted(row(9000 * number, nodes, round(elapsed_s)), line, line=f"l{steps}"))
    whole = fitted(made)[0].table
    for steps in (700.0, 4500.0):
        job = for_request(for_sizes(whole, {"--steps": steps}), 4)
        truth = [20 + 0.6 * steps / n for n in COUNTS]
        assert [at(job, n).time_s for n in COUNTS] == pytest.approx(truth, rel=0.12)
        (logs,) = log_ratios(job.change, 4, [16])
        assert np.exp(np.median(logs)) == pytest.approx(truth[4] / truth[2], rel=0.12)


def test_where_a_problem_ran_often_enough_its_rows_are_what_was_measured():
    rng, made = random.Random(5), []
    for number in range(20):
        nodes, steps = rng.choice(COUNTS[:4]), rng.choice(STEPS)
        elapsed_s = (20 + 0.6 * steps / nodes) * rng.lognormvariate(0, 0.02)
        line = f"sbatch -N {nodes} md.sh --steps {steps}"
        made.append(submitted(row(9000 * number, nodes, round(elapsed_s)), line, line=f"l{steps}"))
    family = for_sizes(fitted(made)[0].table, {"--steps": 2500.0})
    line = "sbatch -N 4 md.sh --steps 2500"
    slow = [submitted(row(9000 * i, 4, 700 + i), line, line="own") for i in range(OWN_ROW)]
    key = slow[0].line
    own = tables_of(IdentityRuns(KeyLevel.LINE, key, slow, 9e9), TableSettings())[0].table
    both = beside_own(family, own)
    assert 700 <= at(both, 4).time_s <= 702
    assert at(family, 8).time_s < at(both, 8).time_s < 2 * at(family, 8).time_s
    assert {point.nodes for point in both.observed} == {4}
