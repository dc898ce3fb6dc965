"""Changes of jobs that wait, made on a real cluster: what they gained, and what was said before.

Starts a Slurm (``--release 26.05``; by default the installed one) with twins: two small partitions
with the same jobs in front, of the same run times, and the same job that waits.  In one twin the
first change that ``nimo why`` offers is made.  The gain is by how much sooner that job started than
the one that stayed as it was.  Run times are drawn around what the jobs' notes predict.  The starts
of those that stayed are compared with what was said, and with ``squeue --start``.
"""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from statistics import median
from typing import Any

import _bench

from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.cli import waiting_jobs
from slurm_plugin.cli.slurm_questions import Patience
from slurm_plugin.slurm.job_edit import Edit
from tests.cluster import SlurmCluster
from tests.conftest import scratch_directory
from tests.processes import wait_until

#: Nodes of a pair of twins: two each, and one that the second may go to.
EACH = 5
#: Spread of run times around their predictions, log, and the interval of the notes in it.
SIGMA, WIDTH = 0.2, 1.645
LONGEST_S = 420.0
CONF = (
    "SchedulerParameters=bf_interval=10,batch_sched_delay=1,sched_interval=10",
    "SelectTypeParameters=CR_Core_Memory",
    "DefMemPerCPU=100",
)


@dataclass(kw_only=True)
class Twin:
    """One of two partitions with the same jobs."""

    partition: str
    nodes: tuple[str, str]
    other: str  #: partition beside it
    job: int = 0  #: that waits
    front: list[tuple[int, float, int]] = field(default_factory=list)  #: id, prediction, nodes


@dataclass(kw_only=True)
class Trial:
    """A job that waits in both twins."""

    kind: str
    stays: Twin
    changed: Twin
    asked_s: float = 0.0
    start: Any = None
    edit: Edit | None = None
    slurm_start_s: float | None = None
    started: dict[int, float] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Figures of it."""
        edit = self.edit
        stays, changed = self.started.get(self.stays.job), self.started.get(self.changed.job)
        gain_s = stays - changed if stays and changed else None
        low, high = (edit.gain_low_s, edit.gain_high_s) if edit else (None, None)
        known = gain_s is not None and low is not None and high is not None
        return {
            "kind": self.kind,
            "change": edit.what if edit else None,
            "gain": edit.gain_s if edit else None,
            "low": low,
            "high": high,
            "chance": edit.chance if edit else None,
            "actual": gain_s,
            "inside": bool(known and low - 1 <= gain_s <= high + 1) if known else None,
            "start": self.start.median_s - self.asked_s if self.start else None,
            "start_inside": (
                self.start.low_s - 1 <= stays <= self.start.high_s + 1
                if stays and self.start
                else None
            ),
            "slurm": self.slurm_start_s - self.asked_s if self.slurm_start_s else None,
            "started": stays - self.asked_s if stays else None,
        }


class Bench:
    """The cluster, and what is submitted to it."""

    def __init__(self, cluster: SlurmCluster, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        os.environ.update({name: cluster.env[name] for name in ("PATH", "SLURM_CONF")})

    def submit(self, twin: Twin, *options: str, run_s: float = 900.0) -> int:
        """Submit a job to a twin."""
        words = (f"--partition={twin.partition}", *options)
        return self.cluster.sbatch(*words, script=f"#!/bin/sh\nexec sleep {run_s:.1f}\n")

    def in_front(
        self, twins: Sequence[Twin], typical_s: float, *options: str, nodes: int = 1
    ) -> None:
        """Submit the same job to both twins; ``{0}``, ``{1}`` in its options are their nodes."""
        run_s = typical_s * exp(SIGMA * self.chance.gauss(0, 1))
        for twin in twins:
            words = [one.format(*twin.nodes, twin.other) for one in options]
            job = self.submit(twin, *words, run_s=run_s)
            twin.front.append((job, typical_s, nodes))

    def note(self, twin: Twin) -> None:
        """Write what is predicted of the jobs in front into their comments."""
        for job, typical_s, nodes in twin.front:
            low_s, high_s = (typical_s * exp(sign * WIDTH * SIGMA) for sign in (-1, 1))
            note = Note(
                decision_id=f"{job:012x}", nodes=nodes, low=nodes, high=nodes,
                time_s=round(typical_s), low_s=round(low_s), high_s=round(high_s),
                verdict="reliable", mode="advise", reason="cheapest",
            )  # fmt: skip
            self.cluster.run("scontrol", "update", f"JobId={job}", f"AdminComment={build(note)}")

    def runs(self, jobs: Sequence[int]) -> bool:
        """Whether these jobs have started."""
        return set(jobs) <= self.starts().keys()

    def starts(self) -> dict[int, float]:
        """Give the starts of jobs that run or have run, by id."""
        text = self.cluster.run(
            "squeue", "-h", "-a", "-t", "R,CG,CD,CA,TO", "-o", "%A %S",
            env={"SLURM_TIME_FORMAT": "%s"},
        ).stdout  # fmt: skip
        rows = (line.split() for line in text.splitlines())
        return {int(job): float(start) for job, start in rows if start.isdecimal()}


def _busy(bench: Bench, twins: Sequence[Twin], short_s: float, long_s: float) -> None:
    bench.in_front(twins, short_s, "--exclusive", "-w{0}", "-t5")
    bench.in_front(twins, long_s, "--exclusive", "-w{1}", "-t5")


def _fewer(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    _busy(bench, twins, 60, 150)
    return ("-N2", "--exclusive", "-t3")


def _hole(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    bench.in_front(twins, 90, "--exclusive", "-w{0}", "-t6")
    bench.in_front(twins, 50, "--exclusive", "-N2", "-t4", nodes=2)
    return ("-N1", "--exclusive", "-t9")


def _maintenance(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    for twin in twins:
        bench.cluster.run(
            "scontrol", "create", "reservation", f"reservationname={twin.partition}",
            "starttime=now+3minutes", "duration=1", "users=root", "flags=maint",
            f"nodes={','.join(twin.nodes)}",
        )  # fmt: skip
    return ("-N1", "--exclusive", "-t9")


def _partition(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    _busy(bench, twins, 130, 150)
    bench.in_front(twins[1:], 60, "--exclusive", "-p{2}", "-t5")
    return ("-N1", "--exclusive", "-t3")


def _memory(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    bench.in_front(twins, 100, "-w{0}", "-t5", "-n1", "--mem=1200")
    bench.in_front(twins, 130, "-w{1}", "-t5", "-n1", "--mem=1200")
    return ("-N1", "-n1", "--mem=1500", "-t3")


def _named(bench: Bench, twins: Sequence[Twin]) -> tuple[str, ...]:
    _busy(bench, twins, 60, 140)
    return ("-N1", "--exclusive", "-w{1}", "-t3")


KINDS: Mapping[str, Callable[[Bench, Sequence[Twin]], tuple[str, ...]]] = {
    "fewer nodes": _fewer,
    "hole": _hole,
    "maintenance": _maintenance,
    "partition": _partition,
    "memory": _memory,
    "named node": _named,
}


def main() -> None:
    """Run it."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--release", help="of Slurm; in a root directory")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--at-once", type=int, default=15)
    args = parser.parse_args()
    count, at_once = (6, 6) if args.quick else (args.trials, args.at_once)
    with scratch_directory("nimo-edits-") as directory:
        cluster = SlurmCluster(
            directory / "cluster",
            nodes=EACH * at_once,
            conf=(*CONF, *_partitions(at_once)),
            release=args.release,
        )
        cluster.up()
        try:
            bench = Bench(cluster, random.Random(1))
            kinds = [list(KINDS)[number % len(KINDS)] for number in range(count)]
            trials = [
                trial
                for first in range(0, count, at_once)
                for trial in run_round(bench, kinds[first : first + at_once])
            ]
        finally:
            cluster.down()
    rows = [trial.row() for trial in trials]
    _bench.table(rows, title="Changes that were made")
    sums = [summary(kind, [row for row in rows if row["kind"] == kind]) for kind in KINDS]
    _bench.table([*sums, summary("all", rows)], title="By kind")
    _bench.write(args.json, trials=rows, kinds=sums)


def _partitions(pairs: int) -> list[str]:
    lines = []
    for pair in range(pairs):
        first = EACH * pair + 1
        lines += [
            f"PartitionName=a{pair} Nodes=n[{first}-{first + 1}] MaxTime=60",
            f"PartitionName=b{pair} Nodes=n[{first + 2}-{first + 3}] MaxTime=60",
            f"PartitionName=o{pair} Nodes=n{first + 4} MaxTime=60",
        ]
    return lines


def run_round(bench: Bench, kinds: Sequence[str]) -> list[Trial]:
    """Let so many pairs of twins run at once."""
    trials = []
    for pair, kind in enumerate(kinds):
        first = EACH * pair + 1
        ones = [
            Twin(
                partition=f"{letter}{pair}",
                nodes=(f"n{first + 2 * place}", f"n{first + 2 * place + 1}"),
                other=f"o{pair}",
            )
            for place, letter in enumerate("ab")
        ]
        trials.append(Trial(kind=kind, stays=ones[0], changed=ones[1]))
    options = {id(one): KINDS[one.kind](bench, (one.stays, one.changed)) for one in trials}
    for trial in trials:
        for twin in (trial.stays, trial.changed):
            words = [word.format(*twin.nodes, twin.other) for word in options[id(trial)]]
            twin.job = bench.submit(twin, *words)
    for trial in trials:
        bench.note(trial.stays)
        bench.note(trial.changed)
    time.sleep(15)
    for trial in trials:
        ask_and_change(bench, trial)
    _plans(bench, trials)
    jobs = [twin.job for one in trials for twin in (one.stays, one.changed)]
    try:
        wait_until(lambda: bench.runs(jobs), timeout_s=LONGEST_S, what="jobs to start")
    finally:
        starts = bench.starts()
        for trial in trials:
            trial.started = starts
        clear(bench)
    return trials


def ask_and_change(bench: Bench, trial: Trial) -> None:
    """Ask what would start the job sooner, and make the first of the changes."""
    patience = Patience()
    jobs = waiting_jobs.shown_jobs([trial.changed.job], patience)
    if not jobs:
        return  # it has started already
    job = jobs[0]
    seen = waiting_jobs.look([job], "/nowhere", patience, with_edits=True)
    if seen.raw is None:
        return
    names = {trial.changed.partition} | (
        {trial.changed.other} if trial.kind == "partition" else set()
    )
    parts = [one for one in seen.raw.partitions if one.name in names]
    seen = seen._replace(raw=replace(seen.raw, partitions=parts))
    facts = waiting_jobs.facts_in(seen, job)
    start, found = waiting_jobs.edits(seen, job, facts, waiting_jobs.changed_starts(seen))
    edits = waiting_jobs.agreed({0: found}, waiting_jobs.MOST_EDITS, Patience())[0][0]
    trial.asked_s, trial.start = seen.now_s, start
    trial.edit = next((one for one in edits if one.argv), None)
    if trial.edit is not None:
        bench.cluster.run(*trial.edit.argv)


def _plans(bench: Bench, trials: Sequence[Trial]) -> None:
    """Note when Slurm plans to start the jobs that stay as they are."""
    text = bench.cluster.run(
        "squeue", "-h", "-a", "--start", "-o", "%A %S", env={"SLURM_TIME_FORMAT": "%s"}
    ).stdout
    planned = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    for trial in trials:
        said = planned.get(str(trial.stays.job), "")
        trial.slurm_start_s = float(said) if said.isdecimal() else None


def clear(bench: Bench) -> None:
    """Take away all jobs and reservations."""
    bench.cluster.run("scancel", "-u", "root", check=False)
    text = bench.cluster.run("scontrol", "show", "reservation", "-o").stdout
    for line in text.splitlines():
        if line.startswith("ReservationName="):
            name = line.split()[0].partition("=")[2]
            bench.cluster.run("scontrol", "delete", f"reservationname={name}", check=False)
    wait_until(
        lambda: not bench.cluster.run("squeue", "-h", "-a", "-o", "%A").stdout.split(),
        what="no jobs",
    )


def summary(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up some trials."""
    inside = [row["inside"] for row in rows if row["inside"] is not None]
    starts = [row for row in rows if row["started"] is not None and row["start"] is not None]
    both = [row for row in starts if row["slurm"] is not None]
    return {
        "kind": kind,
        "trials": len(rows),
        "offered": sum(row["change"] is not None for row in rows),
        "measured": len(inside),
        "inside": sum(inside),
        "sooner": sum((row["actual"] or 0) > 0 for row in rows),
        "start_inside": sum(bool(row["start_inside"]) for row in starts),
        "error_s": _error(starts, "start"),
        "with_plan": len(both),
        "error_s_there": _error(both, "start"),
        "slurm_error_s": _error(both, "slurm"),
        "nearer": sum(_off(row, "start") < _off(row, "slurm") for row in both),
    }


def _off(row: Mapping[str, Any], which: str) -> float:
    return abs(float(row[which]) - float(row["started"]))


def _error(rows: Sequence[Mapping[str, Any]], which: str) -> float | None:
    return median(_off(row, which) for row in rows) if rows else None


if __name__ == "__main__":
    main()
