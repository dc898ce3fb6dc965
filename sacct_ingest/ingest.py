"""One pass from a source into the store: resumable, and the same when repeated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sacct_ingest.sources.base import ENDED, Source, Tally
from sacct_ingest.store import RejectRow, Store, Stored

#: Runs handed to the store at a time.
BATCH = 2000


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How accounting is read: ``window_s`` at a time, ``overlap_s`` of it once more.

    The overlap catches what reached the accounting late; ``first_s`` is how far back the first
    ingest of a source goes.
    """

    window_s: int = 86_400
    overlap_s: int = 3600
    first_s: int = 90 * 86_400


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What one ingest came to.

    ``read`` counts rows of jobs and steps, ``new``, ``changed`` and ``same`` runs; ``unfinished``
    runs are left for the ingest after their end, ``refused`` rows could not be read.  ``joined``
    decisions have found their runs.
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


def ingest(
    store: Store,
    source: Source,
    *,
    now_s: int,
    since_s: int | None = None,
    until_s: int | None = None,
    settings: IngestSettings | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> IngestSummary:
    """Read what is new in ``source`` into ``store``, then join decisions with their runs.

    Runs go into the store before the watermark moves, and only after a window was read to its
    end: an ingest that was stopped anywhere goes on where it was.

    Parameters
    ----------
    now_s
        The present, seconds since the epoch.
    since_s, until_s
        Read this span instead of what is new; the watermark does not move back for it.
    progress
        Called with the rows read since its last call and a word on where the ingest is.

    Raises
    ------
    SacctError, FormatError
        The source broke off; what was read before is stored.
    StoreError
        The store cannot be written.
    """
    chosen = settings or IngestSettings()
    until_s = now_s if until_s is None else until_s
    spans = list(_spans(store, source, since_s, until_s, chosen))
    loader = _Loader(store, Tally(), _Reporter(progress))
    try:
        for begin, end in spans:
            loader.load(source, begin, end)
            if source.windowed and since_s is None:
                store.watermarks.set(source.name, end)
    finally:
        loader.keep_rejects(source, now_s)
    return loader.summary(source, spans, joined=store.decisions.join_outcomes())


def windows(begin_s: int, end_s: int, width_s: int) -> Iterator[tuple[int, int]]:
    """Spans of at most ``width_s`` seconds that cover ``[begin_s, end_s]``.

    Examples
    --------
    >>> list(windows(0, 10, 4))
    [(0, 4), (4, 8), (8, 10)]
    """
    while begin_s < end_s:
        yield begin_s, min(begin_s + width_s, end_s)
        begin_s += width_s


def _spans(
    store: Store, source: Source, since_s: int | None, until_s: int, settings: IngestSettings
) -> Iterator[tuple[int, int]]:
    if not source.windowed:
        return iter([(0, until_s)])
    if since_s is None:
        watermark = store.watermarks.get(source.name)
        if watermark is None:
            since_s = until_s - settings.first_s
        else:
            since_s = min(watermark, until_s) - settings.overlap_s
    return windows(since_s, until_s, settings.window_s)


class _Reporter:
    """Turns a running total into what came since the last report."""

    def __init__(self, progress: Callable[[int, str], None] | None) -> None:
        self._progress, self._told = progress, 0

    def report(self, total: int, where: str) -> None:
        if self._progress:
            self._progress(total - self._told, where)
            self._told = total


class _Loader:
    """Puts runs into the store, batch by batch."""

    def __init__(self, store: Store, tally: Tally, reporter: _Reporter) -> None:
        self._store, self._tally, self._reporter = store, tally, reporter
        self._stored = Stored()
        self._unfinished = 0

    def load(self, source: Source, begin_s: int, end_s: int) -> None:
        runs = source.read(begin_s, end_s, self._tally)
        while batch := list(islice(runs, BATCH)):
            ended = [run for run in batch if run.state in ENDED]
            self._unfinished += len(batch) - len(ended)
            self._stored += self._store.runs.add(ended)
            self._reporter.report(self._tally.rows, source.name)

    def keep_rejects(self, source: Source, now_s: int) -> None:
        rejects = self._tally.rejects
        self._store.rejects.add(
            [
                RejectRow(source=source.name, reason=one.reason, text=one.text, seen_s=now_s)
                for one in rejects
            ]
        )

    def summary(
        self, source: Source, spans: Sequence[tuple[int, int]], *, joined: int
    ) -> IngestSummary:
        windowed = source.windowed and bool(spans)
        return IngestSummary(
            source=source.name,
            read=self._tally.rows,
            new=self._stored.new,
            changed=self._stored.changed,
            same=self._stored.same,
            unfinished=self._unfinished,
            refused=self._tally.refused,
            windows=len(spans),
            joined=joined,
            begin_s=spans[0][0] if windowed else None,
            end_s=spans[-1][1] if windowed else None,
        )
