"""Observations and patterns that Downey's model cannot explain (ADEPT, section VIII).

All is read from the fluctuation metric R, which needs no T(1).  In order: applications that run
well only on special node counts, a declining end, single anomalous observations, and steps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.curves.interval import Prior
from predictor.curves.reliability import FAMILIES, belongs
from predictor.models.adept.envelope import need_observations
from predictor.models.adept.fluctuation import AnomalyExplanation, AnomalySettings, Metric, explain
from predictor.types import Problem, problem

Floats = NDArray[np.float64]

#: Fewest observations to look for node counts that an application is made for (section VIII.C).
MIN_SPECIAL = 9
#: Fewest observations to look for a declining end with.
MIN_DECLINING = 4
#: Fewest observations to correct an anomaly with: of four, the other three explain anything.
MIN_CORRECTED = 5
#: Fewest observations that must be left to fit.
MIN_FIT = 3


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
        problems.append(_declining_problem(nodes, declining))
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
    x, y = np.log(nodes), np.log(times)
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


def _declining_problem(nodes: Floats, first: int) -> Problem:
    at, single = int(nodes[first]), first == len(nodes) - 1
    if single:
        return problem("declining_or_anomaly", at, nodes=at)
    return problem("declining", nodes=at)
