"""The model of two sizes: nodes, and tasks or GPUs on each of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.models.averaged.model import residuals
from predictor.models.base import TooFewPoints
from predictor.models.downey import (
    VarianceMode,
    max_useful,
    parallelism_of,
    serial_time_of,
    sigma_of,
    speedup,
    terms,
)
from predictor.models.two_sizes import TwoSizes, translation_of
from predictor.types import Curve, Point
from sacct_ingest.runs.layout import Each, Layout, Unit, second_sizes
from tests.predictor.example_curves import sized
from tests.predictor.tables.test_parts import made, row

pytestmark = pytest.mark.kernels


def of_nodes(nodes, each):
    """Nodes scale as they do, whatever they hold."""
    return (600 / nodes + 20) * each**-0.7


def of_all(nodes, each):
    """All tasks count, and sharing a node costs."""
    return (2400 / (nodes * each) + 30) * each**0.2


def curves(law, counts):
    return [
        Curve(tuple(Point(n, law(n, each)) for n in nodes), each=each)
        for each, nodes in counts.items()
    ]


RAN = {2: (1, 2, 4, 8, 16), 4: (1, 4), 8: (2, 8)}


@pytest.mark.parametrize(("law", "all_count"), [(of_nodes, False), (of_all, True)])
@pytest.mark.parametrize("each", [2, 4, 8])
def test_counts_that_were_not_run_with_as_many_are_predicted(law, all_count, each):
    curve = sized(curves(law, RAN), each)
    assert translation_of(curve).all_count is all_count
    for one in TwoSizes().fit(curve).predict([1, 2, 4, 8]):
        assert one.time_s == pytest.approx(law(one.nodes, each), rel=0.12)
        assert one.low_s <= law(one.nodes, each) <= one.high_s or one.time_s == pytest.approx(
            law(one.nodes, each), rel=0.03
        )


def test_a_second_size_that_was_not_run_is_between_those_that_were():
    every = curves(of_nodes, RAN)
    three, two, four = (TwoSizes().fit(sized(every, k)).predict([4])[0] for k in (3, 2, 4))
    assert four.time_s < three.time_s < two.time_s
    assert three.high_s / three.low_s > two.high_s / two.low_s


def test_own_runs_go_before_those_of_others():
    own, other = Curve((Point(1, 50.0), Point(2, 30.0)), each=4), Curve((Point(1, 999.0),), each=2)
    merged = TwoSizes().fit(sized([own, other], 4)).fit.predict([1, 2])
    assert [one.time_s for one in merged] == pytest.approx([50.0, 30.0], rel=0.02)


def test_without_others_it_is_the_model_of_one_size():
    curve = Curve(tuple(Point(n, of_nodes(n, 1)) for n in (1, 2, 4)))
    fit = TwoSizes().fit(curve)
    assert fit.predict([1, 3, 8]) == fit.fit.predict([1, 3, 8])


def test_the_order_of_second_sizes_does_not_matter():
    every = curves(of_nodes, RAN)
    one, other = (TwoSizes().fit(sized(given, 4)) for given in (every, every[::-1]))
    assert [p.time_s for p in one.predict([1, 8])] == pytest.approx(
        [p.time_s for p in other.predict([1, 8])]
    )


def test_nothing_to_translate_is_an_error():
    with pytest.raises(TooFewPoints):
        TwoSizes().fit(sized([Curve((Point(1, 5.0),), each=2)], 4))
    with pytest.raises(ValueError, match="each given once"):
        Curve((), each=2, others=(Curve((), each=2),))


@pytest.mark.parametrize(
    ("layouts", "sizes"),
    [
        ([Layout(4, 4), Layout(8, 8)], [4, 8]),
        ([Layout(4, 16, gpus=1), Layout(4, 16, gpus=4)], [1, 4]),
        ([Layout(0, 4), Layout(0, 8)], [4, 8]),
        ([Layout(4, 4), Layout(4, 8), Layout(8, 8)], []),
        ([Layout(4, 4), Layout(8, 8, in_all=True)], []),
        ([Layout(4, gpus=1, gpu_type="a"), Layout(4, gpus=2, gpu_type="b")], []),
        ([Layout(2, each=Each.JOB), Layout(4, each=Each.JOB)], [2, 4]),
        ([Layout(cpus=8, each=Each.GPU, nodes=n) for n in (1, 2)], [1, 2]),
        ([Layout(2, each=Each.JOB), Layout(2, each=Each.TASK)], []),
        ([Layout(gpus=0, each=Each.ANY), Layout(gpus=2, each=Each.ANY)], []),
        ([Layout(4, 4)], []),
    ],
)
def test_what_tells_layouts_apart(layouts, sizes):
    assert list(second_sizes(layouts).values()) == sizes


def test_half_filled_nodes_with_two_counts_get_the_curve_of_filled_ones():
    rows = [
        replace(row(10 * i + each, n, of_nodes(n, each)), tasks=each * n, cpus=4 * n)
        for each, counts in ((4, (1, 2, 4, 8, 1, 2, 4, 8)), (2, (1, 8, 1, 8)))
        for i, n in enumerate(counts)
    ]
    _, *parts = made(rows)
    half = next(part for part in parts if part.layout.tasks == 2)
    assert half.model == "two_sizes"
    assert [point.nodes for point in half.observed] == [1, 8]
    at_four = dict(zip(half.nodes, half.median_s, strict=True))[4]
    assert at_four == pytest.approx(of_nodes(4, 2), rel=0.1)
    assert "two_sizes" in {problem.name for problem in half.problems}
    full = next(part for part in parts if part.layout.tasks == 4)
    assert full.model == "averaged"


def of_devices(devices, nodes):
    """GPUs that share a node work together faster than those of several nodes."""
    return (900 / devices + 15) * nodes**0.8


def on_gpus(counts):
    """Runs on so many GPUs of so many nodes, four CPUs for each GPU."""
    return [
        replace(
            row(100 * nodes + i, nodes, of_devices(n, nodes)), gpus=n, tasks=n, cpus=4 * n, line="l"
        )
        for nodes, each in counts.items()
        for i, n in enumerate(each)
    ]


def test_gpus_on_two_nodes_with_two_counts_get_the_curve_of_those_on_one():
    rows = on_gpus({1: (1, 2, 4, 8) * 2, 2: (2, 8, 2, 8)})
    _, *parts = made(rows)
    assert {part.unit for part in parts} == {Unit.GPUS}
    two = next(part for part in parts if part.layout.nodes == 2)
    assert two.model == "two_sizes"
    assert [point.nodes for point in two.observed] == [2, 8]
    at_four = dict(zip(two.nodes, two.median_s, strict=True))[4]
    assert at_four == pytest.approx(of_devices(4, 2), rel=0.1)
    (said,) = [one.text for one in two.problems if one.name == "two_sizes"]
    assert said.startswith("only 2 GPU counts were run with this layout; the rest is predicted")


def test_threads_of_twice_as_many_tasks_get_the_curve_of_the_others():
    def law(cpus, tasks):
        return (1200 / cpus + 25) * tasks**-0.2

    rows = [
        replace(row(100 * tasks + i, 1, law(cpus, tasks)), tasks=tasks, cpus=cpus)
        for tasks, sizes in ((2, (2, 4, 8, 16) * 2), (4, (4, 16) * 2))
        for i, cpus in enumerate(sizes)
    ]
    _, *parts = made(rows)
    four = next(part for part in parts if part.layout.tasks == 4)
    assert (four.unit, four.model) == (Unit.CPUS, "two_sizes")
    at_eight = dict(zip(four.nodes, four.median_s, strict=True))[8]
    assert at_eight == pytest.approx(law(8, 4), rel=0.1)


@pytest.mark.parametrize("each", [1, 2, 4])
def test_a_size_of_the_whole_job_is_not_multiplied_by_its_layout(each):
    ran = {1: (1, 2, 4, 8, 16), 2: (2, 16), 4: (4, 16)}
    curve = replace(sized(curves(of_devices, ran), each), in_all=True)
    found = translation_of(curve)
    assert (found.all_count, found.slope) == (False, pytest.approx(0.8, abs=0.05))
    for one in TwoSizes().fit(curve).predict([4, 8]):
        assert one.time_s == pytest.approx(of_devices(one.nodes, each), rel=0.12)


PLACES = np.log([1.0, 2.0, 4.0])
VALUES = np.array([[0.3, 0.1, 0.2], [1.0, 1.0, 1.0]])


def process(tau, sd):
    return residuals(
        PLACES, np.full((1, 3), sd**2), tau=np.array([tau]), noise=np.array([sd]), reach=2.0
    )


TAU, NOISE, REACH = np.array([0.1, 0.5]), np.array([0.02, 0.3]), 1.3
VARIANCES = np.array([[0.0004, 0.0002, 0.001], [0.09, 0.03, 0.2]])


def bordered(tau, variances):
    """Covariance of the observations with a row of ones: the flat prior of the scale."""
    made = np.ones((4, 4))
    made[:3, :3] = tau**2 * np.exp(-np.abs(PLACES[:, None] - PLACES) / REACH) + np.diag(variances)
    made[3, 3] = 0.0
    return made


def test_processes_weigh_by_the_restricted_likelihood():
    part = residuals(PLACES, VARIANCES, tau=TAU, noise=NOISE, reach=REACH)
    likely = []
    for tau, variances in zip(TAU, VARIANCES, strict=True):
        border = bordered(tau, variances)
        inner = np.linalg.inv(border)[:3, :3]
        volume = np.log(-np.linalg.det(border))
        likely.append([-0.5 * (row @ inner @ row + volume) for row in VALUES])
    assert np.allclose(part.evidence(VALUES), likely)


def test_expectation_and_covariance_are_those_of_kriging():
    part = residuals(PLACES, VARIANCES, tau=TAU, noise=NOISE, reach=REACH)
    one, other = np.log([0.5, 3.0, 4.0]), np.log([20.0, 0.25])
    together = part.covariance(one[:, None], other[None, :])
    gains = part.gain(one)
    for i, (tau, variances) in enumerate(zip(TAU, VARIANCES, strict=True)):
        inverse = np.linalg.inv(bordered(tau, variances))
        first, second = (
            np.vstack([tau**2 * np.exp(-np.abs(PLACES[:, None] - at) / REACH), np.ones(len(at))])
            for at in (one, other)
        )
        before = tau**2 * np.exp(-np.abs(one[:, None] - other) / REACH)
        assert np.allclose(together[i], before - first.T @ inverse @ second)
        assert np.allclose(gains[i], (first.T @ inverse)[:, :3])


@pytest.mark.parametrize("variances", [VARIANCES[:1], VARIANCES[:, :2], VARIANCES[0]])
def test_each_process_has_a_row_of_variances(variances):
    with pytest.raises(ValueError, match="a row for each process"):
        residuals(PLACES, variances, tau=TAU, noise=NOISE, reach=REACH)


def test_processes_are_hashed_and_compared_as_objects():
    """Arrays have no one answer to whether they are equal."""
    assert len({process(0.1, 0.01), process(0.1, 0.01)}) == 2


PARALLELISM, SIGMA = st.floats(1, 2000), st.floats(0, 20)


def test_without_variance_speedup_is_linear_up_to_the_parallelism():
    assert speedup([1, 4, 16, 64], 16, 0).tolist() == [1, 4, 16, 16]


@pytest.mark.parametrize(
    ("n", "A", "sigma", "expected"),
    [
        # Table 1, one value for each piece, computed by hand.
        (10, 20, 0.5, 20 * 10 / (20 + 0.25 * 9)),
        (30, 20, 0.5, 20 * 30 / (0.5 * 19.5 + 30 * 0.75)),
        (40, 20, 0.5, 20),
        (10, 20, 2, 10 * 20 * 3 / (2 * 29 + 20)),
        (60, 20, 2, 20),
    ],
)
def test_table_1(n, A, sigma, expected):
    assert speedup([n], A, sigma)[0] == pytest.approx(expected)


@given(PARALLELISM, SIGMA)
def test_speedup_starts_at_one_rises_and_ends_at_the_parallelism(A, sigma):
    n = np.unique(np.geomspace(1, 3 * max_useful(A, sigma) + 2, 200))
    s = speedup(n, A, sigma)
    assert s[0] == pytest.approx(1)
    assert (np.diff(s) >= -1e-9 * A).all()
    assert (s <= n * (1 + 1e-9)).all()
    assert s[-1] == pytest.approx(A)


@given(PARALLELISM)
def test_the_modes_agree_where_they_meet(A):
    n = np.geomspace(1, 4 * A, 50)
    assert np.allclose(speedup(n, A, 1.0), speedup(n, A, 1.0 + 1e-12))


@given(PARALLELISM, SIGMA)
def test_run_time_is_linear_in_two_amplitudes(A, sigma):
    mode = VarianceMode.HIGH if sigma > 1 else VarianceMode.LOW
    end = np.array(A + A * sigma - sigma if sigma > 1 else A)
    x = np.array(sigma if sigma > 1 else sigma / 2)
    amplitude = np.array(7.0)
    n = np.geomspace(1, 3 * end + 1, 100)
    p, q = terms(mode, n, end)
    serial = serial_time_of(mode, end, x, amplitude)
    assert np.allclose(amplitude * (p + x * q), serial / speedup(n, A, sigma))
    assert parallelism_of(mode, end, x) == pytest.approx(A)
    assert sigma_of(mode, x) == pytest.approx(sigma)
