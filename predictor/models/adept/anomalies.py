"""Observations and patterns that Downey's model cannot explain (ADEPT, section VIII).

All is read from the fluctuation metric R, which needs no T(1).  In order: applications that run
well only on special node counts, a declining end, single anomalous observations, and steps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.special_counts import FAMILIES, belongs
from predictor.types import Problem

Floats = NDArray[np.float64]

#: Fewest observations to look for each pattern with (section VIII.B and C).
MIN_INDIVIDUAL, MIN_STEP, MIN_SPECIAL = 4, 5, 9
#: Fewest observations that must be left to fit.
MIN_FIT = 3


@dataclass(frozen=True, slots=True)
class AnomalySettings:
    """ε, φ and θ of section VIII.

    ``epsilon`` is the rise of R that is ignored, ``phi`` the deviation at which an observation
    counts no longer, ``theta`` (1 to ``phi``) how much anomalous observations may still count.
    ``relief`` is the share of the fluctuation that must remain at most, for a removal to count as
    having "greatly decreased" it.
    """

    epsilon: float = 0.1
    phi: float = 10.0
    theta: float = 5.0
    relief: float = 0.5


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
    problems: tuple[Problem, ...] = ()


def fluctuation(nodes: Floats, times: Floats) -> Floats:
    """R of each neighbouring pair of observations (section VIII.A).

    >>> fluctuation(np.array([2.0, 4.0, 8.0]), np.array([8.0, 4.0, 2.0])).tolist()
    [1.5, 1.5]
    """
    n, m = nodes[:-1], nodes[1:]
    return times[:-1] * n / m / times[1:] * (1 + (m - n) / m)


def relative_rises(nodes: Floats, times: Floats) -> Floats:
    """R[i+1]/R[i], or what the spacing of the observations cannot explain of it.

    R is even for even spacing only: where a gap is wider than the one before, linear speedup
    itself raises it, and that much is taken off.
    """
    metric, linear = fluctuation(nodes, times), fluctuation(nodes, 1 / nodes)
    return metric[1:] / metric[:-1] / np.maximum(linear[1:] / linear[:-1], 1.0)


def rises(nodes: Floats, times: Floats, epsilon: float) -> NDArray[np.intp]:
    """Each i with R[i+1] > (1 + ε)·R[i]: observations i + 1 and i + 2 are anomaly candidates."""
    return np.flatnonzero(relative_rises(nodes, times) > 1 + epsilon)


def diagnose(nodes: Floats, times: Floats, settings: AnomalySettings | None = None) -> Diagnosis:
    """Look for every pattern; nodes in rising order."""
    chosen = settings or AnomalySettings()
    count = len(nodes)
    deviation, problems = np.zeros(count), []
    family = special_counts(nodes, times, chosen.epsilon)
    kept = np.array([belongs(family, int(n)) for n in nodes])
    if family:
        problems.append(_special_problem(family))
    declining = _declining(times, kept, chosen.epsilon)
    if declining is not None:
        problems.append(_declining_problem(nodes, declining))
        kept &= nodes < nodes[declining]
    individual, split = _individual(nodes, times, np.flatnonzero(kept), chosen)
    for i, size in individual.items():
        deviation[i] = size
    problems += [_individual_problem(int(nodes[i])) for i in individual]
    problems += [_step_problem(int(nodes[a]), int(nodes[b])) for a, b in split]
    factor = (chosen.theta - np.minimum(chosen.phi, deviation)) / chosen.phi
    phase = sum((np.arange(count) >= b).astype(int) for _, b in split) + np.zeros(count, dtype=int)
    return Diagnosis(
        factor=tuple(np.where(kept, np.maximum(factor, 0.0), 0.0).tolist()),
        phase=tuple(phase.tolist()),
        declining_from=None if declining is None else int(nodes[declining]),
        special=family,
        problems=tuple(problems),
    )


def special_counts(nodes: Floats, times: Floats, epsilon: float) -> str:
    """Name of the family of node counts on which alone the application runs well, or ''.

    The members must run smoothly among themselves, and the others between them slower by more
    than ``epsilon`` than a line through the members (in log time over log nodes).
    """
    if len(nodes) < MIN_SPECIAL:
        return ""
    for name, holds in FAMILIES.items():
        member = np.array([holds(int(n)) for n in nodes])
        if _is_special(np.log(nodes), np.log(times), member, epsilon):
            return name
    return ""


def _is_special(x: Floats, y: Floats, member: NDArray[np.bool_], epsilon: float) -> bool:
    if member.sum() < 3 or (~member).sum() < 3:
        return False
    within = ~member & (x > x[member][0]) & (x < x[member][-1])
    if within.sum() < 3 or len(rises(np.exp(x[member]), np.exp(y[member]), epsilon)):
        return False
    expected = np.interp(x[within], x[member], y[member])
    return bool((y[within] > expected + np.log1p(epsilon)).all())


def _declining(times: Floats, kept: NDArray[np.bool_], epsilon: float) -> int | None:
    """Index of the first observation past the shortest time that is slower by more than ε."""
    usable = np.flatnonzero(kept)
    if len(usable) < MIN_INDIVIDUAL:
        return None
    fastest = usable[times[usable].argmin()]
    after = usable[usable > fastest]
    slower = after[times[after] > (1 + epsilon) * times[fastest]]
    if len(slower) == 0 or (usable < slower[0]).sum() < MIN_FIT:
        return None
    # One slow observation that later ones contradict is an anomaly, not a decline.
    return int(slower[0]) if len(slower) == (after >= slower[0]).sum() else None


def _individual(
    nodes: Floats, times: Floats, usable: NDArray[np.intp], settings: AnomalySettings
) -> tuple[dict[int, float], list[tuple[int, int]]]:
    """Single anomalous observations with their deviation D, and the pairs that steps lie between.

    A rise of R that no removal relieves is a step, where enough observations are on either side.
    """
    found: dict[int, float] = {}
    steps: list[tuple[int, int]] = []
    kept = list(usable)
    while len(kept) >= MIN_INDIVIDUAL:
        n, t = nodes[kept], times[kept]
        steepness = _unexplained(n, t, [kept.index(b) for _, b in steps])
        flagged = np.flatnonzero(steepness > 1 + settings.epsilon)
        if len(flagged) == 0:
            break
        culprit, left = _best_removal(n, t, flagged, settings.epsilon)
        if left <= settings.relief * _roughness(n, t, settings.epsilon):
            found[int(kept.pop(culprit))] = _deviation(n, t, culprit, flagged, settings.epsilon)
            continue
        rise = int(steepness.argmax())
        if not _may_step(len(kept), rise):
            break
        steps.append((int(kept[rise + 1]), int(kept[rise + 2])))
    return found, sorted(steps)


def _unexplained(nodes: Floats, times: Floats, steps: list[int]) -> Floats:
    """Rises of R, without those into steps already known (by the index of what follows them)."""
    steepness = relative_rises(nodes, times)
    steepness[[i - 2 for i in steps if i >= 2]] = 0.0
    return steepness


def _best_removal(
    nodes: Floats, times: Floats, flagged: NDArray[np.intp], epsilon: float
) -> tuple[int, float]:
    """Which candidate relieves R most when it is removed, and what fluctuation is left then."""
    left = {
        int(i): _roughness(np.delete(nodes, i), np.delete(times, i), epsilon)
        for i in np.union1d(flagged + 1, flagged + 2)
    }
    best = min(left, key=left.__getitem__)
    return best, left[best]


def _deviation(
    nodes: Floats, times: Floats, culprit: int, flagged: NDArray[np.intp], epsilon: float
) -> float:
    """D of an anomalous observation: the rise of R that made it a candidate, in units of ε."""
    metric = fluctuation(nodes, times)
    return max(
        float(metric[i + 1] - metric[i]) / epsilon for i in flagged if culprit in (i + 1, i + 2)
    )


def _roughness(nodes: Floats, times: Floats, epsilon: float) -> float:
    """Sum of the rises of R beyond what is ignored."""
    return float(np.maximum(relative_rises(nodes, times) - (1 + epsilon), 0.0).sum())


def _may_step(count: int, rise: int) -> bool:
    """Two observations at least on either side, five in all (section VIII.C)."""
    return count >= MIN_STEP and count - (rise + 2) >= 2


def _special_problem(family: str) -> Problem:
    return Problem("special_counts", f"runs well only on {family}; other node counts are left out")


def _declining_problem(nodes: Floats, first: int) -> Problem:
    at, single = int(nodes[first]), first == len(nodes) - 1
    if single:
        text = f"slower on {at} nodes than on fewer: the decline begins, or that run was unusual"
        return Problem("declining_or_anomaly", text, at)
    return Problem("declining", f"time rises again from {at} nodes on")


def _individual_problem(nodes: int) -> Problem:
    text = f"the run on {nodes} nodes does not agree with its neighbours; another would tell why"
    return Problem("anomaly", text, nodes)


def _step_problem(before: int, after: int) -> Problem:
    text = f"run time takes a step between {before} and {after} nodes"
    return Problem("stepwise", text)
