"""Two clusters that the replay's engine runs side by side: one with a hostile user, one without.

Jobs have whole nodes, and Slurm's backfill has planned those that wait, by their limits.  What the
hostile user says, in names, comments and notes that records of own runs make, is in the view that
nimod has; so are jobs that can never start.
"""

import itertools
from dataclasses import dataclass, field, replace
from math import inf

from predictor.waits.easy import Engine, JobShape, Queue
from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config, Policy
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.replay.what_if import PLANNED, planned
from slurm_plugin.slurm.cluster_state import Cluster, RawJob, RawNode, RawPartition, RawState
from slurm_plugin.slurm.node_pool import NodeAvailability
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build as view_of
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from tests.slurm_plugin.made import amdahl, job, stored, table

NODES, BEGIN_S = 8, 1_790_000_000.0
HONEST, HOSTILE = "alice", "mallory"
#: What nimod knows of the honest user's application: 30 min on one node, 5 min on eight.
RUN_TIME = amdahl(100.0, 1700.0)
LEARNED = table(RUN_TIME, nodes=range(1, NODES + 1), observed=(1, 2, 4, 8))
BATCH = RawPartition(name="batch", default=True, max_time_s=7 * 86_400.0)
CONF = SlurmConf(counts_memory=False)
#: An empty queue leaves a job all nodes at this price, and a long one does not.
CONFIG = Config(mode=Mode.ENFORCE, policy=Policy(price=1.0, growth_share=1.0))
Words = dict[str, str]


class SteppedEngine(Engine):
    """The replay's engine, moved on step by step; jobs may be cancelled."""

    def advance(self, until_s: float) -> None:
        """Let jobs end and start up to a moment."""
        while self._coming and self._coming[0][0] <= until_s:
            now_s = self._coming[0][0]
            self._finish(now_s)
            self._schedule(now_s, since=0)

    def submit(self, shape: JobShape, now_s: float) -> int:
        """Submit a job and give its number."""
        self._submit(shape)
        self._schedule(now_s, since=0)
        return len(self._shapes) - 1

    def cancel(self, job: int, now_s: float) -> None:
        """End a job that waits or runs."""
        waiting = self._queue.jobs()
        if job in waiting:
            waiting.remove(job)
            self._queue = Queue()
            for other in waiting:
                shape = self._shapes[other]
                self._queue.append(other, shape.nodes, shape.limit_s)
        self._coming = sorted((now_s if one == job else end, one) for end, one in self._coming)
        self.advance(now_s)
        self._schedule(now_s, since=0)

    def start_of(self, job: int) -> float:
        """When a job started; infinite: it waits."""
        return self._starts[job]

    def shape_of(self, job: int) -> JobShape:
        """Nodes, limit and run time of a job."""
        return self._shapes[job]

    def by_limits(self, now_s: float) -> NodeAvailability:
        """Nodes free over time if all jobs run to their limits, those that wait in their order."""
        return planned(self.free, self.releases(), self.waiting[:PLANNED], now_s)


@dataclass
class World:
    """A cluster, what its users say in the queue, and the nimod that decides on honest jobs."""

    forecasts: bool  #: whether nimod runs the queue forward
    engine: SteppedEngine = field(default_factory=lambda: SteppedEngine(NODES))
    owners: dict[int, str] = field(default_factory=dict)
    submitted_s: dict[int, float] = field(default_factory=dict)
    words: dict[int, Words] = field(default_factory=dict)
    never: list[RawJob] = field(default_factory=list)  #: jobs that can never start
    shown: dict[int, tuple[str, ...]] = field(default_factory=dict)  #: nodes of what runs
    previous: Cluster | None = None

    def __post_init__(self) -> None:
        ids = itertools.count(1)
        self.service = DecisionService(CONFIG, new_id=lambda: f"{next(ids):012x}")
        self.service.tables = stored(LEARNED)
        self.outlooks = Outlooks(QueueRunTimes(lambda: self.service.tables), stopwatch=lambda: 0.0)

    def submit(self, shape: JobShape, owner: str, now_s: float, **words: str) -> int:
        number = self.engine.submit(shape, now_s)
        self.owners[number], self.words[number] = owner, words
        self.submitted_s[number] = now_s
        return number

    def look(self, now_s: float) -> Cluster:
        """Give the view that nimod has of it now."""
        state = RawState(
            nodes=self._nodes(), jobs=[*self._jobs(now_s), *self.never], partitions=(BATCH,)
        )
        view = view_of(state, CONF, cluster="pine", taken_s=now_s, previous=self.previous)
        self.previous = view
        return self.outlooks.add_wait_forecasts(view, state, CONF) if self.forecasts else view

    def decide(self, request: Job, now_s: float) -> tuple[int | None, float, str]:
        """Decide on a job; give the count that it is pinned to, its limit in seconds, its note."""
        self.service.cluster = self.look(now_s)
        answer, _ = self.service.submit(request, via="job_submit", now_s=now_s)
        change = answer.set
        limit_s = 60.0 * ((change and change.time_limit) or request.time_limit or 0)
        return (change.min_nodes if change else None), limit_s, answer.admin_comment

    def _nodes(self) -> list[RawNode]:
        running = {number for number, _ in self.engine.running_jobs}
        self.shown = {number: names for number, names in self.shown.items() if number in running}
        taken = {name for names in self.shown.values() for name in names}
        free = [name for n in range(NODES) if (name := f"n{n}") not in taken]
        for number, _ in self.engine.running_jobs:
            if number not in self.shown:
                count = self.engine.shape_of(number).nodes
                self.shown[number], free = tuple(free[:count]), free[count:]
        return [
            RawNode(
                name=(name := f"n{n}"),
                state=frozenset({"IDLE" if name in free else "ALLOCATED"}),
                cpus=1,
                cpus_used=int(name not in free),
                partitions=("batch",),
            )
            for n in range(NODES)
        ]

    def _jobs(self, now_s: float) -> list[RawJob]:
        jobs = [
            self._job(
                number,
                state="RUNNING",
                start_s=start_s,
                end_s=start_s + self.engine.shape_of(number).limit_s,
                node_names=self.shown[number],
            )
            for number, start_s in self.engine.running_jobs
        ]
        there = planned(self.engine.free, self.engine.releases(), (), now_s)
        for place, number in enumerate(self.engine.waiting_jobs):
            shape, start_s = self.engine.shape_of(number), inf
            if place < PLANNED:
                start_s = there.earliest_start(shape.nodes, shape.limit_s, from_s=now_s)
                there = there.reserve(shape.nodes, start_s, start_s + shape.limit_s)
            jobs.append(
                self._job(
                    number,
                    state="PENDING",
                    reason="Priority" if place else "Resources",
                    start_s=start_s,
                    end_s=start_s + shape.limit_s,
                    priority=1000 - place,
                )
            )
        return jobs

    def _job(self, number: int, **fields: object) -> RawJob:
        shape = self.engine.shape_of(number)
        made = RawJob(
            state="PENDING",
            job_id=number + 1,
            partitions=("batch",),
            nodes=shape.nodes,
            tres={"cpu": float(shape.nodes)},
            alone=True,
            limit_s=shape.limit_s,
            user=self.owners[number],
            submit_s=self.submitted_s[number],
        )
        return replace(made, **{**self.words[number], **fields})  # type: ignore[arg-type]


def note(nodes: int, low_s: int, high_s: int) -> str:
    """Note of a job of which runs of its own user say that it takes so long."""
    return build(
        Note(
            decision_id="f" * 12, nodes=nodes, low=nodes, high=nodes, time_s=(low_s + high_s) // 2,
            low_s=low_s, high_s=high_s, verdict="reliable", mode="enforce", reason="fixed_count",
        )
    )  # fmt: skip


def honest_request(low: int, high: int, minutes: int) -> Job:
    """Make the request of an honest job with a range of node counts."""
    return job(user_name=HONEST, min_nodes=low, max_nodes=high, min_cpus=low, time_limit=minutes)


def is_no_later(
    world: World, request: Job, count: int | None, limit_s: float, now_s: float
) -> bool:
    """Whether a job on a count starts, or ends, no later than as asked, by limits alone.

    All others are taken to run to their limits.  As asked, the job starts once its fewest nodes are
    free, and has all that are free then.  A job that keeps its range is as it was asked for.
    """
    if count is None:
        return True
    low, high = request.min_nodes or 1, request.max_nodes or 1
    own_s, there = 60.0 * (request.time_limit or 0), world.engine.by_limits(now_s)
    asked_s = there.earliest_start(low, own_s, from_s=now_s)
    had = max(min(high, there.least(asked_s, asked_s + own_s)), low)
    start_s = there.earliest_start(count, limit_s, from_s=now_s)
    return start_s <= asked_s or start_s + RUN_TIME(count) <= asked_s + RUN_TIME(had)
