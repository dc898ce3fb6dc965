"""The loop: propose a run, run it, learn from it; within a budget, and it may stop at any time."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from predictor.occupancy.active.refinement import Proposal
from sacct_ingest.records import LEARNING
from sacct_ingest.runs.usage import usage
from sacct_ingest.scripts.signature import COUNTED
from sacct_ingest.store import RunRow
from slurm_plugin.experiments.held_jobs import (
    WAITING,
    HeldJobs,
    check_accounted,
    check_here,
    command,
    failure,
    find,
    submit,
)
from slurm_plugin.experiments.learn.description import (
    Assignment,
    Choices,
    Description,
    Journal,
    Stage,
    Trial,
)
from slurm_plugin.experiments.learn.proposers import ByOccupancies, ProposerState
from slurm_plugin.slurm.commands import SubmissionRefused, pauses

#: Shell words that print the counters; what a node does not have is left out.
CAPTURE = (
    "{ cat /proc/self/mountstats; echo '= net'; grep -H . /sys/class/net/*/speed; "
    "cat /proc/net/dev; echo '= diskstats'; cat /proc/diskstats; echo '= io.stat'; "
    "cat \"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/io.stat\"; } 2>/dev/null"
)
#: Operations that a server answers from its memory: their round trip is the network's.
_LIGHT = frozenset({"GETATTR", "ACCESS", "LOOKUP", "NULL", "FSINFO", "PATHCONF", "FSSTAT"})
#: Places of operations, bytes sent and received, queue and round trip (ms) in a line of mountstats.
_OPS, _SENT, _RECEIVED, _QUEUE, _ROUND_TRIP = 0, 3, 4, 5, 6
#: Line of a mount's transport, and places of its kind, requests sent, and in flight at each, added.
_TRANSPORT, _KIND, _SENDS, _IN_FLIGHT = "xprt:", 1, 7, 10

#: Operations, milliseconds in the queue and in round trips, bytes; by mount point and operation.
Operations = Mapping[tuple[str, str], tuple[int, int, int, int]]
#: Megabits a second and bytes moved of each network interface.
Interfaces = Mapping[str, tuple[int, int]]
#: Operations and milliseconds by device, as ``major:minor``.
Devices = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class IoCounters:
    """Counters at one moment: of NFS, the network, all disks, and what the job asked of them."""

    nfs: Operations
    disks: Devices
    own: Mapping[str, int]
    network: Interfaces = field(default_factory=dict)


def parse(text: str) -> IoCounters:
    """Read what :data:`CAPTURE` printed; lines that are not understood are left out."""
    rest, _, own = text.partition("= io.stat")
    rest, _, disks = rest.partition("= diskstats")
    mounts, _, network = rest.partition("= net")
    counters = {}
    for line in own.splitlines():
        device, *pairs = line.split() or [""]
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        counts = [values.get(name, "") for name in ("rios", "wios")]
        if ":" in device and all(one.isdecimal() for one in counts):
            counters[device] = sum(map(int, counts))
    return IoCounters(_nfs(mounts), _disks(disks), counters, _network(network))


def network_share(before: IoCounters, after: IoCounters) -> float | None:
    """Share of the time for I/O that is the network's, 0 to 1; None where nothing was counted.

    A round trip of an operation that the server answers from its memory is what the network takes,
    and its bytes at the link's speed; what reading and writing take beyond that is the server's
    disk.
    """
    network_ms, served_ms = _nfs_ms(before, after)
    # The share that the job asked for of all that the disks did.
    total = 0.0
    for device, count in after.own.items():
        asked = count - before.own.get(device, 0)
        now, then = after.disks.get(device, (0, 0)), before.disks.get(device, (0, 0))
        done, busy_ms = now[0] - then[0], now[1] - then[1]
        if asked > 0 and done > 0 and busy_ms > 0:
            total += busy_ms * min(asked / done, 1.0)
    served_ms += total
    whole_ms = network_ms + served_ms
    return network_ms / whole_ms if whole_ms > 0 else None


def _nfs_ms(before: IoCounters, after: IoCounters) -> tuple[float, float]:
    light_ops = light_ms = 0
    queued_ms, heavy, together = 0, [], {}
    for (mount, kind), now in after.nfs.items():
        then = before.nfs.get((mount, kind), (0, 0, 0, 0))
        ops, queue, trips, moved = (max(a - b, 0) for a, b in zip(now, then, strict=True))
        queued_ms += queue
        if kind == _TRANSPORT:
            together[mount] = max(trips / ops, 1.0) if ops else 1.0
        elif kind in _LIGHT:
            light_ops, light_ms = light_ops + ops, light_ms + trips
        elif ops:
            heavy.append((mount, ops, trips, moved))
    trip_ms = light_ms / light_ops if light_ops else min((t / n for _, n, t, _ in heavy), default=0)
    byte_ms = _byte_ms(before.network, after.network)
    travelled_ms = sum(
        min(ops * trip_ms + together.get(mount, 1.0) * moved * byte_ms, trips)
        for mount, ops, trips, moved in heavy
    )
    served_ms = sum(trips for _, _, trips, _ in heavy) - travelled_ms
    return queued_ms + light_ms + travelled_ms, served_ms


def _byte_ms(before: Interfaces, after: Interfaces) -> float:
    """Time of a byte on the interface that moved the most; 0 where its speed is not known."""
    moved = {name: now[1] - before.get(name, (0, 0))[1] for name, now in after.items()}
    busiest = max(moved, key=moved.__getitem__, default="")
    speed = after[busiest][0] if busiest else 0
    return 8e-3 / speed if speed > 0 and moved[busiest] > 0 else 0.0


def _nfs(text: str) -> Operations:
    mounts: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    mount, counted = "", False
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"] and "on" in words:
            mount, counted = words[words.index("on") + 1], False
        elif line.strip() == "per-op statistics":
            counted = True
        elif words[:1] == [_TRANSPORT] and len(words) > _IN_FLIGHT and words[_KIND] != "udp":
            sends, flying = words[_SENDS], words[_IN_FLIGHT]
            if sends.isdecimal() and flying.isdecimal():
                before = mounts.get((mount, _TRANSPORT), (0, 0, 0, 0))
                mounts[mount, _TRANSPORT] = before[0] + int(sends), 0, before[2] + int(flying), 0
        elif counted and words and words[0].endswith(":"):
            numbers = [int(word) for word in words[1:] if word.isdecimal()]
            if len(numbers) > _ROUND_TRIP:
                moved = numbers[_SENT] + numbers[_RECEIVED]
                taken = (numbers[_OPS], numbers[_QUEUE], numbers[_ROUND_TRIP], moved)
                mounts[mount, words[0].rstrip(":")] = taken
    return mounts


def _network(text: str) -> Interfaces:
    """Speeds of ``/sys/class/net`` and bytes of ``/proc/net/dev``; the loopback has no speed."""
    speeds: dict[str, int] = {}
    moved: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().rpartition(":")
        words = rest.split()
        if name.endswith("/speed") and rest.isdecimal():
            speeds[name.split("/")[-2]] = int(rest)
        elif len(words) == 16 and words[0].isdecimal() and words[8].isdecimal() and name != "lo":
            moved[name] = int(words[0]) + int(words[8])
    return {name: (speeds.get(name, 0), count) for name, count in moved.items()}


def _disks(text: str) -> Devices:
    disks = {}
    for line in text.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:] if word.isdecimal()]
        if len(numbers) >= 8:  # reads, merged, sectors, ms, and the same of writes
            disks[":".join(words[:2])] = (numbers[0] + numbers[4], numbers[3] + numbers[7])
    return disks


@dataclass(frozen=True, slots=True)
class SlurmJobs(HeldJobs):
    """Runs as jobs of a real Slurm."""

    description: Description
    counters: Path | None = None  #: folder for what a run's node counted; None: nothing is counted

    def submit(self, assignment: Assignment, trial: Trial) -> int:
        """Submit a run on hold.

        A job that was submitted and not written down never starts by itself.

        Raises SubmissionRefused: Slurm does not take such a job; SlurmError: Slurm does not answer
            at the moment.
        """
        argv = self.argv(assignment, trial)
        check_here(argv)
        return int(submit(argv))

    def argv(self, assignment: Assignment, trial: Trial) -> list[str]:
        """Command line of a run."""
        description = self.description
        also = {
            "--account": description.account,
            "--qos": description.qos,
            "--chdir": description.work_dir,
        }
        return [
            *("sbatch", "--parsable", "--hold", "--no-requeue"),
            f"--job-name={trial.job_name}",
            # The hooks leave it alone; it joins the runs of its application.
            f"--comment=nimo:off,{description.tag(assignment)}",
            f"--nice={description.nice}",
            f"--time={description.limit}",
            *(f"{option}={value}" for option, value in also.items() if value),
            *assignment.options,
            *self._command(assignment, trial),
        ]

    def network_share(self, trial: Trial) -> float | None:
        """Share of a run's time for I/O that was the network's; None where nothing was counted."""
        if self.counters is None:
            return None
        try:
            before, after = (path.read_text(errors="replace") for path in self._files(trial))
        except OSError:
            return None
        return network_share(parse(before), parse(after))

    def _command(self, assignment: Assignment, trial: Trial) -> tuple[str, ...]:
        """Command of a run, between two looks at the counters; a job script is left as it is."""
        wrapped = assignment.command[0].removeprefix("--wrap=")
        if self.counters is None or wrapped == assignment.command[0]:
            return assignment.command
        before, after = (shlex.quote(str(path)) for path in self._files(trial))
        return (
            f"--wrap={COUNTED} {CAPTURE}\nnimo_io > {before}\n(\n{wrapped}\n)\n"
            f"nimo_status=$?\nnimo_io > {after}\nexit $nimo_status",
        )

    def _files(self, trial: Trial) -> tuple[Path, Path]:
        folder = self.counters or Path()
        return folder / f"{trial.job_name}.before", folder / f"{trial.job_name}.after"

    def find(self, trial: Trial) -> int | None:
        """Look for a run's job by its name, in the queue and in the accounting."""
        return int(find(trial.job_name, trial.planned_s) or 0) or None

    def tidy(self, trial: Trial) -> None:
        """Cancel jobs of a run that were submitted while their submitter was killed.

        They were never released, so none has run.
        """
        command(["scancel", "--me", "--quiet", "--state=PENDING", f"--name={trial.job_name}"])

    def waiting(self, job_id: int) -> bool | None:
        """Whether a job still waits; None once it is over."""
        state = self.queued().get(job_id)
        return None if state is None else state in WAITING


class Stop(StrEnum):
    """Why learning ended."""

    GOOD_ENOUGH = "good enough"
    NOTHING_LEFT = "nothing left to run"
    BUDGET = "budget"


class _NoBudget(Exception):  # noqa: N818 - never leaves this module
    """The next run may cost more than the rest of the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSite:
    """The workbench's surroundings: Slurm, the time, and a function that reports progress."""

    jobs: SlurmJobs
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    report: Callable[[Trial], None]
    overrun_s: float  #: how far a job may run beyond its limit


@dataclass(frozen=True, slots=True)
class Workbench:
    """Learns one application."""

    description: Description
    choices: Choices
    proposer: ByOccupancies
    journal: Journal
    site: LearningSite

    def run(self) -> Stop:
        """Run until predictions are good enough, no run remains, or the budget is spent.

        What the journal holds is not run again.

        Raises sacct_ingest.errors.SlurmError, sacct_ingest.errors.SacctError: Slurm does not
            answer; another call goes on from there.
        """
        try:
            while proposal := self.proposer.propose():
                trial = self._result(proposal)
                if trial is None:
                    self.proposer.skip()
                else:
                    self.proposer.observe(trial)
        except _NoBudget:
            return Stop.BUDGET
        return Stop.GOOD_ENOUGH if self.proposer.good_enough else Stop.NOTHING_LEFT

    def replay(self) -> Proposal | None:
        """Learn from the journal alone; return the next run."""
        while proposal := self.proposer.propose():
            attempts = self._attempts(proposal)
            trials = [self.journal.find(one.key, attempt) for one, attempt in attempts]
            done = next((one for one in trials if one and one.stage is Stage.DONE), None)
            if done:
                self.proposer.observe(done)
            elif all(one is not None and one.stage is Stage.FAILED for one in trials):
                self.proposer.skip()
            else:
                return proposal
        return None

    def argv(self, proposal: Proposal) -> list[str]:
        """Command line that a run would be submitted with."""
        assignment = self.choices.at(proposal.attributes)[0]
        return self.site.jobs.argv(assignment, self._trial(assignment, 0, proposal))

    def reserved_node_h(self, proposal: Proposal) -> float:
        """Most node-hours that a run may take."""
        return self._cost(self._trial(self.choices.at(proposal.attributes)[0], 0, proposal))

    def runnable(self) -> Choices:
        """Give the assignments but those that could not be run."""
        trials = self.journal.trials.values()
        failed = {one.key for one in trials if one.stage is Stage.FAILED}
        failed -= {one.key for one in trials if one.stage is Stage.DONE}
        places = {
            at: left
            for at, each in self.choices.places.items()
            if (left := tuple(one for one in each if one.key not in failed))
        }
        return Choices(self.choices.space, places)

    def learned(self) -> ProposerState:
        """Give the results so far, for the assignments that can be run."""
        state, places = self.proposer.learned(), self.runnable().places
        key = self.choices.space.key
        return replace(
            state, expected=tuple(one for one in state.expected if key(one.attributes) in places)
        )

    @property
    def spent_node_h(self) -> float:
        """Node-hours of all runs that ended, and the most that the others may take."""
        return sum(self._cost(one) for one in self.journal.trials.values())

    def _result(self, proposal: Proposal) -> Trial | None:
        """Run an assignment, elsewhere or again where it fails; None where it cannot be run."""
        for assignment, attempt in self._attempts(proposal):
            recorded = self.journal.find(assignment.key, attempt)
            trial = recorded or self._plan(assignment, attempt, proposal)
            if trial.stage is Stage.PLANNED:
                trial = self._submit(trial, assignment, perhaps_there=recorded is not None)
            if trial.stage is Stage.SUBMITTED:
                trial = self._finish(trial)
            if trial.stage is Stage.DONE:
                return trial
        return None

    def _attempts(self, proposal: Proposal) -> Iterator[tuple[Assignment, int]]:
        """Each assignment with the proposed attributes, then the interrupted ones again."""
        for attempt in range(self.description.tries):
            for assignment in self.choices.at(proposal.attributes):
                before = self.journal.find(assignment.key, attempt - 1)
                if attempt == 0 or (before is not None and before.again):
                    yield assignment, attempt

    def _plan(self, assignment: Assignment, attempt: int, proposal: Proposal) -> Trial:
        """Write a run down before it is submitted, if the budget holds it whatever happens."""
        trial = self._trial(assignment, attempt, proposal)
        if self.spent_node_h + self._cost(trial) > self.description.budget:
            raise _NoBudget
        return self.journal.save(trial)

    def _trial(self, assignment: Assignment, attempt: int, proposal: Proposal) -> Trial:
        return Trial(
            key=assignment.key,
            attempt=attempt,
            job_name=f"{LEARNING}{self.description.application}-{assignment.key}-{attempt}",
            nodes=assignment.nodes,
            limit_s=self.description.limit_s + self.site.overrun_s,
            attributes=proposal.attributes,
            purpose=proposal.purpose,
            why=proposal.why,
            planned_s=int(self.site.clock()),
        )

    def _cost(self, trial: Trial) -> float:
        return trial.nodes * (trial.elapsed_s if trial.ended else trial.limit_s) / 3600

    def _submit(self, trial: Trial, assignment: Assignment, *, perhaps_there: bool) -> Trial:
        """Submit a run, or find its job where a process was stopped before it wrote that down."""
        jobs = self.site.jobs
        try:
            existing = jobs.find(trial) if perhaps_there else None
            job_id = jobs.submit(assignment, trial) if existing is None else existing
        except SubmissionRefused as error:
            return self._save(trial, stage=Stage.FAILED, reason=str(error))
        return self._save(trial, stage=Stage.SUBMITTED, job_id=job_id)

    def _finish(self, trial: Trial) -> Trial:
        """Let a run start and bring it to its end."""
        job_id = trial.job_id or 0
        self.site.jobs.release(job_id)
        late = self._wait(job_id)
        run = self._accounted(trial)
        self.site.jobs.tidy(trial)
        if late:
            return self._save(trial, stage=Stage.FAILED, reason=late, elapsed_s=run.elapsed_s)
        share = self.site.jobs.network_share(trial)
        return self._save(trial, **_outcome(run), network_share=share)

    def _wait(self, job_id: int) -> str:
        """Wait until a job is over; why it was cancelled where it never starts, or not in time."""
        begun_s, jobs, late = self.site.clock(), self.site.jobs, ""
        for pause_s in pauses():
            waiting = jobs.waiting(job_id)
            if waiting is None:
                return late
            if waiting and not late:
                late = jobs.impossible().get(job_id, "")
                if self.site.clock() - begun_s > self.description.patience_s:
                    late = late or f"did not start within {self.description.patience}"
                if late:
                    jobs.cancel(job_id)
            self.site.sleep(pause_s)
        raise AssertionError  # the pauses never end

    def _accounted(self, trial: Trial) -> RunRow:
        """Wait until a run's end is in the accounting, which can take seconds."""
        job_id, begun_s = trial.job_id or 0, self.site.clock()
        for pause_s in pauses():
            check_accounted([job_id], self.site.clock() - begun_s)
            if run := self.site.jobs.ended({job_id: trial.planned_s}).get(job_id):
                return run
            self.site.sleep(pause_s)
        raise AssertionError  # the pauses never end

    def _save(self, trial: Trial, **changes: object) -> Trial:
        saved = self.journal.save(msgspec.structs.replace(trial, **changes))
        self.site.report(saved)
        return saved


def _outcome(run: RunRow) -> dict[str, object]:
    used, reason = usage(run, run.steps), failure(run)
    return {
        "stage": Stage.FAILED if reason else Stage.DONE,
        "reason": reason,
        # The same once more may succeed.
        "again": bool(reason) and run.state.interrupted,
        "elapsed_s": run.elapsed_s,
        "node_list": run.node_list,
        "cpus": run.cpus,
        "utilisation": used.utilisation,
        "data_bytes": used.data_bytes,
    }
