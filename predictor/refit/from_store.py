"""A refit: reads the runs of identities that changed from the store, and writes their tables to it.

What became of earlier predictions is read from the store, goes on with the runs that ended since,
and is written back: of each identity, and pooled for the site.  All tables rest on one state of the
site's record (`Basis`).  When it has moved, those that rest on an earlier one are made anew too, at
a refit a quarter as many as have new runs, or one table in 200.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from time import perf_counter
from types import MappingProxyType

from predictor.checks import need_finite
from predictor.level.backtest import around_of
from predictor.level.experts import AROUND, Around
from predictor.level.record import RecordEntry, decode, encode, moved, pooled, pooled_errors
from predictor.node_types import sums
from predictor.refit.batches import RefitInput, batches_of, changed_runs, mark_shared
from predictor.refit.fitting import Fitted, first_entries, fit_all
from predictor.refit.site_records import (
    cluster_nodes_of,
    next_basis,
    pasts_are_due,
    put_pasts,
    put_site,
    read_basis,
)
from predictor.refit.user_turns import TimeLimit, UserTurns
from predictor.sample import Sample
from predictor.stored_table import models_version
from predictor.tables.samples import samples_of
from predictor.tables.seen_nodes import seen_nodes
from predictor.tables.settings import TableSettings
from predictor.types import HISTORY, Verdict
from predictor.waits.history import NEWEST
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.runs.submission import RULES
from sacct_ingest.store import RunRow, Store
from sacct_ingest.store.fits import SITE
from sacct_ingest.store.ingests import REFITTED

#: Identities written together: what a refit that is stopped loses.
WRITTEN = 2_000
#: At least so many tables follow the site's record at each refit ...
_LEAST = 20
#: ... and one in so many.
_ONE_IN = 200


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
    waiting = store.changes.collect()
    basis = read_basis(store)
    digest = _digest(chosen, shared)
    anew = basis.settings != digest
    stale: list[tuple[KeyLevel, str]] = []
    if whole or anew:
        store.changes.mark_all()
    elif only is None:
        following = max(_LEAST, store.fits.count() // _ONE_IN, waiting // 4)
        stale = store.fits.stale(basis.number, following)
        store.changes.mark(stale)
    if not (whole or anew or waiting or stale):
        return _summary(store, 0, now_s, perf_counter() - started)
    mark_shared(store, shared)
    newest = store.runs.newest(NEWEST)
    marks: dict[tuple[KeyLevel, str], int] = {}
    turns = UserTurns(None if only is None else set(only))
    source = RefitInput(
        partial(changed_runs, store, shared, turns, marks, chosen.recent),
        partial(sums.texts, store) if several else None,
        store.records.of_identity,
        _around_users(newest),
    )
    entries = decode(store.records.find(*SITE), list[RecordEntry])
    if anew:
        any_order = partial(changed_runs, store, shared, UserTurns(turns.only), {}, chosen.recent)
        first = entries or first_entries(any_order, chosen)
        basis = next_basis(store, basis, digest, pooled_errors(first))
    seen = seen_nodes(newest)
    chosen = replace(
        chosen,
        pooled=basis.pooled,
        cluster_nodes=cluster_nodes_of(store, newest),
        node_cpus={"/".join(place): nodes.cpus for place, nodes in seen.items()},
        node_gpus=max((nodes.gpus for nodes in seen.values()), default=0),
    )
    if whole or anew or (waiting and pasts_are_due(store, newest, now_s)):
        put_pasts(store, newest, seen, now_s, queues=queues)
    del newest  # they take as much memory as all else
    fitted = 0
    may_go_on = time_limit.may_go_on if time_limit else lambda _: True
    batches = chain.from_iterable(batches_of(source, chosen) for _ in turns.each(may_go_on))
    results = _timed(fit_all(batches, now_s, chosen, workers, pool), time_limit, workers)
    for done in _gathered(results, progress):
        entries = pooled(entries, done.entries)
        put_site(store, SITE, encode(entries))
        store.records.replace(done.records, of=done.identities)
        store.fits.replace(done.fits, keep_others=True, of=done.identities, basis=basis.number)
        store.changes.done([(*name, marks.pop(name)) for name in done.identities])
        fitted += len(done.identities)
    latest = pooled_errors(entries)
    if moved(basis.pooled, latest):
        next_basis(store, basis, digest, latest)
    return _summary(store, fitted, now_s, perf_counter() - started, turns.waiting())


def _digest(settings: TableSettings, shared: Sequence[SharedTag]) -> str:
    """Digest of all that tables depend on besides what the store has."""
    text = repr((settings, tuple(shared), models_version(), RULES))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _around_users(newest: Iterable[RunRow]) -> dict[str, Around]:
    """Give the last finished runs of each user, of whatever application; the newest first."""
    users: dict[str, list[Sample]] = defaultdict(list)
    for row in newest:
        if len(users[row.user]) < AROUND and row.state.finished:
            users[row.user] += samples_of([row])
    return {user: around_of(samples) for user, samples in users.items()}


def _timed(batches: Iterable[Fitted], limit: TimeLimit | None, workers: int) -> Iterator[Fitted]:
    """Give what batches came to, and take note of whose time it took."""
    for done in batches:
        if limit is not None:
            for user, seconds in done.took:
                limit.took(user, seconds / workers)
        yield done


def _gathered(
    batches: Iterable[Fitted], progress: Callable[[int], None] | None
) -> Iterator[Fitted]:
    """Join what batches came to, as much as is written at a time."""
    every = Fitted()
    for done in batches:
        for name in Fitted.__slots__:
            getattr(every, name).extend(getattr(done, name))
        if progress:
            progress(len(done.identities))
        if len(every.identities) >= WRITTEN:
            yield every
            every = Fitted()
    if every.identities:
        yield every


def _summary(
    store: Store,
    fitted: int,
    now_s: float,
    seconds: float,
    waiting: Mapping[str, int] = MappingProxyType({}),
) -> RefitSummary:
    store.watermarks.set(REFITTED, round(now_s))
    curves = Counter[str]()
    levels = Counter[str]()
    histories = 0
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
