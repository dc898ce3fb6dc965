"""The table of `columns` bound to a header: values are read a column at a time.

Values that cannot be read are of two kinds.  Without a value of `REQUIRED_VALUES` a row is set
aside; any other is unknown, and counted by its column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import structs

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import Fault, StepRun
from sacct_ingest.sources.columns import (
    REQUIRED_VALUES,
    Converter,
    best_columns,
    canonical_name,
    elapsed,
    epoch,
    relative,
    text,
)
from sacct_ingest.sources.number_columns import NumberColumn
from sacct_ingest.text import slurm_text

#: Values by field, those of a field in the order of the records.
Columns = dict[str, Sequence[Any]]
#: Fields of the records that rows are made into, with their defaults.
DEFAULTS: Final = {
    kind: [(field.name, field.default) for field in structs.fields(kind)]
    for kind in (JobRun, StepRun)
}
#: Values of one converter that are remembered.
MOST_CACHED: Final = 4096


#: Converters of columns that hold hardly anything but digits, and what reads these.
_NUMBERS: Final[dict[Converter, NumberColumn]] = {
    epoch: NumberColumn(int, slurm_text.FIRST_S, slurm_text.LAST_S),
    relative: NumberColumn(int, 0, int(slurm_text.LONGEST_S)),
    elapsed: NumberColumn(float, 0, int(slurm_text.LONGEST_S)),
}


class _Memo(dict[str, Any]):
    """Converted values by their text: the rows of a job and its steps repeat each other.

    required: whether a value that cannot be read is an error; else it is unknown.
    unknown: what stands for such a value.

    ``odd`` has the texts that could not be read, and why.
    """

    __slots__ = ("_convert", "_numbers", "_required", "_unknown", "odd")

    def __init__(self, convert: Converter, *, required: bool, unknown: Any) -> None:
        super().__init__()
        self._convert = convert
        self._required = required
        self._unknown = unknown
        self._numbers = _NUMBERS.get(convert)
        self.odd: dict[str, Fault] = {}

    def __missing__(self, value: str) -> Any:
        if len(self) >= MOST_CACHED:
            self.clear()
        try:
            converted = self._convert(value)
        except (ValueError, OverflowError) as error:
            if self._required:
                raise
            too_large = isinstance(error, slurm_text.TooLarge | OverflowError)
            self.odd[value] = Fault.OVERFLOWED if too_large else Fault.UNREADABLE
            converted = self._unknown
        self[value] = converted
        return converted

    def column(self, values: Sequence[str]) -> Sequence[Any]:
        """Convert the values of many records; texts are taken as they are.

        Raises ValueError: a required one cannot be read.
        """
        if self._convert is text:
            return values
        if len(self.odd) > MOST_CACHED:
            self.clear()
            self.odd.clear()
        if self._numbers is None:
            return list(map(self.__getitem__, values))
        numbers = self._numbers.read(values)
        if numbers is not None:
            return numbers
        # Times hardly repeat: remembered are the words between them, as Unknown.
        words = {text for text in values if not text.isdecimal()}
        numbers = self._numbers.read([text for text in values if text not in words])
        if numbers is None:
            return list(map(self.__getitem__, values))
        rest = iter(numbers)
        return [self[text] if text in words else next(rest) for text in values]


@dataclass(frozen=True, slots=True)
class _Use:
    """A field, and where its value comes from."""

    field: str
    column: str
    position: int
    memo: _Memo


class Unknown(NamedTuple):
    """An optional value that could not be used: in which of some records, and what it is."""

    record: int
    column: str
    fault: Fault
    text: str


class ColumnPlan:
    """The table bound to one header, for one kind of row."""

    def __init__(self, uses: Sequence[_Use]) -> None:
        self._uses = tuple(uses)

    def read(
        self, records: Sequence[Sequence[str]], unknown: list[Unknown] | None = None
    ) -> Columns:
        """Give the values of each field, in the order of the records.

        A column at a time: an ingest spends its time here, and so nearly all of it in C.

        unknown: takes the optional values that cannot be read.
        Raises ValueError: a required value is not what its column holds.
        """
        texts = list(zip(*records, strict=True))
        columns: Columns = {}
        for use in self._uses:
            values = texts[use.position]
            columns[use.field] = use.memo.column(values)
            odd = use.memo.odd
            if odd and unknown is not None and not odd.keys().isdisjoint(values):
                unknown += [
                    Unknown(at, use.column, odd[value], value)
                    for at, value in enumerate(values)
                    if value in odd
                ]
        return columns

    def culprit(self, record: Sequence[str]) -> str:
        """Name the column that `read` fails at; empty where it does not."""
        for use in self._uses:
            try:
                use.memo.column([record[use.position]])
            except (ValueError, OverflowError):
                return use.column
        return ""


def plans(header: Sequence[str], *, dated: bool = True) -> tuple[ColumnPlan, ColumnPlan]:
    """Bind the table to a header, for the rows of jobs and for those of steps.

    dated: whether times count from 1970 on; else from a moment that is not known.
    """
    memos: dict[tuple[Converter, bool, Any], _Memo] = {}
    return _plan(header, "job", memos, dated=dated), _plan(header, "step", memos, dated=dated)


def _plan(
    header: Sequence[str],
    kind: str,
    memos: dict[tuple[Converter, bool, Any], _Memo],
    *,
    dated: bool,
) -> ColumnPlan:
    position = {canonical_name(name): i for i, name in reversed(list(enumerate(header)))}
    defaults = dict(DEFAULTS[JobRun if kind == "job" else StepRun])
    uses = []
    for field, column in best_columns(position, kind).items():
        convert = relative if column.convert is epoch and not dated else column.convert
        required = column.name in REQUIRED_VALUES
        unknown = None if required else defaults.get(field)
        memo = memos.setdefault(
            (convert, required, unknown), _Memo(convert, required=required, unknown=unknown)
        )
        uses.append(_Use(field, column.name, position[column.name], memo))
    return ColumnPlan(uses)
