"""A progress line on the terminal for commands that take longer than two seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Protocol

from slurm_plugin.text.streams import safe_console

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 2.0
_STEPS = 10_000  #: of the bar
_SPEED_OVER_S = 1800.0  #: a day of accounting may take minutes


class ProgressReport(Protocol):
    """Takes the amount done since the last call, a label, and the share of all done."""

    def __call__(self, done: int, what: str, share: float | None = None, /) -> None:
        """Show it."""


@contextmanager
def progress(title: str, *, patience_s: float = PATIENCE_S) -> Iterator[ProgressReport]:
    """Give a function to report progress to; shown on stderr if that is a terminal.

    If the total is known there is a bar, with the time that is left.  Nothing is shown
    before ``patience_s`` have passed, and the line is wiped at the end.
    """
    bar: Progress | None = None
    total, begun_s, on_terminal = 0, time.monotonic(), sys.stderr.isatty()

    def report(done: int, what: str, share: float | None = None, /) -> None:
        nonlocal bar, total
        total += done
        if bar is None and on_terminal and time.monotonic() - begun_s >= patience_s:
            bar = _started(title, begun_s)
        if bar is not None:
            (task,) = bar.task_ids
            bar.update(task, description=what, done=f"{total:,}" if total else "")
            if share is not None:
                bar.update(task, total=_STEPS, completed=round(share * _STEPS))

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def waiting(title: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Show activity where the share done is unknown."""
    with progress(title, patience_s=patience_s) as report:
        timer = Timer(patience_s, report, (0, ""))
        if sys.stderr.isatty():
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if timer.is_alive():
                timer.join()


def _started(title: str, begun_s: float) -> "Progress":
    # What is done before it need be shown does not wait for it.
    from rich import progress as columns  # noqa: PLC0415

    bar = columns.Progress(
        columns.TextColumn(title),
        columns.SpinnerColumn(),
        columns.TextColumn("{task.fields[done]}"),
        columns.TextColumn("{task.description}"),
        columns.BarColumn(),
        columns.TimeElapsedColumn(),
        columns.TimeRemainingColumn(),
        console=safe_console(sys.stderr),
        get_time=time.monotonic,
        speed_estimate_period=_SPEED_OVER_S,
        transient=True,
    )
    bar.add_task("", total=None, done="")
    bar.tasks[0].start_time = begun_s
    bar.start()
    return bar
