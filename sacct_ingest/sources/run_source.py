"""What all sources of histories have in common."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import Fault, OddValue

#: Most rejected rows whose text is stored; more of them are only counted.
MOST_TEXTS = 1000
#: Characters of a value that are shown.
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be read, and why."""

    reason: str
    text: str


@dataclass(slots=True)
class Tally:
    """Counts of the rows that a source gave so far; the source updates it while it is read.

    ``waited_s`` is the time spent waiting for the accounting to answer.  ``unit`` is what the
    numbers of refused rows count, such as lines.  ``read`` counts the rows of jobs and of steps
    that were read, ``odd`` the optional values in them that were taken for unknown, of which
    ``examples`` has the first of each column.
    """

    rows: int = 0
    refused: int = 0
    rejects: list[Reject] = field(default_factory=list)
    waited_s: float = 0.0
    unit: str = ""
    read: Counter[str] = field(default_factory=Counter)
    odd: Counter[OddValue] = field(default_factory=Counter)
    examples: dict[OddValue, str] = field(default_factory=dict)

    def refuse(self, reason: str, text: str, number: int) -> None:
        """Count a row that could not be read, and keep its text and its number."""
        self.refused += 1
        if len(self.rejects) < MOST_TEXTS:
            self.rejects.append(Reject(f"{self._where(number)}{reason}", text))

    def take_for_unknown(self, value: OddValue, text: str, number: int) -> None:
        """Count an optional value that could not be used; the first of each is an example."""
        self.odd[value] += 1
        if value not in self.examples:
            self.examples[value] = f"{self._where(number)}{text[:SHOWN]!r}"

    def _where(self, number: int) -> str:
        return f"{self.unit} {number}: " if self.unit else ""


def take_unread(tally: Tally, kind: str, columns: Sequence[str], number: int) -> None:
    """Count optional columns of a record that hold no value at all, such as a list."""
    for column in columns:
        odd = OddValue(kind, column, Fault.UNREADABLE)
        tally.take_for_unknown(odd, "not one value", number)


class RunSource(Protocol):
    """Where runs come from."""

    @property
    def name(self) -> str:
        """Name of the source, for its watermark and its rejected rows."""

    @property
    def windowed(self) -> bool:
        """Whether it can be asked for a window of time; otherwise all is read at once."""

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give the runs that ended in a window, or all of them where it is not windowed.

        Raises sacct_ingest.errors.SacctError, sacct_ingest.errors.FormatError: the source broke
            off: what was read so far is right, but not all there is.
        """
