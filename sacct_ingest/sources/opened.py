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

#: Bytes read at a time; characters of the longest line, and of it in the store once set aside.
_CHUNK, _LONGEST_LINE, _SHOWN = 1 << 16, 4 << 20, 1000


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
    begun = b""
    number = 1
    data = binary.read1(_CHUNK)
    while data:
        whole = data.rfind(b"\n") + 1
        if whole:
            # Split as bytes: where one character is no ASCII, text takes twice the time.
            lines = io.BytesIO(begun + data[:whole])
            yield from [str(line, "utf-8", "replace") for line in lines]
            number += data.count(b"\n")
            begun = b""
        begun += data[whole:]
        if len(begun) > _LONGEST_LINE and len(begun.decode("utf-8", "replace")) > _LONGEST_LINE:
            data = _behind_line(begun, binary, tally, number)
            begun = b""
        else:
            data = binary.read1(_CHUNK)
    if begun:
        yield begun.decode("utf-8", "replace")


def _behind_line(begun: bytes, binary: io.BufferedReader, tally: Tally, number: int) -> bytes:
    """Set a line aside that has begun so, and give what was read behind it, from its end on."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(begun)
    shown = text[:_SHOWN]
    size = len(text)
    tally.rows += 1
    while data := binary.read1(_CHUNK):
        end = data.find(b"\n") + 1
        size += len(decoder.decode(data[:end] if end else data))
        if end:
            tally.refuse(f"a line of {size:,} characters", shown, number)
            return data[end - 1 :]
    tally.refuse(f"a line of {size:,} characters without its end", shown, number)
    return b""


def foreign_errors() -> tuple[type[Exception], ...]:
    """Errors that the libraries above raise for damaged or unreadable files."""
    errors: list[type[Exception]] = [OSError, EOFError, lzma.LZMAError, zlib.error]
    if (zstd := _zstd_module()) is not None:
        errors.append(zstd.ZstdError)
    return tuple(errors)
