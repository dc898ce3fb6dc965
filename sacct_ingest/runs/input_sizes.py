"""Sizes of a job's input files: how many there are, and their bytes by kind.

A kind is how names end (`sacct_ingest.files.looked_at.kind_of`): ``bam``, ``fastq.gz``.  Names
themselves are nowhere in it, and of files in a folder not even the endings.  As text it travels
from the client that looked at the files to the store: ``4Kbam=1200KfastqDgz=345``, in letters,
digits and ``=``, which the comment that cli_filter sends takes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

#: Sizes of the problem that they are: see `sacct_ingest.runs.attributes.numbers_of`.
BYTES: Final = "input bytes"
FILES: Final = "input files"
#: Those that all inputs have.
NAMES: Final = frozenset({BYTES, FILES})
#: File types that are counted separately, those with the most bytes; the others count as one.
_KINDS: Final = 4
#: Bounds: 2**53 bytes, which Lua counts exactly, have 16 digits.
_TEXT = re.compile(r"([0-9]{1,7})((?:K[a-z0-9D]{0,17}=[0-9]{1,16}){0,5})")
_KIND = re.compile(r"K([a-z0-9D]*)=([0-9]+)")


class InputSizes(NamedTuple):
    """What was seen of a job's input files."""

    files: int
    kinds: Mapping[str, int]  #: bytes by kind; empty: files in folders, and of other names

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum(self.kinds.values())

    @property
    def numbers(self) -> dict[str, float]:
        """Sizes of the problem by name; those that are zero, or say the same, are left out."""
        made = {BYTES: self.bytes, FILES: self.files if self.files > 1 else 0}
        if len(self.kinds) > 1:
            made |= {f".{kind} bytes": size for kind, size in self.kinds.items() if kind}
        return {name: float(number) for name, number in made.items() if number}


def sizes_of(seen: Iterable[tuple[str, int, int]]) -> InputSizes:
    """Sum up what was seen: each as its kind, how many files it is, and their bytes.

    >>> sizes_of([("bam", 1, 1200), ("", 2, 7)])
    InputSizes(files=3, kinds={'bam': 1200, '': 7})
    """
    files = 0
    kinds = Counter[str]()
    for kind, number, size in seen:
        files += number
        kinds[kind] += size
    most = dict(sorted(kinds.items(), key=lambda own: (not own[0], -own[1], own[0]))[:_KINDS])
    rest = {kind: size for kind, size in kinds.items() if kind not in most}
    if rest:
        most[""] = most.get("", 0) + sum(rest.values())
    return InputSizes(files, most)


def to_text(sizes: InputSizes) -> str:
    """Write sizes as text; empty: there are no files.

    >>> to_text(sizes_of([("bam", 1, 1200), ("fastq.gz", 2, 345)]))
    '3Kbam=1200KfastqDgz=345'
    """
    if not sizes.files:
        return ""
    kinds = (f"K{kind.replace('.', 'D')}={size}" for kind, size in sizes.kinds.items())
    return f"{sizes.files}{''.join(kinds)}"


@lru_cache(maxsize=4096)
def from_text(text: str) -> InputSizes | None:
    """Read sizes; None: it is no such text, or there were no files.

    >>> from_text("3Kbam=1200KfastqDgz=345").numbers["input bytes"]
    1545.0
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    kinds = {kind.replace("D", "."): int(size) for kind, size in _KIND.findall(match[2])}
    return InputSizes(int(match[1]), kinds)


def numbers_in(text: str | None) -> dict[str, float]:
    """Give the sizes of the problem that a text of a job's input files says."""
    sizes = from_text(text) if text else None
    return sizes.numbers if sizes else {}
