"""Rows of sacct's columns out of records of Slurm's JSON, by a table of columns.

Most columns are read as they stand behind some keys.  Those behind the same record are taken out of
it at once: with a call for each, reading JSON took twice as long.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sacct_ingest.sources.json_values import SPECIAL, ColumnAt, Json, plain

_Values = Callable[[Any], Sequence[Any]]


class _Record(NamedTuple):
    """Columns that stand side by side in a record."""

    path: tuple[str, ...]  #: keys of the record
    keys: tuple[str, ...]  #: in the record
    values: _Values  #: of these keys; fails where one of them is missing

    def read(self, job: Json) -> Sequence[Any]:
        """Give the values; None for those that are missing."""
        record: Any = job
        for key in self.path:
            record = record.get(key) if type(record) is dict else None
        if type(record) is not dict:
            return (None,) * len(self.keys)
        try:
            return self.values(record)
        except KeyError:
            return [record.get(key) for key in self.keys]


class RowPlan:
    """How a row is made of a record.

    Parameters
    ----------
    columns
        What reads each column.
    header
        Names of the row's columns.
    """

    def __init__(self, columns: dict[str, Callable[[Json], str]], header: Sequence[str]) -> None:
        self._columns = columns
        at = {name: it for name, it in columns.items() if isinstance(it, ColumnAt)}
        ordered = sorted(at, key=lambda name: at[name].keys[:-1])
        self._records = list(_records(at[name] for name in ordered))
        self._moments = [i for i, name in enumerate(ordered) if at[name].moment]
        self._made = [read for name, read in columns.items() if name not in at]
        read_in_order = [*ordered, *(name for name in columns if name not in at)]
        # What has no column is read from the end, where an empty text stands.
        places = [read_in_order.index(name) if name in columns else -1 for name in header]
        self._in_order = itemgetter(*places)

    def row(self, record: Any) -> list[str]:
        """Make the row of a record.

        Raises
        ------
        ValueError
            A value is none that the column can have; the message names the column.
        """
        values: list[Any] = []
        for columns in self._records:
            values += columns.read(record)
        try:
            texts = [
                v
                if type(v) is str and v.isascii()
                else str(v)
                if type(v) is int and 0 <= v < SPECIAL
                else plain(v)
                for v in values
            ]
            for i in self._moments:
                if texts[i] == "0":
                    texts[i] = ""
            texts += [read(record) for read in self._made]
        except ValueError:
            self._name_column(record)
            raise
        texts.append("")
        return list(self._in_order(texts))

    def _name_column(self, record: Any) -> None:
        for name, read in self._columns.items():
            try:
                read(record)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error


def _records(ordered: Iterable[ColumnAt]) -> Iterator[_Record]:
    for path, group in groupby(ordered, key=lambda column: column.keys[:-1]):
        keys = tuple(column.keys[-1] for column in group)
        yield _Record(path, keys, _getter(keys))


def _getter(keys: tuple[str, ...]) -> _Values:
    """Give what takes the values of keys; `itemgetter` of one key would give a bare value."""
    return itemgetter(*keys) if len(keys) > 1 else lambda record: (record[keys[0]],)
