"""How much memory the next run needs: by the sizes that it names, with room that is worth its cost.

The need is that of a node where sizes count nodes, else that of the job.  Its median goes as a
power of the count.  Where runs name sizes of their problem it goes by these, too: a part that a
size does not change, and one that grows as its square root or in proportion.  Such a form is used
where runs that were left out would have cost less by it, surely so.

What runs needed over that median, each as a ratio, has a distribution.  A run that ended for lack
of memory is censored: it needed more than it had; one that was cut off by something else needed at
least what was measured (Kaplan and Meier, *Journal of the American Statistical Association* 53,
1958).  A new run is as likely to be between any two of the n runs as beyond them all: 1/(n + 1).
Beyond them the chance falls off as a power of the ratio, whose exponent is that of the highest
fifth of the runs (Hill, *Annals of Statistics* 3, 1975), shrunk to a prior.

Of all amounts that one is advised which is expected to cost least: itself, and `SHORT` times the
memory of the newest run where it is too little (Arrow, Harris and Marschak, *Econometrica* 19,
1951).  So runs that are alike need little room, few runs and those with a giant now and then more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, exp, log, sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from predictor.application.sizes import shared_numbers
from predictor.checks import need_finite, need_positive
from predictor.memory import Memory, MemoryNeed, MemoryTerm
from sacct_ingest.records import Says
from sacct_ingest.runs.evidence import evidence_of, node_memory, node_need
from sacct_ingest.store.rows import RunRow

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Runs that say how much the next one needs, at least, and the last ones that are looked at.
FEWEST, RECENT = 3, 100
#: What a run that is short costs, in runs with the memory asked for: what it had until then, the
#: rerun, and that somebody waited for it.
SHORT = 8.0
#: The same of one that an engine runs again by itself: nobody waits for it.
RETRIED = 4.0
#: Share of new runs that need no more, at least.
LEVEL = 0.95
#: Mean log of a need beyond the highest fifth over these, before there are any; the runs that this
#: counts for; one run in so many is of the highest.
_TAIL, _TAIL_RUNS, _HIGHEST = 0.15, 4.0, 5
#: Counts that make a slope.
_COUNTS = 3
#: Runs from which on sizes are looked at; so many sizes are used at most.
_SIZED, _TERMS = 5, 2
#: Share of the cost that a size has to save, and by how many standard errors.
_SAVES, _SURE = 0.1, 2.0
#: Share of the need that a size does not change, and the power by which the rest goes.
_FORMS = [(fixed, power) for power in (0.5, 1.0) for fixed in (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)]
#: Sets of sizes with a level of their own, at most.
_SAME = 16
#: Logs are sums.
_ROUNDING = 1e-9
#: Growth of the runs after which a record has their need worked out anew.
_GROWTH = 1.1


@dataclass(frozen=True, slots=True)
class _MemoryUse:
    """What a run needed and had, bytes; 0: not known.  ``short``: it needed more than it had."""

    row: RunRow
    need: int  #: at least
    given: int
    short: bool
    cut_off: bool  #: it needed more than ``need``, or as much

    @property
    def completed(self) -> bool:
        """Whether it needed no more than was measured."""
        return self.need > 0 and not self.cut_off

    @property
    def count(self) -> int:
        """Nodes, or what else is counted."""
        return self.row.nodes


def memory_need(rows: Iterable[RunRow], *, margin: float, sized: bool = False) -> MemoryNeed | None:
    """Need of memory by count and size; None where no run that completed was measured.

    rows: runs of one application, the newest last.
    margin: ratio to what is expected that a job would be given: what the record judges.
    sized: numbers that runs name may be sizes of one problem.
    """
    uses = [use for row in rows if row.nodes > 0 and (use := _memory_use(row)) is not None]
    if not any(use.completed for use in uses):
        return None
    last = max((i for i, use in enumerate(uses) if use.short), default=-1)
    since = uses[last + 1 :]
    enough = sorted(
        (use for use in since if use.completed and use.given), key=attrgetter("count", "given")
    )
    recent = [use for use in uses if use.need][-RECENT:]
    plain = _Need(recent)
    by_sizes = _by_sizes(plain) if sized and len(recent) >= _SIZED else plain
    judged = list(by_sizes.judged(margin))
    counts = sorted({use.count for use in uses if use.completed})
    return MemoryNeed(
        runs=sum(use.completed for use in since),
        predictions=len(judged),
        inside=sum(judged),
        short_s=max((float(use.row.end_s or 0) for use in uses if use.short), default=0.0),
        high=tuple(plain.rows(counts)),
        given=tuple(
            Memory(count, next(own).given)
            for count, own in groupby(enough, key=attrgetter("count"))
        ),
        terms=by_sizes.terms,
        sized=tuple(by_sizes.rows(counts)) if by_sizes.terms else (),
        same=tuple(by_sizes.same_sizes()),
    )


def enough_for(
    needs: Sequence[tuple[float, bool]], asked: float, *, retried: bool = False
) -> float | None:
    """Give what a new run is to have, by what others needed; None: too few did.

    needs: of each, and whether it was cut off there; the newest last.
    asked: memory of a rerun.
    retried: one that is short runs again at once, by itself.

    Raises ValueError: a need is not above zero, or what is asked is not finite.
    """
    need_positive("need of memory", *(need for need, _ in needs))
    need_finite("memory that is asked for", asked, least=0)
    recent = sorted(needs[-RECENT:])
    if len(recent) < FEWEST:
        return None
    dear = (RETRIED if retried else SHORT) * max(asked, recent[-1][0])
    logs = np.log([need for need, _ in recent])
    cut = np.array([cut_off for _, cut_off in recent])
    return exp(float(_room(logs, cut, dear, level=0.0 if retried else LEVEL)))


def _memory_use(row: RunRow) -> _MemoryUse | None:
    said = evidence_of(row)
    if said.memory is Says.NOTHING and not (said.lacked_memory or row.mem_bytes):
        return None
    need = node_need(row)
    given = node_memory(row)
    if said.lacked_memory:
        need = max(need, given)
    return _MemoryUse(row, need, given, said.lacked_memory, said.memory is not Says.WHOLE)


class _Need:
    """What runs needed over a median that goes by count and sizes.

    uses: the newest last.
    terms: the sizes by which it goes.
    numbers: of each run, in the order of the terms.
    """

    def __init__(
        self,
        uses: Sequence[_MemoryUse],
        terms: tuple[MemoryTerm, ...] = (),
        numbers: Sequence[tuple[float, ...]] = (),
    ) -> None:
        self.uses = uses
        self.terms = terms
        self.numbers = numbers or [()] * len(uses)
        shape = np.array([_log_factor(terms, own) for own in self.numbers])
        logs = np.log([float(use.need) for use in uses])
        self._cut: Flags = np.array([use.cut_off for use in uses])
        counts = np.log([float(use.count) for use in uses])
        self._slope = _slope(counts[~self._cut], (logs - shape)[~self._cut])
        #: What each run needs as a multiple of that of one with the references on one node.
        self._scale: Floats = shape + self._slope * counts
        self._over: Floats = logs - self._scale
        given = next((use.given for use in reversed(uses) if use.given), 0)
        self._asked = float(max(given, *(use.need for use in uses)))

    def costs(self) -> Floats:
        """Give what each run would have cost by the others."""
        order = np.lexsort((self._cut, self._over))
        values = self._over[order]
        cut = self._cut[order]
        places = np.arange(len(values) - 1)
        others = places + (places >= np.arange(len(values))[:, None])
        said = np.empty(len(values))
        said[order] = _room(values[others], cut[others], self._dear(range(len(values))))
        given = np.minimum(np.exp(said + self._scale), self._asked)
        short = said < self._over - _ROUNDING
        costs: Floats = given + SHORT * self._asked * short
        return costs

    def least_cost(self) -> float:
        """Give what a run costs that gets what it needs, in the mean."""
        return float(np.exp(self._over + self._scale).mean())

    def rows(self, counts: Sequence[int]) -> Iterator[Memory]:
        """Give what a new run with the references is to have on each count."""
        if len(self.uses) < FEWEST:
            return
        room = self._room_of(range(len(self.uses)))
        for count in counts:
            yield Memory(count, ceil(exp(room + self._slope * log(count))))

    def same_sizes(self) -> Iterator[tuple[tuple[float, ...], float]]:
        """Give numbers of which there are runs enough, and by what factor they say more or less.

        It is no less than such runs needed, and no more than is to be given by these alone.
        """
        if not self.terms:
            return
        alike: dict[tuple[float, ...], list[int]] = {}
        for place, numbers in enumerate(self.numbers):
            alike.setdefault(numbers, []).append(place)
        room = self._room_of(range(len(self.uses)))
        for numbers, places in sorted(alike.items(), key=lambda own: -len(own[1]))[:_SAME]:
            if len(places) < FEWEST:
                break
            most = float(self._over[places].max())
            own = min(max(room, most), self._room_of(places))
            if own != room:
                yield numbers, exp(own - room)

    def judged(self, margin: float) -> Iterator[bool]:
        """Whether what runs before say, times the margin, was enough for each run."""
        before = 0
        room = 0.0
        for place in range(FEWEST, len(self.uses)):
            use = self.uses[place]
            if place >= _GROWTH * before:
                before = place
                room = self._room_of(range(place))
            asked = margin * exp(room + self._scale[place])
            # One that had less than would have been asked for says nothing.
            if not (use.short and use.given < asked):
                yield not use.short and use.need <= asked

    def _room_of(self, places: Sequence[int]) -> float:
        """Log of what a run is to be given, as ``_over`` has it, by some of them."""
        values = self._over[places]
        cut = self._cut[places]
        order = np.lexsort((cut, values))
        return float(_room(values[order], cut[order], self._dear(places)))

    def _dear(self, places: Sequence[int]) -> float:
        """Give what one that is short costs, as ``_over`` has it."""
        return SHORT * self._asked / exp(float(np.median(self._scale[places])))


def _room(values: Floats, cut: Flags, dear: float, *, level: float = LEVEL) -> Floats:
    """Log of the amount of the least expected cost, along the last axis.

    values: logs of needs, rising; at equal values those that were cut off last.
    cut: which were cut off.
    dear: cost of being short.
    level: share of new runs that need no more, at least.
    """
    runs = values.shape[-1]
    beyond = np.cumprod(np.where(cut, 1.0, 1 - 1 / (runs + 1 - np.arange(runs))), axis=-1)
    costs = np.exp(values) + dear * beyond
    costs = np.where(beyond > 1 - level, np.inf, costs)
    highest = ceil(runs / _HIGHEST)
    over = values[..., -highest:] - values[..., -highest - 1 : -highest]
    whole = highest - cut[..., -highest:].sum(axis=-1)
    steep = (_TAIL_RUNS + whole) / (_TAIL_RUNS * _TAIL + over.sum(axis=-1))
    last = values[..., -1]
    left = beyond[..., -1]
    # Beyond them all the chance is left · e^(-steep · more): where the derivative is zero.
    cheapest = (np.log(dear * left * steep) - last) / (steep + 1)
    more = np.maximum.reduce([cheapest, np.log(left / (1 - level)) / steep, np.zeros_like(last)])
    cost_beyond = np.exp(last + more) + dear * left * np.exp(-steep * more)
    place = np.argmin(costs, axis=-1)[..., None]
    inside = np.take_along_axis(values, place, axis=-1)[..., 0]
    cost_inside = np.take_along_axis(costs, place, axis=-1)[..., 0]
    return np.where(cost_inside < cost_beyond, inside, last + more)


def _slope(counts: Floats, logs: Floats) -> float:
    """Slope of least squares; zero where few counts were run.  Memory is shared out at most."""
    if len(np.unique(counts)) < _COUNTS:
        return 0.0
    away = counts - counts.mean()
    return float(np.clip((away @ (logs - logs.mean())) / (away @ away), -1.0, 1.0))


def _by_sizes(need: _Need) -> _Need:
    """Let a need go by the sizes that runs name, as far as they would have cost less by these."""
    uses = need.uses
    requested = [(use.count, use.row.cpus, use.row.tasks or 0) for use in uses]
    sizes = shared_numbers([use.row.numbers for use in uses], requested)
    for _ in range(_TERMS):
        costs = need.costs()
        if costs.mean() - need.least_cost() <= _SAVES * costs.mean():
            break  # no size can save enough
        used = {term.name for term in need.terms}
        grown = [
            _with_size(need, name, values, *form)
            for name, values in sizes.items()
            if name not in used
            for form in _FORMS
        ]
        better = [one for one in grown if _saves(costs, one.costs())]
        if not better:
            break
        need = min(better, key=lambda one: float(one.costs().mean()))
    return need


def _with_size(need: _Need, name: str, values: Floats, fixed: float, power: float) -> _Need:
    term = MemoryTerm(
        name=name,
        fixed=fixed,
        power=power,
        reference=float(np.median(values)),
        low=float(values.min()),
        high=float(values.max()),
    )
    numbers = [(*own, value) for own, value in zip(need.numbers, values.tolist(), strict=True)]
    return _Need(need.uses, (*need.terms, term), numbers)


def _log_factor(terms: Sequence[MemoryTerm], numbers: Sequence[float]) -> float:
    return sum(log(term.factor(one)) for term, one in zip(terms, numbers, strict=True))


def _saves(costs: Floats, own: Floats) -> bool:
    """Whether runs cost so much less that a size is used."""
    saved = costs - own
    error = saved.std(ddof=1) / sqrt(len(saved))
    return bool(saved.mean() > max(_SAVES * costs.mean(), _SURE * error))
