"""What became of predictions: the record of an identity, and that of a site, pooled by class.

An entry is one finished run: what each expert (:mod:`predictor.level.experts`) would have said of
it from the runs that had ended when it was submitted, and how far that was off.  An identity's own
entries say most about its next prediction.  While they are few the site's say the rest: those of
the same class, which is how the application was recognised, whether its node count had been run,
and how often.

Intervals are conformal (Vovk et al., *Algorithmic Learning in a Random World*, 2005, section 4.1):
quantiles of earlier errors, measured in units of what they were expected to be (normalised
conformal prediction, Papadopoulos et al., JAIR 40, 2011), recent ones weighing more (Barber et al.,
Annals of Statistics 51, 2023).  They are one part of a distribution, whose parts are believed by
their scores and whose quantiles the record calibrates (:mod:`predictor.level.experts`).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, zip_longest
from operator import itemgetter
from statistics import NormalDist, fmean
from typing import TypeVar

import msgspec

from predictor.checks import need_positive

_Kept = TypeVar("_Kept")
#: Entries that an identity and a class of the site hold.
OWN, POOLED = 40, 400
#: Sizes of a record, and numbers of repeats on a node count, from which a class begins.
SIZES, REPEATS = (1, 3, 6, 12, 25), (1, 2, 4, 8)
#: A prediction is good where it is within a fifth; of reliable ones so many shall be.
GOOD, SHARE_GOOD = math.log(1.2), 0.95
#: Half of reliable predictions are within this.
HALF_GOOD = math.log(1.05)
#: Entries of its own from which on an identity's record speaks for itself.
ENOUGH = 5
#: Share of runs that the intervals of a record hold.
LEVEL = 0.9
#: Fewer entries of a class are not asked.
FEW = 20
#: Share by which errors of a site change before all tables are made anew.
_MOVED = 0.05
#: Points of a distribution.
_POINTS = 40
#: Errors in units of the expected one, where a site has no record.
_NORMAL = tuple(NormalDist().inv_cdf((i + 0.5) / _POINTS) for i in range(_POINTS))
_HEAVY = tuple(2.0 * unit for unit in _NORMAL)


class RecordEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of one prediction; errors are logs of actual over predicted run time."""

    end_s: float
    same: bool  #: recognised as one application on one problem
    repeats: int  #: earlier runs on the same node count
    curve: bool  #: a curve was there
    size: float  #: entries that the record had, those on other counts in part
    errors: tuple[float | None, ...]  #: of each expert
    chosen: int
    scale: float  #: expected size of the error
    #: probability integral transform, and what each component of the mixture lost
    #: (`predictor.level.experts`)
    fell: tuple[float, ...]
    width: float  #: error that nine in ten were expected to stay below
    inside: bool  #: its run ended inside the interval
    informed: bool  #: the site had a record by then
    owner: str = ""  #: whose run it was; empty: several users' identity
    #: error, width and ``fell`` of what jobs are changed by: no other user's runs have a say
    acting: tuple[float, float, tuple[float, ...]] | None = None

    @property
    def repeated(self) -> bool:
        """Whether the node count had been run."""
        return self.repeats > 0

    @property
    def error(self) -> float:
        """Error of the expert that was believed."""
        return self.errors[self.chosen] or 0.0

    def error_of(self, expert: int) -> float:
        """Error of an expert; where it said nothing, of the usual one, who comes first.

        Who was believed does not count here: others' runs may have decided that.
        """
        own = self.errors[expert] if expert < len(self.errors) else None
        return own if own is not None else next(one for one in self.errors if one is not None)


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Entries of one identity, by the ends of their runs."""

    entries: tuple[RecordEntry, ...] = ()
    until_s: float = 0.0  #: runs that ended until then are judged, or too old
    split: tuple[str, ...] = ()  #: attributes that its runs are split by (`predictor.tables.split`)


def encode(record: Record | Sequence[RecordEntry]) -> str:
    """Text of a record, or of pooled entries, as the store has it (JSON)."""
    return msgspec.json.encode(record).decode()


def decode(payload: str | None, kind: type[_Kept]) -> _Kept:
    """Record, or pooled entries, of a text; empty where it is of another release."""
    try:
        return msgspec.json.decode(payload, type=kind) if payload else kind()
    except msgspec.DecodeError:
        return kind()


@dataclass(frozen=True, slots=True)
class PooledErrors:
    """What the records of a site say of each class, as far as it has any."""

    accuracies: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fell: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  #: transforms
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  #: mean, of components
    sides: frozenset[str] = frozenset()
    reliable: float = GOOD  #: expected error up to which predictions were reliable
    fresh: float = GOOD  #: the same, of applications that have next to no record of their own
    alone: bool = False  #: no other user's runs have a say

    def has(self, side: str) -> bool:
        """Whether there is a record of this part of all classes."""
        return side in self.sides

    def units_of(self, side: str, size: float, *, curve: bool) -> tuple[float, ...]:
        """Errors in units of what was expected, as evenly weighing points.

        Without a record a curve's own error estimate is used, and no other.
        """
        return self.of_size(self.units, side, size) or (_NORMAL if curve else _HEAVY)

    @staticmethod
    def of_size(
        given: Mapping[str, tuple[float, ...]], side: str, size: float
    ) -> tuple[float, ...]:
        """Give what is known of records of this size, else of the part; nothing where neither."""
        return given.get(f"{side} {bisect_right(SIZES, size)}") or given.get(side, ())


@cache
def built_in() -> PooledErrors:
    """Errors in place of a site's record, where other users' runs must not count.

    In units of what was expected they are as Student's t with 1.5 degrees of freedom; see
    "What decides" in docs/records.md.
    """
    # Loaded here: commands that only read records shall start without it.
    from scipy.special import stdtrit  # noqa: PLC0415

    units = tuple(float(stdtrit(1.5, (i + 0.5) / _POINTS)) for i in range(_POINTS))
    return PooledErrors(units=dict.fromkeys(("same seen", "same new"), units), alone=True)


def class_of(*, same: bool, repeats: int, curve: bool) -> str:
    """Name the class of a prediction."""
    often = f"{bisect_right(REPEATS, repeats)}" if repeats else "curve" if curve else "none"
    return f"{side_of(same=same, repeated=repeats > 0)} {often}"


def side_of(*, same: bool, repeated: bool) -> str:
    """Name the part of all classes that shares intervals."""
    return f"{'same' if same else 'many'} {'seen' if repeated else 'new'}"


def pooled(old: Iterable[RecordEntry], new: Iterable[RecordEntry]) -> list[RecordEntry]:
    """Merge entries of all identities: the last ones of each class, of each user as many.

    So no user's runs crowd out those of others, however many they are.
    """
    classes: dict[str, list[RecordEntry]] = defaultdict(list)
    for entry in sorted([*old, *new], key=lambda one: one.end_s):
        classes[_class(entry)].append(entry)
    return [entry for entries in classes.values() for entry in _fair(entries)]


def _fair(entries: Sequence[RecordEntry]) -> list[RecordEntry]:
    """Choose the last entries, each user's in turn; they rise by their ends and stay so."""
    if len(entries) <= POOLED:
        return list(entries)
    turns: Counter[str] = Counter()
    ranked = []
    for back, entry in enumerate(reversed(entries)):
        turns[entry.owner] += 1
        ranked.append((turns[entry.owner], back))
    chosen = sorted(back for _, back in sorted(ranked)[:POOLED])
    return [entries[-1 - back] for back in reversed(chosen)]


def pooled_errors(entries: Sequence[RecordEntry]) -> PooledErrors:
    """Sum up the pooled entries of a site. Raises ValueError: an entry is damaged."""
    need_entries(entries)
    classes, sides, units = _grouped(entries)
    groups = (sides | units).items()
    informed = {
        name: few
        for name, group in groups
        if len(few := [entry for entry in group if entry.informed]) >= FEW
    }
    return PooledErrors(
        accuracies={name: _accuracies(group) for name, group in classes.items()},
        scales={name: _scale([entry.error for entry in group]) for name, group in classes.items()},
        units={name: points([e.error / e.scale for e in group]) for name, group in groups},
        errors={name: points([e.error for e in group]) for name, group in groups},
        fell={name: points([e.fell[0] for e in group]) for name, group in informed.items()},
        scores={name: _scores(group) for name, group in groups},
        sides=frozenset(sides),
        reliable=_widest_good(
            [entry for entry in entries if entry.same and entry.informed],
            prior=SHARE_GOOD,
            weight=FEW,
            least=0.3 * GOOD,
        ),
        fresh=_fresh([entry for entry in entries if entry.same]),
    )


def moved(old: PooledErrors, new: PooledErrors) -> bool:
    """Whether tables would say something else: an error or a bound differs by more than 5 %.

    Of a run time of 12 min, give or take a fifth, that is 7 s.
    """
    one = _bounds(old)
    other = _bounds(new)
    return one.keys() != other.keys() or any(
        abs(a - b) > _MOVED * max(abs(a), abs(b))
        for name in one
        for a, b in zip(one[name], other[name], strict=True)
    )


def _bounds(errors: PooledErrors) -> dict[str, tuple[float, ...]]:
    """Give what tables mostly rest on: typical errors, ends of intervals, bounds of verdicts."""
    ends = {name: (each[1], each[-2]) for name, each in errors.units.items()}
    typical = {name: (scale,) for name, scale in errors.scales.items()}
    return {**ends, **typical, "": (errors.reliable, errors.fresh)}


def need_entries(entries: Iterable[RecordEntry]) -> None:
    """Raise :class:`ValueError` unless each entry has finite errors, one of them believed."""
    for entry in entries:
        given = [error for error in entry.errors if error is not None]
        numbers = (entry.end_s, *entry.fell, entry.width, entry.size, *given)
        believed = 0 <= entry.chosen < len(entry.errors)
        if not (given and believed and entry.fell and all(map(math.isfinite, numbers))):
            raise ValueError(f"an entry of a record has no finite errors: {entry}")
        need_positive("expected error of a record's entry", entry.scale)


def points(values: Sequence[float]) -> tuple[float, ...]:
    """Values spread evenly over a sample, both extremes among them."""
    ordered = sorted(values)
    last = len(values) - 1
    return tuple(ordered[round(i / (_POINTS - 1) * last)] for i in range(_POINTS))


def quantiles(values: Sequence[tuple[float, float]], *shares: float) -> tuple[float, ...]:
    """Values that so much of the weight does not exceed; pairs of value and weight, rising."""
    sums = list(accumulate(map(itemgetter(1), values)))
    last = len(values) - 1
    places = (bisect_left(sums, share * sums[-1] - 1e-12) for share in shares)
    return tuple(values[min(place, last)][0] for place in places)


def _class(entry: RecordEntry) -> str:
    return class_of(same=entry.same, repeats=entry.repeats, curve=entry.curve)


_Groups = dict[str, list[RecordEntry]]


def _grouped(entries: Sequence[RecordEntry]) -> tuple[_Groups, _Groups, _Groups]:
    """Group by class, by side, and by side and size of the record; without small groups."""
    groups: tuple[_Groups, ...] = defaultdict(list), defaultdict(list), defaultdict(list)
    for entry in entries:
        side = side_of(same=entry.same, repeated=entry.repeated)
        for group, name in zip(
            groups, (_class(entry), side, f"{side} {bisect_right(SIZES, entry.size)}"), strict=True
        ):
            group[name].append(entry)
    classes, sides, units = (
        {name: held for name, held in group.items() if len(held) >= FEW} for group in groups
    )
    return classes, sides, units


def _accuracies(entries: Sequence[RecordEntry]) -> tuple[float | None, ...]:
    """Mean of min(p, a) / max(p, a) of each expert."""
    # Entries of an earlier release have fewer experts.
    columns = zip_longest(*(entry.errors for entry in entries))
    given = ([math.exp(-abs(e)) for e in column if e is not None] for column in columns)
    return tuple(sum(one) / len(one) if len(one) >= FEW else None for one in given)


def _scale(errors: Sequence[float]) -> float:
    """Typical size of errors: their geometric mean, which a few large ones do not move."""
    return math.exp(sum(math.log(abs(error) + 0.01) for error in errors) / len(errors))


def _scores(entries: Sequence[RecordEntry]) -> tuple[float, ...]:
    """Mean of what each component lost; nothing where they were not all asked often enough."""
    given = [scores for entry in entries if (scores := entry.fell[1:])]
    return tuple(map(fmean, zip(*given, strict=True))) if len(given) >= FEW else ()


def _fresh(entries: Sequence[RecordEntry]) -> float:
    """Give the same for those without a record: believed to be as good as all others at first.

    Where most applications are hard to predict, one that looks smooth after three runs is not
    believed before many others that looked like it were good.
    """
    prior = SHARE_GOOD
    if len(entries) >= FEW:
        prior = sum(abs(entry.error) <= GOOD for entry in entries) / len(entries)
    young = [entry for entry in entries if entry.size < ENOUGH]
    return _widest_good(young, prior=prior, weight=FEW / 2, least=0.0)


def _widest_good(
    entries: Sequence[RecordEntry], *, prior: float, weight: float, least: float
) -> float:
    """Widest expected error such that, of predictions no wider, enough were good, and half near.

    Half of them have to be near, too: applications whose own records say so by chance are not.

    prior, weight: share of good ones that is believed beforehand, and how many predictions that is
        worth; half are believed to be near.
    least: expected error that is reliable at any rate.
    """
    enough = SHARE_GOOD - 0.02
    good = weight * prior
    near = weight / 2
    count = weight
    widest = least
    narrow = sorted((one.width, abs(one.error)) for one in entries if one.width <= GOOD)
    for i, (_, error) in enumerate(narrow):
        count += 1
        good += error <= GOOD
        near += error <= HALF_GOOD
        if good >= enough * count and near >= count / 2:
            widest = narrow[i + 1][0] if i + 1 < len(narrow) else GOOD
    if narrow:
        return widest
    return GOOD if prior >= enough else least
