"""Runs on their way into the store: packed where they are read, unpacked where they are new.

A run is recognised by its key and a digest of all that is known of it: what the store has already
is never unpacked.  What is packed are the columns of the tables ``runs`` and ``steps``, made a
column at a time, as accounting text is read: nearly all of it happens in C, and the process that
writes has little else to do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, compress, islice
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import Table, Text

from sacct_ingest.admin_comment import decision_id_in
from sacct_ingest.records import JobRun, JobState, StepRun
from sacct_ingest.signature import identity_of_line
from sacct_ingest.store.column_types import indexed, prose
from sacct_ingest.store.schema import runs, steps

#: Values of the columns of a table by their names, those of a column in the order of the rows.
Columns = dict[str, Sequence[Any]]
_IDENTITY: Final = ("user", "name", "comment", "submit_line")
_keys = attrgetter("tag", "script", "line")


class RunColumns(Struct, frozen=True, array_like=True, gc=False):
    """Columns of some runs and of their steps, all but the runs' ids."""

    runs: Columns
    steps: Columns
    counts: Sequence[int]  #: how many steps each run has

    def only(self, chosen: Sequence[int]) -> "RunColumns":
        """Give the runs at these positions, which rise, with their steps."""
        if len(chosen) == len(self.counts):
            return self
        positions = set(chosen)
        selected = [position in positions for position in range(len(self.counts))]
        of_steps = _per_step(selected, self.counts)
        return RunColumns(
            {name: list(compress(values, selected)) for name, values in self.runs.items()},
            {name: list(compress(values, of_steps)) for name, values in self.steps.items()},
            list(compress(self.counts, selected)),
        )

    def with_ids(self, ids: Sequence[int]) -> tuple[Columns, Columns]:
        """Give the columns of the runs, which have these ids, and those of their steps."""
        return self.runs | {"id": ids}, self.steps | {"run_id": _per_step(ids, self.counts)}


def columns_of(given: Sequence[JobRun], digests: Sequence[str]) -> RunColumns:
    """Give the columns of some runs, which have these digests."""
    columns = _by_field(JobRun, given)
    owned = columns.pop("steps")
    folders = map(_named_folder, columns["work_dir"], columns["submit_line"])
    identities = map(identity_of_line, *(columns[name] for name in _IDENTITY), folders)
    tags, scripts, lines = zip(*map(_keys, identities), strict=True)
    columns["decision_id"] = list(map(decision_id_in, columns["admin_comment"]))
    columns |= {"digest": digests, "tag": tags, "script": scripts, "line": lines}
    _clean(columns, _RUN_TEXTS)
    of_steps = _by_field(StepRun, list(chain.from_iterable(owned)))
    _clean(of_steps, _STEP_TEXTS)
    counts = list(map(len, owned))
    of_steps["position"] = list(chain.from_iterable(map(range, counts)))
    return RunColumns(columns, of_steps, counts)


def _named_folder(work_dir: str, submit_line: str) -> str:
    """Working directory where the line names it: lines that do not are remembered without it."""
    return work_dir if work_dir and work_dir in submit_line else ""


def _per_step(values: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    return [one for one, count in zip(values, counts, strict=True) for _ in range(count)]


def _by_field(kind: type[JobRun | StepRun], rows: Sequence[JobRun | StepRun]) -> Columns:
    names = kind.__struct_fields__
    columns: Sequence[Sequence[Any]] = list(zip(*map(astuple, rows), strict=True))
    return dict(zip(names, columns or [()] * len(names), strict=True))


def _clean(columns: Columns, texts: dict[str, Callable[[str], str]]) -> None:
    for name, clean in texts.items():
        values = columns[name]
        # Text of any length is only ever cleaned of what is hardly ever there.
        if clean is not prose:
            # They repeat each other: each text once.
            cleaned = {value: clean(value) for value in set(values)}
            columns[name] = list(map(cleaned.__getitem__, values))
        elif "\0" in "".join(values):
            columns[name] = list(map(clean, values))


def _cleaners(table: Table, kind: type[JobRun | StepRun]) -> dict[str, Callable[[str], str]]:
    """Give what makes text fit, for each column of text that holds a field of a record."""
    cleaners: dict[str, Callable[[str], str]] = {}
    for column in table.columns:
        if column.name in kind.__struct_fields__ and column.type.python_type is str:
            prosaic = isinstance(column.type, Text)
            length = getattr(column.type, "length", None)
            cleaners[column.name] = prose if prosaic else partial(indexed, length=length)
    return cleaners


_RUN_TEXTS: Final = _cleaners(runs, JobRun)
_STEP_TEXTS: Final = _cleaners(steps, StepRun)


#: Runs packed together: few enough to be still in the processor's cache.
_TOGETHER: Final = 100
#: Cluster, submit time and job id of a run.
Key = tuple[str, int, int]


class PackedRuns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some runs with their steps; ``body`` has their columns, as MessagePack."""

    keys: list[Key]
    digests: list[str]
    resized: list[bool]  #: the rest of a resized job, of which only the key is known
    body: msgspec.Raw

    def __len__(self) -> int:
        """Count the runs."""
        return len(self.keys)


def pack_runs(given: Iterable[JobRun]) -> Iterator[PackedRuns]:
    """Pack runs, some at a time."""
    source = iter(given)
    while some := list(islice(source, _TOGETHER)):
        # Of the records, not of their columns: another column leaves the digests as they are.
        digests = [blake2b(encode(run), digest_size=16).hexdigest() for run in some]
        yield PackedRuns(
            [(indexed(run.cluster, 64), run.submit_s, run.job_id) for run in some],
            digests,
            [run.state is JobState.RESIZING for run in some],
            msgspec.Raw(encode(columns_of(some, digests))),
        )


encode = msgspec.msgpack.Encoder().encode
unpacked = msgspec.msgpack.Decoder(RunColumns).decode
