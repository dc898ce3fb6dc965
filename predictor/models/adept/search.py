"""ADEPT's two-pass search for the instance that fits best, biased towards each target.

Weighted sum of squared relative errors (WSSRE), section V.B.  Where the paper steps through 5,000
values of A and then 500 × 500 values of A and σ, only the end of the first section is stepped
through here: with it fixed the model is linear in its two amplitudes (see
:mod:`predictor.models.downey`), so that the best σ and T(1) are closed-form, and the criterion over
their ratio has a single minimum, so that the envelope's limits on σ clip it.  All targets are
searched at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from predictor.checks import LARGEST, need_finite, need_share
from predictor.models.adept.envelope import RangePair, need_observations
from predictor.models.downey import VarianceMode, parallelism_of, serial_time_of, sigma_of, terms

Floats = NDArray[np.float64]
#: Errors this close, for a weight of one, are equal: below it the sums' own rounding decides.
TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Instances:
    """One instance of the model for each target; arrays of equal length.

    ``a`` and ``x`` are the amplitude and the ratio of amplitudes of
    :mod:`predictor.models.downey`.
    """

    high: NDArray[np.bool_]
    end: Floats
    x: Floats
    a: Floats
    wssre: Floats

    def times(self, nodes: Floats) -> Floats:
        """T(n) of instance i at ``nodes[i]``, in the unit of the observations."""
        return self._by_mode(
            lambda mode, i: _time(mode, nodes[i], self.end[i], self.x[i], self.a[i])
        )

    @property
    def parallelism(self) -> Floats:
        """A of each instance."""
        return self._by_mode(lambda mode, i: parallelism_of(mode, self.end[i], self.x[i]))

    @property
    def sigma(self) -> Floats:
        """σ of each instance."""
        return self._by_mode(lambda mode, i: sigma_of(mode, self.x[i]))

    @property
    def serial_time(self) -> Floats:
        """T(1) of each instance."""
        return self._by_mode(
            lambda mode, i: serial_time_of(mode, self.end[i], self.x[i], self.a[i])
        )

    def chosen(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "Instances":
        """Select instances by mask or index."""
        return Instances(*(getattr(self, name)[rows] for name in COLUMNS))

    @classmethod
    def joined(cls, parts: Sequence["Instances"]) -> "Instances":
        """All instances of ``parts``."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS))

    def _by_mode(self, formula: Callable[[VarianceMode, NDArray[np.bool_]], Floats]) -> Floats:
        values = np.empty_like(self.end)
        for mode, own in ((VarianceMode.LOW, ~self.high), (VarianceMode.HIGH, self.high)):
            if own.any():
                values[own] = formula(mode, own)
        return values


COLUMNS = tuple(field.name for field in fields(Instances))


def _time(mode: VarianceMode, nodes: Floats, end: Floats, x: Floats, a: Floats) -> Floats:
    p, q = terms(mode, nodes, end)
    return a * (p + x * q)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """``q`` and ``v`` of section V.B, and the steps of the two passes.

    ``q`` says how slowly weights fall with distance; ``v`` is the share by which the second pass
    varies A and σ.  ``steps`` are those of the first pass for each mode; the second takes
    ``local`` steps, and again as many around the best, ``zooms`` times.
    """

    q: float = 2.0
    v: float = 0.15
    steps: int = 128
    local: int = 21
    zooms: int = 2

    def __post_init__(self) -> None:
        # Below 1 the farthest observation would have a negative weight.
        need_finite("q", self.q, least=1)
        need_share("v", self.v)
        need_finite("steps", self.steps, least=2)
        need_finite("local steps", self.local, least=3)
        need_finite("zooms", self.zooms, least=1)


def weights(targets: Floats, nodes: Floats, q: float) -> Floats:
    """W = q·max|n_target - n_j| - |n_target - n_i|, shape (targets, observations).

    >>> weights(np.array([16.0]), np.array([2.0, 4.0, 8.0]), 2.0).tolist()
    [[14.0, 16.0, 20.0]]
    """
    if not (len(nodes) and np.isfinite(nodes).all() and np.isfinite(targets).all()):
        raise ValueError(f"targets {targets} and node counts {nodes}: finite numbers are needed")
    need_finite("q", q, least=1)
    distance = np.abs(targets[:, None] - nodes)
    weight: Floats = q * distance.max(axis=1, keepdims=True) - distance
    return weight


def search(
    nodes: Floats,
    times: Floats,
    weight: Floats,
    targets: Floats,
    envelope: Sequence[RangePair],
    settings: SearchSettings,
) -> Instances:
    """Find the best instance within ``envelope`` for each target.

    nodes, times: observations, shape (m,).
    weight: shape (targets, m), not negative; observations of weight 0 take no part.
    Raises ValueError: observations are not distinct node counts in rising order with times above
        zero, or the envelope is empty.
    """
    need_observations(nodes, times)
    if not envelope:
        raise ValueError("the envelope has no range pair")
    if not len(targets) or not (np.isfinite(targets) & (targets >= 1)).all():
        raise ValueError(f"targets {targets}: finite node counts of 1 or more are needed")
    usable = weight.shape == (len(targets), len(nodes))
    if not usable or not ((weight >= 0) & (weight <= LARGEST)).all():
        raise ValueError("weights: one for each target and observation is needed, none below 0")
    # Squares of very short or long times are beyond what numbers hold.
    scale = float(np.exp(np.log(times).mean()))
    candidates = []
    for mode in VarianceMode:
        limits = EnvelopeLimits.of(mode, envelope)
        if limits is not None:
            task = _Task(mode, nodes, times / scale, weight, limits)
            start = _through_closest(task, targets, settings)
            candidates.append(_around(task, *start, settings))
    best = _better(candidates, TIE * weight.sum(axis=1))
    return replace(best, a=best.a * scale)


def best_for(
    nodes: Floats, times: Floats, mode: VarianceMode, envelope: Sequence[RangePair], steps: int
) -> Instances:
    """Find, with equal weights, the best instance for each end of the first section in steps.

    Raises ValueError: the envelope has no instance of this mode.
    """
    need_observations(nodes, times)
    need_finite("steps", steps, least=2)
    limits = EnvelopeLimits.of(mode, envelope)
    if limits is None:
        raise ValueError(f"no {mode} instance in the envelope")
    ends = limits.steps(steps)
    scale = float(np.exp(np.log(times).mean()))
    task = _Task(mode, nodes, times / scale, np.ones((1, len(nodes))), limits)
    x, a, error = _fit_amplitudes(task, ends[None, :])
    return Instances(
        np.full(len(ends), mode is VarianceMode.HIGH), ends, x[0], scale * a[0], error[0]
    )


#: Least and most x at each end.
Ranges = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class EnvelopeLimits:
    """What the envelope allows in one mode: x = σ/2 or σ for each end of the first section."""

    ends: Floats  #: (pairs, 2)
    xs: Floats  #: (pairs, 2)

    @classmethod
    def of(cls, mode: VarianceMode, envelope: Sequence[RangePair]) -> "EnvelopeLimits | None":
        """Give the limits of a mode; None where the envelope has no range pair of it."""
        own = [pair for pair in envelope if pair.mode is mode]
        if not own:
            return None
        factor = 1.0 if mode is VarianceMode.HIGH else 0.5
        ends = np.array([(pair.end_min, pair.end_max) for pair in own])
        return cls(ends, factor * np.array([(pair.sigma_min, pair.sigma_max) for pair in own]))

    def steps(self, count: int) -> Floats:
        """Divide the ends that are allowed into steps of equal ratio."""
        grid = np.geomspace(self.ends[:, 0].min(), self.ends[:, 1].max(), count)
        grid = np.union1d(grid, self.ends.ravel())
        return grid[self._inside(grid).any(axis=0)]

    def nearest(self, end: Floats, x: Floats, more: Ranges | None = None) -> tuple[Floats, Floats]:
        """Closest x that is allowed at each end, from below and from above.

        ``more`` narrows what is allowed; -inf and inf where nothing is left on that side.
        """
        inside = self._inside(end)
        low, high = (self.xs[:, i].reshape(-1, *[1] * x.ndim) for i in (0, 1))
        if more is not None:
            low = np.maximum(low, more[0])
            high = np.minimum(high, more[1])
        inside = inside & (low <= high)
        below = np.where(inside & (low <= x), np.minimum(x, high), -np.inf).max(axis=0)
        above = np.where(inside & (high >= x), np.maximum(x, low), np.inf).min(axis=0)
        return below, above

    def clipped(self, end: Floats) -> Floats:
        """Move each end to the closest one that is allowed."""
        low, high = (self.ends[:, i].reshape(-1, *[1] * end.ndim) for i in (0, 1))
        off = np.maximum(np.maximum(low - end, end - high), 0.0)
        closest = off.argmin(axis=0)
        return np.clip(end, self.ends[closest, 0], self.ends[closest, 1])

    def _inside(self, end: Floats) -> NDArray[np.bool_]:
        low, high = (self.ends[:, i].reshape(-1, *[1] * end.ndim) for i in (0, 1))
        return (end >= low) & (end <= high)


@dataclass(frozen=True, slots=True)
class _Task:
    mode: VarianceMode
    nodes: Floats
    times: Floats
    weight: Floats
    limits: EnvelopeLimits

    def relative_terms(self, end: Floats) -> tuple[Floats, Floats]:
        """p/t and q/t of each observation; observations come last in the shape."""
        p, q = terms(self.mode, self.nodes, end[..., None])
        return p / self.times, q / self.times


def _through_closest(
    task: _Task, targets: Floats, settings: SearchSettings
) -> tuple[Floats, Floats]:
    """First pass: the best instance through the observation closest to each target."""
    distance = np.where(task.weight > 0, np.abs(targets[:, None] - task.nodes), np.inf)
    closest = distance.argmin(axis=1)
    rows = np.arange(len(targets))
    ends = task.limits.steps(settings.steps)
    tried = ends[None, :]
    ratio = float((ends[1:] / ends[:-1]).max(initial=1.0))
    for left in range(settings.zooms, -1, -1):
        x, error = _through(task, tried, closest)
        at = _largest_best(error, task.weight)
        best = np.broadcast_to(tried, x.shape)[rows, at]
        best_x = x[rows, at]
        if left:
            tried = task.limits.clipped(best[:, None] * ratio ** np.linspace(-1, 1, settings.local))
            ratio **= 2 / (settings.local - 1)
    return best, best_x


def _through(task: _Task, end: Floats, closest: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Best x and its WSSRE for each end where T(n_c) = t_c ties the two amplitudes.

    The relative errors are then linear in the second amplitude.  ``end`` has a row for each target,
    or one for all.
    """
    u, v = task.relative_terms(end)
    rows = np.arange(len(closest)) if len(end) > 1 else 0
    fixed, slope = (term[rows, :, closest] for term in (u, v))
    constant = u / fixed[..., None] - 1
    linear = v - u * (slope / fixed)[..., None]
    w = task.weight[:, :, None]
    cc, cl, ll = ((p @ w)[..., 0] for p in (constant**2, constant * linear, linear**2))
    y = np.divide(-cl, ll, out=np.zeros_like(cl), where=ll > 1e-300)

    def error(x: Floats) -> Floats:
        y = x / (fixed + x * slope)
        wssre: Floats = cc + y * (2 * cl + y * ll)
        return wssre

    return _allowed(task, end, _ratio(y * fixed, 1 - y * slope), error)


def _around(task: _Task, end: Floats, x: Floats, settings: SearchSettings) -> Instances:
    """Second pass: A and σ varied by up to ``v`` around the first, T(1) free."""
    least, most, limits = variation_ranges(task.mode, end, x, settings.v)
    rows = np.arange(len(end))
    centre = end
    down = end - least
    up = most - end
    steps = np.linspace(-1, 1, settings.local)
    for _ in range(settings.zooms):
        off = np.where(steps < 0, steps * down[:, None], steps * up[:, None])
        tried = task.limits.clipped(centre[:, None] + off)
        within = (tried >= least[:, None]) & (tried <= most[:, None])
        tried = np.where(within, tried, centre[:, None])
        ratio, amplitude, error = _fit_amplitudes(task, tried, limits(tried))
        at = _largest_best(error, task.weight)
        centre = tried[rows, at]
        down = up = np.maximum(down, up) * 2 / (settings.local - 1)
    mode = np.full(len(end), task.mode is VarianceMode.HIGH)
    return Instances(mode, centre, ratio[rows, at], amplitude[rows, at], error[rows, at])


def variation_ranges(
    mode: VarianceMode, end: Floats, x: Floats, v: float
) -> tuple[Floats, Floats, Callable[[Floats], Ranges]]:
    """Range of ends that a share ``v`` of A and σ leads to, and the x allowed at each of them.

    end, x: ends of the first section, and σ/2 or σ, shape ``(targets,)``.
    v: share by which A and σ may differ (ADEPT, section V).
    Returns least, most, limits: ends, shape ``(targets,)``; and what gives the least and most x at
        ends that are tried.
    """
    x_min, x_max = (1 - v) * x, (1 + v) * x
    parallelism = parallelism_of(mode, end, x)
    least, most = np.maximum((1 - v) * parallelism, 1.0), (1 + v) * parallelism
    if mode is VarianceMode.LOW:
        return least, most, lambda tried: _columns(tried, x_min, x_max)

    def limits(tried: Floats) -> Ranges:
        # A = (end + x)/(1 + x) falls with x.
        low, high = _columns(tried, x_min, x_max)
        over = (tried - most[:, None]) / (most[:, None] - 1)
        free = np.full_like(tried, np.inf)
        under = least[:, None] - 1
        within = np.divide(tried - least[:, None], under, out=free, where=under > 0)
        return np.maximum(low, over), np.minimum(high, within)

    return least * (1 + x_min) - x_min, most * (1 + x_max) - x_max, limits


def _columns(tried: Floats, *each: Floats) -> Ranges:
    low, high = (np.broadcast_to(one[:, None], tried.shape) for one in each)
    return low, high


def _fit_amplitudes(
    task: _Task, end: Floats, more: Ranges | None = None
) -> tuple[Floats, Floats, Floats]:
    """Least squares over the amplitudes with x kept within its limits.

    Returns x, a, wssre: each of the shape of ``end``: (targets, tried).
    """
    u, v = task.relative_terms(end)
    w = task.weight[:, None, :]
    wu = w * u
    wv = w * v
    su, sv = wu.sum(axis=-1), wv.sum(axis=-1)
    uu, uv, vv = ((p * r).sum(axis=-1) for p, r in ((wu, u), (wu, v), (wv, v)))
    total = w.sum(axis=-1)

    def amplitude(x: Floats) -> Floats:
        best: Floats = (su + x * sv) / (uu + 2 * x * uv + x**2 * vv)
        return best

    def error(x: Floats) -> Floats:
        wssre: Floats = np.maximum(total - amplitude(x) * (su + x * sv), 0.0)
        return wssre

    x, left = _allowed(task, end, _ratio(sv * uu - su * uv, su * vv - sv * uv), error, more)
    return x, amplitude(x), left


def _allowed(
    task: _Task,
    end: Floats,
    x: Floats,
    error: Callable[[Floats], Floats],
    more: Ranges | None = None,
) -> tuple[Floats, Floats]:
    """Best x within the envelope and its error, which has its single minimum at ``x``.

    The error is infinite where nothing is allowed.
    """
    end = np.broadcast_to(end, x.shape)
    below, above = task.limits.nearest(end, x, more)
    errors = [
        np.where(np.isfinite(one), error(np.where(np.isfinite(one), one, 1.0)), np.inf)
        for one in (below, above)
    ]
    lower = errors[0] <= errors[1]
    best = np.where(lower, below, above)
    return np.where(np.isfinite(best), best, 1.0), np.where(lower, *errors)


def _ratio(over: Floats, under: Floats) -> Floats:
    """Ratio of amplitudes; without a positive first amplitude the second is all there is."""
    infinite = np.where(over > 0, np.inf, 0.0)
    return np.divide(over, under, out=infinite, where=under > 1e-300)


def _largest_best(error: Floats, weight: Floats) -> NDArray[np.intp]:
    """Column of the smallest error in each row; of equal ones the last, which has the largest end.

    Where no observation shows the end of a section, none is assumed.
    """
    equal = error <= error.min(axis=1, keepdims=True) + TIE * weight.sum(axis=1)[:, None]
    last: NDArray[np.intp] = error.shape[1] - 1 - equal[:, ::-1].argmax(axis=1)
    return last


def _better(candidates: Sequence[Instances], tie: Floats) -> Instances:
    """For each target the mode that fits better."""
    if len(candidates) == 1:
        return candidates[0]
    low, high = candidates
    take = high.wssre <= low.wssre + tie
    return Instances(*(np.where(take, getattr(high, f), getattr(low, f)) for f in COLUMNS))
