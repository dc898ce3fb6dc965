"""One refit of all identities: reads their runs from the store, and writes their tables to it.

Each identity is independent of all others, so they are spread over processes, or over whatever
``concurrent.futures.Executor`` is given; the result does not depend on how many there are.
What became of earlier predictions is read from the store, goes on with the runs that ended since,
and is written back: of each identity, and pooled for the site.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from time import perf_counter

import msgspec
from threadpoolctl import threadpool_limits

from predictor.checks import need_finite
from predictor.level.backtest import settings_around
from predictor.level.experts import AROUND
from predictor.level.record import RecordEntry, decode, decode_pool, encode, pooled, pooled_errors
from predictor.node_types import stored_sums
from predictor.node_types.sums import decode as decode_sums
from predictor.table import encode as encode_table
from predictor.table import part_key, whole_key
from predictor.tables.build import record_of
from predictor.tables.of_node_types import SumsByType
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import owner_of, runs_of
from predictor.tables.settings import TableSettings
from predictor.types import HISTORY, PredictionTable, Run, Verdict
from predictor.waits.history import NEWEST, queue_past
from predictor.waits.workload import encode as encode_past
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.store import FitRow, RecordRow, RunRow, Store
from sacct_ingest.store.prediction_records import QUEUE, SITE

#: Identities, and runs, handed to a process at a time: enough to outweigh the passing on.
BATCH, BATCH_RUNS = 64, 10_000

#: With the texts of aprof's sums by node type and form, and of records by key, and the last runs of
#: the same user.
Work = tuple[KeyLevel, str, list[RunRow], dict[str, dict[str, str]], dict[str, str], list[Run]]
#: Where a site has no record yet, so many identities of each level make a first one.
FIRST = 100
# Passing a row on takes a fifth of the time that pickling it does.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Work]).decode


@dataclass(frozen=True, slots=True)
class RefitSummary:
    """What a refit left: curves by verdict, histories without a curve, seconds taken.

    ``by_level`` counts the curves by what their runs have in common: one application may have a
    curve for its tag, its script, and its command line.
    """

    curves: int
    by_level: dict[str, int]
    reliable: int
    doubtful: int
    refused: int
    histories: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Refitted:
    """What a refit writes."""

    fits: list[FitRow] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Done:
    """What one batch came to; tables as text already, which is a tenth of their size."""

    made: Refitted = field(default_factory=Refitted)
    entries: list[RecordEntry] = field(default_factory=list)
    identities: int = 0


def refit(  # noqa: PLR0913 - each by its name
    store: Store,
    *,
    now_s: float,
    settings: TableSettings | None = None,
    shared: Sequence[SharedTag] = (),
    only: Collection[tuple[KeyLevel, str]] | None = None,
    workers: int = 1,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> RefitSummary:
    """Make the prediction tables of all identities in ``store`` anew, in one transaction.

    now_s: time of the refit, seconds since the epoch; goes into every table.
    shared: tags that have tables of several users' runs, besides those of each user's own.
    only: identities to fit; the tables of others, and the past of queues, stay as they are.
    workers: processes that fit; the tables are the same whatever their number.
    pool: what fits instead of processes of our own, e.g. a Dask cluster; it has ``workers``
        workers.
    progress: called with the number of identities finished since the last call.
    Raises ValueError: the time is not finite, or there is no worker;
        sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    started = perf_counter()
    types = stored_sums.node_types(store)
    stored_sums.add_runs(store, types)
    sums_of = partial(stored_sums.texts, store) if len(types.types) > 1 else None
    newest = store.runs.newest(NEWEST)
    by_key = partial(_by_key, store, shared) if only is None else partial(_of_keys, store, only)
    made = fits_of(
        RefitInput(by_key, sums_of, store.records.of_level, _by_user(newest)),
        now_s=now_s,
        settings=replace(settings or TableSettings(), node_types=types.types),
        workers=workers,
        pool=pool,
        progress=progress,
    )
    parts = [(level, part_key(key, "")) for level, key in only or ()]
    store.fits.replace(made.fits, keep_others=only is not None, begins=parts)
    store.records.replace(made.records, keep_others=only is not None)
    if only is None:
        _put_pasts(store, newest)
    return _summary(made.fits, perf_counter() - started)


def _by_user(newest: Iterable[RunRow]) -> dict[str, list[Run]]:
    """Last finished runs of each user, of whatever application; the newest first."""
    users: dict[str, list[Run]] = defaultdict(list)
    for row in newest:
        if len(users[row.user]) < AROUND and not row.state.cut_short:
            users[row.user] += runs_of([row])
    return users


def _put_pasts(store: Store, newest: Iterable[RunRow]) -> None:
    """Leave the past of each cluster's queue for nimod."""
    clusters: dict[str, list[RunRow]] = defaultdict(list)
    for run in newest:
        clusters[run.cluster].append(run)
    for cluster, runs in clusters.items():
        past = queue_past(runs)
        store.records.put(RecordRow(level=QUEUE, key=cluster, payload=encode_past(past)))


def _by_key(
    store: Store, shared: Sequence[SharedTag], level: KeyLevel
) -> Iterator[tuple[str, list[RunRow]]]:
    """Give the runs of each user's own keys, then those of shared tags."""
    yield from store.runs.by_key(level)
    if level is KeyLevel.TAG:
        yield from chain.from_iterable(map(store.runs.shared, shared))


def _of_keys(
    store: Store, only: Collection[tuple[KeyLevel, str]], level: KeyLevel
) -> Iterator[tuple[str, list[RunRow]]]:
    """Give the runs of some identities of a level."""
    for key in sorted(key for its, key in only if its is level):
        yield key, store.runs.of_key(level, key)


#: Gives the runs of each key of a level; the keys in order, the newest run last.
ByKey = Callable[[KeyLevel], Iterable[tuple[str, list[RunRow]]]]
#: Gives the texts of the sums of each key of a level, by node type and form.
SumsOf = Callable[[KeyLevel], dict[str, dict[str, dict[str, str]]]]
#: Gives the texts of the records of each key of a level; level ``site`` has one.
RecordsOf = Callable[[str], dict[str, str]]


@dataclass(frozen=True, slots=True)
class RefitInput:
    """What a refit reads: runs, what became of predictions, and where node types differ sums."""

    by_key: ByKey
    sums_of: SumsOf | None = None
    records_of: RecordsOf = lambda _: {}
    of_users: Mapping[str, list[Run]] = field(default_factory=dict)  #: last runs of each user


def fits_of(
    source: RefitInput,
    *,
    now_s: float,
    settings: TableSettings | None = None,
    workers: int = 1,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> Refitted:
    """Make the prediction tables of all identities; parameters as :func:`refit` has them."""
    need_finite("time of the refit", now_s)
    need_finite("workers", workers, least=1)
    chosen = settings or TableSettings()
    entries = decode_pool(source.records_of(SITE[0]).get(SITE[1]))
    chosen = replace(chosen, pooled=pooled_errors(entries or _first_entries(source.by_key, chosen)))
    batches = _batches(source, chosen)
    result, new = Refitted(), list[RecordEntry]()
    for done in _fit_all(batches, now_s, chosen, workers, pool):
        result.fits.extend(done.made.fits)
        result.records.extend(done.made.records)
        new = pooled(new, done.entries)
        if progress:
            progress(done.identities)
    level, key = SITE
    result.records.append(RecordRow(level=level, key=key, payload=encode(pooled(entries, new))))
    return result


def _first_entries(by_key: ByKey, settings: TableSettings) -> list[RecordEntry]:
    """Backtest some identities, so that a site's first tables have a record of predictions."""
    entries: list[RecordEntry] = []
    for level in KeyLevel:
        for _, rows in islice(by_key(level), FIRST):
            recent = rows[-settings.recent :]
            entries += _owned(record_of(level, recent, settings).entries, recent)
    return pooled((), entries)


def _batches(source: RefitInput, settings: TableSettings) -> Iterator[list[Work]]:
    """Identities in batches of even work; of histories the recent runs are enough."""
    batch: list[Work] = []
    held = 0
    for level in KeyLevel:
        sums = source.sums_of(level) if source.sums_of and level in CURVE_LEVELS else {}
        records = _by_identity(source.records_of(level.value))
        for key, rows in source.by_key(level):
            fitted = rows if level in CURVE_LEVELS else rows[-settings.recent :]
            few = level is not KeyLevel.USER and len(fitted) < AROUND
            around = source.of_users.get(owner_of(fitted), []) if few else []
            batch.append((level, key, fitted, sums.get(key, {}), records.get(key, {}), around))
            held += len(fitted)
            if len(batch) >= BATCH or held >= BATCH_RUNS:
                yield batch
                batch, held = [], 0
    if batch:
        yield batch


def _by_identity(records: dict[str, str]) -> dict[str, dict[str, str]]:
    """Put the records of an identity's parts to its own."""
    by_identity: dict[str, dict[str, str]] = {}
    for key, text in records.items():
        by_identity.setdefault(whole_key(key), {})[key] = text
    return by_identity


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
    for level, key, rows, texts, records, around in batch:
        own = settings.backtest
        backtest = settings_around(own, around) if around else own
        for one in tables_of(
            level,
            key,
            rows,
            now_s=now_s,
            settings=replace(settings, backtest=backtest),
            sums=_sums(texts),
            records={name: decode(text) for name, text in records.items()},
        ):
            if one.table is not None:
                done.made.fits.append(row_of(one.table))
            if one.record.entries or one.record.split:
                payload = encode(one.record)
                done.made.records.append(RecordRow(level=level.value, key=one.key, payload=payload))
            new = one.record.entries[-one.new :] if one.new else ()
            done.entries.extend(_owned(new, rows))
    return done


def _owned(entries: Iterable[RecordEntry], rows: Iterable[RunRow]) -> Iterator[RecordEntry]:
    """Give entries with the user whose runs they are about."""
    owner = owner_of(rows)
    return (msgspec.structs.replace(entry, owner=owner) for entry in entries)


def _sums(texts: dict[str, dict[str, str]]) -> SumsByType:
    return {
        kind: {form: decode_sums(text) for form, text in forms.items()}
        for kind, forms in texts.items()
    }


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


def _summary(made: list[FitRow], seconds: float) -> RefitSummary:
    curves = [row for row in made if row.model != HISTORY]
    verdicts = Counter(row.verdict for row in curves)
    return RefitSummary(
        curves=len(curves),
        by_level=dict(sorted(Counter(row.level.value for row in curves).items())),
        reliable=verdicts[Verdict.RELIABLE],
        doubtful=verdicts[Verdict.DOUBTFUL],
        refused=verdicts[Verdict.REFUSED],
        histories=len(made) - len(curves),
        seconds=seconds,
    )
