"""Rows of sacct's columns out of records of Slurm's JSON, by a table of columns.

Most columns are taken as they stand in the record, all of them at once: with a call for each,
reading JSON took twice as long.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from sacct_ingest.sources.json_values import SPECIAL, ColumnAt, plain


class RowPlan:
    """How a row is made of a record.

    columns: what reads each column.
    header: names of the row's columns.
    """

    def __init__(self, columns: dict[str, Callable[[Any], str]], header: Sequence[str]) -> None:
        self._columns = columns
        at = {name: it for name, it in columns.items() if isinstance(it, ColumnAt)}
        self._values = attrgetter(*(it.place for it in at.values()))
        self._moments = [i for i, it in enumerate(at.values()) if it.moment]
        self._made = [read for name, read in columns.items() if name not in at]
        read_in_order = [*at, *(name for name in columns if name not in at)]
        # What has no column is read from the end, where an empty text stands.
        places = [read_in_order.index(name) if name in columns else -1 for name in header]
        self._in_order = itemgetter(*places)

    def row(self, record: Any) -> list[str]:
        """Make the row of a record.

        Raises ValueError: a value is none that the column can have; the message names the column.
        """
        values = self._values(record)
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
