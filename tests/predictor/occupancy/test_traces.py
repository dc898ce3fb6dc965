"""Algorithms 1 to 6 of NIMO step by step: the runs of each row of table 1, worked out by hand.

The space has two attributes: ``cpu`` (1, 2, 4; more is better) and ``lat`` (1, 3, 9; less is
better).  The worst corner is (1, 9), the best (4, 1).  Binary search takes 1, 4, 2 of the first and
1, 9, 3 of the second: 2.5 is nearest to 2 and, of 1, 3, 9, 5 is nearest to 3.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from predictor.occupancy.active.learner import Learner
from predictor.occupancy.active.settings import (
    EXPERIMENT,
    Error,
    LearnerSettings,
    OccupancyPart,
    Purpose,
    Reference,
    RefinementOrder,
    Selection,
    Traversal,
)
from predictor.occupancy.active.space import Assignment, Space
from predictor.occupancy.samples import Occupancies, Sample

SPACE = Space.full({"cpu": (1.0, 2.0, 4.0), "lat": (1.0, 3.0, 9.0)}, {"cpu": True, "lat": False})
Run = tuple[float, float]
#: All as a domain expert says, and no end before all levels were run.
BY_DOMAIN = replace(
    EXPERIMENT,
    order=RefinementOrder.DOMAIN,
    attribute_order=RefinementOrder.DOMAIN,
    target=0.0,
    fewest=100,
)
#: Two functions with an attribute each.
APART = {
    OccupancyPart.COMPUTE: ("cpu", "lat"),
    OccupancyPart.NETWORK: ("lat", "cpu"),
    OccupancyPart.DISK: ("cpu", "lat"),
}


def plain(given: Assignment) -> Sample:
    """Make an application of equation 1: o_a = 8/cpu, o_n = lat, o_d = 1, of one byte."""
    return Sample(dict(given), Occupancies(8 / given["cpu"], given["lat"], 1.0, 1.0))


def crooked(given: Assignment) -> Sample:
    """Make one whose functions are not linear in the paper's transformations."""
    busy = {1.0: 8.0, 2.0: 6.0, 4.0: 1.0}[given["cpu"]]
    waits = {1.0: 1.0, 3.0: 5.0, 9.0: 6.0}[given["lat"]]
    return Sample(dict(given), Occupancies(busy, waits, 1.0, 1.0))


def trace(
    settings: LearnerSettings, app: Callable[[Assignment], Sample] = plain
) -> list[tuple[Purpose, Run]]:
    """Runs in order, with their purposes."""
    learner, runs = Learner(SPACE, settings), []
    while proposal := learner.propose():
        runs.append((proposal.purpose, (proposal.assignment["cpu"], proposal.assignment["lat"])))
        learner.observe(app(proposal.assignment))
    return runs


def training(settings: LearnerSettings, app: Callable[[Assignment], Sample] = plain) -> list[Run]:
    return [run for purpose, run in trace(settings, app) if purpose is Purpose.TRAINING]


def test_the_reference_is_min_max_or_drawn():
    first = {one: trace(replace(BY_DOMAIN, reference=one))[0] for one in Reference}
    assert first[Reference.MIN] == (Purpose.REFERENCE, (1.0, 9.0))
    assert first[Reference.MAX] == (Purpose.REFERENCE, (4.0, 1.0))
    drawn = {
        trace(replace(BY_DOMAIN, reference=Reference.RAND, seed=seed))[0][1] for seed in range(20)
    }
    assert len(drawn) > 4


def test_round_robin_takes_each_function_in_turn():
    """f_a: cpu 4 (1 is the reference), f_n: lat 1, f_d: cpu 2; then f_a goes on with lat 3."""
    settings = replace(BY_DOMAIN, attributes=APART)
    assert training(settings) == [(4.0, 9.0), (1.0, 1.0), (2.0, 9.0), (1.0, 3.0)]


def test_from_the_best_corner_the_levels_are_those_of_the_other_end():
    settings = replace(BY_DOMAIN, attributes=APART, reference=Reference.MAX)
    assert training(settings) == [(1.0, 1.0), (4.0, 9.0), (2.0, 1.0), (4.0, 3.0)]


def test_from_a_drawn_reference_the_levels_are_those_that_are_left():
    """From (2, 3), f_a: cpu 1, f_n: lat 1, f_d: cpu 4; cpu has no more, and f_a takes lat 9."""
    settings = replace(BY_DOMAIN, attributes=APART, reference=Reference.RAND, seed=1)
    assert trace(settings) == [
        (Purpose.REFERENCE, (2.0, 3.0)),
        (Purpose.TRAINING, (1.0, 3.0)),
        (Purpose.TRAINING, (2.0, 1.0)),
        (Purpose.TRAINING, (4.0, 3.0)),
        (Purpose.TRAINING, (2.0, 9.0)),
    ]


def test_what_is_in_a_random_test_set_is_no_level_to_learn_from():
    """(2, 1) and (2, 9) were drawn: f_d has no cpu left after f_a's 4, and takes lat 3."""
    settings = replace(BY_DOMAIN, attributes=APART, error=Error.RANDOM_TEST, test_runs=2, seed=0)
    assert trace(settings) == [
        (Purpose.REFERENCE, (1.0, 9.0)),
        (Purpose.TEST, (2.0, 1.0)),
        (Purpose.TEST, (2.0, 9.0)),
        (Purpose.TRAINING, (4.0, 9.0)),
        (Purpose.TRAINING, (1.0, 1.0)),
        (Purpose.TRAINING, (1.0, 3.0)),
    ]


def test_no_level_is_skipped_where_a_function_no_longer_improves():
    """Four levels: the attribute is changed once for each iteration that brought nothing.

    f_a is exact from its second level on, so lat is added, and then cpu taken up again.
    """
    space = Space.full(
        {"cpu": (1.0, 2.0, 3.0, 4.0, 5.0), "lat": (1.0, 2.0, 3.0, 4.0, 5.0)},
        {"cpu": True, "lat": False},
    )
    learner = Learner(space, replace(BY_DOMAIN, parts=(OccupancyPart.COMPUTE,)))
    runs = []
    while proposal := learner.propose():
        runs.append(tuple(proposal.assignment.values()))
        learner.observe(plain(proposal.assignment))
    assert runs == [
        (1.0, 5.0),  # the reference
        (5.0, 5.0),  # cpu: hi, as lo is the reference; no error before it
        (3.0, 5.0),  # cpu: the middle; with three runs the error falls to nothing
        (2.0, 5.0),  # cpu again, as that was worth it: it brings nothing
        (1.0, 1.0),  # lat: lo
        (4.0, 5.0),  # nothing again, and cpu has a level left
        (1.0, 3.0),  # lat: the middle, as hi is the reference
        (1.0, 2.0),
        (1.0, 4.0),
    ]


def test_improvement_based_goes_on_while_the_error_falls():
    """f_a keeps its turn as long as an iteration takes 2 points off its error."""
    settings = replace(BY_DOMAIN, attributes=APART, traversal=Traversal.IMPROVEMENT)
    # f_a: cpu 4 (no error yet), cpu 2 (exact: a large gain), then lat 1 (no gain); f_n: lat 3.
    assert training(settings) == [(4.0, 9.0), (2.0, 9.0), (1.0, 1.0), (1.0, 3.0)]


def test_dynamic_refines_the_worst_function_until_it_has_no_runs_left():
    """Algorithm 4; exhausted functions make way for the next worst, until all levels were run."""
    only = {
        OccupancyPart.COMPUTE: ("cpu",),
        OccupancyPart.NETWORK: ("lat",),
        OccupancyPart.DISK: ("cpu",),
    }
    settings = replace(BY_DOMAIN, attributes=only, traversal=Traversal.DYNAMIC)
    # f_a has the largest error while cpu varies; f_n follows once cpu has no levels left.
    assert training(settings, crooked) == [(4.0, 9.0), (2.0, 9.0), (1.0, 1.0), (1.0, 3.0)]
    other = replace(settings, parts=(OccupancyPart.NETWORK, OccupancyPart.COMPUTE))
    assert training(other, crooked) == [(1.0, 1.0), (1.0, 3.0), (4.0, 9.0), (2.0, 9.0)]


def test_relevance_screens_by_a_design_first():
    """The four corners, the reference among them; o_n spans 8 of 8 s and o_a 6 of 8 s."""
    settings = replace(EXPERIMENT, target=0.0, fewest=100)
    runs = trace(settings)
    screened = [run for purpose, run in runs if purpose is Purpose.SCREENING]
    assert sorted(screened) == [(1.0, 1.0), (4.0, 1.0), (4.0, 9.0)]
    # f_n first: lat 3 (1 and 9 were run); then f_a: cpu 2; f_d has nothing left.
    assert [run for purpose, run in runs if purpose is Purpose.TRAINING] == [(1.0, 3.0), (2.0, 9.0)]


def test_static_attributes_are_added_as_given():
    wrong_way = {
        OccupancyPart.COMPUTE: ("lat",),
        OccupancyPart.NETWORK: ("cpu",),
        OccupancyPart.DISK: ("cpu", "lat"),
    }
    settings = replace(BY_DOMAIN, attributes=wrong_way)
    assert training(settings) == [(1.0, 1.0), (4.0, 9.0), (2.0, 9.0), (1.0, 3.0)]


def test_l2_i2_runs_the_design_and_nothing_else():
    """Rows ++, -+, +-, -- and their opposites; -+ is the reference."""
    settings = replace(BY_DOMAIN, selection=Selection.L2_I2)
    assert training(settings) == [(4.0, 9.0), (4.0, 1.0), (1.0, 1.0)]


@pytest.mark.parametrize(("error", "tested"), [(Error.RANDOM_TEST, 3), (Error.PBDF_TEST, 3)])
def test_a_fixed_test_set_is_run_before_anything_is_learned(error, tested):
    settings = replace(BY_DOMAIN, error=error, test_runs=3, attributes=APART)
    runs = trace(settings)
    assert [purpose for purpose, _ in runs[: 1 + tested]] == [
        Purpose.REFERENCE,
        *[Purpose.TEST] * tested,
    ]
    tests = {run for purpose, run in runs if purpose is Purpose.TEST}
    if error is Error.PBDF_TEST:
        assert tests == {(1.0, 1.0), (4.0, 1.0), (4.0, 9.0)}
        assert [run for purpose, run in runs if purpose is Purpose.TRAINING] == [
            (2.0, 9.0),
            (1.0, 3.0),
        ]
    assert not tests & {run for purpose, run in runs if purpose is Purpose.TRAINING}


def test_the_error_of_a_function_is_leave_one_out_in_percent_of_its_own_occupancy():
    """Section 3.6, by hand: with (1, 9), (4, 9) and (2, 9), f_a = a + b/cpu through 8, 1, 6.

    Left out in turn: 1/cpu = 1, 1/4, 1/2 with 8, 1, 6.  From (1/4, 1) and (1/2, 6) follows 16 for
    the first: 100 %.  From the first and the third follows 5 for the second: 400 %.  From the
    first two follows 10/3 for the third: 44.4 %.
    """
    learner = Learner(SPACE, replace(BY_DOMAIN, parts=(OccupancyPart.COMPUTE,)))
    for _ in range(3):
        proposal = learner.propose()
        learner.observe(crooked(proposal.assignment))
    assert [tuple(one.attributes.values()) for one in learner.samples] == [
        (1.0, 9.0), (4.0, 9.0), (2.0, 9.0),
    ]  # fmt: skip
    assert learner.refinement.error_of(OccupancyPart.COMPUTE) == pytest.approx(
        (100 + 400 + 400 / 9) / 3
    )
    assert learner.refinement.error_of(OccupancyPart.NETWORK) == pytest.approx(0.0)


def test_the_data_flow_is_refined_like_the_occupancies():
    def grows(given: Assignment) -> Sample:
        return Sample(dict(given), Occupancies(1.0, 1.0, 1.0, 10.0 + 5 * given["lat"]))

    settings = replace(
        BY_DOMAIN, parts=(OccupancyPart.DATA,), attributes={OccupancyPart.DATA: ("lat", "cpu")}
    )
    learner = Learner(SPACE, settings)
    runs, why = [], ""
    while proposal := learner.propose():
        runs.append(tuple(proposal.assignment.values()))
        why = why or (proposal.why if proposal.purpose is Purpose.TRAINING else "")
        learner.observe(grows(proposal.assignment))
    assert runs == [(1.0, 9.0), (1.0, 1.0), (1.0, 3.0), (4.0, 9.0), (2.0, 9.0)]
    assert why == "refines the data flow over lat"
    assert learner.fit.data({"cpu": 2.0, "lat": 5.0}) == pytest.approx(35.0)


def test_paper_functions_are_linear_in_predetermined_transformations():
    """Algorithm 6: f_a = 8 (1/cpu) of the reference's 8, and f_n = lat, once levels were run."""
    learner = Learner(SPACE, replace(BY_DOMAIN, attributes=APART))
    while proposal := learner.propose():
        learner.observe(plain(proposal.assignment))
    fit = learner.fit
    assert [str(term) for term in fit.compute.terms] == ["1/cpu", "lat"]
    assert [str(term) for term in fit.network.terms] == ["lat", "1/cpu"]
    assert fit.bottleneck is None
    for cpu, lat in ((4.0, 1.0), (2.0, 3.0)):
        given = {"cpu": cpu, "lat": lat}
        assert fit.predict(given).time_s == pytest.approx(plain(given).measured.time_s)
