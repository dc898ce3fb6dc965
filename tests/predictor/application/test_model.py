"""What runs say of a change of count, held against problems whose truth is known."""

import math

import numpy as np
import pytest

from predictor.application.model import OCTAVES, PATHS, Application
from predictor.sample import Sample

pytestmark = pytest.mark.kernels

COUNTS = (1, 2, 4, 8)


def at(runs, nodes, asked, *, same=0.5):
    """T(nodes)/T(asked), sorted: that of each path."""
    made = Application(runs, same=same).paths()
    return np.array(
        sorted(
            math.exp(
                np.interp(math.log2(nodes / base), made.doublings, path)
                - np.interp(math.log2(asked / base), made.doublings, path)
            )
            for path, base in zip(made.logs, (one or asked for one in made.reference), strict=True)
        )
    )


def asked_for(n, time_s, *, size=0.0, study=""):
    """Run on the count that was asked for."""
    return Sample(n, time_s, asked=n, asked_range=(n, n), problem=study, memory_bytes=size)


def tried(n, time_s):
    """Run of a job for 1 to 8 nodes that asked for 8."""
    return Sample(n, time_s, asked=8, asked_range=(1, 8))


def repeated(times, repeats=10):
    return [
        asked_for(n, time_s * (1 + 0.01 * (i % 3)))
        for i in range(repeats)
        for n, time_s in times.items()
    ]


def test_before_any_run_fewer_nodes_take_longer_by_what_published_curves_say():
    made = Application([]).paths()
    assert made.logs.shape == (PATHS, 2 * OCTAVES + 1)
    half = at([], 4, 8)
    assert 1.4 < np.median(half) < 2
    assert half[1] < 1.1
    assert half[-2] > 2


def test_times_that_are_alike_on_all_counts_fit_two_hypotheses_and_both_are_in_the_answer():
    runs = repeated(dict.fromkeys(COUNTS, 600.0))
    assert 0.1 < Application(runs, same=0.7).same < 0.9
    low, high = np.quantile(at(runs, 1, 8, same=0.7), (0.1, 0.9))
    assert low < 1.1
    assert high > 4


def test_where_arguments_show_one_problem_alike_times_mean_that_nodes_do_not_help():
    runs = repeated(dict.fromkeys(COUNTS, 600.0))
    assert Application(runs, same=0.95).same > 0.7
    assert np.median(at(runs, 1, 8, same=0.95)) == pytest.approx(1.0, abs=0.05)


def test_problems_whose_memory_grew_with_their_nodes_grew():
    runs = [asked_for(n, 600.0, size=n * 1e9) for n in COUNTS for _ in range(10)]
    assert Application(runs, same=0.2).same < 0.2
    assert np.median(at(runs, 1, 8, same=0.2)) > 4


def test_one_problem_on_several_counts_says_it():
    runs = repeated({n: 100 + 3600 / n for n in COUNTS})
    truth = (100 + 3600) / (100 + 3600 / 8)
    assert np.median(at(runs, 1, 8)) == pytest.approx(truth, rel=0.05)
    assert np.allclose(np.quantile(at(runs, 1, 8), (0.1, 0.9)), truth, rtol=0.25)


@pytest.mark.parametrize("truth", [1.0, 2.0, 1.4])
def test_tries_of_one_range_say_it_at_once(truth):
    runs = [tried(n, 600.0 * truth ** math.log2(8 / n)) for n in (8, 4, 2)]
    quarter = at(runs, 2, 8)
    assert np.median(quarter) == pytest.approx(truth**2, rel=0.25)
    assert np.quantile(quarter, 0.9) / np.quantile(quarter, 0.1) < 2.2


def test_ratios_that_left_their_shape_make_the_next_ones_less_sure() -> None:
    """On counts that were run their own times speak; between them and beyond is the surprise."""

    def width(factors: tuple[float, ...]) -> float:
        times = {n: 4800.0 / n * factor for n, factor in zip(COUNTS, factors, strict=True)}
        between = at([tried(n, times[n]) for n in COUNTS], 6, 8)
        return math.log(between[-3] / between[2])

    assert width((1.0, 1.6, 0.7, 1.5)) > 2 * width((1.0, 1.0, 1.0, 1.0))


def test_a_study_says_it_beside_problems_as_large_as_their_nodes_whatever_its_memory():
    study = [
        asked_for(n, 600.0 * 0.97 ** math.log2(n), size=n * 1e9, study="study") for n in COUNTS
    ]
    others = [asked_for(n, 600.0, size=n * 1e9) for n in COUNTS for _ in range(10)]
    half = at([*others, *study], 4, 8, same=0.2)
    assert np.allclose(np.quantile(half, (0.1, 0.5, 0.9)), 1 / 0.97, rtol=0.12)
    unmarked = [asked_for(one.nodes, one.elapsed_s, size=one.memory_bytes) for one in study]
    assert np.median(at([*others, *unmarked], 4, 8, same=0.2)) > 1.4


def test_problems_of_one_measured_size_asked_on_two_counts_say_it():
    runs = [
        asked_for(n, 600.0 * size / n, size=size * 1e9)
        for size in (1.0, 2.0, 4.0, 8.0)
        for n in (round(size), round(2 * size))
        for _ in range(5)
    ]
    assert np.allclose(np.quantile(at(runs, 2, 4), (0.1, 0.5, 0.9)), 2.0, rtol=0.15)


def test_the_order_of_runs_does_not_matter():
    runs = repeated({n: 100 + 3600 / n for n in COUNTS})
    assert np.array_equal(Application(runs).paths().logs, Application(runs[::-1]).paths().logs)


def test_signs_of_eigenvectors_which_processors_choose_do_not_matter(monkeypatch) -> None:
    runs = [tried(n, 4800.0 / n) for n in (8, 4, 2)]
    eigh, made = np.linalg.eigh, Application(runs).paths()

    def turned(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(matrix)
        return values, -vectors

    monkeypatch.setattr(np.linalg, "eigh", turned)
    assert np.allclose(Application(runs).paths().logs, made.logs)
