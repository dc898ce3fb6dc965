"""A saved replay for a page: read again when its file changes."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from slurm_plugin.reports.chart import Chart
from slurm_plugin.reports.html import Table
from slurm_plugin.text.formatting import clock

_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
_LARGEST = 8 << 20  #: bytes; hundreds of settings are far below


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay in words and tables; ``error`` says why there is none."""

    title: str = ""
    verdict: str = ""  #: three sentences
    more: str = ""
    made: str = ""
    drawing: Chart | None = None
    tables: tuple[Table, ...] = ()
    assumptions: tuple[str, ...] = ()
    error: str = ""


def replayed(path: str) -> Replayed | None:
    """Read a file of ``nimo replay --json``; None where the site names none."""
    if not path:
        return None
    try:
        status = Path(path).stat()
        if status.st_size > _LARGEST:
            return Replayed(error=f"{path} is too large for a replay")
        return _read(path, status.st_mtime_ns, status.st_ino)
    except OSError as error:
        return Replayed(error=f"{path}: {error.strerror or error}")


@lru_cache(maxsize=2)
def _read(path: str, changed_ns: int, inode: int) -> Replayed:
    del inode  # part of what is remembered
    # Loaded here: numpy and scipy take half a second, and most pages need neither.
    from slurm_plugin.reports import replay_text  # noqa: PLC0415

    try:
        report = msgspec.json.decode(Path(path).read_bytes(), type=replay_text.ReplayReport)
    except msgspec.DecodeError as error:
        return Replayed(
            error=f"{path}: not what 'nimo replay --json' of this release writes: {error}"
        )
    if not report.results:
        return Replayed(error=f"{path}: no setting was replayed")
    sentences = _SENTENCE.split(replay_text.verdict(report))
    return Replayed(
        title=replay_text.title_of(report),
        verdict=" ".join(sentences[:3]),
        more=" ".join(sentences[3:]),
        made=clock(changed_ns / 1e9),
        drawing=replay_text.benefit_and_harm(report),
        tables=tuple(replay_text.tables(report)),
        assumptions=report.assumptions,
    )
