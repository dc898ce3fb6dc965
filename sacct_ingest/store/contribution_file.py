"""What runs added to aprof's sums, as a file: for a store that cannot reach this one.

A line that says what follows, and a line of JSON for each run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import msgspec

from sacct_ingest.errors import FormatError
from sacct_ingest.files.atomic_file import replacing
from sacct_ingest.store.rows import Contribution

_HEADER = b'{"nimo_contributions":1}\n'
_BATCH = 2000
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Contribution).decode
_figures = msgspec.json.Decoder(dict[str, float]).decode


@dataclass(slots=True)
class ContributionRefused:
    """Lines that could not be read: how many, and the first of them with what is wrong."""

    count: int = 0
    first: str = field(default="")

    def add(self, place: str, error: Exception) -> None:
        """Count one."""
        self.count += 1
        self.first = self.first or f"{place}: {error}"


def write(path: Path, batches: Iterable[list[Contribution]]) -> int:
    """Write contributions to a file; gives how many.

    Raises FormatError: it cannot be written.
    """
    count = 0
    try:
        with replacing(path) as file:
            file.write(_HEADER)
            for batch in batches:
                file.writelines(_encode(one) + b"\n" for one in batch)
                count += len(batch)
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from error
    return count


def is_one(path: Path) -> bool:
    """Whether a file is one of these."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


def read(path: Path, refused: ContributionRefused) -> Iterator[list[Contribution]]:
    """Read contributions in batches; what is wrong is counted and left out.

    Raises FormatError: the file cannot be read.
    """
    batch: list[Contribution] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    continue
                try:
                    batch.append(_checked(_decode(line)))
                except (msgspec.DecodeError, ValueError) as error:
                    refused.add(f"{path}: line {number}", error)
                if len(batch) == _BATCH:
                    yield batch
                    batch = []
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from error
    if batch:
        yield batch


def _checked(one: Contribution) -> Contribution:
    """Refuse what the sums would suffer from."""
    figures = _figures(one.figures) if one.figures else {}
    for name, value in (("nodes", one.nodes), ("tasks_node", one.tasks_node), *figures.items()):
        if not (isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}; it has to be above zero")
    if not (isfinite(one.time_s) and one.time_s >= 0):
        raise ValueError(f"time_s is {one.time_s}; it has to be zero or more")
    return one
