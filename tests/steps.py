"""Counts the lines of Python that run, so that tests bound work without a clock."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TooManySteps(Exception):  # noqa: N818
    """More steps than a test allows."""


@contextmanager
def counting(most: int) -> Iterator[None]:
    """Allow so many steps. Raises TooManySteps."""
    done = 0

    def trace(*_: object) -> Any:
        nonlocal done
        done += 1
        if done > most:
            raise TooManySteps(f"more than {most} steps")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
