"""Packed runs as columns of the tables ``runs`` and ``steps``.

A column at a time, as accounting text is read: nearly all of it happens in C.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Table, Text

from sacct_ingest.records import JobRun, StepRun
from sacct_ingest.signature import identity_of_line
from sacct_ingest.store.bulk import Columns
from sacct_ingest.store.packed import PackedRun, unpacked
from sacct_ingest.store.schema import runs, steps
from sacct_ingest.store.text import indexed, prose

_DECISION_ID = re.compile(r"(?:^|\s)NIMO1:([0-9a-f]{12}):")
_IDENTITY: Final = ("user", "name", "comment", "submit_line")
_keys = attrgetter("tag", "script", "line")


def values_of(packed: Sequence[PackedRun], ids: Sequence[int]) -> tuple[Columns, Columns]:
    """Give the values of some runs, which have these ids, and those of their steps."""
    columns = _by_field(JobRun, unpacked(packed))
    owned = columns.pop("steps")
    identities = map(identity_of_line, *(columns[name] for name in _IDENTITY))
    tags, scripts, lines = zip(*map(_keys, identities), strict=True)
    _clean(columns, _RUN_TEXTS)
    columns |= {"id": ids, "digest": [one.digest for one in packed]}
    columns |= {"tag": tags, "script": scripts, "line": lines}
    columns["decision_id"] = list(map(decision_id_in, columns["admin_comment"]))
    return columns, _steps(owned, ids)


def decision_id_in(admin_comment: str) -> str:
    """Id of the newest decision noted in an admin_comment; empty where there is none.

    >>> decision_id_in("JS1:H4sIA NIMO1:3f9a0c12b7de:n=4,m=enforce")
    '3f9a0c12b7de'
    """
    if "NIMO1:" not in admin_comment:
        return ""
    found: list[str] = _DECISION_ID.findall(admin_comment)
    return found[-1] if found else ""


def _steps(owned: Sequence[Sequence[Any]], ids: Sequence[int]) -> Columns:
    columns = _by_field(StepRun, list(chain.from_iterable(owned)))
    _clean(columns, _STEP_TEXTS)
    counts = list(map(len, owned))
    columns["run_id"] = [i for i, count in zip(ids, counts, strict=True) for _ in range(count)]
    columns["position"] = list(chain.from_iterable(map(range, counts)))
    return columns


def _by_field(kind: type[JobRun | StepRun], rows: Sequence[Sequence[Any]]) -> Columns:
    names = kind.__struct_fields__
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(names)
    return dict(zip(names, columns, strict=True))


def _clean(columns: Columns, texts: dict[str, Callable[[str], str]]) -> None:
    for name, clean in texts.items():
        values = columns[name]
        # Text of any length is only ever cleaned of what is hardly ever there.
        if clean is not prose or "\0" in "".join(values):
            columns[name] = list(map(clean, values))


def _cleaners(table: Table, kind: type[JobRun | StepRun]) -> dict[str, Callable[[str], str]]:
    """Give what makes text fit, for each column of text that holds a field of a record."""
    found: dict[str, Callable[[str], str]] = {}
    for column in table.columns:
        if column.name in kind.__struct_fields__ and column.type.python_type is str:
            prosaic = isinstance(column.type, Text)
            length = getattr(column.type, "length", None)
            found[column.name] = prose if prosaic else partial(indexed, length=length)
    return found


_RUN_TEXTS: Final = _cleaners(runs, JobRun)
_STEP_TEXTS: Final = _cleaners(steps, StepRun)
