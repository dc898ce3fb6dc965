"""Saved output of sacct: plain, ``.gz``, ``.bz2`` or ``.xz``."""

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobRun
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.sacct_text import read_text


@dataclass(frozen=True, slots=True)
class SavedSacct:
    """A file with the output of ``sacct -P``; ``-`` is standard input.

    Times without an offset are taken for local ones (of ``TZ``, where that is set).

    Parameters
    ----------
    path
        The file; its ending says how it is compressed.
    cluster
        Cluster of the runs where the file has no column that says it.
    fields
        Names of the columns where the file has no header.
    delimiter
        What stands between the fields; empty: found out from the header.
    """

    path: Path
    cluster: str = ""
    fields: Sequence[str] = ()
    delimiter: str = ""

    @property
    def name(self) -> str:
        """Path of the file."""
        return str(self.path)

    @property
    def windowed(self) -> bool:
        """A file is read as a whole."""
        return False

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give all runs of the file.

        Raises
        ------
        FormatError
            It cannot be read, or is not what sacct prints.
        """
        del begin_s, end_s
        try:
            with open_file(self.path) as binary:
                yield from read_text(
                    decoded(binary),
                    tally,
                    cluster=self.cluster,
                    delimiter=self.delimiter or ("|" if self.fields else ""),
                    fields=self.fields,
                )
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from error
        except EOFError as error:
            raise FormatError(f"{self.path}: the file breaks off") from error
        except (OSError, lzma.LZMAError) as error:
            raise FormatError(
                f"{self.path}: {getattr(error, 'strerror', None) or error}"
            ) from error


def open_file(path: Path) -> IO[bytes]:
    """Open a file that may be compressed, or standard input for ``-``."""
    if str(path) == "-":
        return sys.stdin.buffer
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    if path.suffix == ".bz2":
        return bz2.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    return path.open("rb")


def decoded(binary: IO[bytes]) -> io.TextIOWrapper:
    r"""Decode accounting text: lines end at ``\n`` only, and what is not UTF-8 is replaced."""
    return io.TextIOWrapper(binary, encoding="utf-8", errors="replace", newline="\n")
