"""What watches a queue that is run forward for when a job could start behind all that wait."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from predictor.waits.easy import Engine, Wait


class Awaited(NamedTuple):
    """A job that another one waits for."""

    key: int  #: of the queued job, or of all tasks that have it
    starts: bool = False  #: it has to start; otherwise to end
    task: int = -1  #: place of the one that counts, of tasks that have the key; below zero: all


def waits_of(awaits: Iterable[Awaited], numbers: Mapping[int, Sequence[int]]) -> list[Wait]:
    """Give what a job waits for by the engine's numbers; these are of each key."""
    waits: list[Wait] = []
    for one in awaits:
        of_key = numbers.get(one.key, ())
        counting = of_key if one.task < 0 else of_key[one.task : one.task + 1]
        waits += [Wait(number, starts=one.starts) for number in counting]
    return waits


class Watch(Protocol):
    """Watches a queue that is run forward."""

    engine: Engine
    numbers: Mapping[int, Sequence[int]]  #: the engine's, of jobs that others may wait for

    @property
    def moments(self) -> Sequence[float]:
        """More moments that it wants to look at."""

    def __call__(self, now_s: float) -> bool:
        """Look at a moment; true ends the run."""


class Form(Protocol):
    """What a job may ask for."""

    @property
    def units(self) -> int:
        """Its size."""

    @property
    def limit_s(self) -> float:
        """Its time limit."""

    @property
    def begin_s(self) -> float:
        """It cannot start before so many seconds from now."""

    @property
    def awaits(self) -> Sequence[Awaited]:
        """What it waits for."""


class GridProbe:
    """Watches when a job behind the whole queue could start, for each size and limit.

    waits_s: shape ``(sizes, limits)``.
    """

    engine: Engine
    numbers: Mapping[int, Sequence[int]]
    moments: Sequence[float] = ()

    def __init__(
        self, sizes: Sequence[int], horizon_s: float, *, limits_s: Sequence[float]
    ) -> None:
        self._sizes = sizes
        self._limits_s = limits_s
        self._horizon_s = horizon_s
        self._started = [0] * len(limits_s)
        self._least = sizes[0]
        self.waits_s = np.full((len(sizes), len(limits_s)), horizon_s)

    def __call__(self, now_s: float) -> bool:
        """Note what could start now; true when all has, or it is too late."""
        if now_s > self._horizon_s:
            return True
        if self.engine.free < self._least:
            return False
        for place, most in enumerate(self.engine.most_at_once(now_s, self._limits_s)):
            first = size = self._started[place]
            while size < len(self._sizes) and self._sizes[size] <= most:
                size += 1
            if size > first:
                self.waits_s[first:size, place] = now_s
                self._started[place] = size
        least = min(self._started)
        self._least = self._sizes[min(least, len(self._sizes) - 1)]
        return least == len(self._sizes)


class FormProbe:
    """Watches when a job behind the whole queue could start, in each of the forms it may have.

    starts_s: of each form.
    """

    engine: Engine
    numbers: Mapping[int, Sequence[int]]

    def __init__(self, forms: Sequence[Form], horizon_s: float) -> None:
        self._forms = forms
        self._horizon_s = horizon_s
        self.moments = sorted({form.begin_s for form in forms if form.begin_s > 0})
        self._left = set(range(len(forms)))
        self.starts_s = np.full(len(forms), horizon_s)

    def __call__(self, now_s: float) -> bool:
        """Note what could start now; true when all has, or it is too late."""
        if now_s > self._horizon_s:
            return True
        left = [one for one in self._left if self._may_start(self._forms[one], now_s)]
        if left and self.engine.free:
            limits_s = [max(self._forms[one].limit_s, 1.0) for one in left]
            for one, units in zip(left, self.engine.most_at_once(now_s, limits_s), strict=True):
                if min(self._forms[one].units, self.engine.nodes) <= units:
                    self.starts_s[one] = now_s
                    self._left.discard(one)
        return not self._left

    def _may_start(self, form: Form, now_s: float) -> bool:
        waits = waits_of(form.awaits, self.numbers)
        return form.begin_s <= now_s and all(self.engine.is_satisfied(w, now_s) for w in waits)
