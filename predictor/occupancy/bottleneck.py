"""Latency hiding: a stall begins only where network and disk take longer than the processor.

Prefetching, write-behind and saturated disks let the slower side of two decide how long a byte
takes.  NIMO's paper names a model of that closed loop as the alternative to pieces of lines, and
leaves it open (Shivam, Babu, Chase, ICAC 2006, section V.B.4)::

    o_n + o_d = idle + max(0, g(ρ) - o_a)

The demand ``g`` is a sum of times, each in proportion to x or 1/x of an attribute: none is below
zero.  A run that stalled shows the demand; one that did not shows that it is no more than
what the processor had to do.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable, need_finite, need_positive
from predictor.occupancy.functions import Function, Shape, Term, reference_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: Stalls as shares of what the processor has to do, below which runs may count as hidden.
_HIDDEN = (0.0, 0.03, 0.1, 0.2)
#: Relative error that two runs of the same have: smaller ones mean nothing.
NOISE = 0.01
#: Terms of a demand, and runs that each needs.
_MOST_TERMS, _RUNS_A_TERM = 3, 2
#: Which runs bind is settled after so many changes.
_CHANGES = 8
#: Difference of the criterion up to which a rival is not refuted ("strong" begins there; Kass and
#: Raftery, *Bayes Factors*, 1995, section 3.2), and how many stay.
_REFUTED, _MOST_RIVALS = 6.0, 8


@dataclass(frozen=True, slots=True)
class Demand:
    """What network and disk may demand: as likely as ``weight``, of one for all together.

    ``demands`` are those of the function for the runs it was learned from, rising, and
    ``at_most_s`` what they, and those above them, were at most.
    """

    function: Function
    idle_s: float
    weight: float
    demands: tuple[float, ...]
    at_most_s: tuple[float, ...]

    def stall_s(self, compute_s: float, attributes: Mapping[str, float]) -> float:
        """Seconds that each byte stalls."""
        return self.idle_s + max(0.0, self.function(attributes) - compute_s)

    def longest_s(self, compute_s: float, attributes: Mapping[str, float]) -> float:
        """Seconds that each byte may stall at most, according to the runs.

        A run that demanded more, as far as the function orders them, and was hidden or took its
        time, was not beyond that: neither is this.
        """
        demand = self.function(attributes)
        place = bisect_left(self.demands, demand)
        bound = self.at_most_s[place] if place < len(self.demands) else demand
        return self.idle_s + max(0.0, demand - compute_s, bound - compute_s)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Whatever takes longest decides; ``demands`` has what runs do not refute, likeliest first."""

    demands: tuple[Demand, ...]

    def __str__(self) -> str:
        likeliest = self.demands[0]
        return f"{likeliest.idle_s:.3g} + ({likeliest.function} - compute)+"

    def stall_s(
        self, compute_s: float, attributes: Mapping[str, float]
    ) -> tuple[float, float, float]:
        """Give the seconds that each byte stalls, and from where to where that may be."""
        stalls = [one.stall_s(compute_s, attributes) for one in self.demands]
        longest = max(one.longest_s(compute_s, attributes) for one in self.demands)
        mean = sum(one.weight * stall for one, stall in zip(self.demands, stalls, strict=True))
        return mean, min(stalls), max(longest, *stalls)


def learn_bottleneck(
    samples: Sequence[Mapping[str, float]],
    compute_s: Floats,
    stall_s: Floats,
    *,
    reference: Mapping[str, float],
    attributes: Sequence[str],
) -> Bottleneck | None:
    """Learn what network and disk demand; None where no run stalled.

    How likely it is that a demand has these terms, and that these runs were hidden, is what the
    Bayesian information criterion says of the run times.

    samples: attributes of each run, above zero.
    compute_s, stall_s: what processor, and network and disk together, took of each run for each
        byte.
    reference: attributes of the reference assignment.
    attributes: which attributes the demand may depend on.
    """
    base = reference_of(reference, attributes)
    _need_runs(samples, compute_s, stall_s, base)
    ratios = [{name: one[name] / base[name] for name in base} for one in samples]
    terms = candidate_terms(ratios, attributes)
    columns = np.array([[1.0, *(term(one) for term in terms)] for one in ratios])
    scale = columns.mean(axis=0)
    runs = DemandRuns(columns / scale, compute_s, stall_s)
    tried = likeliest(made for share in _HIDDEN for made in runs.learned(share))
    if not tried:
        return None
    weights = np.exp([(tried[0].criterion - one.criterion) / 2 for one in tried])
    weights /= weights.sum()
    made = []
    for one, weight in zip(tried, weights.tolist(), strict=True):
        demands = runs.columns @ one.theta
        took = compute_s + np.maximum(stall_s - one.idle_s, 0.0)
        order = np.argsort(demands)
        at_most = np.minimum.accumulate(took[order][::-1])[::-1]
        function = _function(base, terms, one.theta / scale)
        bounds = tuple(demands[order].tolist()), tuple(at_most.tolist())
        made.append(Demand(function, one.idle_s, weight, *bounds))
    return Bottleneck(tuple(made))


def _need_runs(
    samples: Sequence[Mapping[str, float]],
    compute_s: Floats,
    stall_s: Floats,
    base: Mapping[str, float],
) -> None:
    if not len(samples) == len(compute_s) == len(stall_s) > 0:
        raise ValueError("runs: each needs its attributes, compute and stall, and one at least")
    need_finite("stall in seconds a byte", *stall_s, least=0)
    need_finite("compute in seconds a byte", *compute_s, least=0)
    need_positive("time in seconds a byte", *(compute_s + stall_s))
    for one in samples:
        for name in base:
            need_positive(f"attribute {name}", one.get(name))


def likeliest(tried: Iterable["LearnedDemand"]) -> list["LearnedDemand"]:
    """Give the best of each set of terms, and of these what the best of all does not refute.

    The likeliest is first, eight at most.
    """
    best: dict[tuple[bool, ...], LearnedDemand] = {}
    for one in tried:
        used = tuple((one.theta > 0).tolist())
        if used not in best or comparable(one.criterion) < comparable(best[used].criterion):
            best[used] = one
    likeliest = sorted(best.values(), key=lambda one: comparable(one.criterion))[:_MOST_RIVALS]
    return [one for one in likeliest if one.criterion - likeliest[0].criterion < _REFUTED]


@dataclass(frozen=True, slots=True)
class LearnedDemand:
    """A demand that was fitted: coefficients of the scaled terms, and how likely it is.

    ``criterion`` is Bayes's: the lowest is the likeliest.
    """

    theta: Floats
    idle_s: float
    criterion: float


@dataclass(frozen=True, slots=True)
class DemandRuns:
    """Runs to learn from: ``columns`` of the terms, scaled to a mean of one."""

    columns: Floats
    compute_s: Floats
    stall_s: Floats

    def learned(self, hidden: float) -> Iterator[LearnedDemand]:
        """Learn with more and more terms, where stalls below this share count as hidden."""
        full = self.stall_s > hidden * self.compute_s
        if not full.any() or (hidden and full.all()):
            return
        idle_s = 0.0 if full.all() else float(np.median(self.stall_s[~full]))
        chosen: list[int] = []
        for _ in range(min(_MOST_TERMS, max(1, (len(full) - 1) // _RUNS_A_TERM))):
            left = [i for i in range(self.columns.shape[1]) if i not in chosen]
            if not left:
                return
            tried = [self.fitted([*chosen, i], full, idle_s) for i in left]
            best = min(range(len(left)), key=lambda i: comparable(tried[i].criterion))
            chosen.append(left[best])
            yield from tried

    def fitted(self, chosen: list[int], full: Flags, idle_s: float) -> LearnedDemand:
        """Fit the coefficients of a demand with the least relative errors of the run time.

        Runs that stalled are met; those that did not bind only where the demand is above what the
        processor had to do.

        chosen: columns of the terms.
        full: runs that stalled, shape ``(runs,)``.
        idle_s: what a byte stalls beside the demand.
        """
        from scipy.optimize import nnls  # noqa: PLC0415 - plans without samples do not wait for it

        took = self.compute_s + np.where(full, np.maximum(self.stall_s - idle_s, 0.0), 0.0)
        # Of a run without compute that stalled no longer than the hidden ones, nothing is left.
        took = np.maximum(took, NOISE * (self.compute_s + self.stall_s))
        weighted = self.columns[:, chosen] / took[:, None]
        binding = full
        some = np.zeros(len(chosen))
        for _ in range(_CHANGES):
            some = nnls(weighted[binding], np.ones(binding.sum()))[0]
            now = full | (weighted @ some > 1)
            if (now == binding).all():
                break
            binding = now
        # A term below the noise in every run is none: its sign is that of rounding errors.
        telling = (weighted * some).max(axis=0) > NOISE
        if 0 < telling.sum() < len(chosen):
            kept = [i for i, one in zip(chosen, telling, strict=True) if one]
            return self.fitted(kept, full, idle_s)
        theta = np.zeros(self.columns.shape[1])
        theta[chosen] = some
        return LearnedDemand(theta, idle_s, self.criterion(theta, idle_s, len(chosen)))

    def criterion(self, theta: Floats, idle_s: float, terms: int) -> float:
        """Bayesian information criterion of relative errors of the run time.

        Errors below :data:`NOISE` do not count.
        """
        stall = idle_s + np.maximum(self.columns @ theta - self.compute_s, 0.0)
        off = (stall - self.stall_s) / (self.compute_s + self.stall_s)
        runs = len(off)
        return runs * log(max(float(np.mean(off**2)), NOISE**2)) + terms * log(runs)


def candidate_terms(ratios: Sequence[Mapping[str, float]], attributes: Sequence[str]) -> list[Term]:
    """List the terms that a demand may have: x and 1/x of each attribute that differs."""
    differing = [name for name in attributes if len({one[name] for one in ratios}) > 1]
    return [Term(name, shape) for name in differing for shape in (Shape.LINEAR, Shape.INVERSE)]


def _function(base: dict[str, float], terms: Sequence[Term], coefficients: Floats) -> Function:
    positive = [
        (term, c) for term, c in zip(terms, coefficients[1:].tolist(), strict=True) if c > 0
    ]
    return Function(
        base,
        1.0,
        float(coefficients[0]),
        tuple(term for term, _ in positive),
        tuple(c for _, c in positive),
    )
