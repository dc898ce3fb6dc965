"""One report out of the store: decisions with their outcomes, and diagnoses from the curves."""

import array
import base64
import io
import pickle
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec

from predictor.stored_table import decode
from predictor.waits.error_record import WaitError, log_error
from predictor.waits.workload import QueuePast
from predictor.waits.workload import decode as decode_waits
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.sharing import is_shared
from sacct_ingest.store import DecisionSelection, RecordRow
from sacct_ingest.store.fits import QUEUE, SEEN_NODES, WAITS
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.diagnoses import problems, records_of
from slurm_plugin.evaluation.outcomes import OutcomeReport, OutcomeTally, QueueEstimates, select
from slurm_plugin.protocol.request_messages import Selection

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

_BATCH = 200
_ARRAYS = 200  #: newest ones that are listed
_FEWEST = 5  #: jobs of a partition; of fewer no waits are judged
_STEP = 2000  #: decisions between two reports of progress
_DAY_S = 86_400
#: Days after which few decisions get another outcome, and those of which sums are kept.
_SETTLED, _KEPT = 7, 128
#: What makes arrays and settings, and classes of others that sums consist of.
_MAKERS = ("array", "_array_reconstructor"), ("msgspec._utils", "rebuild")
#: Modules of which sums hold classes: none of them opens, runs or writes anything.
_MODULES = (
    *("slurm_plugin.evaluation.", "slurm_plugin.config.settings"),
    "slurm_plugin.protocol.status_messages",
)
_PARTS = {one.__name__: one for one in (Counter, defaultdict, deque, dict, set, array.array, Unit)}


def selection_of(
    asked: Selection, *, only_user: str | None, only_accounts: tuple[str, ...] = ()
) -> DecisionSelection:
    """Decisions that somebody asks for, among those that he may see; see `DecisionSelection`."""
    names = ("since_s", "until_s", "cluster", "partition", "account", "user")
    chosen = {name: getattr(asked, name) for name in names}
    return DecisionSelection(**chosen, only_user=only_user, only_accounts=only_accounts)


def collect(
    store: "Store",
    chosen: DecisionSelection,
    *,
    config: Config,
    application: str = "",
    least_node_hours: float = 100.0,
    report_progress: Callable[[int], None] = lambda _: None,
) -> OutcomeReport:
    """Sum up the selected decisions in one pass.

    config: has the nominal level of intervals without one of their own, and prices.
    application: this one alone; empty: all.
    least_node_hours: the report names no user with fewer of them beyond the knee, and no account
        with fewer unused CPU-hours.
    report_progress: called with the number of decisions read since the last call.
    """
    whole = chosen == DecisionSelection() and not application
    tally, since_s = _sums(store, config) if whole else (_empty(store, config)[0], None)
    rest = chosen if since_s is None else DecisionSelection(since_s=since_s)
    for number, pair in enumerate(select(store.decisions.with_outcomes(rest), application)):
        tally.add(*pair)
        if number % _STEP == _STEP - 1:
            report_progress(_STEP)
    keys = [
        (KeyLevel(level), key)
        for level, key in tally.asked
        if chosen.only_user is None or not is_shared(key)
    ]
    tables = {}
    for start in range(0, len(keys), _BATCH):
        for row in store.fits.find(keys[start : start + _BATCH]):
            tables[row.level.value, row.key] = decode(row.payload)
    diagnoses = problems(tables.values(), tally.asked)
    # An array says nothing of decisions.
    of_decisions = chosen.mode or chosen.reason or chosen.decision_id or chosen.key
    return tally.report(
        store.standings.all(),
        problems=diagnoses,
        drift=tuple(one for one in diagnoses if one.problem == "drift"),
        records=records_of(tables.values(), tally.asked),
        waste=tally.usage.waste(tables, least_node_hours=least_node_hours),
        queue_waits=() if application else queue_estimates(store, chosen),
        unused=tally.unused.result(least_cpu_hours=least_node_hours),
        arrays=()
        if application or of_decisions
        else tuple(store.runs.newest_arrays(chosen, _ARRAYS)),
    )


def keep_sums(store: "Store", config: Config, *, now_s: float) -> None:
    """Store the sums over all decisions but those of the last days, so that reports begin there.

    The store deletes sums when a decision before their end changes.  Of those of earlier days one
    is kept in each octave of age: then a report begins with that.
    """
    from sacct_ingest.store.changes import SUMS, sums_key  # noqa: PLC0415 - heavy

    end_s = (int(now_s) // _DAY_S - _SETTLED) * _DAY_S
    keys = store.records.keys(SUMS)
    # One without a payload was left by a fit that was stopped.
    if keys and keys[-1] >= sums_key(end_s) and store.records.find(SUMS, keys[-1]):
        return
    # What changes from here on deletes the row, and then it is not filled.
    store.records.put(RecordRow(level=SUMS, key=sums_key(end_s), payload=""))
    tally, since_s = _sums(store, config)
    for pair in store.decisions.with_outcomes(DecisionSelection(since_s=since_s, until_s=end_s)):
        tally.add(*pair)
    packed = base64.b64encode(zlib.compress(pickle.dumps(tally), 1)).decode()
    superfluous = [key for key in keys if not _is_kept(int(key) // _DAY_S, end_s // _DAY_S)]
    row = RecordRow(level=SUMS, key=sums_key(end_s), payload=f"{_empty(store, config)[1]}:{packed}")
    store.records.fill(row, instead_of=superfluous)


def _is_kept(day: int, last: int) -> bool:
    age = max(last - day, 1)
    return age <= _KEPT and day % (1 << (age.bit_length() - 1)) == 0


def _empty(store: "Store", config: Config) -> tuple[OutcomeTally, str]:
    """Give empty sums, and a digest of what they are made with."""
    node_cpus = {
        f"{cluster}/{partition}": seen["cpus"]
        for cluster, payload in sorted(store.records.of_level(SEEN_NODES).items())
        for partition, seen in msgspec.json.decode(payload).items()
    }
    made_with = config.fit.confidence, config.energy, node_cpus
    tally = OutcomeTally(*made_with)
    made = version("nimo-slurm"), [*vars(tally)], made_with
    return tally, blake2b(repr(made).encode(), digest_size=8).hexdigest()


def _sums(store: "Store", config: Config) -> tuple[OutcomeTally, float | None]:
    """Give the last sums that were stored, and their end; without any empty ones and None."""
    from sacct_ingest.store.changes import SUMS  # noqa: PLC0415 - heavy

    empty, digest = _empty(store, config)
    for key in reversed(store.records.keys(SUMS)):
        made_with, _, packed = (store.records.find(SUMS, key) or "").partition(":")
        if made_with == digest:
            unreadable = (ValueError, zlib.error, pickle.UnpicklingError, EOFError)
            with suppress(*unreadable, AttributeError, ImportError):
                tally = _Sums(io.BytesIO(zlib.decompress(base64.b64decode(packed)))).load()
                if isinstance(tally, OutcomeTally):
                    return tally, float(key)
    return empty, None


class _Sums(pickle.Unpickler):
    """Reads sums, and nothing that could run code: classes of tallies and their parts alone."""

    def find_class(self, module: str, name: str) -> object:
        """Give a class by its name. Raises pickle.UnpicklingError: it is no part of sums."""
        if (module, name) in _MAKERS:
            return super().find_class(module, name)
        if name in _PARTS:
            return _PARTS[name]
        if module.startswith(_MODULES) and name.isidentifier():
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of sums")


def queue_estimates(store: "Store", chosen: DecisionSelection) -> tuple[QueueEstimates, ...]:
    """Judge the recorded estimates of a selection; a record names no users.

    chosen: where it names users, accounts or applications there is nothing to judge.
    """
    if chosen.user or chosen.account or chosen.key or chosen.only_user is not None:
        return ()
    made: list[QueueEstimates] = []
    for of, level in (("submissions", WAITS), ("history", QUEUE)):
        for cluster, payload in sorted(store.records.of_level(level).items()):
            if chosen.cluster in ("", cluster):
                try:
                    errors = (
                        decode_waits(payload, list[WaitError])
                        if of == "submissions"
                        else decode_waits(payload, QueuePast).waits.errors
                    )
                except ValueError:  # nimod or the next refit writes it anew
                    continue
                made += _by_partition(cluster, of, _selected(errors, chosen))
    return tuple(made)


def _selected(errors: Iterable[WaitError], chosen: DecisionSelection) -> Iterator[WaitError]:
    for error in errors:
        late_enough = chosen.since_s is None or error.at_s >= chosen.since_s
        early_enough = chosen.until_s is None or error.at_s < chosen.until_s
        if late_enough and early_enough and chosen.partition in ("", error.of.partition):
            yield error


def _by_partition(cluster: str, of: str, errors: Iterable[WaitError]) -> Iterator[QueueEstimates]:
    partitions: dict[str, list[WaitError]] = defaultdict(list)
    for error in errors:
        partitions[error.of.partition].append(error)
    for partition, members in sorted(partitions.items()):
        if len(members) >= _FEWEST:
            noted = [one.inside for one in members if one.inside is not None]
            yield QueueEstimates(
                cluster=cluster,
                partition=partition,
                of=of,
                jobs=len(members),
                waited=sum(one.actual_s > 60.0 for one in members),
                within=10 ** median(map(log_error, members)),
                inside=fmean(noted) if noted else None,
            )
