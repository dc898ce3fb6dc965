"""How far a prediction is to be trusted, with every reason against it in words.

The verdict on one node count is what its uncertainty says: reliable where nine in ten medians of
such a fit lie within ``reliable_factor`` of the prediction, doubtful within ``doubtful_factor``,
refused beyond.  A named problem of the observations lowers it.

An interval for one new run is a factor, as all here is in log time.  The variance of one new run is
the sum of what is unknown about the curve and of the noise of single runs.  What is unknown about
the curve is measured by leaving observations out, each in turn: those inside show how well the
model interpolates, the two ends how fast it goes astray beyond the observed range.  Few
observations measure that badly, so each is combined with a prior (a scaled inverse chi-squared
distribution, Gelman et al., *Bayesian Data Analysis*, section 2.6), and the interval uses Student's
t with the degrees of freedom of the two together.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from predictor.checks import need_finite, need_nodes, need_positive, need_share
from predictor.problems import Problem, problem
from predictor.types import Curve, Point, Prediction, Verdict

Floats = NDArray[np.float64]


#: Log of the widest factor between median and end of an interval: beyond, numbers overflow.
WIDEST = 20.0
NINE_IN_TEN = 1.645  # two-sided 90 % of a normal distribution, in standard deviations
#: Problems of the observations that concern every prediction.
EVERYWHERE = frozenset({"noisy_repeats"})
#: Problems of the observations that concern only what lies beyond their range.
BEYOND = frozenset({"stepwise", "declining_or_anomaly"})
#: Problems of Downey's model (ADEPT, Table 3): they concern what it predicts, and no other model.
DOWNEY_EVERYWHERE = frozenset({"high_fitting_error"})
DOWNEY_BEYOND = frozenset({"linear_section", "alternative_fit"})


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before anything is left out; standard deviations of log time.

    ``inside`` is the error of interpolation, ``growth`` the error gained with each doubling of
    the distance from the observed range, ``noise`` that of one run around the median.  ``weight``
    is how many left-out observations the prior is worth, ``end_weight`` how many ends: the error
    at an end is the best guide to the errors beyond it.
    """

    inside: float = 0.06
    growth: float = 0.16
    noise: float = 0.03
    weight: float = 3.0
    end_weight: float = 1.0

    def __post_init__(self) -> None:
        need_positive("standard deviation of a prior", self.inside, self.growth, self.noise)
        need_positive("weight of a prior", self.weight, self.end_weight)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Standard deviations of log time around one fit, and how certain they are."""

    first: int  #: fewest nodes observed
    last: int  #: most nodes observed
    inside: float
    growth: float
    noise: float
    freedom: float  #: degrees of freedom
    clock_s: float = 0.0  #: standard deviation of a time by the clock's coarseness, in seconds
    runs: int = 1  #: runs that the curve is made of


def measure(curve: Curve, errors: Sequence[float], prior: Prior | None = None) -> Uncertainty:
    """Uncertainty of a model on ``curve``.

    errors: log error at each point of the curve when the model is learned from the others, as
        :func:`left_out` makes it; empty where that cannot be computed.
    """
    believed = prior or Prior()
    points = curve.points
    if not points or len(errors) not in (0, len(points)):
        raise ValueError(f"{len(errors)} errors for {len(points)} points: one for each is needed")
    need_finite("error", *errors)
    inner = errors[1:-1]
    ends = list[float]()
    if errors:  # at the two ends, for each doubling of the distance to the next point
        gaps = (points[1].nodes / points[0].nodes, points[-1].nodes / points[-2].nodes)
        ends = [errors[i] / max(math.log2(gap), 0.5) for i, gap in zip((0, -1), gaps, strict=True)]
    return Uncertainty(
        first=points[0].nodes,
        last=points[-1].nodes,
        inside=_pooled(believed.inside, believed.weight, inner),
        growth=_pooled(believed.growth, believed.end_weight, ends),
        noise=_noise(points, believed),
        freedom=believed.weight + len(inner),
        clock_s=_clock(curve),
        runs=sum(point.repeats for point in points),
    )


def deviations(curve: Curve) -> Floats:
    """Measure each point: standard deviation of its log time, by its repeats and the clock.

    That of a median of many runs is that of their mean times √(π/2).
    """
    noise = _noise(curve.points, Prior())
    clock_s = _clock(curve)
    rows = [
        math.hypot(
            noise * (math.sqrt(math.pi / 2) if point.repeats > 2 else 1.0), clock_s / point.time_s
        )
        / math.sqrt(point.repeats)
        for point in curve.points
    ]
    return np.array(rows)


def around(
    nodes: Sequence[int], medians: Floats, uncertainty: Uncertainty, level: float
) -> list[Prediction]:
    """Predictions with the interval for one new run at ``level``.

    Raises ValueError: ``nodes`` has none, or one that is no node count; ``level`` is not between 0
        and 1.
    """
    need_nodes(nodes)
    need_share("level", level)
    need_positive("median", *medians.tolist())
    clock = uncertainty.clock_s / medians
    curve_sd = np.hypot(curve_deviation(nodes, uncertainty), clock / math.sqrt(uncertainty.runs))
    noise = np.hypot(uncertainty.noise, clock)
    reach = float(stdtrit(uncertainty.freedom, 0.5 + level / 2)) * np.hypot(curve_sd, noise)
    reach = np.minimum(reach, WIDEST)
    low = medians * np.exp(-reach)
    high = medians * np.exp(reach)
    rows = zip(nodes, medians, low, high, curve_sd, strict=True)
    return [
        Prediction(int(n), float(t), float(a), float(b), level, float(s)) for n, t, a, b, s in rows
    ]


def curve_deviation(nodes: Sequence[int], uncertainty: Uncertainty) -> Floats:
    """Measure the median itself at ``nodes``: standard deviation of its log, the clock apart."""
    n = np.asarray(nodes, dtype=float)
    if not (n >= 1).all():
        raise ValueError(f"{nodes}: node counts are numbers of 1 or more")
    beyond = np.log2(np.maximum(np.maximum(n / uncertainty.last, uncertainty.first / n), 1.0))
    return np.hypot(uncertainty.inside, uncertainty.growth * beyond)


def _pooled(sd: float, weight: float, errors: Sequence[float]) -> float:
    total = weight * sd**2 + sum(error**2 for error in errors)
    return math.sqrt(total / (weight + len(errors)))


def _clock(curve: Curve) -> float:
    """Give the deviation of a time by its clock, in seconds.

    The difference of two readings cut to a whole unit is triangular, ±1 unit.
    """
    return curve.resolution_s / math.sqrt(6)


def _noise(points: Sequence[Point], prior: Prior) -> float:
    """Pooled spread of repeats, with the prior worth ``prior.weight`` repeats."""
    freedom = prior.weight + sum(point.repeats - 1 for point in points)
    total = sum((point.repeats - 1) * point.spread**2 for point in points)
    return math.sqrt((prior.weight * prior.noise**2 + total) / freedom)


def _multiple(of: int) -> Callable[[int], bool]:
    return lambda n: n % of == 0


#: The rarest first, so that powers of two are not called even numbers.
FAMILIES: dict[str, Callable[[int], bool]] = {
    "powers of two": lambda n: n & (n - 1) == 0,
    "squares": lambda n: isqrt(n) ** 2 == n,
    **{f"multiples of {m}": _multiple(m) for m in (16, 12, 10, 8, 6, 5, 4, 3)},
    "even numbers": _multiple(2),
}


def belongs(family: str, nodes: int) -> bool:
    """Whether ``nodes`` is of ``family``; every count is of the family without a name."""
    if not family:
        return True
    need_nodes((nodes,))
    return FAMILIES[family](nodes)


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
    named = {reason.name for reason in problems}
    survived = {p.nodes: p.time_s for p in curve.censored}

    def doubted(p: Prediction) -> bool:
        # A run that was still going by then has hung, or the prediction is wrong.
        if survived.get(p.nodes, 0.0) > p.high_s:
            return True
        inside = curve.points[0].nodes <= p.nodes <= curve.points[-1].nodes
        return bool(named & (EVERYWHERE if inside else EVERYWHERE | BEYOND))

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
    only = 0 if within else nodes[0]
    return problem("wide_interval", observe, only, where=" and ".join(where + beyond), off=off)


def _off(prediction: Prediction) -> float:
    """Factor between prediction and median that nine in ten stay below."""
    return math.exp(NINE_IN_TEN * prediction.curve_sd)
