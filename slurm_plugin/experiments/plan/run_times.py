"""Run times and copies of a plan from what was learned: curves, occupancies, transfers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TypeGuard

import msgspec

from predictor import table as tables
from predictor.forecasts.transfer_time import LEVEL, TransferTime
from predictor.occupancy.application_model import OccupancyFit, OccupancyModel, Sample, occupancies
from predictor.types import PredictionTable, Verdict
from sacct_ingest.errors import ConfigError, NoHistory
from slurm_plugin.experiments.learn import proposers
from slurm_plugin.experiments.learn.assignments import INPUT_BYTES
from slurm_plugin.experiments.learn.journal import JournalFile
from slurm_plugin.experiments.plan import estimates
from slurm_plugin.experiments.plan.estimates import TaskEstimate, TransferPath
from slurm_plugin.experiments.plan.workflow import PlanSite, Task, Workflow

#: Attributes that a path adds to those of a place, and what they are where all data is near.
LATENCY, BANDWIDTH = "net_latency_s", "net_bandwidth_bytes_per_s"
NODES = "nodes"
HISTORY = "history"  #: instead of a file of samples: the ingested runs of the application
_MOST = 64  #: times the fewest nodes, for tasks that name no most


class SampleText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One run in a file of samples: the attributes of what it ran on, and U, T and D."""

    attributes: dict[str, float]
    utilisation: float
    time_s: float
    data_bytes: float
    network_share: float = 0.0

    def sample(self) -> Sample:
        """Give it as a sample.

        Raises ValueError: a value is outside its range.
        """
        measured = occupancies(
            self.utilisation, self.time_s, self.data_bytes, network_share=self.network_share
        )
        return Sample(self.attributes, measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRunTimes:
    """Run times of tasks, each from its best source.

    In this order: an occupancy model of the runs in its file of samples, the times that the
    workflow gives, the prediction table of its application.

    Where the workflow gives a place no speed, a table's part for the node type there counts, or
    else the speed that was measured.

    tables, fits: by task.
    near: latency and bandwidth between a place and its own storage, for occupancy models that
        depend on them.
    inputs: bytes that each task reads, where they are known.
    speeds, types: measured speed, and node type where there is one only, of places.
    """

    tables: Mapping[str, PredictionTable]
    fits: Mapping[str, OccupancyFit]
    near: Mapping[str, float]
    speeds: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, float] = field(default_factory=dict)
    _refused: dict[tuple[str, str], str] = field(default_factory=dict, compare=False, repr=False)

    def refused(self, task: Task, place: PlanSite) -> str:
        """Say why a run time at a place was refused; empty where none was."""
        return self._refused.get((task.name, place.name), "")

    def counts(self, task: Task, place: PlanSite) -> Sequence[int]:
        """Node counts with a run time, in rising order."""
        low, high = max(task.low, place.low), min(task.high or 2**20, place.high or 2**20)
        if task.name in self.fits:
            # Where all runs had the same count, no run tells what another would take.
            ran_low, ran_high = self.fits[task.name].support.bounds.get(NODES, (low, low))
            if low > high or ran_low < ran_high:
                return range(low, min(high, _MOST * low) + 1)
            return [min(max(round(ran_low), low), high)]
        if run_times := task.run_times_s:
            return range(max(min(run_times), low), min(max(run_times), high) + 1)
        if (table := self._table(task, place)) is None:
            return ()
        return [n for n in table.nodes if tables.verdict_at(table, n) is not Verdict.REFUSED]

    def run(
        self, task: Task, place: PlanSite, nodes: int, remote: Sequence[TransferPath]
    ) -> TaskEstimate | None:
        """Run time with these inputs read over the network; None: unknown, or refused."""
        if task.name in self.fits:
            return self._by_occupancies(task, place, nodes, remote)
        group = task.application or task.name
        if task.run_times_s:
            local = estimates.of_run_times(task.run_times_s, nodes, group)
        else:
            local = _of_table(self._table(task, place), nodes, group)
        if local is None or self._lacks(task, place, remote, (BANDWIDTH,)):
            return None
        return estimates.with_remote(local.times(1 / self._speed(task, place)), remote)

    def _lacks(
        self, task: Task, place: PlanSite, remote: Sequence[TransferPath], needed: Sequence[str]
    ) -> bool:
        """Whether a needed figure of a way is not known; the reason is noted."""
        for path in remote:
            own = {LATENCY: path.latency_s, BANDWIDTH: path.bandwidth_bytes_per_s}
            for one in needed:
                if own[one] is None:
                    word = "latency" if one == LATENCY else "bandwidth"
                    self._refused[task.name, place.name] = f"give the {word} of link {path.link}"
                    return True
        return False

    def _table(self, task: Task, place: PlanSite) -> PredictionTable | None:
        table = self.tables.get(task.name)
        if self._typed(table, place):
            return tables.for_type(table, self.types[place.name])
        return table

    def _typed(self, table: PredictionTable | None, place: PlanSite) -> TypeGuard[PredictionTable]:
        """Whether a table has a curve for the node type of a place."""
        if table is None or place.speed is not None:
            return False
        node_types = {table.node_type, *(one.node_type for one in table.by_type)} - {""}
        return self.types.get(place.name) in node_types

    def _speed(self, task: Task, place: PlanSite) -> float:
        if place.speed is not None:
            return place.speed
        if not task.run_times_s and self._typed(self.tables.get(task.name), place):
            return 1.0
        return self.speeds.get(place.name, 1.0)

    def _by_occupancies(
        self, task: Task, place: PlanSite, nodes: int, remote: Sequence[TransferPath]
    ) -> TaskEstimate | None:
        fit = self.fits[task.name]
        if self._lacks(
            task, place, remote, [one for one in self.near if one in fit.support.bounds]
        ):
            return None
        inputs = {INPUT_BYTES: size} if (size := self.inputs.get(task.name)) else {}
        attributes = {**self.near, **inputs, **place.attributes, NODES: float(nodes)}
        # Of several ways to the inputs the slowest; no latency is below ``near``.
        latencies = [one for path in remote if (one := path.latency_s) is not None]
        bandwidths = [one for path in remote if (one := path.bandwidth_bytes_per_s) is not None]
        worst = {LATENCY: max([self.near[LATENCY], *latencies])} if latencies else {}
        attributes |= worst | ({BANDWIDTH: min(bandwidths)} if bandwidths else {})
        try:
            made = fit.predict(attributes)
        except ValueError as error:
            raise ConfigError(
                f"{task.name}: {error}: look at places.{place.name}.attributes"
            ) from error
        why = "; ".join(made.doubts)
        if made.verdict is Verdict.REFUSED:
            self._refused[task.name, place.name] = why
            return None
        estimate = estimates.of_interval(
            made.time_s, made.low_s, made.high_s, made.level, 0.0, task.name
        )
        return replace(estimate, doubt=why)


def fit_samples(flow: Workflow, folder: FilePath) -> dict[str, OccupancyFit]:
    """Learn the occupancy models of the tasks that name a file of samples.

    Raises ConfigError: a file cannot be read or holds no samples.
    """
    return {
        task.name: _fit(folder / task.samples)
        for task in flow.tasks.values()
        if task.samples and task.samples != HISTORY
    }


def fit_history(task: str, samples: Sequence[Sample]) -> OccupancyFit:
    """Learn the occupancy model of a task from ingested runs of its application.

    Raises NoHistory: no run completed.
    """
    if not samples:
        raise NoHistory(f"tasks.{task}: samples: no run of its application completed")
    return OccupancyModel().fit(samples)


def _fit(path: FilePath) -> OccupancyFit:
    try:
        rows = msgspec.json.decode(path.read_bytes(), type=list[SampleText] | JournalFile)
        if isinstance(rows, JournalFile):
            return proposers.fit(rows.trials, rows.model)
        return OccupancyModel().fit([row.sample() for row in rows])
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _of_table(table: PredictionTable | None, nodes: int, group: str) -> TaskEstimate | None:
    if table is None or not tables.covers(table, nodes):
        return None
    one = tables.at(table, nodes)
    estimate = estimates.of_interval(
        one.time_s, one.low_s, one.high_s, one.level, one.curve_sd, group
    )
    if tables.verdict_at(table, nodes) is Verdict.RELIABLE:
        return estimate
    why = table.problems[0].text if table.problems else "its prediction is doubtful"
    return replace(estimate, doubt=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Times of copies: by the bandwidth that the workflow gives, else by what was measured.

    ``measured`` predicts the time of a transfer between two hosts.
    """

    flow: Workflow
    measured: Callable[[float, str, str], TransferTime]

    def copy(self, size_bytes: float, source: str, target: str) -> TaskEstimate | None:
        """Time of a copy between two storages; None: unknown."""
        link = self.flow.links[source, target]
        if link.bandwidth_bytes_per_s is not None:
            time_s = (link.latency_s or 0.0) + size_bytes / link.bandwidth_bytes_per_s
            return TaskEstimate(max(time_s, 1e-3), estimates.GUESSED, estimates.GUESSED)
        ends = [self.flow.storages[one].host or one for one in (source, target)]
        if ends[0] == ends[1] and size_bytes > 0:
            return None  # its disks decide, and no probe measures them
        made = self.measured(size_bytes, *ends)
        if made.verdict is Verdict.REFUSED:
            return None
        if not made.time_s > 0:
            return TaskEstimate(1e-3)
        return estimates.of_interval(made.time_s, made.low_s, made.high_s, LEVEL)
