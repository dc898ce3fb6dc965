"""Ingests from a source into the store: resumable, the same when repeated, once or for ever."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sacct_ingest.errors import SacctError, SacctOverload, StoreError
from sacct_ingest.ingest import windows
from sacct_ingest.job_run import JobRun
from sacct_ingest.probes import reported_copies
from sacct_ingest.records import JobState, OddValue, Probe
from sacct_ingest.sources.run_source import RunSource, Tally
from sacct_ingest.store import RejectRow, Stored

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

_log = logging.getLogger(__name__)

#: Runs handed to the store at a time: few enough to be still in the processor's cache.
BATCH = 100


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How accounting is read: how much at a time, and how far back."""

    pace: windows.PaceSettings = field(default_factory=windows.PaceSettings)
    span: windows.SpanSettings = field(default_factory=windows.SpanSettings)
    #: user whose reports of copies are stored; None: all users; empty: nobody
    copies_of: str | None = ""


#: Takes the rows read since the last call, where the ingest is, and the share done, if known.
Progress = Callable[[int, str, float | None], None]


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What one ingest came to.

    ``read`` counts rows of jobs and steps, ``new``, ``changed`` and ``same`` runs; ``unfinished``
    runs are left for the ingest after their end, ``refused`` rows could not be read, nor could
    ``unknown`` values in rows that were.  ``joined`` decisions have found their runs.
    """

    source: str
    read: int
    new: int
    changed: int
    same: int
    unfinished: int
    refused: int
    windows: int
    joined: int
    begin_s: int | None = None  #: None: no window, a file
    end_s: int | None = None
    unknown: tuple["UnknownValues", ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownValues:
    """Values of one column that could not be used, of jobs or of steps; one is an example."""

    kind: str
    column: str
    fault: str
    count: int
    example: str


def ingest(  # noqa: PLR0913 - each by its name
    store: "Store",
    source: RunSource,
    *,
    now_s: int,
    since_s: int | None = None,
    until_s: int | None = None,
    settings: IngestSettings | None = None,
    progress: Progress | None = None,
    pace: windows.Pace | None = None,
) -> IngestSummary:
    """Read what is new in ``source`` into ``store``, then join decisions with their runs.

    Runs go into the store before the watermark moves, and only after a window was read to its
    end: an ingest that was stopped anywhere goes on where it was.  Of all ingests into a store
    one at a time asks the accounting.

    now_s: the present, seconds since the epoch.
    since_s, until_s: read this span instead of what is new, going on where that was stopped before.
        The watermark moves with it where that leaves no gap.
    progress: told how far the ingest has come.
    pace: what chooses windows and pauses; made of the settings where it is not given.
    Raises SacctError, FormatError: the source broke off; what was read before is stored;
        StoreError: the store cannot be written.
    """
    chosen = settings or IngestSettings()
    loader = _Loader(store, source, progress, now_s, chosen.copies_of)
    spans: list[windows.Span] = []
    if source.windowed:
        # A mark in the future would say of runs that are still to end that they have been read.
        end_s = now_s if until_s is None else min(until_s, now_s)
        if since_s is None:
            spans = windows.new_spans(store, source.name, now_s, end_s, chosen.span)
        else:
            overlap_s = chosen.span.overlap_s
            spans = [windows.asked_span(store, source.name, since_s, until_s, now_s, overlap_s)]
        loader.load_windows(spans, pace or windows.Pace(chosen.pace))
    else:
        loader.load_all()
    return loader.summary(spans, joined=store.decisions.join_outcomes())


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """Seconds between ingests; after a failure ``first_retry_s``, doubled up to ``longest_s``."""

    every_s: float = 600.0
    first_retry_s: float = 30.0
    longest_s: float = 3600.0


def follow(
    once: Callable[[], object],
    settings: FollowSettings,
    *,
    pause: Callable[[float], object],
    rounds: int | None = None,
) -> None:
    """Call ``once`` again and again; log errors of slurmdbd and the database, and go on.

    once: one ingest.
    pause: waits for some seconds.
    rounds: calls after which to return; None: never.
    """
    retry_s = settings.first_retry_s
    while rounds is None or (rounds := rounds - 1) >= 0:
        try:
            once()
            retry_s = settings.first_retry_s
            delay_s = settings.every_s
        except (SacctError, StoreError) as error:
            _log.error("%s; next attempt in %.0f s", error, retry_s)
            delay_s = retry_s
            retry_s = min(2 * retry_s, settings.longest_s)
        pause(delay_s)


class _Loader:
    """Puts runs into the store, batch by batch."""

    def __init__(
        self,
        store: "Store",
        source: RunSource,
        progress: Progress | None,
        now_s: int,
        copies_of: str | None,
    ) -> None:
        self._store = store
        self._source = source
        self._now_s = now_s
        self._copies_of = copies_of
        self._tally = Tally()
        self._stored = Stored()
        self._progress = progress
        self._reported = 0
        self._unfinished = self._windows = 0
        self._left_s = self._total_s = 0
        self._odd: Counter[OddValue] = Counter()

    def load_all(self) -> None:
        """Read a source that has no windows."""
        self._windows = 1
        try:
            self._load(0, self._now_s)
        finally:
            self._store_tally()

    def load_windows(self, spans: Sequence[windows.Span], pace: windows.Pace) -> None:
        """Read spans, window by window; each window is in the store before its mark moves."""
        self._left_s = self._total_s = sum(max(0, span.end_s - span.begin_s) for span in spans)
        for span in spans:
            begin_s = span.begin_s
            while begin_s < span.end_s:
                begin_s = self._take_turn(span, begin_s, pace)
            span.finished(self._store)

    def _take_turn(self, span: windows.Span, begin_s: int, pace: windows.Pace) -> int:
        """Read a window that begins there; gives where the next one does."""
        end_s = min(begin_s + pace.width_s, span.end_s)
        say = partial(_log.warning, "another ingest is asking the accounting; waiting for it")
        with self._store.ingest_lock(say):
            waited_s = self._tally.waited_s
            pace.ask()
            if self._load_window(begin_s, end_s, pace):
                span.read_to(self._store, end_s)
                self._left_s -= end_s - begin_s
                self._report(1 - self._left_s / self._total_s)
                begin_s = end_s
            if self._left_s:
                pace.rest(self._tally.waited_s - waited_s)
        return begin_s

    def summary(self, spans: Sequence[windows.Span], *, joined: int) -> IngestSummary:
        """Say what came of it."""
        return IngestSummary(
            source=self._source.name,
            read=self._tally.rows,
            new=self._stored.new,
            changed=self._stored.changed,
            same=self._stored.same,
            unfinished=self._unfinished,
            refused=self._tally.refused,
            windows=self._windows,
            joined=joined,
            begin_s=spans[0].begin_s if spans else None,
            end_s=spans[0].end_s if spans else None,
            unknown=tuple(
                UnknownValues(*value, count, self._tally.examples.get(value, ""))
                for value, count in self._odd.most_common()
            ),
        )

    def _load_window(self, begin_s: int, end_s: int, pace: windows.Pace) -> bool:
        """Read one window; False where it was too large and is to be read in parts."""
        waited_s = self._tally.waited_s
        self._forget_tally()
        try:
            self._load(begin_s, end_s)
        except SacctOverload as error:
            if end_s - begin_s <= windows.NARROWEST_S or not pace.narrow():
                raise
            _log.warning("%s; going on with windows of %d s", error, pace.width_s)
            return False
        waited_s = self._tally.waited_s - waited_s
        _log.info("%s %d to %d: answered in %.1f s", self._source.name, begin_s, end_s, waited_s)
        pace.answered(waited_s)
        # Only now: what a sacct that breaks off says is no row of the accounting.
        self._store_tally()
        self._windows += 1
        return True

    def _load(self, begin_s: int, end_s: int) -> None:
        runs = self._source.read(begin_s, end_s, self._tally)
        copies = list[Probe]()
        with self._store.writer() as writer:
            while batch := list(islice(runs, BATCH)):
                finished = [run for run in map(to_store, batch) if run is not None]
                self._unfinished += len(batch) - len(finished)
                writer.add(finished)
                for run in finished:
                    if self._copies_of in (None, run.user):
                        copies += reported_copies.of_run(run)
                self._report()
        self._stored += writer.stored
        self._store.probes.add(copies)

    def _store_tally(self) -> None:
        self._odd += self._tally.odd
        self._store.value_counts.add(self._tally.read, self._tally.odd)
        self._store.rejects.add(
            [
                RejectRow(
                    source=self._source.name, reason=one.reason, text=one.text, read_s=self._now_s
                )
                for one in self._tally.rejects
            ]
        )
        self._forget_tally()

    def _forget_tally(self) -> None:
        """Forget what was set aside and counted: it is stored, or will be read again."""
        self._tally.rejects.clear()
        self._tally.read.clear()
        self._tally.odd.clear()

    def _report(self, share: float | None = None) -> None:
        if self._progress:
            self._progress(self._tally.rows - self._reported, self._source.name, share)
            self._reported = self._tally.rows


def to_store(run: JobRun) -> JobRun | None:
    """Give what to store of a row: a run that ended, or the key of the rest of a resized job.

    A job whose node count was changed while it ran has a row for each size: those before the last
    are in state ``RESIZING``, and the row after them has the time of the change for its submit time
    (``as_mysql_job.c`` in Slurm's slurmdbd).  That row alone does not say that it is a rest, and
    may be read in another window.  So its key is stored at once, as a run in state ``RESIZING``.
    The store leaves that state as it is: the time on the last nodes is no run time on them.

    >>> row = JobRun(cluster="pine", job_id=22, submit_s=100, state=JobState.RESIZING, end_s=170)
    >>> to_store(row).submit_s, to_store(row).end_s
    (170, None)
    """
    if run.state is JobState.RESIZING and run.end_s is not None:
        began = {"submit_s": run.end_s, "eligible_s": run.end_s, "start_s": None, "end_s": None}
        return replace(run, **began, elapsed_s=0.0, cpu_s=None, steps=())
    return run if run.state.ended else None
