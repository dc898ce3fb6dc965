"""Questions of a command to Slurm, which share one time to be answered in."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sacct_ingest.errors import NimoError, SlurmError
from slurm_plugin.slurm import commands

_T = TypeVar("_T")
#: Seconds that all questions of a command to Slurm and nimod may take together.
PATIENCE_S = 2.0
_AT_ONCE = 8  #: questions


class Patience:
    """The time that is left for answers, however many questions there are; computing takes none."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + PATIENCE_S

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._until_s - time.monotonic()

    def timeout_s(self, argv: Sequence[str]) -> float:
        """Give the seconds in which a command has to answer. Raises SlurmError: there are none."""
        left_s = round(self.left_s, 1)
        if left_s <= 0:
            raise SlurmError(f"{argv[0]}: not asked after {PATIENCE_S:g} s of waiting for Slurm")
        return left_s

    def ask(self, argv: Sequence[str]) -> str:
        """Run a command. Raises SlurmError: it failed, took too long, or there is no time left."""
        return commands.run(argv, timeout_s=self.timeout_s(argv))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Compute something meanwhile."""
        left_s = self.left_s
        yield
        self._until_s = time.monotonic() + left_s


def asking() -> ThreadPoolExecutor:
    """Give threads that ask a few questions at once."""
    return ThreadPoolExecutor(_AT_ONCE)


class Questions:
    """Questions that are asked at once.

    troubles: takes what was asked for, and why there is no answer.
    """

    def __init__(
        self, pool: ThreadPoolExecutor, patience: Patience, troubles: dict[str, str]
    ) -> None:
        self._pool = pool
        self._patience = patience
        self._troubles = troubles
        self._asked: dict[tuple[str, ...], Future[str]] = {}

    def begin(self, argv: Sequence[str]) -> None:
        """Ask, and do not wait."""
        self._asked[tuple(argv)] = self._pool.submit(self._patience.ask, argv)

    def answer(self, argv: Sequence[str]) -> str:
        """Give an answer, of what was begun or not. Raises SlurmError: there is none."""
        begun = self._asked.get(tuple(argv))
        return self._patience.ask(argv) if begun is None else begun.result()

    def got(self, name: str, argv: Sequence[str]) -> str:
        """Give an answer; none is noted under this name."""
        return self.noted(name, lambda: self.answer(argv)) or ""

    def noted(self, name: str, ask: Callable[[], _T]) -> _T | None:
        """Give what ``ask`` gives; an error is noted under this name."""
        try:
            return ask()
        except NimoError as error:
            self._troubles[name] = str(error)
            return None


def waiting_ids(patience: Patience, whose: str = "--me") -> list[int]:
    """List the ids of jobs that wait, of the process's own user or as an option of squeue says.

    Raises SlurmError: squeue does not answer.
    """
    listed = patience.ask(("squeue", whose, "-h", "-t", "PD", "-o", "%A"))
    ids = (int(word) for word in listed.split() if word.isdecimal())
    return list(dict.fromkeys(ids))
