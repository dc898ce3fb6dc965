"""What all sources of histories have in common."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sacct_ingest.records import JobRun

#: Most rejected rows whose text is stored; more of them are only counted.
MOST_TEXTS = 1000


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be read, and why."""

    reason: str
    text: str


@dataclass(slots=True)
class Tally:
    """Counts of the rows that a source gave so far; the source updates it while it is read.

    ``waited_s`` is the time spent waiting for the accounting to answer.  ``unit`` is what the
    numbers of refused rows count, such as lines.
    """

    rows: int = 0
    refused: int = 0
    rejects: list[Reject] = field(default_factory=list)
    waited_s: float = 0.0
    unit: str = ""

    def refuse(self, reason: str, text: str, number: int) -> None:
        """Count a row that could not be read, and keep its text and its number."""
        self.refused += 1
        if len(self.rejects) < MOST_TEXTS:
            where = f"{self.unit} {number}: " if self.unit else ""
            self.rejects.append(Reject(f"{where}{reason}", text))


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
