"""What is said of a command that never ran, on logs of real sites.

Walks each log in time.  Each job is asked about that ended or was ended by its limit, and of whose
command no run had ended when it was submitted: of whose user, name and command line; where a log
names none, of whose user, size and limit.  It is predicted from what had ended by then
(`predictor.neighbours`), once from the jobs of all users and once from the user's own.  Beside it:

- limit: evenly between nothing and the time limit,
- last runs: 5 and 95 % of the user's last 60 runs; of the class where there are fewer than five,
- class: 5 and 95 % of the last 500 jobs of the partition whose limits differ by less than two,
- today: the table of all the user's runs that a refit makes (`--tables`, which takes minutes).

The interval score is that of Gneiting and Raftery (2007) at 90 %, of log run time: lower is better.
All methods are scored on the jobs that the first says something of.  ``--each N`` asks about so
many jobs of a log, evenly.  ``--in-script`` takes what stands behind the script in command lines
for lines of the script, each among a dozen that are the same in all.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import _bench
import numpy as np
from _logs import runs
from _sharpness import interval_score
from msgspec import structs

from predictor.neighbours import (
    MOST_JOBS,
    OF_USER,
    PastJob,
    interval,
    past_job,
    run_times,
    says_run_time,
    words_of,
)
from predictor.table import at
from predictor.tables.build import IdentityRuns, tabulate
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.scripts.script_bag import bag_of
from sacct_ingest.store import RunRow, Store

CONFIDENCE = 0.9
LAST, CLASS = 60, 500
PLACES, OF_ONE = 200, 25
#: Lines of a script that say nothing of what it runs.
SAME_IN_ALL = """#!/bin/bash
set -euo pipefail
cd $SLURM_SUBMIT_DIR
module load intel/2021 impi/2021 vasp/6.3
export OMP_NUM_THREADS=1
export SCRATCH=/scratch/$USER/$SLURM_JOB_ID
mkdir -p $SCRATCH
cp INCAR KPOINTS POSCAR POTCAR $SCRATCH
cd $SCRATCH
ulimit -s unlimited
echo running on $SLURM_JOB_NODELIST
cp OUTCAR vasprun.xml $SLURM_SUBMIT_DIR"""
Interval = tuple[float, float, float]


def main() -> None:
    """Walk the logs, and print."""
    parser = _bench.options(__doc__)
    parser.add_argument("--data", type=Path, nargs="+", metavar="FILE", help="logs", default=[])
    parser.add_argument("--each", type=int, default=600, metavar="N")
    parser.add_argument(
        "--in-script",
        choices=["seen", "unseen"],
        help="arguments stand in the script, whose words count or not",
    )
    parser.add_argument("--tables", action="store_true", help="also what user tables say")
    args = parser.parse_args()
    each = 60 if args.quick else args.each
    asked = {"each": each, "tables": args.tables, "scripts": args.in_script}
    rows = [row for path in args.data for row in scores(path, **asked)]
    _bench.table(rows, title="First runs")
    _bench.write(args.json, first_runs=rows)


def scores(path: Path, *, each: int, tables: bool, scripts: str | None) -> Iterator[dict[str, Any]]:
    """Score one log, with all users' jobs and with the user's own."""
    with Store.open("sqlite://") as store:
        store.runs.add(runs(path))
        stored = store.runs.newest(10**9, texts=True)
    ran = sorted(filter(says_run_time, stored), key=lambda row: (row.end_s or 0, row.run_id))
    jobs = [past_job(row, first=False) for row in ran]
    asked = firsts(ran, jobs)
    if scripts:
        jobs = [in_script(*pair, seen=scripts == "seen") for pair in zip(ran, jobs, strict=True)]
    chosen = asked[:: max(len(asked) // each, 1)]
    walked = walk(jobs, chosen)
    for others in (True, False):
        said = walked[others]
        some = [(place, one) for place, one in zip(chosen, said, strict=True) if one is not None]
        yield {
            "log": path.name.split(".")[0],
            "from": "all users" if others else "own jobs",
            "first runs": len(asked),
            "scored": len(some),
            "nothing said %": 100 * (1 - len(some) / len(chosen)),
            **figures(ran, jobs, some, tables=tables),
        }


def in_script(row: RunRow, job: PastJob, *, seen: bool) -> PastJob:
    """Give a job whose arguments stand in its script; seen: whether its words count."""
    script, *arguments = row.submission.command.split()
    text = "\n".join([SAME_IN_ALL, *arguments, "srun solve"])
    asked = structs.replace(
        job.asked,
        words=words_of(row.submission.label, script),
        script_bag=bag_of(text) if seen else "",
    )
    return structs.replace(job, asked=asked)


def firsts(rows: Sequence[RunRow], jobs: Sequence[PastJob]) -> list[int]:
    """List the places of the first runs, in the order of their submission."""
    ended: dict[object, float] = {}
    first = []
    for place in sorted(range(len(rows)), key=lambda place: rows[place].submit_s):
        row, size = rows[place], jobs[place].asked
        command = row.line or (row.user, row.nodes, row.cpus, row.gpus, size.limit_s)
        if ended.get(command, math.inf) > row.submit_s:
            first.append(place)
        ended[command] = min(ended.get(command, math.inf), row.end_s or 0)
    return first


def before(jobs: Sequence[PastJob], submitted_s: float, ends: Sequence[float]) -> list[PastJob]:
    """Give the jobs that a refit would have left, just before one was submitted."""
    users: dict[str, int] = defaultdict(int)
    chosen: list[PastJob] = []
    for job in reversed(jobs[: bisect_right(ends, submitted_s)]):
        if users[job.user] < OF_USER:
            users[job.user] += 1
            chosen.append(job)
        if len(chosen) == MOST_JOBS:
            break
    return chosen[::-1]


def walk(jobs: Sequence[PastJob], chosen: Sequence[int]) -> dict[bool, list[Interval | None]]:
    """Predict the jobs at these places from all users' jobs and from own ones; None: nothing."""
    ends = [job.ended_s for job in jobs]
    placed: dict[bool, list[tuple[float, str, float]]] = {True: [], False: []}
    made: dict[bool, list[Interval | None]] = {True: [], False: []}
    for number in chosen:
        job = jobs[number]
        past = before(jobs, job.submitted_s, ends)
        for others in (False, True):
            times = run_times(past, job.user, job.asked, others=others)
            if times is None:
                made[others].append(None)
                continue
            several = times.users > 0
            most = OF_ONE if several else PLACES
            places = _places(placed[several], job.submitted_s, most)
            made[others].append(interval(times, places, CONFIDENCE))
            if several is others:
                placed[others].append((job.ended_s, job.user, times.place(job.elapsed_s)))
    return made


def _places(
    placed: Sequence[tuple[float, str, float]], submitted_s: float, most: int
) -> list[float]:
    """Give what a refit would have left of earlier first runs, so many of each user at most."""
    users: dict[str, int] = defaultdict(int)
    made: list[float] = []
    for ended_s, user, place in reversed(placed):
        if ended_s <= submitted_s and users[user] < most and len(made) < PLACES:
            users[user] += 1
            made.append(place)
    return made


def figures(
    rows: Sequence[RunRow],
    jobs: Sequence[PastJob],
    said: Sequence[tuple[int, Interval]],
    *,
    tables: bool,
) -> dict[str, Any]:
    """Give the scores of what was said, and of what stands beside it."""
    ends = [job.ended_s for job in jobs]
    peers = {"limit": limit, "last runs": last_runs, "class": of_class}
    scored: dict[str, list[float]] = defaultdict(list)
    inside: dict[str, list[bool]] = defaultdict(list)
    near = []
    user_tables = UserTables(rows)
    for place, (low_s, median_s, high_s) in said:
        job = jobs[place]
        actual = math.log(max(min(job.elapsed_s, job.asked.limit_s or math.inf), 1.0))
        past = bisect_right(ends, job.submitted_s)
        near.append(math.exp(-abs(actual - math.log(median_s))))
        made: dict[str, tuple[float, float] | None] = {"": (low_s, high_s)}
        made |= {name: peer(jobs[:past], job) for name, peer in peers.items()}
        if tables:
            made["today"] = user_tables.interval(rows[place], job.submitted_s)
        for name, ends_s in made.items():
            if ends_s is not None:
                low, high = math.log(max(ends_s[0], 1.0)), math.log(max(ends_s[1], 1.0))
                scored[name].append(interval_score(low, max(high, low + 0.01), actual))
                inside[name].append(low - 1e-9 <= actual <= high + 1e-9)
    result: dict[str, Any] = {"inside %": 100 * fmean(inside[""]) if near else None}
    result["accuracy"] = fmean(near) if near else None
    result |= {f"{name} score".strip(): fmean(each) for name, each in scored.items()}
    return result | {f"{name} inside %": 100 * fmean(each) for name, each in inside.items() if name}


def limit(_past: Sequence[PastJob], job: PastJob) -> tuple[float, float] | None:
    """5 and 100 % of the limit: 95 % of run times that are even up to it."""
    limit_s = job.asked.limit_s
    return (0.05 * limit_s, limit_s) if limit_s else None


def last_runs(past: Sequence[PastJob], job: PastJob) -> tuple[float, float] | None:
    """Quantiles of the user's last runs."""
    own = [one.elapsed_s for one in past if one.user == job.user][-LAST:]
    return _quantiles(own, job) if len(own) >= 5 else of_class(past, job)


def of_class(past: Sequence[PastJob], job: PastJob) -> tuple[float, float] | None:
    """Quantiles of the last jobs of the partition with limits of the same order."""
    times = [one.elapsed_s for one in past if _class(one) == _class(job)][-CLASS:]
    if len(times) < 5:
        times = [one.elapsed_s for one in past[-CLASS:]]
    return _quantiles(times, job) if len(times) >= 2 else None


def _class(job: PastJob) -> tuple[str, int]:
    return job.asked.partition, round(math.log2(max(job.asked.limit_s, 1.0)))


def _quantiles(times: Sequence[float], job: PastJob) -> tuple[float, float]:
    low, high = np.quantile(times, (0.05, 0.95))
    most = job.asked.limit_s or math.inf
    return min(float(low), most), min(float(high), most)


class UserTables:
    """The tables of users as refits have made them, anew where a twentieth more runs ended."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self._of: dict[str, list[RunRow]] = defaultdict(list)
        for row in rows:
            self._of[row.user].append(row)
        self._made: dict[str, tuple[int, Any]] = {}

    def interval(self, row: RunRow, now_s: float) -> tuple[float, float] | None:
        """Give the interval for a job; None: there is no table yet, or not of its count."""
        ended = sum((one.end_s or 0) <= now_s for one in self._of[row.user])
        fitted, table = self._made.get(row.user, (-1, None))
        if ended > 1.05 * fitted:
            settings = TableSettings()
            past = self._of[row.user][max(ended - settings.recent, 0) : ended]
            runs_of_user = IdentityRuns(KeyLevel.USER, row.user, past, now_s)
            table = tabulate(runs_of_user, settings) if past else None
            self._made[row.user] = ended, table
        if table is None or row.nodes not in table.nodes:
            return None
        one = at(table, row.nodes)
        most = float(row.limit_s or math.inf)
        return min(one.low_s, most), min(one.high_s, most)


if __name__ == "__main__":
    main()
