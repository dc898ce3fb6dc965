"""Batches of identities fitted, in this process or spread over others.

Each identity is independent of all others, so they are spread over processes, or over whatever
``concurrent.futures.Executor`` is given; the result does not depend on how many there are.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from multiprocessing import get_context
from time import perf_counter

import msgspec
from threadpoolctl import threadpool_limits

from predictor.checks import need_finite
from predictor.job_table import within_cluster, without_ended_runs
from predictor.level.record import Record, RecordEntry, decode, encode, pooled, pooled_errors
from predictor.node_types.product_form import Sums
from predictor.node_types.sums import decode as decode_sums
from predictor.prediction_table import PredictionTable
from predictor.refit.batches import ByKey, RefitInput, Work, batches_of
from predictor.stored_table import encode as encode_table
from predictor.tables.build import IdentityRuns, record_of
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import owner_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import FitRow, RecordRow, RunRow

#: Starting a process takes as long as fitting about so many identities.
ALONE = 100
#: Where a site has no record yet, so many identities of each level make a first one.
FIRST = 100
# Passing a row on takes a fifth of the time that pickling it does.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Work]).decode


@dataclass(frozen=True, slots=True)
class Fitted:
    """What one batch came to; tables as text already, which is a tenth of their size."""

    fits: list[FitRow] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)
    entries: list[RecordEntry] = field(default_factory=list)
    identities: list[tuple[KeyLevel, str]] = field(default_factory=list)
    #: users whose identities were fitted, and how many seconds each took
    took: list[tuple[str, float]] = field(default_factory=list)


def fits_of(
    source: RefitInput, *, now_s: float, settings: TableSettings | None = None, workers: int = 1
) -> list[FitRow]:
    """Make the prediction tables of all identities; parameters as :func:`refit` has them."""
    need_finite("time of the refit", now_s)
    need_finite("workers", workers, least=1)
    chosen = settings or TableSettings()
    chosen = replace(chosen, pooled=pooled_errors(first_entries(source.by_key, chosen)))
    done = fit_all(batches_of(source, chosen), now_s, chosen, workers, None)
    return [row for one in done for row in one.fits]


def first_entries(by_key: ByKey, settings: TableSettings) -> list[RecordEntry]:
    """Backtest some identities, so that a site's first tables have a record of predictions."""
    entries: list[RecordEntry] = []
    for level in KeyLevel:
        for _, rows in islice(by_key(level), FIRST):
            recent = rows[-settings.recent :]
            entries += _owned(record_of(level, recent, settings).entries, recent)
    return pooled((), entries)


def fit_all(
    batches: Iterable[list[Work]],
    now_s: float,
    settings: TableSettings,
    workers: int,
    pool: Executor | None,
) -> Iterator[Fitted]:
    """Results in the order of the batches, with few of them in memory at once."""
    stream = iter(batches)
    if pool is not None:
        yield from _spread(stream, now_s, settings, pool, ahead=2 * workers)
        return
    first: list[list[Work]] = []
    while sum(map(len, first)) < ALONE and (batch := next(stream, None)):
        first.append(batch)
    stream = chain(first, stream)
    if workers <= 1 or sum(map(len, first)) < ALONE:
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
) -> Iterator[Fitted]:
    waiting: deque[Future[Fitted]] = deque()
    for batch in batches:
        waiting.append(pool.submit(_fit_packed, _pack(batch), now_s, settings))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _fit_packed(packed: bytes, now_s: float, settings: TableSettings) -> Fitted:
    return _fit_batch(_unpack(packed), now_s, settings)


def _fit_batch(batch: list[Work], now_s: float, settings: TableSettings) -> Fitted:
    # Each process is a worker already: more threads of linear algebra would contend for its core,
    # and sum in another order, so that the last digits depended on how many there are.
    with threadpool_limits(limits=1, user_api="blas"):
        return _fitted(batch, now_s, settings)


def _fitted(batch: list[Work], now_s: float, settings: TableSettings) -> Fitted:
    done = Fitted(identities=[(work.level, work.key) for work in batch])
    for work in batch:
        if work.rows:
            began_s = perf_counter()
            _fit(work, now_s, settings, done)
            done.took.append((owner_of(work.rows), perf_counter() - began_s))
    return done


def _fit(work: Work, now_s: float, settings: TableSettings, done: Fitted) -> None:
    """Add to ``done`` what the tables and records of one identity and of its parts are."""
    if work.around:
        settings = replace(settings, backtest=replace(settings.backtest, around=work.around))
    sums = {kind: _sums_by_form(texts) for kind, texts in work.sums.items()}
    records = {key: decode(text, Record) for key, text in work.records.items()}
    runs = IdentityRuns(work.level, work.key, work.rows, now_s)
    for part in tables_of(runs, settings, sums=sums, records=records):
        if part.table is not None:
            done.fits.append(row_of(_bounded(part.table, settings)))
        record = part.record
        if record.entries or record.split:
            payload = encode(record)
            done.records.append(RecordRow(level=work.level.value, key=part.key, payload=payload))
        if part.new:
            done.entries.extend(_owned(record.entries[-part.new :], work.rows))


def _sums_by_form(texts: dict[str, str]) -> dict[str, Sums]:
    return {form: decode_sums(text) for form, text in texts.items()}


def _bounded(table: PredictionTable, settings: TableSettings) -> PredictionTable:
    """Leave the sizes that the cluster has, and no time before which all runs had ended."""
    most_cpus = max(settings.node_cpus.values(), default=0)
    table = within_cluster(table, settings.cluster_nodes, most_cpus, settings.node_gpus)
    return without_ended_runs(table)


def _owned(entries: Iterable[RecordEntry], rows: Iterable[RunRow]) -> Iterator[RecordEntry]:
    """Give entries with the user whose runs they are about."""
    owner = owner_of(rows)
    return (msgspec.structs.replace(entry, owner=owner) for entry in entries)


def row_of(table: PredictionTable) -> FitRow:
    """Make the row of the store that keeps a table."""
    return FitRow(
        level=KeyLevel(table.level),
        key=table.key,
        label=table.label,
        verdict=table.verdict.value,
        model=table.model,
        fitted_s=table.fitted_s,
        payload=encode_table(table),
    )
