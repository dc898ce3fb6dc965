"""Runs and their steps on their way to the process that writes them, packed some at a time.

What is packed are the columns of the tables ``runs`` and ``steps``, made a column at a time, as
accounting text is read: nearly all of it happens in C, and the process that writes has little else
to do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, compress, islice
from operator import attrgetter
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, StepRun
from sacct_ingest.runs.evidence import failed_steps
from sacct_ingest.runs.reading import resolved
from sacct_ingest.runs.submission import RULES
from sacct_ingest.runs.usage import node_watts
from sacct_ingest.store.schema import indexed, prose, runs, steps
from sacct_ingest.text.admin_comment import decision_id_in

#: Runs packed together: few enough to be still in the processor's cache.
PACKED_TOGETHER: Final = 100
#: Values of the columns of a table by their names, those of a column in the order of the rows.
Columns = dict[str, list[Any]]
_ReadColumns = dict[str, Sequence[Any]]
#: Cluster, submit time and job id of a run.
Key = tuple[str, int, int]
_TEXTS: Final = ("user", "name", "comment", "submit_line", "work_dir")
_keys = attrgetter("tag", "script", "line")


class PackedRuns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some runs with their steps, which are unpacked only where they are written.

    Columns that hold nothing are left out.
    """

    keys: list[Key]
    digests: list[str]
    resized: list[bool]  #: the rest of a resized job, of which there is only the key
    counts: list[int]  #: how many steps each run has
    step_names: list[str]  #: columns of the steps
    runs: msgspec.Raw  #: columns as MessagePack, all but the ids
    steps: msgspec.Raw

    def __len__(self) -> int:
        return len(self.keys)


encode = msgspec.msgpack.Encoder().encode
decode_packed = msgspec.msgpack.Decoder(list[PackedRuns]).decode
_unpacked = msgspec.msgpack.Decoder(Columns).decode


def pack_runs(given: Iterable[JobRun]) -> Iterator[PackedRuns]:
    """Pack runs, some at a time."""
    source = iter(given)
    while some := list(islice(source, PACKED_TOGETHER)):
        # Of the records, not of their columns: another column leaves the digests as they are.
        digests = [blake2b(encode(run), digest_size=16).hexdigest() for run in some]
        columns, of_steps = _columns_of(some, digests)
        yield PackedRuns(
            [(indexed(run.cluster, 64), run.submit_s, run.job_id) for run in some],
            digests,
            [run.state is JobState.RESIZING for run in some],
            [len(run.steps) for run in some],
            list(of_steps),
            msgspec.Raw(encode(columns)),
            msgspec.Raw(encode(of_steps)),
        )


def joined(packs: Sequence[Columns], names: Iterable[str]) -> Columns:
    """Put these columns of packs together; what a pack does not have is None in its rows."""
    together: Columns = {name: [] for name in names}
    for columns in packs:
        nothing = [None] * len(columns["id"])
        for name, values in together.items():
            values.extend(columns.get(name, nothing))
    return together


class ChosenRuns:
    """Those runs of a pack that are written, and the ids that they have.

    positions: where they are in the pack, in their order.
    """

    def __init__(self, pack: PackedRuns, positions: Sequence[int], ids: Sequence[int]) -> None:
        self._pack = pack
        self._ids = ids
        self._chosen: list[bool] = []  #: empty: all of them
        if len(positions) < len(pack):
            wanted = set(positions)
            self._chosen = [at in wanted for at in range(len(pack))]

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def step_names(self) -> list[str]:
        """Names of the columns that `steps` gives."""
        return ["run_id", *self._pack.step_names]

    def runs(self) -> Columns:
        """Unpack the columns of the runs."""
        columns = _selected(_unpacked(self._pack.runs), self._chosen)
        return columns | {"id": list(self._ids)}

    def steps(self) -> Columns:
        """Unpack the columns of their steps."""
        counts: Sequence[int] = self._pack.counts
        columns = _unpacked(self._pack.steps)
        if self._chosen:
            columns = _selected(columns, _per_step(self._chosen, counts))
            counts = list(compress(counts, self._chosen))
        return columns | {"run_id": _per_step(self._ids, counts)}


def _selected(columns: Columns, chosen: Sequence[bool]) -> Columns:
    if not chosen:
        return columns
    return {name: list(compress(values, chosen)) for name, values in columns.items()}


def _per_step(values: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def _columns_of(
    given: Sequence[JobRun], digests: Sequence[str]
) -> tuple[_ReadColumns, _ReadColumns]:
    """Give the columns of runs and of their steps."""
    columns = _by_field(JobRun, given)
    owned = columns.pop("steps")
    of_steps = _by_field(StepRun, list(chain.from_iterable(owned)))
    read = map(resolved, *(columns[name] for name in _TEXTS))
    identities, columns["submission"] = zip(*read, strict=True)
    columns["rules"] = [RULES] * len(given)
    tags, scripts, lines = zip(*map(_keys, identities), strict=True)
    columns["decision_id"] = list(map(decision_id_in, columns["admin_comment"]))
    columns["node_watts"] = _watts(columns, owned, of_steps["energy_j"])
    columns["failed_steps"] = list(map(failed_steps, owned))
    columns |= {"digest": digests, "tag": tags, "script": scripts, "line": lines}
    _clean(columns, _RUN_TEXTS)
    _clean(of_steps, _STEP_TEXTS)
    counts = list(map(len, owned))
    of_steps["position"] = list(chain.from_iterable(map(range, counts)))
    return _telling(columns), _telling(of_steps)


def _watts(
    columns: _ReadColumns, owned: Sequence[Sequence[StepRun]], energies: Sequence[int | None]
) -> Sequence[float | None]:
    if energies.count(None) == len(energies):
        return [None] * len(owned)  # few sites have sensors
    return list(map(node_watts, columns["nodes"], columns["elapsed_s"], owned))


def _telling(columns: _ReadColumns) -> _ReadColumns:
    """Leave out columns that hold nothing, which spares the drivers a third."""
    return {
        name: values
        for name, values in columns.items()
        if values and (values[0] is not None or values.count(None) < len(values))
    }


def _by_field(kind: type[JobRun | StepRun], rows: Sequence[JobRun | StepRun]) -> _ReadColumns:
    names = kind.__struct_fields__
    columns: Sequence[Sequence[Any]] = list(zip(*map(astuple, rows), strict=True))
    return dict(zip(names, columns or [()] * len(names), strict=True))


def _clean(columns: _ReadColumns, texts: dict[str, Callable[[str], str]]) -> None:
    for name, clean in texts.items():
        values = columns[name]
        # Text of any length is only ever cleaned of what is hardly ever there.
        if clean is not prose:
            # They repeat each other: each text once.
            cleaned = {value: clean(value) for value in set(values)}
            columns[name] = list(map(cleaned.__getitem__, values))
        elif "\0" in "".join(values):
            columns[name] = list(map(clean, values))


def _cleaners(table: sa.Table, kind: type[JobRun | StepRun]) -> dict[str, Callable[[str], str]]:
    """Give what makes text fit, for each column of text that holds a field of a record."""
    cleaners: dict[str, Callable[[str], str]] = {}
    for column in table.columns:
        if column.name in kind.__struct_fields__ and column.type.python_type is str:
            prosaic = isinstance(column.type, sa.Text)
            length = getattr(column.type, "length", None)
            cleaners[column.name] = prose if prosaic else partial(indexed, length=length)
    return cleaners


_RUN_TEXTS: Final = _cleaners(runs, JobRun)
_STEP_TEXTS: Final = _cleaners(steps, StepRun)
