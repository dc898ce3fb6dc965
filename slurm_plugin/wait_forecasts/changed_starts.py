"""When a job that waits starts as it is, and changed: the queue run forward by predictions.

All forms of the job meet the same futures: in each of them it is seen what a change gains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.waits.simulation import QueuedJob, starts_behind
from sacct_ingest.text.hostlist import expand
from slurm_plugin.slurm.cluster_state import RawJob, RawState
from slurm_plugin.slurm.job_edit import Edit
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.node_pool import NodeGroup, could_hold
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.startable import empty_node, share_of_each
from slurm_plugin.wait_forecasts.awaited_jobs import BEHIND, is_limited
from slurm_plugin.wait_forecasts.simulated_queue import (
    PartitionQueue,
    QueueScene,
    RunTimes,
    size_of,
)

Floats = npt.NDArray[np.float64]

#: A start so many seconds sooner is one: Slurm starts nothing in between.
LEAST_GAIN_S = 60.0
#: Futures that are drawn, at most and at least, and jobs that may be run in all of them together.
_DRAWS, _FEWEST, _BUDGET = 60, 3, 20_000
#: What has not started by then counts as starting then, seconds.
HORIZON_S = 30 * 86_400.0
#: An interval leaves one in ten out.
_LOW, _HIGH = 0.05, 0.95
#: Of so few draws it is twice as wide: about what normal ones would need.
_FEW = 3.0


class StartRange(NamedTuple):
    """When a job starts, seconds since the epoch."""

    median_s: float
    low_s: float  #: nine in ten are between these
    high_s: float


class Gain(NamedTuple):
    """By how much sooner a job starts that is changed, in seconds."""

    median_s: float
    low_s: float  #: nine in ten are between these
    high_s: float
    chance: float  #: that it starts sooner at all


@dataclass(frozen=True, slots=True)
class StartDraws:
    """Starts of one form of a job, one for each future, seconds from the look."""

    now_s: float
    starts_s: Floats  #: when its nodes are free
    late_s: float  #: by so much later at most Slurm looks at it again

    @property
    def known(self) -> bool:
        """Whether it starts, within what is looked at, in nine of ten futures."""
        return float(np.quantile(self.starts_s, _HIGH)) < HORIZON_S

    @property
    def start(self) -> StartRange:
        """When it starts."""
        median, low, high = _interval(self.starts_s)
        low_s = self.now_s + max(low, 0.0)
        return StartRange(self.now_s + median, low_s, self.now_s + high + self.late_s)

    def gain(self, changed: "StartDraws") -> Gain:
        """Compare it with the job changed."""
        gains = self.starts_s - changed.starts_s
        median, low, high = _interval(gains)
        sooner = int((gains >= LEAST_GAIN_S).sum())
        # Of so many futures none is certain.
        chance = (sooner + 1) / (len(gains) + 2)
        return Gain(median, low - changed.late_s, high + self.late_s, chance)


def _interval(draws: Floats) -> tuple[float, float, float]:
    """Give a median, and what nine in ten are between: wider where there are few draws."""
    low, median, high = np.quantile(draws, (_LOW, 0.5, _HIGH)).tolist()
    wider = 1.0 + _FEW * (1.0 / len(draws) - 1.0 / _DRAWS)
    return median, median - wider * (median - low), median + wider * (high - median)


class ChangedStarts:
    """The starts of jobs in their forms.

    raw: what Slurm said; all jobs are shown.
    settings: of Slurm's configuration.
    run_times: gives what is predicted of jobs.
    limits: of QOS and associations.
    now_s: when Slurm was asked, seconds since the epoch.
    jobs: how many such jobs are looked at: each is run in fewer futures.
    """

    def __init__(
        self,
        raw: RawState,
        settings: SlurmConf,
        run_times: RunTimes,
        *,
        now_s: float,
        limits: LimitTables = LimitTables(),  # noqa: B008 - never changed
        jobs: int = 1,
    ) -> None:
        self._raw = raw
        self._settings = settings
        self._run_times = run_times
        self._limits = limits
        self._now_s = now_s
        self._budget = _BUDGET // jobs
        self._jobs = {one.job_id: one for one in raw.jobs}
        self._scenes: dict[str, QueueScene] = {}
        self._every: dict[tuple[str, frozenset[str]], PartitionQueue] = {}
        self._queues: dict[tuple[object, ...], PartitionQueue] = {}
        self._reservations = {one.name: one for one in raw.reservations}

    def draws(self, forms: Sequence[PendingJob]) -> list[StartDraws | None]:
        """Draw when each form of a job starts; None: no nodes could take it, or it is not known.

        forms: the job as it is, and changed.
        """
        placed = [self._placed(form) for form in forms]
        together: dict[int, list[tuple[int, PartitionQueue, QueuedJob]]] = {}
        for place, ones in enumerate(placed):
            for queue, job in ones:
                together.setdefault(id(queue), []).append((place, queue, job))
        states = [some[0][1].state for some in together.values()]
        work = sum(len(one.running) + len(one.waiting) for one in states)
        draws = int(np.clip(self._budget // (work + 1), _FEWEST, _DRAWS))
        starts_s = np.full((len(forms), draws), inf)
        for some in together.values():
            state = some[0][1].state
            made = starts_behind(
                state, [job for _, _, job in some], draws=draws, horizon_s=HORIZON_S
            )
            for (place, _, _), row in zip(some, made, strict=True):
                starts_s[place] = np.minimum(starts_s[place], row)
        late_s = self._settings.backfill_s
        return [
            StartDraws(self._now_s, row, late_s) if ones else None
            for row, ones in zip(starts_s, placed, strict=True)
        ]

    def _placed(self, form: PendingJob) -> list[tuple[PartitionQueue, QueuedJob]]:
        """Give the queues in which a form waits, last, and its size there."""
        job = self._as_raw(form)
        if job is None:
            return []
        found = []
        scene = self._scene(form.reservation)
        place = scene.place(job)
        begin_s = self._begin_s(form)
        before = scene.awaited.ids_before(job) if job.reason == BEHIND else frozenset()
        for name in form.partitions:
            nodes = self._able(scene, form, job, name)
            if not form.nodes <= len(nodes) or begin_s == inf:
                continue
            queue = self._queue(scene, form, nodes, place, before)
            hold = scene.awaited.hold(job, queue.keys)
            if hold is None:
                continue
            units = size_of(job, job.nodes, queue.units, alone=scene.is_alone(job))
            found.append((
                queue,
                QueuedJob(
                    units=units,
                    limit_s=form.limit_s or 365 * 86_400.0,
                    begin_s=max(begin_s, hold.begin_s - self._now_s),
                    awaits=hold.of_first,
                ),
            ))  # fmt: skip
        return found

    def _as_raw(self, form: PendingJob) -> RawJob | None:
        """Make a record of a form as the queue has it; None: the queue has it not."""
        own = self._jobs.get(form.job_id)
        if own is None:
            return None
        held = form.reason == BEHIND or is_limited(form.reason)
        return replace(
            own,
            state="PENDING",
            reason=form.reason if held else "Priority",
            at_once=form.throttle,
            partitions=form.partitions,
            priority=form.priority or own.priority,
            nodes=form.nodes,
            max_nodes=form.max_nodes,
            limit_s=form.limit_s,
            tres=_tres(form, own),
            alone=form.exclusive,
            features=form.features,
            reservation="",
            jobs=1,
        )

    def _scene(self, reservation: str) -> QueueScene:
        """Make what the queues have in common; a form inside of a reservation has its own."""
        if (scene := self._scenes.get(reservation)) is None:
            closed = [one for one in self._raw.reservations if one.name != reservation]
            scene = self._scenes[reservation] = QueueScene.of(
                replace(self._raw, reservations=closed),
                self._run_times,
                now_s=self._now_s,
                settings=self._settings,
                limits=self._limits,
            )
        return scene

    def _able(
        self, scene: QueueScene, form: PendingJob, job: RawJob, partition: str
    ) -> frozenset[str]:
        """List the nodes of a partition that could take a form."""
        share = share_of_each(job, counts_memory=self._settings.counts_memory)
        named = frozenset(expand(form.node_list)) if form.node_list else frozenset()
        barred = frozenset(expand(form.excluded)) if form.excluded else frozenset()
        members = scene.members.get(partition, frozenset()) - barred
        if len(named) >= form.nodes:
            members &= named
        if reserved := self._reservations.get(form.reservation):
            members &= frozenset(reserved.node_names)
        able: dict[NodeGroup, bool] = {}
        found = []
        for name in members:
            group = empty_node(scene.nodes[name])
            if (fits := able.get(group)) is None:
                fits = able[group] = could_hold(group, share)
            if fits:
                found.append(name)
        return frozenset(found)

    def _queue(
        self,
        scene: QueueScene,
        form: PendingJob,
        nodes: frozenset[str],
        place: tuple[float, ...],
        before: frozenset[int],
    ) -> PartitionQueue:
        # Nobody else waits for the nodes of a reservation.
        first = (-inf,) if form.reservation else place
        key = (form.reservation, nodes, first, before)
        if (queue := self._queues.get(key)) is None:
            if (every := self._every.get(key[:2])) is None:
                every = self._every[key[:2]] = scene.queue((), nodes)
            queue = self._queues[key] = every.before(first, before)
        return queue

    def _begin_s(self, form: PendingJob) -> float:
        """Tell from when on a form may start, seconds from now; inf: not known."""
        begin_s = 0.0
        if form.reason == "BeginTime":
            begin_s = form.eligible_s - self._now_s if form.eligible_s else inf
        if form.reservation:
            reserved = self._reservations.get(form.reservation)
            begin_s = max(begin_s, reserved.start_s - self._now_s) if reserved else inf
        return max(begin_s, 0.0)


def _tres(form: PendingJob, own: RawJob) -> dict[str, float]:
    """Give what a form takes in total, devices by their types, too."""
    types = {f"gres/{kind.lower()}": amount for kind, amount in form.device_types.items()}
    return {**(form.tres or own.tres), **types, "cpu": float(form.tres.get("cpu", form.cpus))}


def compared(
    job: PendingJob, edits: Sequence[Edit], starts: ChangedStarts, *, waits: bool
) -> tuple[StartRange | None, list[Edit]]:
    """Say when a job starts as it is, and by how much sooner with each change.

    A change that gains nothing is left out.  One whose start is not found stays as it is.

    waits: whether the job starts by itself; otherwise the first value is None.
    """
    drawn = starts.draws([job, *(edit.job for edit in edits)])
    first = drawn[0]
    as_it_is = first if waits and first is not None and first.known else None
    if waits and as_it_is is None:
        return None, list(edits)
    made = (
        _with_gain(edit, changed, as_it_is) for edit, changed in zip(edits, drawn[1:], strict=True)
    )
    start = None if as_it_is is None else as_it_is.start
    return start, [edit for edit in made if edit is not None]


def _with_gain(edit: Edit, changed: StartDraws | None, as_it_is: StartDraws | None) -> Edit | None:
    if changed is None or not changed.known:
        return edit
    start_s = changed.start.median_s
    if as_it_is is None:
        return replace(edit, start_s=start_s, gain_s=None)
    gain = as_it_is.gain(changed)
    if gain.median_s < LEAST_GAIN_S:
        return None
    return replace(
        edit,
        start_s=start_s,
        gain_s=gain.median_s,
        gain_low_s=gain.low_s,
        gain_high_s=gain.high_s,
        chance=gain.chance,
    )
