"""A study: its runs in one file, and the loop that submits and follows them."""

import os
import shlex
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.curves import from_runs as curve
from predictor.models.averaged.model import Averaged, AveragedFit
from predictor.models.selection import MIN_POINTS
from predictor.sample import Sample
from predictor.types import Prediction
from sacct_ingest.errors import ScriptError
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts import job_script
from sacct_ingest.store.rows import RunRow
from sacct_ingest.text.tag import parse_tag
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.held_jobs import HeldJobs, check_accounted, failure
from slurm_plugin.slurm.commands import SubmissionRefused, pauses

#: The next run would not change the answer: what the count is expected to cost over the best.
SETTLED = 0.02
#: A count that is best in fewer draws is not asked about.
_PLAUSIBLE = 0.05
_MOST_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommended count, what it is expected to cost over the best, and all predictions."""

    count: int
    regret: float
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """The next count to run, and why."""

    count: int
    why: str


def fitted(runs: Sequence[Sample]) -> AveragedFit | None:
    """Fit the runs of a study; None: of fewer than three counts."""
    drawn = curve.build(runs)
    return Averaged().fit(drawn) if len(drawn.points) >= MIN_POINTS else None


def answer_of(fit: AveragedFit, counts: Sequence[int], *, weak: bool) -> Answer:
    """Recommend one of the counts.

    counts: node counts (or CPUs, GPUs), rising.
    weak: whether the problem grows with the count.
    """
    costs = _costs(fit, counts, weak=weak)
    over = costs / costs.min(axis=0) - 1
    best = int(over.mean(axis=1).argmin())
    return Answer(counts[best], float(over[best].mean()), tuple(fit.predict(counts)))


def next_count(
    runs: Sequence[Sample],
    counts: Sequence[int],
    closed: Collection[int],
    *,
    open_counts: Collection[int] = (),
    weak: bool = False,
) -> Next | None:
    """Choose the next count to run; None: nothing more is to be learned.

    runs: those that ended; stopped by their limit: censored.
    counts: all counts of the study, rising.
    closed: counts that failed, or that may not be run.
    open_counts: counts that run at present.
    """
    left = [n for n in counts if n not in closed and n not in open_counts]
    done = {run.nodes for run in runs}
    fit = fitted(runs)
    if open_counts and (fit or len(done | {*open_counts}) >= MIN_POINTS):
        return None  # what runs already will tell
    if fit is None:
        return _spread([n for n in left if n not in done], counts, done | {*open_counts, *closed})
    allowed = [n for n in counts if n not in closed]
    if not allowed:
        return None
    found = answer_of(fit, allowed, weak=weak)
    repeats = {n: sum(run.nodes == n for run in runs) for n in counts}
    if found.regret < SETTLED:
        # A second run shows how noisy run times are: without one no fit can tell.
        wanted = found.count in left and repeats[found.count] < 2
        why = "a second run shows the noise" if repeats[found.count] else "recommended, not run yet"
        return Next(found.count, why) if wanted else None
    candidates = [n for n in left if repeats[n] < _MOST_REPEATS]
    if not candidates:
        return None
    costs = _costs(fit, allowed, weak=weak)
    share = np.bincount(costs.argmin(axis=0), minlength=len(allowed)) / costs.shape[1]
    targets = [n for n, part in zip(allowed, share, strict=True) if part >= _PLAUSIBLE]
    chosen = fit.most_informative(candidates, targets or allowed)
    return Next(chosen, "tells most about which count is best")


def _spread(left: Sequence[int], counts: Sequence[int], tried: Collection[int]) -> Next | None:
    """First counts: the middle, the largest, the smallest, which takes longest; then the gaps."""
    if not left:
        return None
    middle = min(counts, key=lambda n: abs(log(n * n / (counts[0] * counts[-1]))))
    for n in (middle, counts[-1], counts[0]):
        if n in left:
            return Next(n, "the first of a curve")
    far = max(left, key=lambda n: min(abs(log(n / one)) for one in tried))
    return Next(far, "farthest from what was run")


def _costs(fit: AveragedFit, counts: Sequence[int], *, weak: bool) -> NDArray[np.float64]:
    """Cost of each count, a row, in each draw of what the run times may be, a column."""
    size = np.log(np.asarray(counts, dtype=float))[:, None]
    drawn = fit.posterior.draws(np.asarray(counts, dtype=float))
    logs = drawn.mean + np.sqrt(drawn.variance) * drawn.unit
    return np.asarray(np.exp(2 * logs + (-size if weak else size)))


_FILTER_S = 60


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; times in seconds, the budget in hours of nodes, CPUs or GPUs."""

    script: str
    words: tuple[str, ...]  #: options of sbatch, then the script and its arguments
    counts: tuple[int, ...]
    sizes: Unit = Unit.NODES
    most_runs: int = 6
    budget: float = 200.0
    limit_s: float = 1800.0
    overrun_s: float = 0.0  #: how far a run may go beyond its limit
    together: int = 3
    weak: bool = False
    filter: str = ""  #: shell command that makes the script of a count, in variable N

    @property
    def most_s(self) -> float:
        """Longest time that a run may take."""
        return self.limit_s + self.overrun_s


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; without a job id it was perhaps not submitted."""

    number: int
    count: int
    why: str
    planned_s: int
    job_id: int | None = None
    state: str = ""  #: of the job that ended
    reason: str = ""  #: why it failed
    elapsed_s: float = 0.0
    nodes: int = 0
    cpus: int = 0
    node_list: str = ""
    cluster: str = ""
    partition: str = ""

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return bool(self.state)

    @property
    def good(self) -> bool:
        """Whether its time counts."""
        return self.state == JobState.COMPLETED


#: Fields that a run has from its job.
_OF_JOB = ("elapsed_s", "nodes", "cpus", "node_list", "cluster", "partition")


def as_ended(run: StudyRun, job: RunRow, reason: str = "") -> StudyRun:
    """Give a run with what the accounting has of its job."""
    own = {name: getattr(job, name) for name in _OF_JOB}
    return msgspec.structs.replace(run, state=job.state.value, reason=reason, **own)


_OPTION = {Unit.NODES: "--nodes", Unit.CPUS: "--cpus-per-task", Unit.GPUS: "--gpus"}


@dataclass(frozen=True, slots=True)
class StudyJobs(HeldJobs):
    """Slurm's commands; ``mark`` tells studies apart: ``study=NAME``, or ``weak=NAME``."""

    mark: str

    def submit(self, settings: Settings, run: StudyRun) -> int:
        """Submit a run on hold; it never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: it cannot be asked.
        """
        argv, script = command(settings, run, self._tag(run))
        return int(held_jobs.submit(argv, script))

    def find(self, run: StudyRun) -> int | None:
        """Look for the held job of a run."""
        listed = held_jobs.command(["squeue", "--me", "-h", "-t", "PD", "-o", "%A %k"])
        for line in listed.splitlines():
            job_id, _, comment = line.partition(" ")
            if f"{comment.strip()},".startswith(f"{self._tag(run)},"):
                return int(job_id)
        return None

    def _tag(self, run: StudyRun) -> str:
        """Tag of a run: the hooks leave it alone."""
        return f"nimo:off,{self.mark}-{run.number}"


def command(settings: Settings, run: StudyRun, tag: str) -> tuple[list[str], str]:
    """Give the command line of a run, and what goes to its standard input.

    tag: of the run; those of the user that name the application are added to it.
    Raises ScriptError: the script cannot be made.
    """
    parsed = job_script.parse_command_line(["sbatch", *settings.words])
    script = [parsed.script, *parsed.arguments]
    options = settings.words[: len(settings.words) - len(script)]
    arguments = [word.replace("{n}", str(run.count)) for word in parsed.arguments]
    argv = [
        *("sbatch", "--parsable", "--hold", "--no-requeue"),
        *options,
        f"--comment={','.join([tag, *_named(settings, parsed.options)])}",
        f"{_OPTION[settings.sizes]}={run.count}",
        f"--time={max(1, round(settings.limit_s / 60))}",
    ]
    if not settings.filter:
        return [*argv, parsed.script, *arguments], ""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", settings.filter],
            input=Path(settings.script).read_text(),
            env={**os.environ, "N": str(run.count)},
            capture_output=True,
            text=True,
            check=True,
            timeout=_FILTER_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", "") or str(error)
        raise ScriptError(f"--weak {settings.filter!r}: {words.strip()}") from error
    text = done.stdout
    named = "job-name" in {*parsed.options, *job_script.parse_script(text).options}
    name = [] if named else [f"--job-name={Path(parsed.script).name}"]
    return [*argv, *name, "-", *arguments], text


def _named(settings: Settings, options: job_script.Options) -> list[str]:
    """Names that the user's own comment gives application, problem and size."""
    own = job_script.script_options(Path(settings.script).read_text(errors="replace"))
    tag = parse_tag(options.get("comment") or own.get("comment") or "")
    named = {name: getattr(tag, name) for name in ("app", "problem", "size")} if tag else {}
    return [f"{name}={value}" for name, value in named.items() if value]


def shown(settings: Settings, run: StudyRun) -> str:
    """Command line of a run, for people."""
    return shlex.join(command(settings, run, "nimo:off")[0])


#: Failures, without a run that ended well, after which a study gives up.
_HOPELESS = 3
_CONTENT = 1  #: version of the file


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    settings: Settings
    runs: tuple[StudyRun, ...] = ()
    ended: str = ""
    version: int = _CONTENT


class Study:
    """A study in its file; ``runs`` are in the order in which they were planned."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self._path = path
        self.runs: list[StudyRun] = []
        self.ended = ""
        if settings is None or path.exists():
            saved = held_jobs.read(path, _File, "is this the folder of a study?")
            self.runs, self.ended, settings = list(saved.runs), saved.ended, saved.settings
        self.settings = settings

    def save(self, run: StudyRun | None = None, *, ended: str = "") -> None:
        """Write a run down, new or changed; it is on the disk when this returns."""
        self.ended = ended
        if run is not None:
            self.runs = [one for one in self.runs if one.number != run.number] + [run]
            self.runs.sort(key=lambda one: one.number)
        held_jobs.write(self._path, _File(self.settings, tuple(self.runs), ended))

    @property
    def open(self) -> list[StudyRun]:
        """Runs that wait or run."""
        return [one for one in self.runs if not one.ended]

    @property
    def observed(self) -> list[Sample]:
        """Run times; those stopped by their limit are lower bounds."""
        return [
            Sample(one.count, one.elapsed_s, censored=not one.good)
            for one in self.runs
            if one.elapsed_s > 0 and (one.good or one.state == JobState.TIMEOUT)
        ]

    @property
    def closed(self) -> set[int]:
        """Counts that failed: with too little memory on n nodes, fewer have too little as well."""
        failed = [one for one in self.runs if one.ended and not one.good and one.reason]
        short = [one.count for one in failed if one.state == JobState.OUT_OF_MEMORY]
        again = [n for n in self.settings.counts if self._interrupted(n) == 1]
        counts = {one.count for one in failed} - set(again)
        return counts | {n for n in self.settings.counts if short and n <= max(short)}

    def _interrupted(self, count: int) -> int:
        """Failures of a count that were all a node's or a user's, not its own."""
        failed = [one for one in self.runs if one.count == count and one.reason]
        own = [one for one in failed if not JobState(one.state).interrupted]
        return 0 if own else len(failed)

    @property
    def hours(self) -> float:
        """Hours of nodes, CPUs or GPUs: used, and the most that open runs may use."""
        most_s = self.settings.most_s
        return sum(r.count * (r.elapsed_s if r.ended else most_s) for r in self.runs) / 3600

    def next(self) -> Next | None:
        """Choose the next run; None: none is needed, or none is left."""
        return self._next({one.count for one in self.open})

    @property
    def settled(self) -> bool:
        """Whether no run would change the answer, those that are under way among them."""
        return fitted(self.observed) is not None and self._next(set()) is None

    def _next(self, open_counts: set[int]) -> Next | None:
        chosen = self.settings
        return next_count(
            self.observed, chosen.counts, self.closed, open_counts=open_counts, weak=chosen.weak
        )

    def stop(self, chosen: Next | None) -> str:
        """Say why no further run is made; empty: it is to be made."""
        used = [one for one in self.runs if one.good or not one.ended]
        failed = [one for one in self.runs if one.reason]
        if len(used) >= self.settings.most_runs:
            return f"{self.settings.most_runs} runs are made"
        if len(failed) >= _HOPELESS and not any(one.good for one in self.runs):
            return f"all of the first {_HOPELESS} runs failed"
        if chosen is None:
            return "another run would not change the answer" if self.settled else "no count is left"
        if self.hours + chosen.count * self.settings.most_s / 3600 > self.settings.budget:
            return "the budget is used"
        return ""


def follow(
    study: Study,
    slurm: StudyJobs,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    report: Callable[[StudyRun], object],
) -> str:
    """Run a study to its end, from wherever it is; say why it ended.

    report: told of each run that was submitted or has ended.
    Raises sacct_ingest.errors.SlurmError, sacct_ingest.errors.SacctError: Slurm does not answer;
        another call goes on from there.
    """
    for one in study.open:
        if one.job_id is None:
            _submitted(study, slurm, one, report, found=slurm.find(one))
        else:
            slurm.release(one.job_id)
    said_s = clock()
    for pause_s in pauses():
        why = ""
        while len(study.open) < study.settings.together and not why:
            chosen = study.next()
            why = study.stop(chosen)
            if chosen is not None and not why:
                one = StudyRun(
                    number=len(study.runs) + 1,
                    count=chosen.count,
                    why=chosen.why,
                    planned_s=int(clock()),
                )
                study.save(one)
                _submitted(study, slurm, one, report)
        if why and (study.settled or not study.open):
            cancel_open(study, slurm)
            study.save(ended=why)
            return why
        sleep(pause_s)
        lost = _look(study, slurm, report)
        said_s = said_s if lost else clock()
        check_accounted(lost, clock() - said_s)
    raise AssertionError  # the pauses never end


def cancel_open(study: Study, slurm: StudyJobs) -> list[int]:
    """Cancel what waits or runs, which is not needed for the answer; give the ids of the jobs."""
    ids = [one.job_id or slurm.find(one) for one in study.open]
    there = [job_id for job_id in ids if job_id is not None]
    if there:
        slurm.cancel(*there)
    for one, job_id in zip(study.open, ids, strict=True):
        study.save(msgspec.structs.replace(one, job_id=job_id, state=JobState.CANCELLED.value))
    return there


def _submitted(
    study: Study,
    slurm: StudyJobs,
    run: StudyRun,
    report: Callable[[StudyRun], object],
    *,
    found: int | None = None,
) -> None:
    try:
        job_id = slurm.submit(study.settings, run) if found is None else found
    except SubmissionRefused as error:
        run = msgspec.structs.replace(run, state=JobState.FAILED.value, reason=str(error))
    else:
        run = msgspec.structs.replace(run, job_id=job_id)
    study.save(run)
    if run.job_id is not None:
        slurm.release(run.job_id)
    report(run)


def _look(study: Study, slurm: StudyJobs, report: Callable[[StudyRun], object]) -> list[int]:
    """Take the runs that are over from the accounting; give the jobs that it does not have yet."""
    queued = slurm.queued()
    impossible = slurm.impossible() if queued else {}
    for one in study.open:
        if one.job_id in impossible:
            slurm.cancel(one.job_id)
            reason = impossible[one.job_id]
            failed = msgspec.structs.replace(one, state=JobState.FAILED.value, reason=reason)
            study.save(failed)
            report(failed)
    over = [one for one in study.open if one.job_id not in queued]
    planned_s = {one.job_id: one.planned_s for one in over if one.job_id is not None}
    found = slurm.ended(planned_s) if planned_s else {}
    for one in over:
        if job := found.get(one.job_id or 0):
            ended = as_ended(one, job, failure(job))
            study.save(ended)
            report(ended)
    return [job_id for job_id in planned_s if job_id not in found]
