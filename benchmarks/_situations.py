"""What a situation is, and the day on which they are tried."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from _situations_site import Said, UsersSite

from tests.processes import wait_until


@dataclass(frozen=True)
class Situation:
    """What a user wants; ``run`` plays it and gives what was true afterwards."""

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

    def write_scripts(self, scripts: Mapping[str, Mapping[str, str]]) -> None:
        """Write files into homes: user to name to text."""
        for user, files in scripts.items():
            for name, text in files.items():
                self.site.write(user, name, text)

    def learn_from(self, user: str, lines: Sequence[str]) -> list[int]:
        """Submit jobs, wait for their ends, and learn from them; give their ids."""
        jobs = [self.site.submit(user, line) for line in lines]
        self.site.ended(*jobs)
        self.site.learn()
        return jobs

    def larger_input(self, user: str, script: str, *, size_mb: int) -> int:
        """Run a script on inputs of 1 to 3 MB, learn, and submit it with a larger one."""
        lines = []
        for number, run_mb in enumerate((1, 2, 3, 1, 2, 3, 1, 2, 3), 1):
            name = f"{script}{number}.txt"
            self.site.write(user, name, "x" * (run_mb * 1_000_000))
            lines.append(f"{script} {name}")
        self.learn_from(user, lines)
        name = f"{script}99.txt"
        self.site.write(user, name, "x" * (size_mb * 1_000_000))
        return self.advise_and_submit(user, f"{script} {name}")

    def advise_and_submit(
        self, user: str, line: str, *, comment: str = "", folder: str = ""
    ) -> int:
        """Ask for advice on a submission, and submit it; give the job's id.

        comment: a tag that only the submission has.
        """
        self.site.do(user, f"nimo-advise {line}", folder=folder)
        options = f"--comment={comment} {line}" if comment else line
        return self.site.submit(user, options, folder=folder)

    def ask_why(self, user: str, job: int) -> None:
        """Wait for the end of a job, and have its user ask what came of it."""
        self.site.ended(job)
        self.site.do(user, f"nimo why {job}")

    def occupy(self, nodes: int, *, limit_min: int, run_s: int) -> int:
        """Have a job of another user run on whole nodes; give its id."""
        job = self.site.submit(
            "emil", f"-N {nodes} --exclusive -t {limit_min} --wrap 'srun sleep {run_s}'"
        )
        self.until_running(job)
        return job

    def paste_change(self, said: Said) -> None:
        """Have a user run the first change of a job that an answer proposes."""
        changes = re.findall(r"scontrol update \S.*", said.output)
        if changes:
            self.site.do(said.user, changes[0].strip())

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

    def until_any_task_runs(self, array: int) -> None:
        """Wait until a task of an array runs, and nimod has seen it."""
        argv = ("squeue", "-h", "-t", "RUNNING", "-o", "%i", "-j", str(array))
        wait_until(
            lambda: bool(self.site.cluster.run(*argv, check=False).stdout.strip()),
            what=f"a task of {array} to start",
        )
        time.sleep(2.5)

    def state(self, job: int) -> str:
        """State of a job."""
        return str(self.site.job(job).get("JobState", ""))

    def try_out(self, situation: Situation) -> dict[str, Any]:
        """Run a situation; give all that was printed, and what was true."""
        self.site.said.clear()
        began = time.monotonic()
        try:
            truth = situation.run(self)
        finally:
            self.site.cancel_all()
        return {
            "situation": situation.title,
            "wants": situation.wants,
            "said": [said.text() for said in self.site.said],
            "truth": truth,
            "seconds": time.monotonic() - began,
        }
