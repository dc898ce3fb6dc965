"""Sizes of the input files of runs from before, as far as they can still be seen.

Nothing is made up: a run gets sizes only where all that its arguments name is there, and nothing of
it was changed after the run.  What was changed while it ran, it has written itself.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sacct_ingest.files.looked_at import Named, Seen, looked_at
from sacct_ingest.runs.input_sizes import sizes_of, to_text
from sacct_ingest.scripts.input_words import PACKED, input_words
from sacct_ingest.scripts.job_script import CommandLine, checked_options
from sacct_ingest.scripts.signature import comment_of, parsed_line
from sacct_ingest.scripts.snakemake_arrays import command_of_task
from sacct_ingest.text.tag import parse_tag

if TYPE_CHECKING:
    from sacct_ingest.store import Store
    from sacct_ingest.store.inputs import NotLookedAt

#: Runs of one look, the newest; they are stored so many at a time.
_MOST: Final = 5000
_AT_ONCE: Final = 100
#: How long to wait for what is asked about one run.
WAIT_S: Final = 1.0
#: After its end a run's files may still be written.
_LATE_S: Final = 5
_MOST_SCRIPT: Final = 16 * 1024
#: Variables that are now what they were then.
_LASTING: Final = ("HOME", "USER", "LOGNAME")


class Looked(NamedTuple):
    """What became of the runs whose input files were looked at."""

    sized: int = 0  #: they have sizes now
    changed: int = 0  #: something was changed since, or is gone
    without: int = 0  #: they name no files that are there
    unanswered: int = 0  #: a file system did not answer in time, and the rest was left
    skipped: int = 0  #: names, not runs: what is unreadable or no plain file, folders too large

    def plus(self, other: "Looked") -> "Looked":
        """Give the sums of both."""
        return Looked(*map(sum, zip(self, other, strict=True)))


def look_at_inputs(
    store: "Store",
    user: str,
    *,
    wait_s: float = WAIT_S,
    report: Callable[[int, str], object] | None = None,
) -> Looked:
    """Look at the input files of a user's runs, each once.

    user: whose process this is: nobody else sees what that one may.
    wait_s: how long to wait for what is asked about one run.
    report: called with how many were looked at since the last call.
    """
    rows = store.inputs.not_looked_at(user, _MOST)
    total = Looked()
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        done = _look_at(store, some, wait_s)
        total = total.plus(done)
        if report:
            report(len(some), "runs")
        if done.unanswered:
            return total.plus(Looked(unanswered=len(rows) - first - len(some)))
    return total


def _look_at(store: "Store", rows: Sequence["NotLookedAt"], wait_s: float) -> Looked:
    texts: dict[int, str] = {}
    changed = unanswered = skipped = 0
    read = [_Submitted.of(row) for row in rows]
    named = [Named(one.paths, _begun_s(one.row)) for one in read]
    answers = looked_at(named, first_s=wait_s, each_s=wait_s)
    for row, one, seen in zip(rows, read, answers, strict=False):
        if seen is None:
            unanswered = len(rows) - len(texts)
            break
        text = _text_of(row, one, seen)
        changed += text is None
        skipped += seen.skipped
        texts[row.run_id] = text or ""
    store.inputs.keep(texts)
    sized = sum(map(bool, texts.values()))
    return Looked(sized, changed, len(texts) - sized - changed, unanswered, skipped)


class _Submitted(NamedTuple):
    """A submission as the accounting has it."""

    row: "NotLookedAt"
    line: CommandLine
    typed: Sequence[str]  #: paths that its arguments name

    @classmethod
    def of(cls, row: "NotLookedAt") -> "_Submitted":
        line = parsed_line(row.submit_line, (row.comment, row.name))
        tag = parse_tag(comment_of(row.comment, row.submit_line))
        if line.program != "sbatch" or line.het or (tag and tag.inputs == "off"):
            return cls(row, CommandLine(""), ())
        typed = input_words(line.arguments, "", work_dir=row.work_dir, variables={})
        return cls(row, line, typed)

    def paths(self) -> Sequence[str]:
        """Give the paths that it names; they begin with `typed`.  It reads the script."""
        row = self.row
        wrap = self.line.options.get("wrap")
        text = wrap or _script_of(row, self.line.script)
        if PACKED in text and row.array_task_id is not None:
            text = command_of_task(text, row.array_task_id)
        options = self.line.options if wrap else {**checked_options(text)[0], **self.line.options}
        variables = {name: os.environ[name] for name in _LASTING if name in os.environ}
        if row.array_task_id is not None:
            variables["SLURM_ARRAY_TASK_ID"] = str(row.array_task_id)
        return input_words(
            self.line.arguments,
            text,
            work_dir=row.work_dir,
            standard_input=options.get("input") or "",
            variables=variables,
        )


def _script_of(row: "NotLookedAt", name: str) -> str:
    """Give the text of a run's script, where it is as it was submitted; else nothing."""
    path = Path(row.work_dir, name)
    # A script that came by standard input is there no more: this would be that of this process.
    if not name or name.startswith(("/dev/", "/proc/")) or not path.is_file():
        return ""
    status = path.stat()
    if max(status.st_mtime, status.st_ctime) > row.submit_s + 1:
        return ""
    with path.open(errors="replace") as file:
        return file.read(_MOST_SCRIPT)


def _begun_s(row: "NotLookedAt") -> int:
    """When a run may have written first; the second of its submission was before."""
    return max(row.start_s, row.submit_s + 1)


def _text_of(row: "NotLookedAt", submitted: _Submitted, seen: Seen) -> str | None:
    """Give the sizes of a run's inputs; None where they are not known any more."""
    gone = [submitted.typed[at] for at in seen.missing if at < len(submitted.typed)]
    if any("." in name.rpartition("/")[2] for name in gone):
        return None
    if any(one.changed_s > row.end_s + _LATE_S for one in seen.files):
        return None
    read = (one for one in seen.files if one.changed_s < _begun_s(row))
    return to_text(sizes_of((one.kind, one.files, one.bytes) for one in read))
