"""The table of columns bound to a header: from the texts of records to the values of fields."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sacct_ingest.sources.columns import (
    Converter,
    best_columns,
    canonical_name,
    elapsed,
    epoch,
    text,
)
from sacct_ingest.text.slurm_text import possible_duration

#: Digits of times that are possible, whatever they are.
_SAFE_DIGITS: Final = 12
#: Values of one converter that are remembered.
MOST_CACHED: Final = 4096
#: What reads a whole column at once where it holds nothing but digits.
_NUMBERS: Final[dict[Converter, Callable[[str], float]]] = {epoch: int, elapsed: float}


class _Memo(dict[str, Any]):
    """Converted values by their text: the rows of a job and its steps repeat each other."""

    __slots__ = ("_convert",)

    def __init__(self, convert: Converter) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, value: str) -> Any:
        if len(self) >= MOST_CACHED:
            self.clear()
        converted = self[value] = self._convert(value)
        return converted

    def column(self, values: Sequence[str]) -> Sequence[Any]:
        """Convert the values of many records."""
        number = _NUMBERS.get(self._convert)
        if number is None:
            return list(map(self.__getitem__, values))
        if "" not in values and "".join(values).isdecimal():
            numbers = list(map(number, values))
            possible_duration(max(numbers))
            return numbers
        # Times hardly repeat: remembered are the words between them, as Unknown.
        return [
            number(value) if value.isdecimal() and len(value) <= _SAFE_DIGITS else self[value]
            for value in values
        ]


class _Texts(_Memo):
    """Texts are taken as they are."""

    __slots__ = ()

    def column(self, values: Sequence[str]) -> Sequence[Any]:
        """Give them back."""
        return values


@dataclass(frozen=True, slots=True)
class _Use:
    """A field, and where its value comes from."""

    field: str
    column: str
    position: int
    memo: _Memo


class ColumnPlan:
    """The table bound to one header, for one kind of row."""

    def __init__(self, uses: Sequence[_Use]) -> None:
        self._uses = tuple(uses)

    def read(self, records: Sequence[Sequence[str]]) -> dict[str, Sequence[Any]]:
        """Give the values of each field, in the order of the records.

        A column at a time: an ingest spends its time here, and so nearly all of it in C.

        Raises ValueError: a value is not what its column holds.
        """
        texts = list(zip(*records, strict=True))
        return {use.field: use.memo.column(texts[use.position]) for use in self._uses}

    def culprit(self, record: Sequence[str]) -> str:
        """Name the column that `read` fails at; empty where it does not."""
        for use in self._uses:
            try:
                use.memo.column([record[use.position]])
            except (ValueError, OverflowError):
                return use.column
        return ""


def plans(header: Sequence[str]) -> tuple[ColumnPlan, ColumnPlan]:
    """Bind the table to a header, for the rows of jobs and for those of steps."""
    memos: dict[Converter, _Memo] = {text: _Texts(text)}
    return _plan(header, "job", memos), _plan(header, "step", memos)


def _plan(header: Sequence[str], kind: str, memos: dict[Converter, _Memo]) -> ColumnPlan:
    position = {canonical_name(name): i for i, name in reversed(list(enumerate(header)))}
    return ColumnPlan(
        [
            _Use(
                field,
                column.name,
                position[column.name],
                memos.setdefault(column.convert, _Memo(column.convert)),
            )
            for field, column in best_columns(position, kind).items()
        ]
    )
