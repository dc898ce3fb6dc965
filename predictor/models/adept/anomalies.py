"""Observations and patterns that Downey's model cannot explain (ADEPT, section VIII).

All is read from the fluctuation metric R, which needs no T(1).  In order: applications that run
well only on special node counts, a declining end, single anomalous observations, and steps.

On evenly spaced observations of Downey's model R never rises, nor does its log for each doubling
on any others.  Where it rises by more than ε, an observation is anomalous or run time takes a step.
An explanation is a set of both.  It is accepted where it "greatly decreases the fluctuation of the
R curve"; of several the one with the fewest parts is taken, of those the one with the fewest steps,
then the one that leaves what an instance of the model fits best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import expm1, hypot, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable
from predictor.curves.reliability import FAMILIES, Prior, belongs
from predictor.models.adept.envelope import Bounds, everything, need_observations
from predictor.models.adept.search import best_for
from predictor.models.downey import VarianceMode
from predictor.problems import Problem, problem

Floats = NDArray[np.float64]
Segment = tuple[int, ...]

#: Fewest observations to look for each pattern with (section VIII.B and C).
MIN_INDIVIDUAL, MIN_STEP = 4, 5
#: Parts of one explanation at most, and explanations of each size that are pursued.
MOST_PARTS, PURSUED = 3, 6
#: Where a misfit is looked for, and with how many ends of the first section.  Ends beyond the
#: observations add next to nothing: all are on one section then.
TRIED, TRIED_ENDS = Bounds(parallelism=2.0), 96
#: Fewest observations to look for node counts that an application is made for (section VIII.C).
MIN_SPECIAL = 9
#: Fewest observations to look for a declining end with.
MIN_DECLINING = 4
#: Fewest observations to correct an anomaly with: of four, the other three explain anything.
MIN_CORRECTED = 5
#: Fewest observations that must be left to fit.
MIN_FIT = 3


@dataclass(frozen=True, slots=True)
class AnomalySettings:
    """ε, φ and θ of section VIII.

    ``epsilon`` is the rise of R that is ignored, ``phi`` the deviation at which an observation
    counts no longer, ``theta`` (1 to ``phi``) how much anomalous observations may still count.
    ``relief`` is the share of the fluctuation (root of the sum of squared rises) that an
    explanation may leave: the fluctuation is then "greatly decreased".  ``sure`` is how many
    standard deviations of its noise a rise must exceed, too.

    Raises ValueError: ``epsilon`` is not positive, or not 1 ≤ ``theta`` ≤ ``phi``.
    """

    epsilon: float = 0.1
    phi: float = 10.0
    theta: float = 5.0
    relief: float = 0.3
    sure: float = 2.0

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon is {self.epsilon:g}; it must be above 0")
        if not 1 <= self.theta <= self.phi:
            raise ValueError(f"theta is {self.theta:g}; it must be from 1 to phi ({self.phi:g})")


@dataclass(frozen=True, slots=True)
class Rise:
    """A rise of R: ``of`` are the two or three observations around it, in rising order."""

    of: Segment
    place: int  #: in its segment; 0: the first pair is faster than linear speedup
    size: float  #: log of the rise
    limit: float  #: what is ignored of it

    @property
    def candidates(self) -> Segment:
        """Observations that may be anomalous: i+1 and i+2 of the paper.

        No earlier rise can show the first two observations of a segment: they are candidates, too.
        """
        return self.of if self.place <= 2 else self.of[1:]


@dataclass(frozen=True, slots=True)
class AnomalyExplanation:
    """Observations in their phases, without ``anomalies``; each of those with its R[j+1] - R[j]."""

    segments: tuple[Segment, ...]
    anomalies: tuple[tuple[int, float], ...] = ()

    @property
    def count(self) -> int:
        """Observations that remain."""
        return sum(map(len, self.segments))


@dataclass(frozen=True, slots=True)
class Metric:
    """R over the observations, and how far noise alone makes it rise."""

    nodes: tuple[float, ...]
    times: tuple[float, ...]
    noise: tuple[float, ...]  #: standard deviation of each log time
    settings: AnomalySettings

    def of_pair(self, i: int, j: int) -> float:
        """R between observations ``i`` and ``j`` (section VIII.A)."""
        n = self.nodes[i]
        m = self.nodes[j]
        return self.times[i] * n / m / self.times[j] * (1 + (m - n) / m)

    def rises(self, segment: Segment) -> list[Rise]:
        """Every change of R along a segment; first what exceeds linear speedup in its first pair.

        R is even for even spacing only.  What it lacks of linear speedup is log(n·T) of the first
        minus that of the second, which is convex in log n for every instance of the model.  So its
        share for each doubling never rises, however the observations are spaced; on even spacing
        this is R[i+1]/R[i].
        """
        made: list[Rise] = []
        before = 0.0
        gap_before = 1.0
        for place, (i, j) in enumerate(pairwise(segment)):
            gap = log(self.nodes[j] / self.nodes[i])
            value = log(self.times[i] / self.times[j]) - gap
            wider = gap / gap_before if place else 0.0
            of = segment[max(place - 1, 0) : place + 2]
            made.append(Rise(of, place, value - before * wider, self._ignored(of, wider)))
            before = value
            gap_before = gap
        return made

    def flagged(self, explanation: AnomalyExplanation) -> list[Rise]:
        """Rises beyond what is ignored."""
        return [
            rise
            for segment in explanation.segments
            for rise in self.rises(segment)
            if rise.size > rise.limit
        ]

    def roughness(self, explanation: AnomalyExplanation) -> float:
        """Root of the sum of all squared rises, however small."""
        rises = (rise.size for segment in explanation.segments for rise in self.rises(segment))
        return hypot(*(max(size, 0.0) for size in rises))

    def unevenness(self, explanation: AnomalyExplanation) -> tuple[float, float]:
        """Tell explanations of the same rises apart.

        The first number is how far the model's best instance is off from what remains, in
        hundredths.  The second is the sum of all changes of R, falls as well, over the log of the
        range of nodes: the model's own falls add up there.
        """
        changes = sum(
            abs(rise.size)
            for segment in explanation.segments
            for rise in self.rises(segment)
            if rise.place or rise.size > 0
        )
        spans = (log(self.nodes[each[-1]] / self.nodes[each[0]]) for each in explanation.segments)
        return round(self.misfit(explanation), 2), changes / sum(spans)

    def misfit(self, explanation: AnomalyExplanation) -> float:
        """Root mean square of the relative errors of the best instance of each segment."""
        total = 0.0
        for segment in explanation.segments:
            nodes, times = (np.array([one[i] for i in segment]) for one in (self.nodes, self.times))
            ranges = everything(nodes[-1], TRIED)
            total += min(
                float(best_for(nodes, times, mode, ranges, TRIED_ENDS).wssre.min())
                for mode in VarianceMode
            )
        return sqrt(total / explanation.count)

    def deviation(self, rise: Rise) -> float:
        """R[j+1] - R[j] of a rise, as on even spacing."""
        return self.of_pair(*rise.of[-2:]) * -expm1(-rise.size)

    def _ignored(self, of: Segment, wider: float) -> float:
        *first, middle, last = (self.noise[i] for i in of)
        sd = hypot(*(wider * each for each in first), (1 + wider) * middle, last)
        return max(log1p(self.settings.epsilon), self.settings.sure * sd)


def explain(metric: Metric, usable: Sequence[int]) -> AnomalyExplanation:
    """Explain the rises of R over the observations ``usable``.

    What remains is explained anew until it shows no rise, or none that anything explains.
    """
    explained = AnomalyExplanation((tuple(usable),))
    while (better := _simplest(metric, explained)) is not None:
        explained = better
    return explained


def _simplest(metric: Metric, start: AnomalyExplanation) -> AnomalyExplanation | None:
    if not metric.flagged(start):
        return None
    enough = metric.settings.relief * metric.roughness(start)
    pursued = [start]
    for _ in range(min(MOST_PARTS, max(1, (start.count - 2) // 3))):
        tried = {one for base in pursued for one in _extended(metric, base)}
        ranked = sorted(
            ((metric.roughness(one), one) for one in tried),
            key=lambda pair: (comparable(pair[0], 1e-9), pair[1].segments),
        )
        good = [(len(one.segments), left, one) for left, one in ranked if left <= enough]
        if good:
            fewest = min(steps for steps, _, _ in good)
            alike = [one for steps, _, one in good if steps == fewest]
            return min(alike, key=metric.unevenness)
        pursued = [one for _, one in ranked[:PURSUED]]
    return None


def _extended(metric: Metric, base: AnomalyExplanation) -> Iterator[AnomalyExplanation]:
    """Every explanation with one part more: an anomaly, or a step at a rise."""
    for rise in metric.flagged(base):
        (home,) = (segment for segment in base.segments if rise.of[-1] in segment)
        if base.count >= MIN_INDIVIDUAL:
            for culprit in rise.candidates:
                if len(left := tuple(i for i in home if i != culprit)) >= 2:
                    yield _replaced(base, home, left, (culprit, metric.deviation(rise)))
        place = home.index(rise.of[-1])
        # Five observations at least, two of them in each phase (section VIII.C).
        if base.count >= MIN_STEP and place >= 2 and len(home) - place >= 2:
            yield _replaced(base, home, home[:place], None, home[place:])


def _replaced(
    base: AnomalyExplanation,
    home: Segment,
    left: Segment,
    anomaly: tuple[int, float] | None,
    *more: Segment,
) -> AnomalyExplanation:
    segments = tuple(sorted([*(each for each in base.segments if each != home), left, *more]))
    anomalies = base.anomalies if anomaly is None else tuple(sorted([*base.anomalies, anomaly]))
    return replace(base, segments=segments, anomalies=anomalies)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found about each observation, in their order.

    ``factor`` multiplies the weight of an observation, ``phase`` numbers the phases of a stepwise
    curve.  ``declining_from`` is the first node count where time rises again.  ``special`` names
    the node counts that the application is made for.
    """

    factor: tuple[float, ...]
    phase: tuple[int, ...]
    declining_from: int | None = None
    special: str = ""
    anomalies: tuple[int, ...] = ()  #: places of single anomalous observations
    problems: tuple[Problem, ...] = ()


def diagnose(
    nodes: Floats,
    times: Floats,
    settings: AnomalySettings | None = None,
    noise: Floats | None = None,
) -> Diagnosis:
    """Look for every pattern.

    nodes, times: observations in rising order of nodes.
    noise: standard deviation of each log time, by its repeats and its clock; None: what is believed
        of single runs.
    Raises ValueError: as of :func:`predictor.models.adept.envelope.envelope`.
    """
    need_observations(nodes, times)
    chosen = settings or AnomalySettings()
    sd = np.full(len(nodes), Prior().noise) if noise is None else noise
    problems = []
    family = special_counts(nodes, times, chosen, sd)
    usable = np.array([belongs(family, int(n)) for n in nodes])
    if family:
        problems.append(problem("special_counts", family=family))
    metric = Metric(tuple(nodes.tolist()), tuple(times.tolist()), tuple(sd.tolist()), chosen)
    explained = explain(metric, np.flatnonzero(usable).tolist())
    declining = _declining(times, usable, chosen, sd)
    if declining is not None and not _declines_without(explained, times, usable, metric):
        declining = None
    if declining is not None:
        at = int(nodes[declining])
        last = declining == len(nodes) - 1
        name = "declining_or_anomaly" if last else "declining"
        problems.append(problem(name, at if last else None, nodes=at))
        usable &= nodes < nodes[declining]
        explained = explain(metric, np.flatnonzero(usable).tolist())
    starts = [segment[0] for segment in explained.segments[1:]]
    ends = [segment[-1] for segment in explained.segments]
    problems += [
        problem("anomaly", int(nodes[i]), nodes=int(nodes[i])) for i, _ in explained.anomalies
    ]
    problems += [
        problem("stepwise", before=int(nodes[a]), after=int(nodes[b]))
        for a, b in zip(ends, starts, strict=False)
    ]
    return Diagnosis(
        factor=tuple(_factors(usable, explained, chosen)),
        phase=tuple(int(sum(i >= start for start in starts)) for i in range(len(nodes))),
        declining_from=None if declining is None else int(nodes[declining]),
        special=family,
        anomalies=tuple(i for i, _ in explained.anomalies),
        problems=tuple(problems),
    )


def _factors(
    usable: NDArray[np.bool_], explained: AnomalyExplanation, settings: AnomalySettings
) -> list[float]:
    """W'/W of each observation: (θ - min(φ, D))/φ where it is anomalous, with D in units of ε."""
    factors = [float(use) for use in usable]
    if usable.sum() < MIN_CORRECTED:
        return factors
    for i, rise in explained.anomalies:
        deviation = min(settings.phi, rise / settings.epsilon)
        factors[i] = max(0.0, (settings.theta - deviation) / settings.phi)
    return factors


def special_counts(nodes: Floats, times: Floats, settings: AnomalySettings, noise: Floats) -> str:
    """Name of the family of node counts on which alone the application runs well, or ''.

    The others are slower than a line through the members (in log time over log nodes): each of
    them, and half of them by more than ε.  R rises along the members by no more than noise, or a
    smaller loss than that, explains.
    """
    if len(nodes) < MIN_SPECIAL:
        return ""
    for name, holds in FAMILIES.items():
        member = np.array([holds(int(n)) for n in nodes])
        if _is_special(nodes, times, member, settings, noise):
            return name
    return ""


def _is_special(
    nodes: Floats,
    times: Floats,
    member: NDArray[np.bool_],
    settings: AnomalySettings,
    noise: Floats,
) -> bool:
    x = np.log(nodes)
    y = np.log(times)
    if member.sum() < 3 or (~member).sum() < 3:
        return False
    within = ~member & (x > x[member][0]) & (x < x[member][-1])
    if within.sum() < 3:
        return False
    excess = y[within] - np.interp(x[within], x[member], y[member])
    loss = float(np.median(excess))
    metric = Metric(tuple(nodes[member]), tuple(times[member]), tuple(noise[member]), settings)
    rises = metric.rises(tuple(range(int(member.sum()))))
    even = all(rise.size <= max(rise.limit, loss) for rise in rises)
    return even and bool((excess > 0).all()) and loss > np.log1p(settings.epsilon)


def _declining(
    times: Floats, usable: NDArray[np.bool_], settings: AnomalySettings, noise: Floats
) -> int | None:
    """Index of the first observation past the shortest time that is slower by more than ε."""
    left = np.flatnonzero(usable)
    if len(left) < MIN_DECLINING:
        return None
    fastest = left[times[left].argmin()]
    after = left[left > fastest]
    ignored = np.maximum(
        np.log1p(settings.epsilon), settings.sure * np.hypot(noise[after], noise[fastest])
    )
    slower = after[np.log(times[after] / times[fastest]) > ignored]
    if len(slower) == 0 or (left < slower[0]).sum() < MIN_FIT:
        return None
    # One slow observation that later ones contradict is an anomaly, not a decline.
    return int(slower[0]) if len(slower) == (after >= slower[0]).sum() else None


def _declines_without(
    explained: AnomalyExplanation, times: Floats, usable: NDArray[np.bool_], metric: Metric
) -> bool:
    """Whether the end declines without anomalous observations, too, as far as that can be said.

    R falls where run time declines, and rises at a run that was too fast.
    """
    left = usable.copy()
    left[[i for i, _ in explained.anomalies]] = False
    few = left.sum() < MIN_DECLINING
    return few or _declining(times, left, metric.settings, np.array(metric.noise)) is not None
