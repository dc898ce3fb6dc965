"""A progress line on the terminal for what takes longer than one likes to wait."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PATIENCE_S = 2.0

#: Called with how much was done since the last call, and a word on what is being done.
Report = Callable[[int, str], None]


@contextmanager
def progress(
    title: str, *, patience_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic
) -> Iterator[Report]:
    """Give a function to report progress to; shown on stderr if that is a terminal.

    Nothing is shown before ``patience_s`` have passed, and the line is wiped at the end.
    """
    columns = SpinnerColumn(), TextColumn("{task.completed:,}"), TextColumn("{task.description}")
    bar = Progress(
        TextColumn(title),
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bar.add_task("", total=None)
    begun_s = clock()

    def report(done: int, what: str) -> None:
        if not bar.live.is_started and clock() - begun_s >= patience_s:
            bar.start()
        bar.update(task, advance=done, description=what)

    try:
        yield report
    finally:
        bar.stop()
