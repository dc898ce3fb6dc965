"""Campaigns: a program's runs as jobs, some at once, within a budget; killed, they go on.

A :class:`Program` says what to run next by what was run.  All else is here: a run is written down
before its job is submitted, on hold, and the job is released once its id is written down.  So a
process that was killed at any moment goes on by reading its journal, and no job runs unnoticed.
"""

import json
import math
import shlex
import signal
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import msgspec

from sacct_ingest.errors import SlurmError
from slurm_plugin.cli.progress import ProgressReport, progress
from slurm_plugin.experiments.held_jobs import ACCOUNTED_S, HeldJobs, QueuedJob, check_accounted
from slurm_plugin.slurm.commands import SubmissionRefused, pauses
from slurm_plugin.text.formatting import hours

if TYPE_CHECKING:  # the store is heavy
    from sacct_ingest.store import RunRow

#: What ends a process from outside; a campaign then ends its jobs, as after Ctrl-C.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a campaign; without a job id it was perhaps not submitted."""

    planned_s: int
    limit_s: float = 0.0  #: the longest that it may take
    job_id: int | None = None
    reason: str = ""  #: why it failed
    elapsed_s: float = 0.0
    nodes: int = 0
    cpus: int = 0
    node_list: str = ""
    cancelled_s: float = 0.0  #: taken at most by jobs of it that were cancelled before they ended
    where: str = ""  #: cluster that its job is sent to; empty: the one of this machine

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""

    @property
    def unwanted(self) -> bool:
        """Whether its job is cancelled, unless it has begun."""
        return False

    def seen(self, job: QueuedJob) -> Self:  # noqa: ARG002 - most wait for the end
        """Give it with what the queue says of its job."""
        return self

    @property
    def amount(self) -> int:
        """Nodes, CPUs or GPUs that the budget counts."""
        return self.nodes

    @property
    def hours(self) -> float:
        """What it used of the budget, or the most that it may."""
        longest_s = self.elapsed_s if self.ended else self.limit_s
        return self.amount * (longest_s + self.cancelled_s) / 3600


_Run = TypeVar("_Run", bound=Run)


class Program(Protocol[_Run]):
    """What makes one kind of campaign."""

    @property
    def name(self) -> str:
        """Name of the command, as ``nimo scale``."""

    @property
    def again(self) -> str:
        """Command that goes on with it."""

    @property
    def together(self) -> int:
        """Most runs at once."""

    @property
    def runs(self) -> Sequence[_Run]:
        """Runs as the journal has them, in the order in which they were planned."""

    @property
    def done(self) -> float:
        """How much of the most that it may do is done, 0 to 1."""

    def next(self, now_s: float) -> _Run | str | None:
        """Choose the next run by what was run.

        Gives why there is none any more; None: those that are under way will tell.
        """

    def mark(self, run: _Run) -> str:
        """Name of a run's job, or a word of the tag in its comment, that no other job has."""

    def command(self, run: _Run) -> tuple[list[str], str]:
        """Give the command line of sbatch, with ``--hold``, and what goes to its input."""

    def impatient(self, waited_s: float) -> str:
        """Why a job is given up that waited so long in the queue; empty: it is not."""

    def as_ended(self, run: _Run, job: "RunRow | None", why: str) -> _Run:
        """Give a run with what became of it.

        job: of the accounting; None: there was no job.
        why: it was given up.
        """

    def save(self, run: _Run) -> _Run:
        """Write a run down, new or changed; it is on the disk when this returns."""


@dataclass(slots=True, kw_only=True)
class Campaign(Generic[_Run]):
    """Makes the runs of a program."""

    program: Program[_Run]
    jobs: HeldJobs
    clock: Callable[[], float]
    sleep: Callable[[float], object]
    report: Callable[[_Run], object]  #: told of each run that was submitted or has ended
    tell: Callable[[str], object]  #: and of all else
    leave: bool = False  #: jobs stay in the queue where it is interrupted
    #: Since when a job was seen waiting, and why one was cancelled, by cluster and id.
    _waits: dict[tuple[str, int], float] = field(default_factory=dict)
    _given_up: dict[tuple[str, int], str] = field(default_factory=dict)

    @classmethod
    def of_command(
        cls, program: Program[_Run], report: Callable[[_Run], object], *, leave: bool
    ) -> Self:
        """Give the campaign of a command, on the cluster of this machine; it talks on stderr.

        report: what is done of each run that was submitted or has ended.
        """
        return cls(
            program=program,
            jobs=HeldJobs(),
            clock=time.time,
            sleep=time.sleep,
            report=report,
            tell=lambda text: tell(f"{program.name}: {text}"),
            leave=leave,
        )

    def follow(self) -> str:
        """Make all runs, from wherever they are; say why there are no more.

        Where it is interrupted (Ctrl-C, SIGTERM, a logout) its jobs are cancelled.  Where Slurm
        stops answering it waits for a while.

        Raises sacct_ingest.errors.SlurmError, sacct_ingest.errors.SacctError: Slurm does not
            answer; another call goes on from there.
        """
        with self._withdrawn_on_interrupt(), progress(self.program.name) as bar:
            return self._followed(bar)

    def begin(self) -> None:
        """Start all runs that can be started now, and leave them."""
        with self._withdrawn_on_interrupt():
            self._resume()
            self._plan()

    @contextmanager
    def _withdrawn_on_interrupt(self) -> Iterator[None]:
        with _ended_as_by_ctrl_c():
            try:
                yield
            except KeyboardInterrupt:
                if not self.leave:
                    self.tell(self._withdraw())
                raise

    @property
    def open(self) -> list[_Run]:
        """Runs that wait or run."""
        return [run for run in self.program.runs if not run.ended]

    def _followed(self, bar: ProgressReport) -> str:
        moments = pauses()
        resumed = False
        answered_s = -math.inf
        heard_s = self.clock()
        while True:
            try:
                if not resumed:
                    self._resume()
                    resumed = True
                if why := self._plan():
                    return why
                under_way = len(self.open)
                bar(0, f"{len(self.program.runs)} runs, {under_way} under way", self.program.done)
                self.sleep(next(moments))
                lost = self._look()
            except SlurmError as error:
                if self.clock() - answered_s > ACCOUNTED_S:
                    raise
                self.tell(f"Slurm does not answer, trying again: {error}")
                resumed = False
                self.sleep(next(moments))
                continue
            answered_s = self.clock()
            heard_s = heard_s if lost else answered_s
            check_accounted(lost, answered_s - heard_s)
            if len(self.open) < under_way:
                moments = pauses()

    def _resume(self) -> None:
        """Take up what was left by a process that was ended, or by Slurm."""
        for run in self.open:
            if not run.unwanted:
                self._start(run, perhaps_there=True)

    def _plan(self) -> str:
        """Start what is to be run now; why there is nothing more, once there is not."""
        while len(self.open) < self.program.together:
            chosen = self.program.next(self.clock())
            if chosen is None:
                if self._part():
                    continue
                break
            if isinstance(chosen, str):
                self._drop()
                return chosen
            self._start(self.program.save(chosen))
        return ""

    def _start(self, run: _Run, *, perhaps_there: bool = False) -> None:
        """Submit a run and let it start; or find its job, which was not written down."""
        if run.job_id is None:
            try:
                argv, script = self.program.command(run)
                with _undisturbed():
                    found = self._found(run) if perhaps_there else None
                    job_id = self._on(run).submit(argv, script) if found is None else found
                    run = self.program.save(msgspec.structs.replace(run, job_id=job_id))
            except SubmissionRefused as error:
                self._end(run, None, str(error))
                return
            self.report(run)
        self._on(run).release(run.job_id or 0)

    def _on(self, run: _Run) -> HeldJobs:
        return self.jobs.on(run.where)

    def _found(self, run: _Run) -> int | None:
        """Id of a run's job that was not written down, so that it waits on hold."""
        mark = self.program.mark(run)
        queue = self._on(run).queue()
        return next((i for i, one in queue.items() if one.waits and one.has(mark)), None)

    def _part(self) -> bool:
        """Cancel the jobs that are unwanted; tell whether any is out of the way.

        One that began before it was cancelled stays.
        """
        parted = False
        for run in [one for one in self.open if one.unwanted]:
            jobs = self._on(run)
            job_id = self._found(run) if run.job_id is None else run.job_id
            if job_id is not None:
                jobs.cancel(job_id, waiting=True)
                job = jobs.queue().get(job_id)
                if job is not None and job.waits:
                    continue
                if job is not None:
                    self.report(self.program.save(run.seen(job)))
                    parted = True
                    continue
            self.program.save(self.program.as_ended(run, None, ""))
            parted = True
        return parted

    def _look(self) -> list[int]:
        """Take the runs that are over from the accounting; give the jobs that it lacks."""
        return [
            job_id
            for where in dict.fromkeys(run.where for run in self.open)
            for job_id in self._look_at(where)
        ]

    def _look_at(self, where: str) -> list[int]:
        jobs = self.jobs.on(where)
        queue = jobs.queue()
        over = {}
        for run in [one for one in self.open if one.where == where]:
            job = queue.get(run.job_id or 0)
            if job is not None:
                self._check(run, job)
            elif run.job_id is not None:
                over[run.job_id] = run
        planned_s = {job_id: run.planned_s for job_id, run in over.items()}
        found = jobs.ended(planned_s) if over else {}
        for job_id in [one for one in over if one in found]:
            self._tidy(over[job_id], queue)
            self._end(over[job_id], found[job_id], self._given_up.pop((where, job_id), ""))
        return [job_id for job_id in over if job_id not in found]

    def _check(self, run: _Run, job: QueuedJob) -> None:
        """Note that a job has begun; give one up that cannot start, or does not."""
        if (seen := run.seen(job)) != run:
            self.report(self.program.save(seen))
        if not job.waits or job.key in self._given_up:
            return
        now_s = self.clock()
        waited_s = now_s - self._waits.setdefault(job.key, now_s)
        if why := job.impossible or self.program.impatient(waited_s):
            self._given_up[job.key] = why
            self._on(run).cancel(job.job_id)

    def _tidy(self, run: _Run, queue: Mapping[int, QueuedJob]) -> None:
        """Cancel jobs of a run that were submitted while their submitter was killed.

        They were never released, so none has run.
        """
        mark = self.program.mark(run)
        if twice := [i for i, job in queue.items() if job.waits and job.has(mark)]:
            self._on(run).cancel(*twice)

    def _end(self, run: _Run, job: "RunRow | None", why: str) -> None:
        self.report(self.program.save(self.program.as_ended(run, job, why)))

    def _drop(self) -> None:
        """Cancel what is under way, which is not needed any more."""
        self._cancel_open()
        for run in self.open:
            self.program.save(self.program.as_ended(run, None, ""))

    def _withdraw(self) -> str:
        """Cancel what is under way: its runs are as if they had not been submitted; say which."""
        with _undisturbed():
            gone = self._cancel_open()
            for run in gone:
                self.program.save(msgspec.structs.replace(run, job_id=None))
        jobs = ", ".join(str(run.job_id) for run in gone) or "none was in the queue"
        return f"cancelled ({jobs}); '{self.program.again}' goes on"

    def _cancel_open(self) -> list[_Run]:
        """Cancel the jobs in the queue, and write down what they took at most; give their runs.

        What has ended is left: the accounting has it.
        """
        gone = []
        for where in dict.fromkeys(run.where for run in self.open):
            jobs = self.jobs.on(where)
            there = self._there(where, jobs.queue())
            if there:
                jobs.cancel(*(run.job_id for run in there if run.job_id is not None))
            gone += there
        return [self.program.save(run) for run in gone]

    def _there(self, where: str, queue: Mapping[int, QueuedJob]) -> list[_Run]:
        """Give the runs whose jobs are in a cluster's queue, with what they took at most."""
        found = []
        for run in [one for one in self.open if one.where == where]:
            job_id = self._found(run) if run.job_id is None else run.job_id
            job = queue.get(job_id or 0)
            if job is not None and not job.ends:
                taken_s = 0.0 if job.waits else self.clock() - run.planned_s
                spent_s = run.cancelled_s + min(taken_s, run.limit_s)
                found.append(msgspec.structs.replace(run, job_id=job_id, cancelled_s=spent_s))
        return found


def tell(text: str) -> None:
    """Write a line of news, beside what a command prints."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def spent(runs: Sequence[Run]) -> float:
    """Hours that runs used, and the most that those under way may use."""
    return sum(run.hours for run in runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What ``--dry-run`` shows: the next run."""

    found: str  #: what there is to choose from
    next: Mapping[str, Any] | None = None
    what: str = ""  #: the same for people
    why: str = ""  #: why it is the next, or why there is none
    argv: Sequence[str] = ()
    reserved: float = 0.0  #: the most that it may take of the budget
    left: float  #: of the budget
    word: str = "node"  #: what the budget counts hours of
    also: Mapping[str, Any] = field(default_factory=dict)  #: more of ``--json``

    def text(self) -> str:
        """Text for people."""
        left = f"{hours(self.left)} {self.word}-hours left"
        if self.next is None:
            return f"{self.found}; {left}\nnothing is to be run: {self.why}"
        most = f"at most {hours(self.reserved)} of the {left}"
        return f"{self.found}\nnext: {self.what} ({self.why}), {most}\n{shlex.join(self.argv)}"

    def json(self) -> str:
        """Give the same as JSON."""
        return json.dumps({
            "next": self.next,
            "why": self.why,
            "argv": list(self.argv),
            f"{self.word}_hours_left": self.left,
            f"{self.word}_hours_reserved": self.reserved,
            **self.also,
        })  # fmt: skip


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Have signals that end the process raise KeyboardInterrupt; what is ignored stays so."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in _ENDING}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let signals wait: between a job's submission and its id on the disk none is in place."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
