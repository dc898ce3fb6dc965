"""What a refit reads: runs of the identities that changed, in batches of even work."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from predictor.level.experts import AROUND, Around
from predictor.refit.user_turns import UserTurns
from predictor.tables.run_facts import owner_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.runs.sharing import SharedTag, is_shared
from sacct_ingest.store import RunRow, Store

#: Identities handed to a process at a time: enough to outweigh the passing on.
BATCH = 64
#: Runs handed to a process at a time, where few identities have so many.
BATCH_RUNS = 10_000
#: Gives the runs of each key of a level; the keys in order, the newest run last.
ByKey = Callable[[KeyLevel], Iterable[tuple[str, list[RunRow]]]]
#: Gives the texts of the sums of some keys of a level, by node type and form.
SumsOf = Callable[[KeyLevel, Sequence[str]], dict[str, dict[str, dict[str, str]]]]
#: Gives the texts of the records of an identity and of its parts, by key.
RecordsOf = Callable[[KeyLevel, str], dict[str, str]]


class Work(msgspec.Struct, frozen=True, array_like=True):
    """One identity to be fitted, with all that this reads: it is passed to another process."""

    level: KeyLevel
    key: str
    rows: list[RunRow]
    sums: dict[str, dict[str, str]]  #: texts of aprof's sums, by node type and form
    records: dict[str, str]  #: texts of its record and those of its parts, by key
    around: Around  #: last runs of the same user, where it has few of its own


@dataclass(frozen=True, slots=True)
class RefitInput:
    """What a refit reads: runs, what became of predictions, and where node types differ sums."""

    by_key: ByKey
    sums_of: SumsOf | None = None
    records_of: RecordsOf = lambda *_: {}
    of_users: Mapping[str, Around] = field(default_factory=dict)  #: last runs of each user


def mark_shared(store: Store, shared: Sequence[SharedTag]) -> None:
    """Have the tables of shared tags fitted anew whose users' own are."""
    if not shared:
        return
    names: set[str] = set()
    for page in store.changes.pages(KeyLevel.TAG, BATCH_RUNS):
        names.update(key.partition("/")[2] for key, _ in page if not is_shared(key))
    marked: list[tuple[KeyLevel, str]] = []
    for tag in shared:
        marked += [(KeyLevel.TAG, tag.key(name)) for name in names if tag.covers(name)]
    store.changes.mark(marked)


def changed_runs(
    store: Store,
    shared: Sequence[SharedTag],
    turns: UserTurns,
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


def batches_of(source: RefitInput, settings: TableSettings) -> Iterator[list[Work]]:
    """Identities in batches of even work; of histories the recent runs are enough."""
    for level in KeyLevel:
        batch: list[tuple[str, list[RunRow]]] = []
        runs = 0
        for key, rows in source.by_key(level):
            recent = rows if level in CURVE_LEVELS else rows[-settings.recent :]
            batch.append((key, recent))
            runs += len(recent)
            if len(batch) >= BATCH or runs >= BATCH_RUNS:
                yield _works(source, level, batch)
                batch = []
                runs = 0
        if batch:
            yield _works(source, level, batch)


def _works(
    source: RefitInput, level: KeyLevel, batch: Sequence[tuple[str, list[RunRow]]]
) -> list[Work]:
    sums: dict[str, dict[str, dict[str, str]]] = {}
    if source.sums_of is not None and level in CURVE_LEVELS:
        sums = source.sums_of(level, [key for key, _ in batch])
    works: list[Work] = []
    for key, rows in batch:
        around: Around = ()
        if level is not KeyLevel.USER and 0 < len(rows) < AROUND:
            around = source.of_users.get(owner_of(rows), ())
        records = source.records_of(level, key)
        works.append(Work(level, key, rows, sums.get(key, {}), records, around))
    return works
