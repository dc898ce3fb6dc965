"""A study: its runs in one file, and which is next."""

import os
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import log
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
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
from slurm_plugin.experiments.campaign import Run, spent
from slurm_plugin.experiments.held_jobs import failure

#: The next run would not change the answer: what the count is expected to cost over the best.
SETTLED = 0.02
#: A count that is best in fewer draws is not asked about.
_PLAUSIBLE = 0.05
_MOST_REPEATS = 3
_FILTER_S = 60
#: Fields that a run has from its job.
_OF_JOB = ("elapsed_s", "nodes", "cpus", "node_list", "cluster", "partition")
_OPTION = {Unit.NODES: "--nodes", Unit.CPUS: "--cpus-per-task", Unit.GPUS: "--gpus"}
#: Failures, without a run that ended well, after which a study gives up.
_HOPELESS = 3
_CONTENT = 1  #: version of the file


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


class StudyRun(Run, frozen=True, kw_only=True):
    """One run of a study."""

    number: int
    count: int
    why: str
    state: str = ""  #: of the job that ended
    cluster: str = ""
    partition: str = ""

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return bool(self.state)

    @property
    def amount(self) -> int:
        """Nodes, CPUs or GPUs that the budget counts."""
        return self.count

    @property
    def good(self) -> bool:
        """Whether its time counts."""
        return self.state == JobState.COMPLETED


def as_ended(run: StudyRun, job: RunRow, reason: str = "") -> StudyRun:
    """Give a run with what the accounting has of its job, which counts whole seconds."""
    own = {name: getattr(job, name) for name in _OF_JOB}
    if job.state is JobState.COMPLETED:
        own["elapsed_s"] = max(job.elapsed_s, 1.0)
    return replace(run, state=job.state.value, reason=reason, **own)


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


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    settings: Settings
    runs: tuple[StudyRun, ...] = ()
    ended: str = ""
    version: int = _CONTENT


class Study:
    """A study in its file, as a campaign; ``runs`` are in the order in which they were planned."""

    name = "nimo scale"

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self._path = path
        self.again = f"nimo scale --resume {path.parent}"
        self.runs: list[StudyRun] = []
        self.ended = ""
        if settings is None or path.exists():
            saved = held_jobs.read(path, _File, "is this the folder of a study?")
            settings = saved.settings
            self.ended = saved.ended
            most_s = settings.most_s
            self.runs = [replace(run, limit_s=run.limit_s or most_s) for run in saved.runs]
        self.settings = settings

    def save(self, run: StudyRun) -> StudyRun:
        """Write a run down, new or changed; it is on the disk when this returns."""
        self.runs = [one for one in self.runs if one.number != run.number] + [run]
        self.runs.sort(key=lambda one: one.number)
        self.end("")
        return run

    def end(self, why: str) -> None:
        """Write down why there are no more runs; empty: there may be."""
        self.ended = why
        held_jobs.write(self._path, _File(self.settings, tuple(self.runs), why))

    @property
    def together(self) -> int:
        """Most runs at once."""
        return self.settings.together

    @property
    def done(self) -> float:
        """Share of the most runs that have ended."""
        return sum(run.good for run in self.runs) / self.settings.most_runs

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

    def next(self, now_s: float) -> StudyRun | str | None:
        """Choose the next run; why there is none; None: those that are under way will tell."""
        chosen = self._next({one.count for one in self.open})
        why = self._stop(chosen)
        if why or chosen is None:
            return why if self._settled or not self.open else None
        return StudyRun(
            number=len(self.runs) + 1,
            count=chosen.count,
            why=chosen.why,
            planned_s=int(now_s),
            limit_s=self.settings.most_s,
        )

    @property
    def _settled(self) -> bool:
        """Whether no run would change the answer, those that are under way among them."""
        return fitted(self.observed) is not None and self._next(set()) is None

    def _next(self, open_counts: set[int]) -> Next | None:
        chosen = self.settings
        return next_count(
            self.observed, chosen.counts, self.closed, open_counts=open_counts, weak=chosen.weak
        )

    def _stop(self, chosen: Next | None) -> str:
        """Say why no further run is made; empty: it is to be made."""
        used = [one for one in self.runs if one.good or not one.ended]
        failed = [one for one in self.runs if one.reason]
        if len(used) >= self.settings.most_runs:
            return f"{self.settings.most_runs} runs are made"
        if len(failed) >= _HOPELESS and not any(one.good for one in self.runs):
            return f"all of the first {_HOPELESS} runs failed"
        if chosen is None:
            settled = self._settled
            return "another run would not change the answer" if settled else "no count is left"
        reserved = chosen.count * self.settings.most_s / 3600
        return "the budget is used" if spent(self.runs) + reserved > self.settings.budget else ""

    def mark(self, run: StudyRun) -> str:
        """Word of the tag of a run's job: by it runs of one study are known as one problem."""
        folder = blake2b(bytes(self._path.parent.absolute()), digest_size=6).hexdigest()
        return f"{'weak' if self.settings.weak else 'study'}={folder}-{run.number}"

    def command(self, run: StudyRun) -> tuple[list[str], str]:
        """Give the command line of a run, and what goes to its input; the hooks leave it alone."""
        return command(self.settings, run, f"nimo:off,{self.mark(run)}")

    def impatient(self, waited_s: float) -> str:  # noqa: ARG002 - a study waits
        """Say that no job waits for too long."""
        return ""

    def as_ended(self, run: StudyRun, job: RunRow | None, why: str) -> StudyRun:
        """Give a run with what became of it."""
        if job is not None:
            run = as_ended(run, job, failure(job))
        if why or job is None:
            state = JobState.FAILED if why else JobState.CANCELLED
            run = replace(run, state=state.value, reason=why)
        return run
