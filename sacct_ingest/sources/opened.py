"""Saved files, compressed or not: their first bytes show which, not their names."""

import bz2
import codecs
import gzip
import importlib
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

from sacct_ingest.errors import FormatError, how_to_install
from sacct_ingest.sources.run_source import Tally


def _zstd_module() -> ModuleType | None:
    """Give the module for Zstandard: Python's own from 3.14 on, else an extra; None without it."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return importlib.import_module(name)
    return None


def _zstd(binary: IO[bytes]) -> IO[bytes]:
    module = _zstd_module()
    if module is None:
        raise FormatError(f"there is no reader of .zst; {how_to_install('zstd')}")
    return cast("IO[bytes]", module.ZstdFile(binary))


#: First bytes of a compressed file, and what reads it.
_COMPRESSED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda binary: gzip.GzipFile(fileobj=binary)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x28\xb5\x2f\xfd", _zstd),
)
#: Bytes read at a time; characters of the longest line, and of it in the store once set aside.
_CHUNK, _LONGEST_LINE, _SHOWN = 1 << 16, 4 << 20, 1000
_MAGIC = max(len(magic) for magic, _ in _COMPRESSED)


def open_file(path: Path) -> io.BufferedReader:
    """Open a file that may be compressed, or standard input for ``-``.

    Raises OSError: it cannot be opened; FormatError: what it is compressed with cannot be read
        here.
    """
    raw = cast("io.BufferedReader", sys.stdin.buffer if str(path) == "-" else path.open("rb"))
    try:
        start = raw.peek(_MAGIC)
        for magic, reader in _COMPRESSED:
            if start.startswith(magic):
                return _without_mark(io.BufferedReader(reader(raw)))
        return _without_mark(raw)
    except BaseException:
        raw.close()
        raise


def _without_mark(binary: io.BufferedReader) -> io.BufferedReader:
    """Skip the byte order mark that editors on Windows write."""
    start = binary.peek(len(codecs.BOM_UTF8))
    if start.startswith(codecs.BOM_UTF8):
        binary.read(len(codecs.BOM_UTF8))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FormatError("it is UTF-16; make it UTF-8 with 'iconv -f UTF-16 -t UTF-8'")
    return binary


def decoded(binary: IO[bytes]) -> io.TextIOWrapper:
    r"""Decode accounting text: lines end at ``\n`` only, and what is not UTF-8 is replaced."""
    return io.TextIOWrapper(binary, encoding="utf-8", errors="replace", newline="\n")


def lines_of(binary: io.BufferedReader, tally: Tally) -> Iterator[str]:
    """Decode lines as :func:`decoded` does; one of over four million characters is set aside.

    An empty line stands in its place.  Memory does not grow with a line's length.

    tally: takes the lines that are set aside.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    begun, number, dropped = "", 1, 0
    while data := binary.read1(_CHUNK):
        text = decoder.decode(data)
        end = text.find("\n") + 1
        if dropped and not end:
            dropped += len(text)
            continue
        if dropped:
            tally.rows += 1
            tally.refuse(f"a line of {dropped + end:,} characters", begun, number)
            begun, text, dropped = "", text[end - 1 :], 0
        whole = text.rfind("\n") + 1
        if whole:
            yield from io.StringIO(begun + text[:whole], newline="\n")
            number += text.count("\n")
        begun = text[whole:] if whole else begun + text
        if len(begun) > _LONGEST_LINE:
            dropped, begun = len(begun), begun[:_SHOWN]
    if dropped:
        tally.rows += 1
        tally.refuse(f"a line of {dropped:,} characters without its end", begun, number)
    elif begun := begun + decoder.decode(b"", final=True):
        yield begun


def foreign_errors() -> tuple[type[Exception], ...]:
    """Errors that the libraries above raise for damaged or unreadable files."""
    errors: list[type[Exception]] = [OSError, EOFError, lzma.LZMAError, zlib.error]
    if (zstd := _zstd_module()) is not None:
        errors.append(zstd.ZstdError)
    return tuple(errors)
