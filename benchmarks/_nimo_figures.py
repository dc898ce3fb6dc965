"""NIMO's figures 4 to 8: error over time for each choice of Algorithm 1 (VLDB 2006, section 4).

Simulated: an application like BLAST on the paper's 150 assignments, with the attributes that the
paper found to matter for each function (section 4.4).  Everything is the paper's own way
(:mod:`_paper_settings`) but the choice that a figure varies.  Errors are
those of 30 assignments that are never learned from.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _error_measures import mape
from _paper_settings import EXPERIMENT
from _plots import panels
from active_learning import SPACE, TESTED, WRONG_WAY
from msgspec.structs import replace
from numpy.typing import NDArray

from predictor.occupancy.active.learner import Learner
from predictor.occupancy.active.settings import (
    Error,
    LearnerSettings,
    OccupancyPart,
    Purpose,
    Reference,
    RefinementOrder,
    Selection,
    Traversal,
)
from predictor.occupancy.active.space import Assignment
from predictor.occupancy.application_model import Occupancies, Sample

GOAL, MOST_RUNS = 10.0, 40
#: Draws of noise, test set and whatever a choice draws; hours at which errors are drawn.
DRAWS, STEPS = 10, 120
BYTES = 5e8
#: Everything is run, so that each curve goes on to its end.
BASE = replace(EXPERIMENT, target=0.0)
#: "the static order is the nonoptimal f_d, f_a, f_n order" (section 4.3).
NONOPTIMAL = replace(
    BASE,
    order=RefinementOrder.DOMAIN,
    parts=(OccupancyPart.DISK, OccupancyPart.COMPUTE, OccupancyPart.NETWORK),
)
DYNAMIC = replace(BASE, traversal=Traversal.DYNAMIC)
FIGURES: Mapping[str, Mapping[str, LearnerSettings]] = {
    "4: reference": {
        "Min": BASE,
        "Rand": replace(BASE, reference=Reference.RAND),
        "Max": replace(BASE, reference=Reference.MAX),
    },
    "5: function to refine": {
        "static, round-robin": NONOPTIMAL,
        "static, improvement": replace(NONOPTIMAL, traversal=Traversal.IMPROVEMENT),
        "dynamic": DYNAMIC,
    },
    "6: order of attributes": {
        "relevance (PBDF)": BASE,
        "static": replace(BASE, attribute_order=RefinementOrder.DOMAIN, attributes=WRONG_WAY),
    },
    "7: assignments": {"Lmax-I1": BASE, "L2-I2": replace(BASE, selection=Selection.L2_I2)},
    "8: error (dynamic)": {
        "cross-validation": DYNAMIC,
        "random test set": replace(DYNAMIC, error=Error.RANDOM_TEST, test_runs=10),
        "PBDF test set": replace(DYNAMIC, error=Error.PBDF_TEST),
    },
}
#: What the paper says of each figure, in its own words or close to them.
PUBLISHED = {
    "4: reference": "Max starts first and converges soonest; Min and Rand end lower",
    "5: function to refine": "round-robin beats improvement; dynamic converges last",
    "6: order of attributes": "relevance learns quickly; the static order slowly, not smoothly",
    "7: assignments": "Lmax-I1 converges quickly; L2-I2 fails to converge",
    "8: error (dynamic)": "cross-validation starts earlier, not smooth, slow; test sets robust",
}
Application = Callable[[Assignment], Sample]
Floats = NDArray[np.float64]


def blast_like(seed: int) -> Application:
    """Make an application: o_a of speed and memory, o_n of latency and memory, o_d of latency.

    Its database of 256 MB is read again where it does not fit in memory; more memory is no use.
    """
    noise = np.random.default_rng([seed, 46])

    def run(given: Assignment) -> Sample:
        again = max(0.0, 256 / given["memory_mb"] - 1)
        compute = 3.0 * 930 / given["cpu_mhz"] + 0.3 * again
        network = given["latency_ms"] * (0.2 + 0.05 * again)
        disk = 0.3 + 0.02 * given["latency_ms"]
        parts = np.array([compute, network, disk]) * noise.lognormal(0, 0.02, 3) * 1e-6
        return Sample(dict(given), Occupancies(parts[0], parts[1], parts[2], BYTES))

    return run


def followed(settings: LearnerSettings, seed: int) -> list[tuple[float, float]]:
    """Hours of runs so far, and the error on the external test set, after each run."""
    run = blast_like(seed)
    order = np.random.default_rng([seed, 3]).permutation(len(SPACE.candidates))
    tests = [run(SPACE.candidates[i]) for i in order[:TESTED]]
    actual = [one.measured.time_s for one in tests]
    learner, spent_s, curve = Learner(SPACE, settings), 0.0, []
    for _ in range(MOST_RUNS):
        if (proposal := learner.propose()) is None:
            break
        sample = run(proposal.attributes)
        spent_s += sample.measured.time_s
        learner.observe(sample)
        following = learner.propose()
        # A fixed test set is "an upfront investment of time": learning starts when all of it ran.
        if following is None or following.purpose is not Purpose.TEST:
            predicted = [learner.fit.predict(one.attributes).time_s for one in tests]
            curve.append((spent_s / 3600, mape(predicted, actual)))
    return curve


def figures(directory: Path, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Draw the figures; give the tables."""
    seeds = range(2 if quick else DRAWS)
    rows = []
    with panels(directory / "nimo-4-8.png", len(FIGURES), _TITLE) as axes:
        for axis, (figure, alternatives) in zip(axes, FIGURES.items(), strict=True):
            for name, settings in alternatives.items():
                curves = [followed(replace(settings, seed=1 + seed), seed) for seed in seeds]
                _band(axis, curves, name)
                rows.append({"figure": figure, "choice": name, **_summed(curves)})
            axis.set(title=figure, xlabel="hours", ylabel="MAPE %", yscale="log")
            axis.legend(fontsize=7)
    published = [{"figure": name, "the paper found": text} for name, text in PUBLISHED.items()]
    return {
        "NIMO, figures 4 to 8: simulated, an application like BLAST": rows,
        "NIMO, figures 4 to 8 as published": published,
    }


_TITLE = (
    "NIMO, figures 4 to 8: error over learning time "
    f"(simulated; geometric mean of {DRAWS} draws, with the middle eight tenths)"
)


def _band(axis: Any, curves: list[list[tuple[float, float]]], name: str) -> None:
    """Draw the mean over draws from when all have begun, and from where to where most are."""
    hours, errors = over_time(curves)
    line = axis.plot(hours, np.exp(np.log(errors).mean(axis=0)), "-", lw=1.3, label=name)[0]
    low, high = np.quantile(errors, (0.1, 0.9), axis=0)
    axis.fill_between(hours, low, high, color=line.get_color(), alpha=0.15, lw=0)


def over_time(curves: list[list[tuple[float, float]]]) -> tuple[Floats, Floats]:
    """Errors of all draws at the same hours: each keeps its error until its next run has ended.

    Returns hours: from the latest first error to the latest last one.
    Returns errors: a row for each draw.
    """
    hours = np.linspace(max(one[0][0] for one in curves), max(one[-1][0] for one in curves), STEPS)
    rows = []
    for one in curves:
        times, errors = np.array(one).T
        rows.append(errors[np.searchsorted(times, hours, side="right") - 1])
    return hours, np.array(rows)


def _summed(curves: list[list[tuple[float, float]]]) -> dict[str, Any]:
    reached = [result for one in curves if (result := _reached(one)) is not None]
    return {
        "starts h": float(np.mean([one[0][0] for one in curves])),
        "10 % for good": f"{len(reached)}/{len(curves)}",
        "then h": float(np.mean(reached)) if reached else None,
        "ends h": float(np.mean([one[-1][0] for one in curves])),
        "MAPE % then": float(np.mean([one[-1][1] for one in curves])),
        "rises": float(np.mean([_rises(one) for one in curves])),
    }


def _reached(curve: list[tuple[float, float]]) -> float | None:
    """Hours until the error is at most the goal and stays so."""
    result = None
    for hours, error in curve:
        result = (result or hours) if error <= GOAL else None
    return result


def _rises(curve: list[tuple[float, float]]) -> int:
    """How often the error rises by more than a tenth: what the paper calls not smooth."""
    return sum(b > 1.1 * a for (_, a), (_, b) in pairwise(curve))
