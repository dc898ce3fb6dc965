"""What a situation is, and the day on which they are tried."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from _situations_site import Said, UsersSite

from tests.processes import wait_until


@dataclass(frozen=True)
class Situation:
    """One of them; ``run`` gives what was true afterwards."""

    title: str
    wants: str
    run: Callable[["Day"], str]

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return self.run.__name__


SITUATIONS: list[Situation] = []


def situation(title: str, wants: str) -> Callable[[Callable[["Day"], str]], Callable[..., str]]:
    """Register a situation."""

    def register(run: Callable[["Day"], str]) -> Callable[..., str]:
        SITUATIONS.append(Situation(title, wants, run))
        return run

    return register


@dataclass
class Day:
    """A day of the site: what users do in it, and what came of that."""

    site: UsersSite
    facts: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        # What users and administrators do is the site's.
        return getattr(self.site, name)

    def numbers(self, said: Said) -> list[int]:
        """Ids of the jobs that were submitted."""
        return [int(word) for word in re.findall(r"Submitted batch job (\d+)", said.output)]

    def number(self, said: Said) -> int:
        """Id of the one job; 0: none was submitted."""
        return next(iter(self.numbers(said)), 0)

    def until_running(self, *jobs: int) -> None:
        """Wait until jobs run, and nimod has seen it."""
        for job in jobs:
            wait_until(lambda job=job: self.state(job) == "RUNNING", what=f"job {job} to start")
        time.sleep(2.5)

    def state(self, job: int) -> str:
        """State of a job."""
        return str(self.site.job(job).get("JobState", ""))

    def try_out(self, one: Situation) -> dict[str, Any]:
        """Run a situation; give all that was printed, and what was true."""
        self.site.said.clear()
        began = time.monotonic()
        try:
            truth = one.run(self)
        finally:
            self.site.cancel_all()
        return {
            "situation": one.title,
            "wants": one.wants,
            "said": [said.text() for said in self.site.said],
            "truth": truth,
            "seconds": time.monotonic() - began,
        }
