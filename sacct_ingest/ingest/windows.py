"""Which spans of the accounting an ingest reads, in windows of which width, and how slowly.

Watermarks record how far it has come: ``sacct:pine`` is the time up to which everything has
been read; ``sacct:pine again`` when the last days were read once more; ``sacct:pine since T`` how
far a span that somebody asked for has been read, and ``sacct:pine once more`` how far the last days
have, until they are finished.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

#: Windows get no smaller than this.
NARROWEST_S = 600


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """What slurmdbd may be burdened with.

    Windows are ``window_s`` wide as long as they are answered within ``slow_s``, and smaller
    while they are not.  Of the time that several windows take, slurmdbd works for us for
    ``share`` at most.
    """

    window_s: float = 86_400
    slow_s: float = 20.0
    share: float = 0.25


class Pace:
    """The pace of one ingest: it narrows and slows down while the accounting is slow.

    settings: what is allowed.
    clock, pause: time in seconds, and what waits: arguments, so that tests need not wait.

    >>> pace = Pace(PaceSettings(window_s=86_400, slow_s=20), clock=lambda: 0.0)
    >>> pace.answered(waited_s=50)
    >>> pace.width_s
    43200
    """

    def __init__(
        self,
        settings: PaceSettings | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], object] = sleep,
    ) -> None:
        self._settings = settings or PaceSettings()
        self._clock = clock
        self._pause = pause
        self._asked_at_s = clock()
        self.width_s = max(1, round(self._settings.window_s))

    def ask(self) -> None:
        """Note that the accounting is asked now."""
        self._asked_at_s = self._clock()

    def answered(self, waited_s: float) -> None:
        """Choose the width of the next window by how long this one was waited for."""
        if waited_s > self._settings.slow_s:
            self.narrow()
        elif waited_s < self._settings.slow_s / 4:
            self.width_s = min(max(1, round(self._settings.window_s)), 2 * self.width_s)

    def narrow(self) -> bool:
        """Halve the windows; False where they are as small as they get."""
        narrowest = min(NARROWEST_S, self.width_s)
        before = self.width_s
        self.width_s = max(narrowest, self.width_s // 2)
        return self.width_s < before

    def rest(self, waited_s: float) -> None:
        """Pause until the time waited is no more than the share of the time since `ask`."""
        rest_s = waited_s / self._settings.share - (self._clock() - self._asked_at_s)
        if rest_s > 0:
            self._pause(rest_s)


@dataclass(frozen=True, slots=True)
class SpanSettings:
    """How far back an ingest goes.

    ``overlap_s`` is read once more each time, for what reached the accounting late; ``again_s``
    every ``every_s``, for what came very late or was changed.  ``first_s`` is how far back the
    first ingest of a source goes.
    """

    overlap_s: int = 3600
    again_s: int = 14 * 86_400
    every_s: int = 86_400
    first_s: int = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Span:
    """A span to read, and its marks.

    begin_s, end_s: seconds since the epoch.
    moves_mark: whether the source's watermark moves with it.
    progress_mark: name of the mark of a span that was asked for; empty for none.
    done_mark: mark to set once this was done, and to what.
    """

    source: str
    begin_s: int
    end_s: int
    moves_mark: bool = True
    progress_mark: str = ""
    done_mark: tuple[str, int] | None = None

    def read_to(self, store: "Store", epoch_s: int) -> None:
        """Remember that all up to ``epoch_s`` is in the store."""
        if self.progress_mark:
            store.watermarks.set(self.progress_mark, epoch_s)
        if self.moves_mark:
            store.watermarks.advance(self.source, epoch_s)

    def finished(self, store: "Store") -> None:
        """Remember that the whole span is in the store."""
        if self.progress_mark:
            store.watermarks.forget(self.progress_mark)
        if self.done_mark:
            store.watermarks.set(*self.done_mark)


def new_spans(
    store: "Store", source: str, now_s: int, until_s: int, settings: SpanSettings
) -> list[Span]:
    """Give the span of what is new, with an overlap, and now and then the days before it.

    A watermark in the future means that the clock went back.  What the clock skipped before is
    not surely read, so the mark goes back as far as is read again.
    """
    again_mark = f"{source} again"
    name = f"{source} once more"
    mark = store.watermarks.get(source)
    again = store.watermarks.get(again_mark)
    again_s = until_s - min(settings.again_s, settings.first_s)
    if mark is not None and mark > now_s:
        store.watermarks.set(source, mark := again_s)
    if mark is None:
        begin_s = until_s - settings.first_s
    else:
        begin_s = min(mark, until_s) - settings.overlap_s
    spans = [Span(source, begin_s, until_s)]
    if again is None or not 0 <= now_s - again < settings.every_s:
        again_s = max(again_s, store.watermarks.get(name) or again_s)
        done = again_mark, now_s
        spans.append(
            Span(source, again_s, begin_s, moves_mark=False, progress_mark=name, done_mark=done)
        )
    return spans


def asked_span(
    store: "Store", source: str, since_s: int, until_s: int | None, now_s: int, overlap_s: int
) -> Span:
    """Span that somebody asked for; goes on where it was stopped, if it was.

    The watermark moves with it where that leaves no gap.
    """
    name = f"{source} since {since_s}" + (f" until {until_s}" if until_s is not None else "")
    reached_s = store.watermarks.get(name)
    mark = store.watermarks.get(source)
    begin_s = since_s if reached_s is None else max(since_s, reached_s - overlap_s)
    joins = until_s is None if mark is None else since_s <= mark
    end_s = now_s if until_s is None else min(until_s, now_s)
    return Span(source, begin_s, end_s, moves_mark=joins, progress_mark=name)


def reached(marks: Mapping[str, int]) -> dict[str, int]:
    """Select, of all watermarks, those up to which a source has surely been read.

    >>> reached({"sacct:pine": 7, "sacct:pine again": 9, "sacct:pine since 1": 3, "standings": 9})
    {'sacct:pine': 7}
    """
    return {name: at_s for name, at_s in marks.items() if ":" in name and " " not in name}
