"""Settings files: missing ones are written, and files that an admin changed are never touched."""

from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path

from sacct_ingest.errors import ConfigError
from sacct_ingest.files import atomic_file


class FileState(StrEnum):
    """What becomes of a file."""

    NEW = "new"  #: it is not there and is written
    FILLED_IN = "filled in"  #: it is there as it was shipped, without changes, and is written
    SAME = "same"  #: it says the same already
    UNTOUCHED = "untouched"  #: it has other contents and stays as it is


@dataclass(frozen=True, slots=True)
class Planned:
    """One file, and what it should say."""

    path: Path
    text: str
    before: str | None  #: what it says; None: there is none
    state: FileState

    @property
    def difference(self) -> str:
        """What is there against what should be, as ``diff -u`` prints it."""
        old = "/dev/null" if self.before is None else str(self.path)
        lines = unified_diff(
            (self.before or "").splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            old,
            str(self.path),
        )
        return "".join(lines)


def plan(path: Path, text: str, shipped: str) -> Planned:
    """Say what becomes of a file that should have this text.

    shipped: the sample: a file with just this text was put there by an installation, not by an
        admin.
    Raises ConfigError: the file is there and cannot be read.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise _failed(path, error, "read") from error
    states = {text: FileState.SAME, None: FileState.NEW, shipped: FileState.FILLED_IN}
    return Planned(path, text, before, states.get(before, FileState.UNTOUCHED))


def write(planned: Planned) -> None:
    """Write a file that is new or to be filled in; the others stay.

    Raises ConfigError: it cannot be written.
    """
    if planned.state in (FileState.NEW, FileState.FILLED_IN):
        put(planned.path, planned.text)


def put(path: Path, text: str | bytes) -> None:
    """Let a file have this text from one moment to the next, with the time stamp of now.

    Raises ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(path, text.encode() if isinstance(text, str) else text, mode=0o644)
    except OSError as error:
        raise _failed(path, error, "written") from error


def _failed(path: Path, error: Exception, what: str) -> ConfigError:
    reason = getattr(error, "strerror", None) or "not UTF-8 text"
    return ConfigError(f"{path}: cannot be {what}: {reason}; try as root")
