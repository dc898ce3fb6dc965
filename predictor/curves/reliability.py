"""How far a prediction is to be trusted, with every reason against it in words.

The verdict on one node count is what its uncertainty says: reliable where nine in ten medians of
such a fit lie within ``reliable_factor`` of the prediction, doubtful within ``doubtful_factor``,
refused beyond.  A named problem of the observations lowers it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

from predictor.checks import need_finite, need_nodes, need_positive
from predictor.types import Curve, Point, Prediction, Problem, Verdict, problem


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def _square(n: int) -> bool:
    return isqrt(n) ** 2 == n


def _multiple(of: int) -> Callable[[int], bool]:
    return lambda n: n % of == 0


#: The rarest first, so that powers of two are not called even numbers.
FAMILIES: dict[str, Callable[[int], bool]] = {
    "powers of two": _power_of_two,
    "squares": _square,
    **{f"multiples of {m}": _multiple(m) for m in (16, 12, 10, 8, 6, 5, 4, 3)},
    "even numbers": _multiple(2),
}


def belongs(family: str, nodes: int) -> bool:
    """Whether ``nodes`` is of ``family``; every count is of the family without a name."""
    if not family:
        return True
    need_nodes((nodes,))
    return FAMILIES[family](nodes)


NINE_IN_TEN = 1.645  # two-sided 90 % of a normal distribution, in standard deviations

#: Problems of the observations that concern every prediction.
EVERYWHERE = frozenset({"noisy_repeats"})
#: Problems of the observations that concern only what lies beyond their range.
BEYOND = frozenset({"stepwise", "declining_or_anomaly"})
#: Problems of Downey's model (ADEPT, Table 3): they concern what it predicts, and no other model.
DOWNEY_EVERYWHERE = frozenset({"high_fitting_error"})
DOWNEY_BEYOND = frozenset({"linear_section", "alternative_fit"})


@dataclass(frozen=True, slots=True)
class ReliabilitySettings:
    """Factors between prediction and median that still count as reliable, or as doubtful.

    ``noise`` is the spread of log time among repeats above which one median says little.
    """

    reliable_factor: float = 1.2
    doubtful_factor: float = 2.0
    noise: float = 0.25

    def __post_init__(self) -> None:
        need_finite("reliable factor", self.reliable_factor, least=1)
        need_finite("doubtful factor", self.doubtful_factor, least=self.reliable_factor)
        need_positive("noise", self.noise)


def curve_problems(curve: Curve, settings: ReliabilitySettings) -> tuple[Problem, ...]:
    """Problems that the observations themselves show, whatever the model."""
    noisy = [
        p
        for p in curve.points
        # Short runs differ by the clock alone.
        if p.spread > math.hypot(settings.noise, curve.resolution_s / p.time_s)
    ]
    if not noisy:
        return ()
    worst = max(noisy, key=lambda p: p.spread)
    return (problem("noisy_repeats", nodes=worst.nodes, spread=math.expm1(worst.spread)),)


def verdicts(
    curve: Curve,
    predictions: Sequence[Prediction],
    problems: Sequence[Problem],
    settings: ReliabilitySettings,
    *,
    special: str = "",
) -> tuple[Verdict, ...]:
    """Judge each prediction.

    special: family of node counts that the application is made for
        (:mod:`predictor.curves.reliability`); predictions for others are refused.
    """
    named = {problem.name for problem in problems}
    survived = {p.nodes: p.time_s for p in curve.censored}

    def doubted(p: Prediction) -> bool:
        # A run that was still going by then has hung, or the prediction is wrong.
        contradicted = survived.get(p.nodes, 0.0) > p.high_s
        return contradicted or bool(named & _doubts(curve.points, p.nodes))

    return tuple(
        verdict_on(p, settings, doubted=doubted(p))
        if belongs(special, p.nodes)
        else Verdict.REFUSED
        for p in predictions
    )


def verdict_on(
    prediction: Prediction, settings: ReliabilitySettings, *, doubted: bool = False
) -> Verdict:
    """Judge one prediction by its uncertainty; with something against it it is doubtful at best."""
    if _off(prediction) > settings.doubtful_factor:
        return Verdict.REFUSED
    if doubted or not is_sure(prediction, settings):
        return Verdict.DOUBTFUL
    return Verdict.RELIABLE


def downey_doubts(points: Sequence[Point], nodes: int) -> frozenset[str]:
    """Names of the problems with which ADEPT calls its own prediction on ``nodes`` unreliable."""
    inside = points[0].nodes <= nodes <= points[-1].nodes
    return DOWNEY_EVERYWHERE if inside else DOWNEY_EVERYWHERE | DOWNEY_BEYOND


def is_sure(prediction: Prediction, settings: ReliabilitySettings) -> bool:
    """Whether the uncertainty of the median alone permits to call a prediction reliable."""
    return _off(prediction) <= settings.reliable_factor


def wide_interval(
    nodes: Sequence[int], last: int, observe: int, settings: ReliabilitySettings
) -> Problem:
    """Report node counts on which the median is too uncertain.

    nodes: these counts, in rising order.
    last: the largest one observed.
    observe: where another run would reduce the uncertainty most.
    """
    within = [n for n in nodes if n <= last]
    beyond = [f"from {n} nodes on" for n in nodes if n > last][:1]
    ends = " to ".join(map(str, dict.fromkeys((within[0], within[-1])))) if within else ""
    where = [f"on {ends} node{'s' * (ends != '1')}"] if within else []
    off = 100 * settings.reliable_factor - 100
    return problem("wide_interval", observe, where=" and ".join(where + beyond), off=off)


def _doubts(points: Sequence[Point], nodes: int) -> frozenset[str]:
    """Names of the problems that make a prediction doubtful."""
    inside = points[0].nodes <= nodes <= points[-1].nodes
    return EVERYWHERE if inside else EVERYWHERE | BEYOND


def _off(prediction: Prediction) -> float:
    """Factor between prediction and median that nine in ten stay below."""
    return math.exp(NINE_IN_TEN * prediction.curve_sd)
