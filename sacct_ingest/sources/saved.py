"""Saved histories: what sacct, slurmrestd or the Parallel Workloads Archive wrote into a file."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import ClassVar, Final

from sacct_ingest.errors import FormatError
from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.opened import decoded, foreign_errors, lines_of, open_file
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.sources.slurm_json import read_json
from sacct_ingest.sources.swf import looks_like_swf, machine_nodes, read_swf

#: Bytes by which a format is recognised.
_SAMPLE: Final = 4096


@dataclass(frozen=True, slots=True)
class SavedSacct:
    """A file of accounting in any of `FORMATS`, compressed or not; ``-`` is standard input.

    Times without an offset are taken for local ones (of ``TZ``, where that is set).

    path: the file.
    cluster: cluster of the runs where the file does not name it.
    fields: names of the columns where a text has no header, or other names in it.
    delimiter: what stands between the fields of a text; empty: detected from the header.
    format: one of `FORMATS`; empty: recognised by the content.
    """

    path: Path
    cluster: str = ""
    fields: Sequence[str] = ()
    delimiter: str = ""
    format: str = ""
    windowed: ClassVar[bool] = False  #: a file is read as a whole

    @property
    def name(self) -> str:
        """Path of the file, as text that a database takes: names of files may be any bytes."""
        return os.fsencode(self.path).decode(errors="replace")

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give all runs of the file.

        Raises FormatError: it cannot be read, has an unknown format, or breaks off.
        """
        del begin_s, end_s
        try:
            with open_file(self.path) as binary:
                form = self.format or recognise(binary)
                tally.unit = "job" if form == "json" else "line"
                yield from FORMATS[form](self, binary, tally)
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from error
        except EOFError as error:
            raise FormatError(f"{self.path}: the file breaks off") from error
        except foreign_errors() as error:
            raise FormatError(
                f"{self.path}: {getattr(error, 'strerror', None) or error}"
            ) from error


def cluster_nodes(path: Path) -> int:
    """Count the nodes of the cluster as the header of a saved history says; 0 where it does not.

    Only logs in the Standard Workload Format say it.

    Raises FormatError: the file cannot be read.
    """
    try:
        with open_file(path) as binary:
            return machine_nodes(lines_of(binary, Tally())) if recognise(binary) == "swf" else 0
    except foreign_errors() as error:
        raise FormatError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def recognise(binary: BufferedReader) -> str:
    """Detect the format from the first bytes of a file, without taking them.

    Raises EOFError: a compressed file breaks off in them.
    """
    start = binary.peek(_SAMPLE)[:_SAMPLE].lstrip()
    if start.startswith((b"{", b"[")):
        return "json"
    return "swf" if looks_like_swf(start) else "text"


def _text(file: SavedSacct, binary: BufferedReader, tally: Tally) -> Iterator[JobRun]:
    return read_text(
        lines_of(binary, tally),
        tally,
        cluster=file.cluster,
        delimiter=file.delimiter or ("|" if file.fields else ""),
        fields=file.fields,
    )


#: What a saved file may hold.
FORMATS: Final[dict[str, Callable[[SavedSacct, BufferedReader, Tally], Iterator[JobRun]]]] = {
    "text": _text,
    "json": lambda file, binary, tally: read_json(decoded(binary), tally, cluster=file.cluster),
    "swf": lambda file, binary, tally: read_swf(
        lines_of(binary, tally), tally, cluster=file.cluster
    ),
}
