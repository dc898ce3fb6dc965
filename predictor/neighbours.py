"""The run time of a command that never ran: what the jobs most like it took.

A command without runs of its own is compared with past jobs: the user's own, and where the site
allows it those of all users.  A job is the nearer the more its words (script, arguments, name, and
in the script), size, time limit, partition and folder are the same.  What is said is a
distribution, a mixture of

- the user's other jobs, the nearest and the latest first,
- those of each other user, none of whom counts for more than one near job of one's own kind does,
- shares of the time limit, evenly in their logarithm: what there is to say before anybody ran.
  Where a job has no limit, all run times up to sixty days.

Each job counts half with its run time, half with its share of its limit.  Then quantiles are moved
to where first runs fell in what would have been said of them (conformal predictive distributions,
Vovk et al., 2019).

Of other users nothing but times goes in, at `FEWEST_JOBS` of `FEWEST_USERS` or more.  Of one of
them no more than a third comes out (`MOST_SHARE`), on a scale of steps of 10 %: no time of anybody
is said as it was.

Nothing but the standard library and msgspec: it is asked where nothing heavy is loaded.
"""

import logging
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final
from zlib import crc32

import msgspec

from predictor.checks import need_share
from predictor.prediction_table import PredictionTable
from predictor.table import table_of
from predictor.types import HISTORY, Prediction, Verdict
from sacct_ingest.records import KeyLevel, Says
from sacct_ingest.runs.evidence import evidence_of
from sacct_ingest.store.rows import RunRow

#: The latest jobs that are compared with, in all and of one user.
MOST_JOBS: Final = 2_000
OF_USER: Final = 400
#: Fewer of other users say nothing.
FEWEST_JOBS: Final = 5
FEWEST_USERS: Final = 3
#: Weights of the parts: of a near job of the user's own; of the mean of all other users; of the
#: shares of the limit, the least of which is `_LEAST_SHARE`, or of all run times where there is no
#: limit.  Each other user's near jobs weigh up to one beside that.
_OWN: Final = 25.0
_EVERYBODY: Final = 2.0
_LIMIT: Final = 1.0
_LEAST_SHARE: Final = 0.05
_AT_LIMIT: Final = 0.2  #: of these, the share that runs until the limit
#: The most that one other user is of what is said, where there are many: 1 / (1 + `_EVERYBODY`).
MOST_SHARE: Final = 1 / 3
#: What differences count: e to the minus that is the weight of a job.
_WORDS: Final = 2.5  #: no word in common
_SCRIPT: Final = 0.25  #: each word in one script alone, up to `_WORDS`
_FOLDER: Final = 1.0
_PARTITION: Final = 1.0
_NODES: Final = 0.2  #: each doubling
_CPUS: Final = 0.1
_GPUS: Final = 0.5
_TIME: Final = 1.0
_MOST_DOUBLINGS: Final = 4.0  #: of limits
_LATER: Final = 0.03  #: of the user's own jobs, each that ended later
#: Width of a bin of log run time; the bins reach from one second to sixty days.
STEP: Final = 0.1
_STEPS: Final = round(math.log(60 * 86_400) / STEP)
_BLUR: Final = 0.25  #: standard deviation of log run time around each job
#: Places of first runs that are compared with, in all; of one user where others' jobs are looked
#: at; and evenly placed ones.
_PLACES: Final = 200
_OF_ONE: Final = 25
_EVEN: Final = 20
#: Of the places outside an interval so many are left outside: there are few, and they scatter.
_OUTSIDE: Final = 0.8
_log = logging.getLogger(__name__)
_WORD: Final = re.compile(r"[A-Za-z0-9.]+")
_MOST_WORDS: Final = 24


class AskedJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a job when it is submitted."""

    nodes: int
    cpus: int = 0  #: in all; 0: not known
    gpus: int = 0
    limit_s: float = 0.0  #: 0: none, or not known
    partition: str = ""
    folder: int = 0  #: `digest` of its working directory
    words: tuple[int, ...] = ()  #: `words_of` its name and its command
    script_bag: str = ""  #: of the words in its script, hexadecimal bits; empty: not known


class PastJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that ran."""

    user: str
    submitted_s: float
    ended_s: float
    elapsed_s: float
    asked: AskedJob
    first: bool = False  #: no job of the same command had ended when it was submitted


class PastJobs(msgspec.Struct, frozen=True):
    """What a refit leaves: jobs, in the order of their ends, and where first runs fell.

    own, all: places of first runs in what was said from the user's own jobs, and from all.
    """

    jobs: list[PastJob] = []
    own: list[float] = []
    all: list[float] = []


def digest(text: str) -> int:
    """Give a number in place of a text; 0 for an empty one."""
    return crc32(text.encode(errors="replace")) if text else 0


def words_of(*texts: str) -> tuple[int, ...]:
    """Give the words of texts as numbers, each once.

    >>> len(words_of("solve.sh --steps=500", "solve.sh"))
    3
    """
    words = {word for text in texts for word in _WORD.findall(text)}
    return tuple(sorted(map(digest, sorted(words)[:_MOST_WORDS])))


class RunTimes:
    """A distribution of run times, in steps of `STEP` of their logarithm.

    density: of each step.
    limit_s: where it ends; 0: nowhere.
    jobs, users: the user's own that it is made of; other users.
    """

    def __init__(self, density: Sequence[float], limit_s: float, jobs: int, users: int) -> None:
        whole = sum(density)
        self._below = [part / whole for part in accumulate(density)]
        self._limit_s = limit_s
        self.jobs = jobs
        self.users = users

    def place(self, elapsed_s: float) -> float:
        """Give the place of a run time among these, 0 to 1."""
        step = _step(min(elapsed_s, self._limit_s or elapsed_s))
        return (self._below[step] + (self._below[step - 1] if step else 0.0)) / 2

    @property
    def below(self) -> tuple[float, ...]:
        """The share of run times up to each step."""
        return tuple(self._below)

    def quantile_s(self, share: float, side: int = 0) -> float:
        """Give a quantile, seconds: the middle of its step, or its lower or upper end.

        side: -1, 0, 1.
        """
        step = min(bisect_left(self._below, share - 1e-12), _STEPS - 1)
        time_s = math.exp(STEP * (step + side / 2))
        return min(time_s, self._limit_s) if self._limit_s else time_s


def run_times(
    past: Sequence[PastJob], user: str, asked: AskedJob, *, others: bool
) -> RunTimes | None:
    """Give what jobs most like one took; None: there are none that may be looked at.

    past: jobs that have ended, in the order of their ends.
    others: whether other users' jobs may be looked at.
    """
    own: list[tuple[float, PastJob]] = []
    of_others: dict[str, list[tuple[float, PastJob]]] = defaultdict(list)
    words = frozenset(asked.words)
    for job in past:
        if job.user == user:
            own.append((_weight(job.asked, asked, words), job))
        elif others:
            of_others[job.user].append((_weight(job.asked, asked, words), job))
    if len(of_others) < FEWEST_USERS or sum(map(len, of_others.values())) < FEWEST_JOBS:
        of_others = {}
    if not own and not of_others:
        return None
    density = [0.0] * _STEPS
    if own:
        latest = [
            (weight * math.exp(-_LATER * later), job)
            for later, (weight, job) in enumerate(reversed(own))
        ]
        _add(density, latest, asked, _OWN * sum(weight for weight, _ in latest))
    for jobs in of_others.values():
        near = min(sum(weight for weight, _ in jobs), 1.0)
        _add(density, jobs, asked, near + _EVERYBODY / len(of_others))
    density = _blurred(density, asked.limit_s)
    _add_anything(density, asked.limit_s)
    return RunTimes(density, asked.limit_s, len(own), len(of_others))


def _weight(job: AskedJob, asked: AskedJob, words: frozenset[int]) -> float:
    """Say how near two requests are, 0 to 1."""
    distance = _NODES * _doublings(job.nodes, asked.nodes)
    if job.nodes == asked.nodes:
        distance += _CPUS * _doublings(job.cpus, asked.cpus)
    distance += _GPUS * _doublings(job.gpus + 1, asked.gpus + 1)
    distance += _TIME * min(_doublings(job.limit_s, asked.limit_s), _MOST_DOUBLINGS)
    if job.partition != asked.partition:
        distance += _PARTITION
    if job.folder != asked.folder:
        distance += _FOLDER
    if job.script_bag and asked.script_bag:
        unlike = int(job.script_bag, 16) ^ int(asked.script_bag, 16)
        distance += min(_SCRIPT * unlike.bit_count(), _WORDS)
    if job.words or words:
        common = sum(word in words for word in job.words)
        distance += _WORDS * (1 - common / (len(job.words) + len(words) - common))
    return math.exp(-distance)


def _doublings(one: float, other: float) -> float:
    """Doublings between two amounts; 0 where one of them is not known."""
    if one == other or one <= 0 or other <= 0:
        return 0.0
    return abs(math.log2(one / other))


def _add(
    density: list[float], jobs: Sequence[tuple[float, PastJob]], asked: AskedJob, whole: float
) -> None:
    """Add jobs, with their times and with their shares of their limits, as so much in all."""
    weights = sum(weight for weight, _ in jobs)
    for weight, job in jobs:
        part = whole * weight / weights / 2
        longest_s = asked.limit_s or math.inf
        density[_step(min(job.elapsed_s, longest_s))] += part
        if asked.limit_s and job.asked.limit_s:
            share_s = job.elapsed_s / job.asked.limit_s * asked.limit_s
            density[_step(min(share_s, longest_s))] += part
        else:
            density[_step(min(job.elapsed_s, longest_s))] += part


def _add_anything(density: list[float], limit_s: float) -> None:
    """Add what there is to say before anybody ran; limit_s: 0 where there is none."""
    if not limit_s:
        for step in range(_STEPS):
            density[step] += _LIMIT / _STEPS
        return
    last = _step(limit_s)
    first = min(_step(_LEAST_SHARE * limit_s), last)
    for step in range(first, last + 1):
        density[step] += _LIMIT * (1 - _AT_LIMIT) / (last + 1 - first)
    density[last] += _LIMIT * _AT_LIMIT


def _kernel() -> list[float]:
    reach = round(3 * _BLUR / STEP)
    heights = [math.exp(-((STEP * k / _BLUR) ** 2) / 2) for k in range(-reach, reach + 1)]
    return [height / sum(heights) for height in heights]


_KERNEL: Final = _kernel()


def _blurred(density: Sequence[float], limit_s: float) -> list[float]:
    """Spread each step over those beside it; what ran until the limit stays there."""
    last = _step(limit_s) if limit_s else _STEPS - 1
    reach = len(_KERNEL) // 2
    made = [0.0] * _STEPS
    for step, amount in enumerate(density):
        if amount and step < last:
            for k, part in enumerate(_KERNEL, step - reach):
                made[min(max(k, 0), last)] += amount * part
    made[last] += sum(density[last:])
    return made


def _step(elapsed_s: float) -> int:
    return min(max(round(math.log(max(elapsed_s, 1.0)) / STEP), 0), _STEPS - 1)


class Neighbours:
    """What past jobs say of commands that never ran.

    payload: JSON of `PastJobs`, read when somebody first asks; empty: there is none.
    """

    def __init__(self, payload: str | None = "") -> None:
        self._payload = payload or ""
        self._past: PastJobs | None = None

    @property
    def payload(self) -> str:
        """The text that it was made of."""
        return self._payload

    def table(
        self, user: str, asked: AskedJob, *, others: bool, confidence: float
    ) -> PredictionTable | None:
        """Give the run time on the count asked for, a guess; None: there is nothing to say.

        others: whether other users' jobs may be looked at.
        confidence: share of runs inside the interval.
        """
        need_share("confidence", confidence)
        past = self._read()
        times = run_times(past.jobs, user, asked, others=others)
        if times is None:
            return None
        low_s, median_s, high_s = interval(times, past.all if times.users else past.own, confidence)
        one = Prediction(asked.nodes, median_s, low_s, high_s, confidence)
        return replace(
            table_of([one], (Verdict.DOUBTFUL,), confidence),
            level=KeyLevel.USER.value,
            key=user,
            label=user,
            model=HISTORY,
            runs=times.jobs,
            owner="" if times.users else user,
            neighbours=(times.jobs, times.users),
        )

    def _read(self) -> PastJobs:
        if self._past is None:
            try:
                self._past = msgspec.json.decode(self._payload or "{}", type=PastJobs)
            except msgspec.DecodeError as error:
                _log.warning("past jobs cannot be read: %s; 'nimo fit' reads them anew", error)
                self._past = PastJobs()
        return self._past


def interval(
    times: RunTimes, places: Sequence[float], confidence: float
) -> tuple[float, float, float]:
    """Give the median and the ends of an interval: low, median, high, in seconds.

    places: of earlier first runs in what was said of them.
    """
    ordered = sorted([*places, *((k + 0.5) / _EVEN for k in range(_EVEN))])
    outside = _OUTSIDE * (1 - confidence) / 2
    low, middle, high = (_quantile(ordered, share) for share in (outside, 0.5, 1 - outside))
    median_s = times.quantile_s(middle)
    low_s = times.quantile_s(low, -1)
    high_s = times.quantile_s(high, 1)
    return min(low_s, median_s), median_s, max(high_s, median_s)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2)
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


def collect(rows: Iterable[RunRow]) -> PastJobs:
    """Make what a refit leaves of runs; the newest first."""
    chosen: list[RunRow] = []
    users: Counter[str] = Counter()
    for row in rows:
        if row.end_s and says_run_time(row) and users[row.user] < OF_USER:
            users[row.user] += 1
            chosen.append(row)
        if len(chosen) == MOST_JOBS:
            break
    chosen.sort(key=lambda row: (row.end_s, row.run_id))
    ended: dict[tuple[str, str], float] = {}
    jobs = []
    for row in chosen:
        command = (row.user, row.tag or row.line)
        first = not row.line or ended.get(command, math.inf) > row.submit_s
        ended.setdefault(command, float(row.end_s or 0))
        jobs.append(past_job(row, first=first))
    return PastJobs(jobs, places_of(jobs, others=False), places_of(jobs, others=True))


def says_run_time(row: RunRow) -> bool:
    """Whether a job took as long as jobs like it do, or as it was given."""
    ran = evidence_of(row).run_time is not Says.NOTHING
    return ran and (row.state.finished or row.state.out_of_time)


def past_job(row: RunRow, *, first: bool) -> PastJob:
    """Give a run as a job to compare with; first: as of `PastJob`."""
    asked = AskedJob(
        nodes=row.nodes,
        cpus=row.cpus,
        gpus=row.gpus or 0,
        limit_s=float(row.limit_s or 0),
        partition=row.partition,
        folder=digest(row.submission.folder),
        words=words_of(row.submission.label, row.submission.command),
        script_bag=row.script_bag,
    )
    end_s = float(row.end_s or 0)
    return PastJob(row.user, float(row.submit_s), end_s, float(row.elapsed_s), asked, first)


def places_of(jobs: Sequence[PastJob], *, others: bool) -> list[float]:
    """Give the places of the latest first runs in what jobs before them said of them.

    jobs: in the order of their ends.
    """
    ends = [job.ended_s for job in jobs]
    users: Counter[str] = Counter()
    places: list[float] = []
    for job in reversed(jobs):
        if not job.first or (others and users[job.user] == _OF_ONE):
            continue
        past = jobs[: bisect_right(ends, job.submitted_s)]
        times = run_times(past, job.user, job.asked, others=others)
        if times is None or (others and not times.users):
            continue
        users[job.user] += 1
        places.append(round(times.place(job.elapsed_s), 3))
        if len(places) == _PLACES:
            break
    return places
