"""One refit of everything: the module of this package that meets the store.

Each identity is independent of all others, so they are spread over processes, or over whatever
``concurrent.futures.Executor`` is given; the result does not depend on how many there are.
Histories without a curve get their interval last, from the residuals that all of them left behind.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from time import perf_counter

import msgspec
from threadpoolctl import threadpool_limits

from predictor import summing
from predictor.by_type import SumsByType
from predictor.models import history
from predictor.node_sums import decode as decode_sums
from predictor.parts import tables_of
from predictor.table import encode
from predictor.tabulate import TableSettings, runs_of, with_interval
from predictor.types import HISTORY, PredictionTable, Verdict
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.sharing import SharedTag
from sacct_ingest.store import FitRow, RunRow, Store

#: Identities, and runs, handed to a process at a time: enough to outweigh the passing on.
BATCH, BATCH_RUNS = 64, 10_000

#: With the texts of aprof's sums by node type and form.
Work = tuple[KeyLevel, str, list[RunRow], dict[str, dict[str, str]]]
# Passing a row on takes a fifth of the time that pickling it does.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Work]).decode


@dataclass(frozen=True, slots=True)
class RefitSummary:
    """What a refit left: curves by verdict, histories without a curve, seconds taken."""

    curves: int
    reliable: int
    doubtful: int
    refused: int
    histories: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Done:
    """What one batch came to; curves as text already, which is a tenth of their size."""

    curves: list[FitRow] = field(default_factory=list)
    histories: list[PredictionTable] = field(default_factory=list)
    residuals: dict[KeyLevel, list[history.Residual]] = field(default_factory=dict)
    identities: int = 0


def refit(
    store: Store,
    *,
    now_s: float,
    settings: TableSettings | None = None,
    shared: Sequence[SharedTag] = (),
    workers: int = 1,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> RefitSummary:
    """Make the prediction tables of all identities in ``store`` anew, in one transaction.

    Parameters
    ----------
    now_s
        Time of the refit, seconds since the epoch; goes into every table.
    shared
        Tags that have tables of several users' runs, besides those of each user's own.
    workers
        Processes that fit; the tables are the same whatever their number.
    pool
        What fits instead of processes of our own, e.g. a Dask cluster; it has ``workers`` workers.
    progress
        Called with the number of identities finished since the last call.

    Raises
    ------
    sacct_ingest.errors.StoreError
        The store cannot be read or written.
    """
    started = perf_counter()
    types = summing.node_types(store)
    summing.add_runs(store, types)
    made = fits_of(
        partial(_by_key, store, shared),
        now_s=now_s,
        settings=replace(settings or TableSettings(), node_types=types.types),
        workers=workers,
        pool=pool,
        progress=progress,
        sums_of=partial(summing.texts, store) if len(types.types) > 1 else None,
    )
    store.fits.replace(made)
    return _summary(made, perf_counter() - started)


def _by_key(
    store: Store, shared: Sequence[SharedTag], level: KeyLevel
) -> Iterator[tuple[str, list[RunRow]]]:
    """Give the runs of each user's own keys, then those of shared tags."""
    yield from store.runs.by_key(level)
    if level is KeyLevel.TAG:
        yield from chain.from_iterable(map(store.runs.shared, shared))


#: Gives the runs of each key of a level; the keys in order, the newest run last.
ByKey = Callable[[KeyLevel], Iterable[tuple[str, list[RunRow]]]]
#: Gives the texts of the sums of each key of a level, by node type and form.
SumsOf = Callable[[KeyLevel], dict[str, dict[str, dict[str, str]]]]


def fits_of(
    by_key: ByKey,
    *,
    now_s: float,
    settings: TableSettings | None = None,
    workers: int = 1,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    sums_of: SumsOf | None = None,
) -> list[FitRow]:
    """Make the prediction tables of all identities; parameters as :func:`refit` has them.

    Parameters
    ----------
    sums_of
        Where there are several node types, aprof's sums of the runs on each.
    """
    chosen = settings or TableSettings()
    curves: list[FitRow] = []
    histories: list[PredictionTable] = []
    residuals: dict[KeyLevel, list[history.Residual]] = {level: [] for level in KeyLevel}
    for done in _fit_all(_batches(by_key, sums_of, chosen), now_s, chosen, workers, pool):
        curves += done.curves
        histories += done.histories
        for level, found in done.residuals.items():
            residuals[level] = _latest(residuals[level] + found, chosen)
        if progress:
            progress(done.identities)
    return [*curves, *map(row_of, _calibrated(histories, residuals, chosen))]


def _batches(
    by_key: ByKey, sums_of: SumsOf | None, settings: TableSettings
) -> Iterator[list[Work]]:
    """Identities in batches of even work; of histories the recent runs are enough."""
    batch: list[Work] = []
    held = 0
    for level in KeyLevel:
        sums = sums_of(level) if sums_of and level in CURVE_LEVELS else {}
        for key, rows in by_key(level):
            kept = rows if level in CURVE_LEVELS else rows[-settings.history.recent :]
            batch.append((level, key, kept, sums.get(key, {})))
            held += len(kept)
            if len(batch) >= BATCH or held >= BATCH_RUNS:
                yield batch
                batch, held = [], 0
    if batch:
        yield batch


def _fit_all(
    batches: Iterable[list[Work]],
    now_s: float,
    settings: TableSettings,
    workers: int,
    pool: Executor | None,
) -> Iterator[_Done]:
    """Results in the order of the batches, with few of them in memory at once."""
    stream = iter(batches)
    if pool is not None:
        yield from _spread(stream, now_s, settings, pool, ahead=2 * workers)
        return
    first = list(islice(stream, workers))
    stream = chain(first, stream)
    if workers <= 1 or len(first) < workers:
        # Starting processes takes longer than these few batches.
        for batch in stream:
            yield _fit_batch(batch, now_s, settings)
        return
    # Spawned, not forked: the parent may hold threads and an open database.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as own:
        yield from _spread(stream, now_s, settings, own, ahead=2 * workers)


def _spread(
    batches: Iterable[list[Work]],
    now_s: float,
    settings: TableSettings,
    pool: Executor,
    *,
    ahead: int,
) -> Iterator[_Done]:
    waiting: deque[Future[_Done]] = deque()
    for batch in batches:
        waiting.append(pool.submit(_fit_packed, _pack(batch), now_s, settings))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _fit_packed(packed: bytes, now_s: float, settings: TableSettings) -> _Done:
    return _fit_batch(_unpack(packed), now_s, settings)


def _fit_batch(batch: list[Work], now_s: float, settings: TableSettings) -> _Done:
    # Each process is a worker already: more threads of linear algebra would contend for its core,
    # and sum in another order, so that the last digits depended on how many there are.
    with threadpool_limits(limits=1, user_api="blas"):
        return _fitted(batch, now_s, settings)


def _fitted(batch: list[Work], now_s: float, settings: TableSettings) -> _Done:
    done = _Done(identities=len(batch))
    residuals = done.residuals
    for level, key, rows, texts in batch:
        tables = tables_of(level, key, rows, now_s=now_s, settings=settings, sums=_sums(texts))
        done.histories.extend(table for table in tables if not table.is_curve)
        done.curves.extend(row_of(table) for table in tables if table.is_curve)
        found = residuals.get(level, []) + history.History(
            runs_of(rows), settings.history, same_problem=level in CURVE_LEVELS
        ).residuals(settings.confidence)
        residuals[level] = _latest(found, settings)
    return done


def _sums(texts: dict[str, dict[str, str]]) -> SumsByType:
    return {
        kind: {form: decode_sums(text) for form, text in forms.items()}
        for kind, forms in texts.items()
    }


def _latest(residuals: list[history.Residual], settings: TableSettings) -> list[history.Residual]:
    return sorted(residuals)[-settings.history.residuals :]


def _calibrated(
    histories: list[PredictionTable],
    residuals: dict[KeyLevel, list[history.Residual]],
    settings: TableSettings,
) -> list[PredictionTable]:
    """Histories with the interval that their level earned."""
    factors = {
        level.value: history.multipliers(found, settings.confidence)
        for level, found in residuals.items()
    }
    return [with_interval(table, factors[table.level]) for table in histories]


def row_of(table: PredictionTable) -> FitRow:
    """Make the row of the store that keeps a table."""
    return FitRow(
        level=KeyLevel(table.level),
        key=table.key,
        label=table.label,
        verdict=table.verdict.value,
        model=table.model,
        fitted_s=table.fitted_s,
        payload=encode(table),
    )


def _summary(made: list[FitRow], seconds: float) -> RefitSummary:
    curves = [row for row in made if row.model != HISTORY]
    verdicts = Counter(row.verdict for row in curves)
    return RefitSummary(
        curves=len(curves),
        reliable=verdicts[Verdict.RELIABLE],
        doubtful=verdicts[Verdict.DOUBTFUL],
        refused=verdicts[Verdict.REFUSED],
        histories=len(made) - len(curves),
        seconds=seconds,
    )
