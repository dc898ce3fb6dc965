"""Run times and copies of a plan from what was learned: curves, occupancies, transfers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import exp, inf, log
from pathlib import Path as FilePath
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from predictor import job_table
from predictor import table as tables
from predictor.application.request import for_request
from predictor.forecasts.transfer_time import LEVEL, TransferTime
from predictor.prediction_table import PredictionTable
from predictor.types import Verdict
from sacct_ingest.errors import ConfigError, NoHistory
from slurm_plugin.config.yaml_text import convert, load_json
from slurm_plugin.experiments.learn.description import JournalFile
from slurm_plugin.experiments.plan.workflow import PlanSite, Task, Workflow, link_ends

if TYPE_CHECKING:  # numpy is heavy, and the help needs none
    from predictor.occupancy.application_model import OccupancyFit, Sample

#: Bytes that a program asks for at a time where it reads over the network.
_REQUEST_BYTES = 2.0**20
#: Standard deviation of log time of a run time that somebody gave, and of a rule of thumb.
GIVEN, GUESSED = 0.1, 0.35
#: Share of the runs beyond which one is overdue, and what is then expected of its time to follow.
_HARDLY_ANY, _OVERDUE = 0.95, 0.2
_LONGEST = 0.99
#: Attributes that a path adds to those of a place, and what they are where all data is near.
LATENCY, BANDWIDTH = "net_latency_s", "net_bandwidth_bytes_per_s"
NODES = "nodes"
#: Attributes that a plan may choose, as ``nimo lab learn`` names them: unit and letter of sbatch.
RESOURCES = {"cpus": (1.0, ""), "memory": (2.0**20, "M")}
_LEVELS = 4  #: values of each that are tried
HISTORY = "history"  #: instead of a file of samples: the ingested runs of the application
_MOST = 64  #: times the fewest nodes, for tasks that name no most


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """Median time of a step, and the standard deviations of log time below and above it.

    ``common`` is the part that all steps of ``group`` have together: the error of one curve makes
    all runs of its application late at once.  ``doubt`` says why it is not to be relied on.
    ``idle_s`` is the median with nothing of what was measured when it was made.
    """

    time_s: float
    down: float = 0.0
    up: float = 0.0
    common: float = 0.0
    group: str = ""
    doubt: str = ""
    idle_s: float | None = None  #: None: it is ``time_s``

    @property
    def undisturbed_s(self) -> float:
        """Median on idle nodes, with data near."""
        return self.time_s if self.idle_s is None else self.idle_s

    def at_speed(self, speed: PlaceSpeed) -> TaskEstimate:
        """Estimate of the same run at a place of that speed."""
        idle_s = self.undisturbed_s / speed.idle
        return replace(self, time_s=self.time_s / speed.now, idle_s=idle_s)

    def longer(self, factors: RunFactors) -> TaskEstimate:
        """Estimate of a run like those that took so much longer than expected.

        What was measured now may be over by then: it makes no run shorter than an idle one.
        """
        planned_s = self.time_s * factors.now
        least_s = self.undisturbed_s * factors.idle
        return replace(self, time_s=max(planned_s, least_s), idle_s=self.undisturbed_s)

    def left(self, elapsed_s: float) -> TaskEstimate:
        """Estimate the remaining time of a step that has run for ``elapsed_s``.

        The median of the runs that take longer than that; once hardly any was expected to, what was
        known of it is worth little, and a share of what it has taken is expected to follow.

        >>> round(TaskEstimate(100.0, 0.1, 0.1).left(100.0).time_s)
        7
        >>> round(TaskEstimate(100.0, 0.1, 0.1).left(500.0).time_s)
        100
        """
        sd = self.up if elapsed_s > self.time_s else self.down
        z = log(elapsed_s / self.time_s) / sd if sd and elapsed_s > 0 else -inf
        gone = NormalDist().cdf(z) if sd else float(elapsed_s >= self.time_s)
        left_s = _OVERDUE * elapsed_s
        if gone < _HARDLY_ANY:
            left_s = self.quantile((1 + gone) / 2) - elapsed_s if sd else self.time_s - elapsed_s
        return TaskEstimate(left_s, GUESSED, GUESSED)

    @property
    def longest_s(self) -> float:
        """Time that hardly any run exceeds: the least a time limit has to allow."""
        return self.quantile(_LONGEST)

    def quantile(self, share: float) -> float:
        """Time in seconds that ``share`` of the cases stay below.

        >>> round(TaskEstimate(100.0, 0.1, 0.1).quantile(0.95), 1)
        117.9
        """
        z = NormalDist().inv_cdf(share)
        return self.time_s * exp(z * (self.up if z > 0 else self.down))


@dataclass(frozen=True, slots=True)
class PlaceSpeed:
    """Speed of a place against the one that run times are of."""

    idle: float = 1.0
    share: float = 1.0  #: of its CPUs that a new process gets now

    @property
    def now(self) -> float:
        """Speed for a process that begins now."""
        return self.share * self.idle


@dataclass(frozen=True, slots=True)
class RunFactors:
    """By which runs of one group took longer than estimated, weighed by how much that says."""

    idle: float = 1.0  #: than they take on idle nodes
    now: float = 1.0  #: than between that and what they take with what was measured before


def of_interval(
    time_s: float, low_s: float, high_s: float, level: float, common: float = 0.0, group: str = ""
) -> TaskEstimate:
    """Estimate whose interval at ``level`` is from ``low_s`` to ``high_s``."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    down = log(time_s / low_s) / z
    up = log(high_s / time_s) / z
    return TaskEstimate(time_s, max(down, 0.0), max(up, 0.0), common, group)


@dataclass(frozen=True, slots=True)
class TransferPath:
    """Way over which a task reads a file in place; None: nobody gave it and nothing measured it."""

    size_bytes: float
    bandwidth_bytes_per_s: float | None
    latency_s: float | None
    link: str = ""  #: name of the way

    @property
    def stall_s(self) -> float:
        """Time that reading takes: latency / request + 1 / bandwidth for each byte (o_n)."""
        each_byte_s = 1 / (self.bandwidth_bytes_per_s or inf)
        return self.size_bytes * ((self.latency_s or 0.0) / _REQUEST_BYTES + each_byte_s)


def with_remote(local: TaskEstimate, remote: Sequence[TransferPath]) -> TaskEstimate:
    """Run time of a task whose inputs are read once over the network.

    Each byte occupies the network for the latency of its request and for its share of the
    bandwidth, o_n = latency / request + 1 / bandwidth, and nothing of that is hidden behind
    computing: what is expected where no occupancy model was learned.
    """
    if not remote:
        return local
    stall_s = sum(path.stall_s for path in remote)
    total_s = local.time_s + stall_s
    share = stall_s / total_s
    return replace(
        local,
        time_s=total_s,
        idle_s=local.undisturbed_s,
        down=(1 - share) * local.down + share * GUESSED,
        up=(1 - share) * local.up + share * GUESSED,
        common=(1 - share) * local.common,
    )


def of_run_times(run_times_s: Mapping[int, float], nodes: int, group: str) -> TaskEstimate | None:
    """Run time from the workflow's own table; between two counts log time is linear in log nodes.

    >>> round(of_run_times({1: 100.0, 4: 25.0}, 2, "").time_s)
    50
    """
    if nodes in run_times_s:
        return TaskEstimate(run_times_s[nodes], GIVEN, GIVEN, GIVEN / 2, group)
    low = max((n for n in run_times_s if n < nodes), default=None)
    high = min((n for n in run_times_s if n > nodes), default=None)
    if low is None or high is None:
        return None
    share = log(nodes / low) / log(high / low)
    mixed = (1 - share) * log(run_times_s[low]) + share * log(run_times_s[high])
    return TaskEstimate(exp(mixed), GIVEN, GIVEN, GIVEN / 2, group)


#: What a plan chose of them: names and values, memory in bytes.
Resources = tuple[tuple[str, float], ...]


class SampleText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One run in a file of samples: the attributes of what it ran on, and U, T and D."""

    attributes: dict[str, float]
    utilisation: float
    time_s: float
    data_bytes: float
    network_share: float = 0.0

    def sample(self) -> Sample:
        """Give it as a sample. Raises ValueError: a value is outside its range."""
        from predictor.occupancy.application_model import Sample, occupancies  # noqa: PLC0415

        measured = occupancies(
            self.utilisation, self.time_s, self.data_bytes, network_share=self.network_share
        )
        return Sample(self.attributes, measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRunTimes:
    """Run times of tasks, each from its best source.

    In this order: an occupancy model of the runs in its file of samples, the times that the
    workflow gives, the prediction table of its application; of one that never ran a guess.

    Where the workflow gives a place no speed, a table's part for the node type there counts, or
    else the speed that was measured.

    tables, fits: by task.
    near: latency and bandwidth between a place and its own storage, for occupancy models that
        depend on them.
    said: attributes that each task sets itself: what it reads, and what its options ask for.
    speeds, types: measured speed, and node type where there is one only, of places.
    room: most CPUs and bytes of memory that a node of each place has, where that is known.
    """

    tables: Mapping[str, PredictionTable]
    fits: Mapping[str, OccupancyFit]
    near: Mapping[str, float]
    speeds: Mapping[str, PlaceSpeed] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    room: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    _refused: dict[tuple[str, str], str] = field(default_factory=dict, compare=False, repr=False)

    def refused(self, task: Task, place: PlanSite) -> str:
        """Say why a run time at a place was refused; empty where none was."""
        return self._refused.get((task.name, place.name), "")

    def counts(self, task: Task, place: PlanSite) -> Sequence[int]:
        """Node counts with a run time, in rising order."""
        low = max(task.low, place.low)
        high = min(task.high or 2**20, place.high or 2**20)
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

    def resources(self, task: Task, place: PlanSite) -> list[Resources]:
        """List the CPUs and memory to choose from, as runs of ``nimo lab learn`` had them.

        Neither where place or task say them, nor in history, where no run tells what it asked for.
        """
        if task.name not in self.fits or task.samples == HISTORY:
            return [()]
        bounds = self.fits[task.name].support.bounds
        free = bounds.keys() - self.said.get(task.name, {}).keys() - place.attributes.keys()
        levels = []
        for name, (unit, _) in RESOURCES.items():
            if name in free:
                most = self.room.get(place.name, {}).get(name, inf)
                low, high = (min(bound, most) for bound in bounds[name])
                steps = (low * (high / low) ** (i / (_LEVELS - 1)) for i in range(_LEVELS))
                levels.append(sorted({(name, unit * max(round(one / unit), 1)) for one in steps}))
        return list(product(*levels))

    def run(
        self,
        task: Task,
        place: PlanSite,
        nodes: int,
        remote: Sequence[TransferPath],
        resources: Resources = (),
    ) -> TaskEstimate | None:
        """Run time with these inputs read over the network; None: unknown, or refused."""
        if task.name in self.fits:
            chosen = {NODES: float(nodes), **dict(resources)}
            return self._by_occupancies(task, place, chosen, remote)
        group = task.application or task.name
        if task.run_times_s:
            local = of_run_times(task.run_times_s, nodes, group)
        else:
            local = _of_table(self._table(task, place), nodes, group)
        if local is None or self._lacks(task, place, remote, (BANDWIDTH,)):
            return None
        return with_remote(local.at_speed(self._speed(task, place)), remote)

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
            return job_table.for_type(table, self.types[place.name])
        return table

    def _typed(self, table: PredictionTable | None, place: PlanSite) -> TypeGuard[PredictionTable]:
        """Whether a table has a curve for the node type of a place."""
        if table is None or place.speed is not None:
            return False
        node_types = {table.node_type, *(one.node_type for one in table.by_type)} - {""}
        return self.types.get(place.name) in node_types

    def _speed(self, task: Task, place: PlanSite) -> PlaceSpeed:
        if place.speed is not None:
            return PlaceSpeed(place.speed)
        if not task.run_times_s and self._typed(self.tables.get(task.name), place):
            return PlaceSpeed()
        return self.speeds.get(place.name, PlaceSpeed())

    def _by_occupancies(
        self,
        task: Task,
        place: PlanSite,
        chosen: Mapping[str, float],
        remote: Sequence[TransferPath],
    ) -> TaskEstimate | None:
        fit = self.fits[task.name]
        if self._lacks(
            task, place, remote, [one for one in self.near if one in fit.support.bounds]
        ):
            return None
        said = self.said.get(task.name, {})
        attributes = {**self.near, **said, **place.attributes, **chosen}
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
        estimate = of_interval(made.time_s, made.low_s, made.high_s, made.level, 0.0, task.name)
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
    from predictor.occupancy.application_model import OccupancyModel  # noqa: PLC0415

    return OccupancyModel().fit(samples)


def _fit(path: FilePath) -> OccupancyFit:
    from predictor.occupancy.application_model import OccupancyModel  # noqa: PLC0415
    from slurm_plugin.experiments.learn import proposers  # noqa: PLC0415

    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    document = load_json(data, name=str(path))
    try:
        if isinstance(document, dict):
            journal = convert(document, JournalFile, name=str(path))
            return proposers.fit(journal.trials, journal.model)
        rows = convert(document, tuple[SampleText, ...], name=str(path))
        samples = [_sample(row, f"[{index}]") for index, row in enumerate(rows)]
        return OccupancyModel().fit(samples)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _sample(row: SampleText, place: str) -> Sample:
    """Give a run of a file. Raises ValueError: a value is outside its range; it names the place."""
    try:
        return row.sample()
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _of_table(table: PredictionTable | None, nodes: int, group: str) -> TaskEstimate | None:
    if table is not None and table.observed:
        # Runs on other counts may have been other problems: one job's times are those of the usual
        # count, and what a change of it does.
        table = for_request(table, max((one.repeats, one.nodes) for one in table.observed)[1])
    if table is None or not tables.covers(table, nodes):
        return None
    one = tables.at(table, nodes)
    estimate = of_interval(one.time_s, one.low_s, one.high_s, one.level, one.curve_sd, group)
    if tables.verdict_at(table, nodes) is Verdict.RELIABLE:
        return estimate
    why = table.problems[0].text if table.problems else "its prediction is doubtful"
    if table.neighbours is not None:
        from slurm_plugin.decision.messages import guessed_from  # noqa: PLC0415 - it is seldom a guess

        why = f"it never ran: a guess from {guessed_from(table)}"
    return replace(estimate, doubt=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Times of copies: by past transfers, else by the bandwidth that the workflow gives, or probes.

    ``measured`` predicts the time of a transfer between two ends, as `link_ends` names them.
    """

    flow: Workflow
    measured: Callable[[float, str, str], TransferTime]

    def copy(self, size_bytes: float, source: str, target: str) -> TaskEstimate | None:
        """Time of a copy between two storages; None: unknown."""
        link = self.flow.links[source, target]
        made = self.measured(size_bytes, *link_ends(self.flow, source, target))
        if link.bandwidth_bytes_per_s is not None and not _known(made):
            time_s = (link.latency_s or 0.0) + size_bytes / link.bandwidth_bytes_per_s
            return TaskEstimate(max(time_s, 1e-3), GUESSED, GUESSED)
        if made.verdict is Verdict.REFUSED:
            return None
        if not made.time_s > 0:
            return TaskEstimate(1e-3)
        return of_interval(made.time_s, made.low_s, made.high_s, LEVEL)


def _known(made: TransferTime) -> bool:
    """Whether past transfers of like size say how long one takes, and not only probes."""
    return made.transfers > 0 and "other_sizes" not in (one.name for one in made.problems)
