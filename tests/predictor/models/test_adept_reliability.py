"""Table 3, each problem on both sides."""

import numpy as np
import pytest

from predictor.models.adept import Adept
from predictor.types import Curve
from tests.predictor.example_curves import curve_of, downey, drawn


def problems(curve: Curve) -> dict[str, int | None]:
    return {problem.name: problem.observe for problem in Adept().fit(curve).problems}


@pytest.mark.parametrize("A", [30, 60, 100, 300])
def test_observations_in_the_linear_section_ask_for_one_at_least_at_a(A):
    fit = Adept().fit(drawn([4, 8, 12, 16], downey(A, 0.5)))
    result = {problem.name: problem.observe for problem in fit.problems}
    assert result["linear_section"] is not None
    assert result["linear_section"] >= A
    assert result["linear_section"] >= fit.instance(32).parallelism


def test_observations_over_all_sections_raise_no_doubt():
    assert problems(drawn([4, 16, 40, 90, 200], downey(50, 0.5))) == {}


def test_a_high_fitting_error_is_reported():
    curve = curve_of([1, 2, 4, 8, 16], [100, 80, 30, 26, 9])
    assert "high_fitting_error" in problems(curve)
    assert "high_fitting_error" not in problems(
        drawn([1, 2, 4, 8, 16], downey(10, 0.5), noise=0.02)
    )


def test_two_instances_that_explain_the_same_ask_for_a_run_that_tells_them_apart():
    # As in figure 9: the runs on 16 to 81 nodes leave the parallelism open.
    nodes = [16, 25, 36, 81]
    times = downey(320, 1.5)(np.array(nodes)) * np.array([1.01, 0.99, 1.01, 0.995])
    asked = problems(curve_of(nodes, times))["alternative_fit"]
    assert asked is not None
    assert 81 < asked <= 4 * 81


def test_the_run_that_was_asked_for_settles_it():
    true = downey(320, 0.6)
    before = problems(drawn([16, 25, 36, 81], true))
    (asked,) = (observe for observe in before.values() if observe)
    counts = sorted({16, 25, 36, 81, asked, 2 * asked, 4 * asked})
    assert problems(drawn(counts, true)) == {}
