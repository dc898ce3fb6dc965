"""Table 1 of NIMO (VLDB 2006), every alternative with the others at their defaults: all runs.

The sequences are worked out by hand on five levels of two attributes.  Errors that decide are those
of :func:`left_out`, which knows nothing of the models: algorithm 6 and section 3.6 by ``lstsq``.
"""

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import _error_measures as error_measures
from benchmarks._paper_settings import EXPERIMENT
from predictor.occupancy.active.learner import Learner
from predictor.occupancy.active.refinement import FIELDS
from predictor.occupancy.active.settings import (
    Error,
    OccupancyPart,
    Purpose,
    Reference,
    RefinementOrder,
    Selection,
    Traversal,
)
from predictor.occupancy.active.space import Space
from predictor.occupancy.ranking import order_preserving_degree, ranking_distance
from predictor.occupancy.samples import Occupancies, Sample

pytestmark = pytest.mark.kernels

LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)
SPACE = Space.full({"cpu": LEVELS, "lat": LEVELS}, {"cpu": True, "lat": False})
#: All defaults of table 1, and no end before all was run.
TABLE = replace(EXPERIMENT, target=0.0, fewest=100)
DOMAIN = RefinementOrder.DOMAIN
A, N, D = OccupancyPart.COMPUTE, OccupancyPart.NETWORK, OccupancyPart.DISK
#: Section 4.4: attributes in the wrong order.
WRONG = {A: ("lat", "cpu"), N: ("cpu", "lat"), D: ("cpu", "lat")}


def straight(given):
    """Equation 1, linear as the paper transforms: o_a = 60/cpu, o_n = 4 + 10 lat, o_d = 1."""
    parts = Occupancies(60 / given["cpu"], 4 + 10 * given["lat"], 1.0, 1.0)
    return Sample(dict(given), parts)


def bent(given):
    """Neither is linear; the disk's is 1."""
    busy = dict(zip(LEVELS, (60.0, 50.0, 20.0, 16.0, 12.0), strict=True))[given["cpu"]]
    waits = dict(zip(LEVELS, (14.0, 16.0, 20.0, 28.0, 54.0), strict=True))[given["lat"]]
    return Sample(dict(given), Occupancies(busy, waits, 1.0, 1.0))


def runs(settings, app=straight):
    learner = Learner(SPACE, settings)
    made = {}
    while proposal := learner.propose():
        run = int(proposal.attributes["cpu"]), int(proposal.attributes["lat"])
        made.setdefault(proposal.purpose, []).append(run)
        learner.observe(app(proposal.attributes))
    return made


#: The design is ++, -+, +-, -- of (cpu, lat) and its opposites.
CORNERS = [(5, 5), (1, 5), (5, 1), (1, 1)]


def without(run):
    return [one for one in CORNERS if one != run]


def test_initialization_min_and_all_defaults():
    """The order by effect is f_a (48 s), f_n (40 s), f_d; levels come as 1, 5, 3, 2, 4.

    f_a: cpu 3; 1/cpu makes it exact.  f_n: lat 3; exact.  f_d had no error: cpu 2.  f_a: cpu 4, for
    cpu was worth it.  f_n: lat 2.  f_d goes on to lat, for cpu was not: lat 4.  Nothing is left.
    """
    assert runs(TABLE) == {
        Purpose.REFERENCE: [(1, 5)],
        Purpose.SCREENING: without((1, 5)),
        Purpose.TRAINING: [(3, 5), (1, 3), (2, 5), (4, 5), (1, 2), (1, 4)],
    }


def test_initialization_max():
    """The same with all else at cpu 5 and lat 1."""
    assert runs(replace(TABLE, reference=Reference.MAX)) == {
        Purpose.REFERENCE: [(5, 1)],
        Purpose.SCREENING: without((5, 1)),
        Purpose.TRAINING: [(3, 1), (5, 3), (2, 1), (4, 1), (5, 2), (5, 4)],
    }


def test_initialization_rand():
    """From (2, 3), no level of its lines is a corner: 1, 5, 3 (4 for lat: 3 is its own), ...

    f_a: cpu 1, exact from there.  f_n: lat 1, exact.  f_d: cpu 5, nothing.  f_a: cpu 3, nothing.
    f_n: lat 5, nothing.  f_d goes on to lat: 2.  f_a to lat: 4.  f_n to cpu: 4.
    """
    seed = next(s for s in range(200) if runs(_drawn(s))[Purpose.REFERENCE] == [(2, 3)])
    made = runs(_drawn(seed))
    assert made[Purpose.SCREENING] == CORNERS
    assert made[Purpose.TRAINING] == [
        (1, 3), (2, 1), (5, 3), (3, 3), (2, 5), (2, 2), (2, 4), (4, 3),
    ]  # fmt: skip


def _drawn(seed):
    return replace(TABLE, reference=Reference.RAND, seed=seed)


def test_sample_selection_l2_i2():
    made = runs(replace(TABLE, selection=Selection.L2_I2))
    assert made == {Purpose.REFERENCE: [(1, 5)], Purpose.TRAINING: without((1, 5))}


def test_prediction_error_on_a_test_set_of_the_design():
    """The corners are the test set and tell the orders; then as before, each on its own line."""
    made = runs(replace(TABLE, error=Error.PBDF_TEST))
    assert made == {
        Purpose.REFERENCE: [(1, 5)],
        Purpose.TEST: without((1, 5)),
        Purpose.TRAINING: [(3, 5), (1, 3), (2, 5), (4, 5), (1, 2), (1, 4)],
    }


def test_prediction_error_on_a_random_test_set():
    """Ten of the 24 others, first; what they hold of the lines and corners is not run again."""
    made = runs(replace(TABLE, error=Error.RANDOM_TEST, test_runs=10))
    tests = made[Purpose.TEST]
    assert len({*tests, (1, 5)}) == 11
    assert made[Purpose.SCREENING] == [one for one in without((1, 5)) if one not in tests]
    lines = {(cpu, 5) for cpu in range(1, 6)} | {(1, lat) for lat in range(1, 6)}
    assert {*made[Purpose.TRAINING]} == lines - {*tests, *made[Purpose.SCREENING], (1, 5)}
    assert [*made][1] is Purpose.TEST


def left_out(samples, part, names):
    """Section 3.6: mean absolute percentage error of f learned from the others, in turn."""
    values = np.array([getattr(one.measured, FIELDS[part]) for one in samples])
    faster = {"cpu"}
    given = [np.array([one.attributes[name] for one in samples]) for name in names]
    columns = [1 / own if name in faster else own for name, own in zip(names, given, strict=True)]
    design = np.column_stack([np.zeros(len(samples)), *columns])
    errors = []
    for i, value in enumerate(values):
        others = np.arange(len(values)) != i
        middle, level = design[others].mean(axis=0), values[others].mean()
        # Around the mean: what does not differ among the others has no part.
        theta = np.linalg.lstsq(design[others] - middle, values[others] - level, rcond=1e-9)[0]
        predicted = max(float(level + (design[i] - middle) @ theta), 0.0)
        errors.append(100 * abs(predicted - value) / value)
    return float(np.mean(errors))


class ByThePaper:
    """Algorithms 1, 4 and 5 once more, plainly: Lmax-I1 with cross-validation."""

    def __init__(self, settings, app):
        self.settings, self.app = settings, app
        dynamic = settings.traversal is Traversal.DYNAMIC
        reported = settings.attribute_order is DOMAIN
        self.reference = (1, 5) if settings.reference is Reference.MIN else (5, 1)
        self.ran = [self.reference, *([] if dynamic and reported else without(self.reference))]
        self.samples = [app({"cpu": float(c), "lat": float(n)}) for c, n in self.ran]
        self.order = list(settings.parts) if dynamic else sorted((A, N, D), key=self.relevance)
        self.attributes = {
            part: list(settings.attributes[part]) if reported else self.by_effect(part)
            for part in self.order
        }
        self.taken = {part: [] for part in self.order}
        self.place = dict.fromkeys(self.order, 0)
        self.gain = dict.fromkeys(self.order, np.inf)
        self.left = list(self.order)

    def effect(self, part, name):
        pairs = [(s.attributes[name], getattr(s.measured, FIELDS[part])) for s in self.samples[:4]]
        return abs(sum(value if x == 5 else -value for x, value in pairs)) / 2

    def relevance(self, part):
        return -self.effect(part, "cpu") - self.effect(part, "lat")

    def by_effect(self, part):
        return sorted(("cpu", "lat"), key=lambda name: -self.effect(part, name))

    def error(self, part):
        few = len(self.samples) < 2
        return np.inf if few else left_out(self.samples, part, self.taken[part])

    def refine(self, part):
        before = self.error(part)
        self.place[part] += self.gain[part] < self.settings.improvement
        for _ in range(2):
            name = self.attributes[part][self.place[part] % 2]
            if name not in self.taken[part]:
                self.taken[part].append(name)
            cpu, lat = self.reference
            line = [(n, lat) if name == "cpu" else (cpu, n) for n in (1, 5, 3, 2, 4)]
            if open_runs := [run for run in line if run not in self.ran]:
                self.run(open_runs[0])
                self.gain[part] = before - self.error(part) if before < np.inf else np.inf
                return
            self.place[part] += 1
        self.left.remove(part)

    def run(self, run):
        self.ran.append(run)
        self.samples.append(self.app({"cpu": float(run[0]), "lat": float(run[1])}))

    def again(self, part):
        worth = self.gain[part] >= self.settings.improvement
        return self.settings.traversal is Traversal.IMPROVEMENT and part in self.left and worth

    def runs(self):
        screened = len(self.ran)
        while self.left:
            if self.settings.traversal is Traversal.DYNAMIC:
                self.refine(max(self.left, key=self.error))
                continue
            for part in list(self.left):
                self.refine(part)
                while self.again(part):
                    self.refine(part)
        return self.ran[screened:]


def rough(seed):
    """Make an application whose occupancies are any: no two errors are alike."""
    table = np.random.default_rng(seed).lognormal(2.0, 0.5, (3, 5, 5))

    def run(given):
        at = int(given["cpu"]) - 1, int(given["lat"]) - 1
        return Sample(dict(given), Occupancies(*table[:, at[0], at[1]].tolist(), 1.0))

    return run


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("reference", "traversal", "attributes"),
    list(product((Reference.MIN, Reference.MAX), Traversal, (None, WRONG))),
)
def test_any_application_is_run_as_the_algorithms_say(reference, traversal, attributes, seed):
    settings = replace(TABLE, reference=reference, traversal=traversal)
    if attributes:
        settings = replace(settings, attribute_order=DOMAIN, attributes=attributes)
    expected = ByThePaper(settings, rough(seed)).runs()
    assert runs(settings, rough(seed))[Purpose.TRAINING] == expected


def test_errors_of_functions_are_those_of_section_3_6():
    learner = Learner(SPACE, replace(TABLE, traversal=Traversal.DYNAMIC))
    taken = {A: set(), N: set(), D: set()}
    compared = 0
    while proposal := learner.propose():
        learner.observe(bent(proposal.attributes))
        if proposal.purpose is Purpose.TRAINING:
            word = proposal.why.split()
            taken[OccupancyPart(word[2])].add(word[-1])
        following = learner.propose()
        if following is None or following.purpose is not Purpose.TRAINING:
            continue
        word = following.why.split()
        for part in (A, N):
            names = taken[part] | ({word[-1]} if part.value == word[2] else set())
            expected = left_out(learner.samples, part, sorted(names))
            assert learner.refinement.error_of(part) == pytest.approx(expected, rel=1e-9)
            compared += 1
    assert compared == 12


def test_errors_of_each_prediction():
    predicted, actual = [12.0, 15.0], [10.0, 20.0]
    assert error_measures.absolute_errors(predicted, actual).tolist() == [2.0, 5.0]
    assert error_measures.percentage_errors(predicted, actual) == pytest.approx([20.0, 25.0])


def test_means():
    predicted, actual = [12.0, 15.0], [10.0, 20.0]
    assert error_measures.mape(predicted, actual) == pytest.approx(22.5)
    assert error_measures.nmae(predicted, actual) == pytest.approx(3.5 / 15)
    assert error_measures.mse(predicted, actual) == pytest.approx(14.5)


def test_one_swapped_pair_of_three_breaks_two_of_nine_ordered_pairs():
    assert order_preserving_degree([1, 3, 2], [1, 2, 3]) == pytest.approx(7 / 9)


def test_equal_measurements_must_be_predicted_equal():
    assert order_preserving_degree([1, 2], [5, 5]) == pytest.approx(2 / 4)


def test_ranking_distance_by_hand():
    # True order a b c d; predicted ranks 2 1 4 3.
    predicted, actual = [2, 1, 4, 3], [10, 20, 30, 40]
    assert ranking_distance(predicted, actual, 1) == pytest.approx(1 / 3)
    assert ranking_distance(predicted, actual, 2) == pytest.approx(2 / (3 + 2))


@pytest.mark.parametrize("k", [0, 3])
def test_ranking_more_than_there_are_is_an_error(k):
    with pytest.raises(ValueError, match="candidates"):
        ranking_distance([1.0, 2.0], [1.0, 2.0], k)
