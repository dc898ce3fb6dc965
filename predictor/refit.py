"""A refit: reads the runs of identities that changed from the store, and writes their tables to it.

Each identity is independent of all others, so they are spread over processes, or over whatever
``concurrent.futures.Executor`` is given; the result does not depend on how many there are.
What became of earlier predictions is read from the store, goes on with the runs that ended since,
and is written back: of each identity, and pooled for the site.  All tables rest on one state of the
site's record (`Basis`).  When it has moved, those that rest on an earlier one are made anew too, at
a refit a quarter as many as have new runs, or one table in 200.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from multiprocessing import get_context
from time import perf_counter
from types import MappingProxyType
from typing import Protocol

import msgspec
from threadpoolctl import threadpool_limits

from predictor.checks import need_finite
from predictor.job_table import within_cluster, without_ended_runs
from predictor.level.backtest import around_of
from predictor.level.experts import AROUND, Around
from predictor.level.record import (
    PooledErrors,
    Record,
    RecordEntry,
    decode,
    encode,
    moved,
    pooled,
    pooled_errors,
)
from predictor.neighbours import MOST_JOBS, collect
from predictor.node_types import sums
from predictor.node_types.sums import decode as decode_sums
from predictor.prediction_table import PredictionTable
from predictor.sample import Sample
from predictor.stored_table import encode as encode_table
from predictor.stored_table import models_version
from predictor.tables.build import IdentityRuns, record_of
from predictor.tables.parts import tables_of
from predictor.tables.resource_use import node_cpus, node_gpus
from predictor.tables.run_facts import owner_of
from predictor.tables.samples import samples_of
from predictor.tables.settings import TableSettings
from predictor.types import HISTORY, Verdict
from predictor.waits.backtest import node_names
from predictor.waits.history import NEWEST, queue_past
from predictor.waits.workload import encode as encode_past
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.sharing import SharedTag, is_shared
from sacct_ingest.runs.submission import RULES
from sacct_ingest.store import FitRow, RecordRow, RunRow, Store
from sacct_ingest.store.fits import BASIS, NEIGHBOURS, NODE_CPUS, OUTLOOK, PASTS_MADE, QUEUE, SITE
from sacct_ingest.store.ingests import REFITTED

#: Identities, and runs, handed to a process at a time: enough to outweigh the passing on.
BATCH, BATCH_RUNS = 64, 10_000
#: Starting a process takes as long as fitting about so many identities.
ALONE = 100

#: With the texts of aprof's sums by node type and form, and of records by key, and the last runs of
#: the same user.
Work = tuple[KeyLevel, str, list[RunRow], dict[str, dict[str, str]], dict[str, str], Around]
#: Identities written together: what a refit that is stopped loses.
WRITTEN = 2_000
#: Where a site has no record yet, so many identities of each level make a first one.
FIRST = 100
#: Identities of one user that are fitted before those of everybody were; then as many again.
TURN = 200
#: Identities of such a later turn of all users: their keys stand in one query.
_TURN_OF_ALL = 5_000
#: At least so many tables, and one in so many, follow the site's record at each refit.
_LEAST, _ONE_IN = 20, 200
#: Newest runs whose nodes say how many a cluster has.
_LISTS = 2_000
#: The pasts of queues are made anew after that time, or with so many times the runs.
_PASTS_EVERY_S, _MORE_RUNS = 3600.0, 1.05
# Passing a row on takes a fifth of the time that pickling it does.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Work]).decode


@dataclass(frozen=True, slots=True)
class RefitSummary:
    """What a refit left: identities fitted, curves by verdict, histories, seconds taken.

    ``by_level`` counts the curves by what their runs have in common: one application may have a
    curve for its tag, its script, and its command line.
    """

    fitted: int
    curves: int
    by_level: dict[str, int]
    reliable: int
    doubtful: int
    refused: int
    histories: int
    seconds: float
    waiting: Mapping[str, int] = field(default_factory=dict)  #: for the next refit, by user


class Basis(msgspec.Struct, frozen=True):
    """What the tables of a store rest on besides their own runs."""

    number: int
    settings: str  #: digest of the settings and of the models' version
    pooled: PooledErrors


@dataclass(frozen=True, slots=True)
class _Done:
    """What one batch came to; tables as text already, which is a tenth of their size."""

    fits: list[FitRow] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)
    entries: list[RecordEntry] = field(default_factory=list)
    identities: list[tuple[KeyLevel, str]] = field(default_factory=list)
    #: users whose identities were fitted, and how many seconds each took
    took: list[tuple[str, float]] = field(default_factory=list)


class TimeLimit(Protocol):
    """How much of the time of a refit each user may take."""

    def took(self, user: str, seconds: float) -> None:
        """Take note of what one of a user's identities took, seconds of all workers."""

    def may_go_on(self, user: str) -> bool:
        """Whether more of a user's identities may be fitted."""


def refit(  # noqa: PLR0913 - each by its name
    store: Store,
    *,
    now_s: float,
    settings: TableSettings | None = None,
    shared: Sequence[SharedTag] = (),
    only: Collection[tuple[KeyLevel, str]] | None = None,
    whole: bool = False,
    queues: bool = True,
    workers: int = 1,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    time_limit: TimeLimit | None = None,
) -> RefitSummary:
    """Make the prediction tables of identities that changed since the last refit.

    Of all after other settings or another release.  One that was stopped goes on at the next call.
    Users take turns: one's thousands of applications hold up nobody else's.

    now_s: time of the refit, seconds since the epoch; goes into every table.
    shared: tags that have tables of several users' runs, besides those of each user's own.
    only: identities to look at; others that changed wait.
    whole: make all tables anew.
    queues: leave the past of queues for nimod, too.
    workers: processes that fit; the tables are the same whatever their number.
    pool: what fits instead of processes of our own, e.g. a Dask cluster; it has ``workers``
        workers.
    progress: called with the number of identities finished since the last call.
    time_limit: says which users with many identities may have another turn; those of the others
        wait for the next call.  Each user's first ones are fitted in any case.
    Raises ValueError: the time is not finite, or there is no worker;
        sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    need_finite("time of the refit", now_s)
    need_finite("workers", workers, least=1)
    started = perf_counter()
    store.resolve()  # nothing to do but after an upgrade
    types = sums.node_types(store)
    sums.add_runs(store, types)
    several = len(types.types) > 1
    chosen = replace(settings or TableSettings(), node_types=types.types if several else {})
    text = repr((chosen, tuple(shared), models_version(), RULES))
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    stored, waiting = store.records.find(*BASIS), store.changes.collect()
    basis = msgspec.json.decode(stored, type=Basis) if stored else Basis(0, "", PooledErrors())
    anew = basis.settings != digest
    if whole or anew:
        store.changes.mark_all()
    some = only is None and not (whole or anew)
    following = max(_LEAST, store.fits.count() // _ONE_IN, waiting // 4)
    stale = store.fits.stale(basis.number, following) if some else []
    store.changes.mark(stale)
    if not (whole or anew or waiting or stale):
        return _summary(store, 0, now_s, perf_counter() - started)
    _mark_shared(store, shared)
    newest, marks = store.runs.newest(NEWEST), dict[tuple[KeyLevel, str], int]()
    turns = _UserTurns(None if only is None else set(only))
    source = RefitInput(
        partial(_changed, store, shared, turns, marks, chosen.recent),
        partial(sums.texts, store) if several else None,
        store.records.of_identity,
        _around_users(newest),
    )
    entries = decode(store.records.find(*SITE), list[RecordEntry])
    if anew:
        any_order = partial(_changed, store, shared, _UserTurns(turns.only), {}, chosen.recent)
        first = entries or _first_entries(any_order, chosen)
        basis = Basis(basis.number + 1, digest, pooled_errors(first))
        _put_site(store, BASIS, msgspec.json.encode(basis).decode())
    chosen = replace(
        chosen,
        pooled=basis.pooled,
        cluster_nodes=_cluster_nodes(store, newest),
        node_cpus=node_cpus(newest),
        node_gpus=node_gpus(newest),
    )
    if whole or anew or (waiting and _pasts_are_due(store, newest, now_s)):
        _put_neighbours(store, now_s, len(newest))
        if queues:
            _put_pasts(store, newest, chosen.node_cpus)
    del newest  # they take as much memory as all else
    fitted = 0
    may_go_on = time_limit.may_go_on if time_limit else lambda _: True
    each_turn = chain.from_iterable(_batches(source, chosen) for _ in turns.each(may_go_on))
    batches = _timed(_fit_all(each_turn, now_s, chosen, workers, pool), time_limit, workers)
    for done in _gathered(batches, progress):
        entries = pooled(entries, done.entries)
        _put_site(store, SITE, encode(entries))
        store.records.replace(done.records, of=done.identities)
        store.fits.replace(done.fits, keep_others=True, of=done.identities, basis=basis.number)
        store.changes.done([(*one, marks.pop(one)) for one in done.identities])
        fitted += len(done.identities)
    if moved(basis.pooled, latest := pooled_errors(entries)):
        basis = Basis(basis.number + 1, digest, latest)
        _put_site(store, BASIS, msgspec.json.encode(basis).decode())
    return _summary(store, fitted, now_s, perf_counter() - started, turns.waiting())


def _around_users(newest: Iterable[RunRow]) -> dict[str, Around]:
    """Give the last finished runs of each user, of whatever application; the newest first."""
    users: dict[str, list[Sample]] = defaultdict(list)
    for row in newest:
        if len(users[row.user]) < AROUND and row.state.finished:
            users[row.user] += samples_of([row])
    return {user: around_of(own) for user, own in users.items()}


class _UserTurns:
    """Which identities are fitted first: so many of each user, then as many again.

    only: identities to look at; None: all.
    """

    def __init__(self, only: Collection[tuple[KeyLevel, str]] | None) -> None:
        self.only = only
        self._taken: Counter[str] = Counter()
        self._put_off: dict[str, deque[tuple[KeyLevel, str]]] = {}
        self.first = True  #: this is the first turn: who has how many is not known yet

    def each(self, may_go_on: Callable[[str], bool]) -> Iterator[None]:
        """Begin one turn after the other, as long as somebody waits who may have one more.

        may_go_on: whether a user may.
        """
        yield
        self.first = False
        while some := self._next(may_go_on):
            self.only = some
            yield

    def waiting(self) -> dict[str, int]:
        """Count the identities that had no turn, by user."""
        return {user: len(put_off) for user, put_off in self._put_off.items()}

    def takes(self, owner: str, level: KeyLevel, key: str) -> bool:
        """Whether an identity is fitted in this turn; if not, it waits for a later one.

        owner: whose it is; empty: of several users, whom nobody else holds up.
        """
        if not self.first or not owner:
            return True
        self._taken[owner] += 1
        if self._taken[owner] <= TURN:
            return True
        self._put_off.setdefault(owner, deque()).append((level, key))
        return False

    def _next(self, may_go_on: Callable[[str], bool]) -> set[tuple[KeyLevel, str]]:
        """Give as many identities of each user as one may have, and of all together."""
        some: set[tuple[KeyLevel, str]] = set()
        for user in list(self._put_off):
            if len(some) + TURN > _TURN_OF_ALL:
                break
            if not may_go_on(user):
                continue
            put_off = self._put_off.pop(user)
            for _ in range(min(TURN, len(put_off))):
                some.add(put_off.popleft())
            if put_off:
                self._put_off[user] = put_off  # behind the others
        return some


def _put_site(store: Store, place: tuple[str, str], payload: str) -> None:
    store.records.put(RecordRow(level=place[0], key=place[1], payload=payload))


def _timed(batches: Iterable[_Done], limit: TimeLimit | None, workers: int) -> Iterator[_Done]:
    """Give what batches came to, and take note of whose time it took."""
    for done in batches:
        if limit is not None:
            for user, seconds in done.took:
                limit.took(user, seconds / workers)
        yield done


def _gathered(batches: Iterable[_Done], progress: Callable[[int], None] | None) -> Iterator[_Done]:
    """Join what batches came to, as much as is written at a time."""
    every = _Done()
    for done in batches:
        for name in _Done.__slots__:
            getattr(every, name).extend(getattr(done, name))
        if progress:
            progress(len(done.identities))
        if len(every.identities) >= WRITTEN:
            yield every
            every = _Done()
    if every.identities:
        yield every


def _cluster_nodes(store: Store, newest: Sequence[RunRow]) -> int:
    """Nodes of the largest partition that nimod left the outlook of; else of those that runs name.

    Where none names its nodes, those of the widest run.

    newest: the newest first.  0: their newer half names nodes that the older one does not.
    """
    outlooks = map(msgspec.json.decode, store.records.of_level(OUTLOOK).values())
    if sizes := [place["nodes"] for one in outlooks for place in one["partitions"]]:
        return int(max(sizes))
    latest = newest[:_LISTS]
    newer, older = (
        node_names(row.node_list for row in half)
        for half in (latest[: len(latest) // 2], latest[len(latest) // 2 :])
    )
    if not (newer or older):
        return max((row.nodes for row in latest), default=0)
    return len(older) if newer <= older else 0


def _pasts_are_due(store: Store, newest: Sized, now_s: float) -> bool:
    """Whether the pasts of queues were made an hour ago, or a twentieth more runs are there."""
    if not (made := store.records.find(*PASTS_MADE)):
        return True
    then_s, runs = msgspec.json.decode(made, type=tuple[float, int])
    return abs(now_s - then_s) >= _PASTS_EVERY_S or len(newest) >= _MORE_RUNS * runs


def _put_neighbours(store: Store, now_s: float, runs: int) -> None:
    """Leave the jobs that commands without runs are compared with, and when that was."""
    _put_site(store, PASTS_MADE, msgspec.json.encode((now_s, runs)).decode())
    past_jobs = collect(store.runs.newest(2 * MOST_JOBS, texts=True))
    _put_site(store, NEIGHBOURS, msgspec.json.encode(past_jobs).decode())


def _put_pasts(store: Store, newest: Iterable[RunRow], node_cpus: Mapping[str, int]) -> None:
    """Leave the past of each cluster's queue for nimod, and how many CPUs its nodes have."""
    _put_site(store, NODE_CPUS, msgspec.json.encode(node_cpus).decode())
    clusters: dict[str, list[RunRow]] = defaultdict(list)
    for run in newest:
        clusters[run.cluster].append(run)
    for cluster, runs in clusters.items():
        past = queue_past(runs)
        store.records.put(RecordRow(level=QUEUE, key=cluster, payload=encode_past(past)))


def _mark_shared(store: Store, shared: Sequence[SharedTag]) -> None:
    """Have the tables of shared tags fitted anew whose users' own are."""
    if not shared:
        return
    pages = store.changes.pages(KeyLevel.TAG, BATCH_RUNS)
    keys = {key.partition("/")[2] for page in pages for key, _ in page if not is_shared(key)}
    store.changes.mark((KeyLevel.TAG, t.key(k)) for k in keys for t in shared if t.covers(k))


def _changed(
    store: Store,
    shared: Sequence[SharedTag],
    turns: _UserTurns,
    marks: dict[tuple[KeyLevel, str], int],
    recent: int,
    level: KeyLevel,
) -> Iterator[tuple[str, list[RunRow]]]:
    """Give the runs of the identities of a level that changed and whose turn it is.

    Each is read as a whole: what the caller writes meanwhile waits for no cursor.
    """
    # Of a user there are as many runs as are looked at.
    size = BATCH if level is not KeyLevel.USER else max(1, BATCH_RUNS // recent)
    for page in store.changes.pages(level, size, turns.only):
        marks.update({(level, key): last for key, last in page})
        keys = [key for key, _ in page]
        owners = store.runs.owners(level, keys) if turns.first else {}
        keys = [key for key in keys if turns.takes(owners.get(key, ""), level, key)]
        rows = store.runs.of_keys(level, keys, most=None if level in CURVE_LEVELS else recent)
        if level is KeyLevel.TAG and any(map(is_shared, keys)):
            rows.update(chain.from_iterable(map(store.runs.shared, shared)))
        yield from ((key, rows.get(key, [])) for key in keys)


#: Gives the runs of each key of a level; the keys in order, the newest run last.
ByKey = Callable[[KeyLevel], Iterable[tuple[str, list[RunRow]]]]
#: Gives the texts of the sums of some keys of a level, by node type and form.
SumsOf = Callable[[KeyLevel, Sequence[str]], dict[str, dict[str, dict[str, str]]]]
#: Gives the texts of the records of an identity and of its parts, by key.
RecordsOf = Callable[[KeyLevel, str], dict[str, str]]


@dataclass(frozen=True, slots=True)
class RefitInput:
    """What a refit reads: runs, what became of predictions, and where node types differ sums."""

    by_key: ByKey
    sums_of: SumsOf | None = None
    records_of: RecordsOf = lambda *_: {}
    of_users: Mapping[str, Around] = field(default_factory=dict)  #: last runs of each user


def fits_of(
    source: RefitInput, *, now_s: float, settings: TableSettings | None = None, workers: int = 1
) -> list[FitRow]:
    """Make the prediction tables of all identities; parameters as :func:`refit` has them."""
    need_finite("time of the refit", now_s)
    need_finite("workers", workers, least=1)
    chosen = settings or TableSettings()
    chosen = replace(chosen, pooled=pooled_errors(_first_entries(source.by_key, chosen)))
    done = _fit_all(_batches(source, chosen), now_s, chosen, workers, None)
    return [row for one in done for row in one.fits]


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
    for level in KeyLevel:
        batch: list[tuple[str, list[RunRow]]] = []
        held = 0
        for key, rows in source.by_key(level):
            batch.append((key, rows if level in CURVE_LEVELS else rows[-settings.recent :]))
            held += len(batch[-1][1])
            if len(batch) >= BATCH or held >= BATCH_RUNS:
                yield _works(source, level, batch)
                batch, held = [], 0
        if batch:
            yield _works(source, level, batch)


def _works(
    source: RefitInput, level: KeyLevel, batch: Sequence[tuple[str, list[RunRow]]]
) -> list[Work]:
    summed = source.sums_of is not None and level in CURVE_LEVELS
    sums = source.sums_of(level, [key for key, _ in batch]) if summed and source.sums_of else {}
    made: list[Work] = []
    for key, rows in batch:
        few = level is not KeyLevel.USER and 0 < len(rows) < AROUND
        around = source.of_users.get(owner_of(rows), ()) if few else ()
        made.append((level, key, rows, sums.get(key, {}), source.records_of(level, key), around))
    return made


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
    done = _Done(identities=[(level, key) for level, key, *_ in batch])
    for level, key, rows, texts, records, around in batch:
        if not rows:
            continue
        began_s = perf_counter()
        backtest = replace(settings.backtest, around=around) if around else settings.backtest
        for one in tables_of(
            IdentityRuns(level, key, rows, now_s),
            replace(settings, backtest=backtest),
            sums={
                kind: {form: decode_sums(text) for form, text in forms.items()}
                for kind, forms in texts.items()
            },
            records={name: decode(text, Record) for name, text in records.items()},
        ):
            if one.table is not None:
                cpus = max(settings.node_cpus.values(), default=0)
                nodes, gpus = settings.cluster_nodes, settings.node_gpus
                made = within_cluster(one.table, nodes, cpus, gpus)
                made = without_ended_runs(made)
                done.fits.append(row_of(made))
            if one.record.entries or one.record.split:
                payload = encode(one.record)
                done.records.append(RecordRow(level=level.value, key=one.key, payload=payload))
            new = one.record.entries[-one.new :] if one.new else ()
            done.entries.extend(_owned(new, rows))
        done.took.append((owner_of(rows), perf_counter() - began_s))
    return done


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


def _summary(
    store: Store,
    fitted: int,
    now_s: float,
    seconds: float,
    waiting: Mapping[str, int] = MappingProxyType({}),
) -> RefitSummary:
    store.watermarks.set(REFITTED, round(now_s))
    curves, levels, histories = Counter[str](), Counter[str](), 0
    for (level, verdict, model), number in store.fits.counts().items():
        if model == HISTORY:
            histories += number
        else:
            curves[verdict] += number
            levels[level] += number
    return RefitSummary(
        fitted=fitted,
        curves=curves.total(),
        by_level=dict(sorted(levels.items())),
        reliable=curves[Verdict.RELIABLE],
        doubtful=curves[Verdict.DOUBTFUL],
        refused=curves[Verdict.REFUSED],
        histories=histories,
        seconds=seconds,
        waiting=dict(waiting),
    )
