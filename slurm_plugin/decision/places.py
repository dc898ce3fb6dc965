"""Where a job may run, side by side: partitions, and nodes of one kind in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from msgspec.structs import replace

from predictor.types import Verdict
from sacct_ingest.text.durations import duration_text
from slurm_plugin.config.setting_types import Objective
from slurm_plugin.decision.node_options import STARTING_S
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.sizes import gpus_of, with_gpu_type
from slurm_plugin.protocol.advice_messages import Advice, PartitionRow, Row
from slurm_plugin.protocol.request_messages import AllocationRequest
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.footprint import gpu_type_of
from slurm_plugin.slurm.node_pool import NodeGroup, alternatives
from slurm_plugin.slurm.partition_view import in_each_partition, terms_of
from slurm_plugin.text.formatting import hours, percent, printable

_OF_ROW = (
    *("nodes", "time_s", "low_s", "high_s", "wait_s"),
    *("end_s", "end_low_s", "end_high_s", "node_hours", "cost", "kwh"),
)
_UNLIKE = "Its nodes are of another kind than the job's, and nobody has measured them."
#: Another place costs less where it saves such a share.
_CHEAPER = 0.05
#: Gives the type of a node that was measured; empty: none was.
TypeOf = Callable[[str], str]
Groups = Mapping[NodeGroup, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What would come of a job in one place."""

    advice: Advice
    partition: str = ""  #: empty: no partition has nodes of this type alone
    constraint: str = ""
    cluster: str = ""  #: empty: the own one
    gpus: str = ""  #: options that ask for its type of GPU
    default: bool = False  #: the job comes to this partition of another cluster without naming it
    own: bool = False  #: the job as it is asked for may run there
    unlike: bool = False  #: its nodes are of a kind of which the prediction says nothing
    untried: bool = False  #: on another cluster, whose nodes look like the own ones
    alike: bool = True  #: no run time there differs by the type of the nodes

    @property
    def row(self) -> Row | None:
        """The recommended count; without one, that which ends first."""
        if self.advice.nodes is not None:
            return next((row for row in self.advice.rows if row.recommended), None)
        ending = (row for row in self.advice.rows if not row.unbounded)
        return min(ending, key=_end_s, default=None)

    @property
    def options(self) -> str:
        """Options of sbatch that ask for the place."""
        partition = "" if self.default else self.partition
        asked = (
            ("clusters", self.cluster),
            ("partition", partition),
            ("constraint", self.constraint),
        )
        words = [f"--{name}={value}" for name, value in asked if value]
        return " ".join((*words, *filter(None, [self.gpus])))

    @property
    def gpu_type(self) -> str:
        """Type of GPU that the job does not name itself; types are upper or lower case."""
        return self.gpus.partition("=")[2].partition(":")[0]

    @property
    def known(self) -> bool:
        """Whether it may be advised: a count of runs that say something of it."""
        refused = self.advice.verdict == Verdict.REFUSED
        return self.advice.nodes is not None and not (self.unlike or refused)

    def rank(self, measure: "Measure") -> tuple[bool, float]:
        """Order the places by what the job shall be the best for; True: this cannot be told.

        A doubtful prediction counts with the late end of its interval.
        """
        row = self.row
        if row is None or not self.known:
            return True, inf
        reliable = self.advice.verdict == Verdict.RELIABLE
        never_ran = self.untried or (not reliable and not self.advice.runs)
        run_s = row.time_s if reliable else row.high_s
        if measure is Measure.END:
            # Who gains nothing stays; a cluster is not left for a few seconds.
            stays_s = STARTING_S if (self.alike or self.cluster) and not self.own else 0.0
            return never_ran, (row.wait_s or 0.0) + (inf if run_s is None else run_s) + stays_s
        more = 1 + _CHEAPER if (self.alike or self.cluster) and not self.own else 1.0
        late = inf if run_s is None else run_s / row.time_s
        return never_ran, getattr(row, measure) * more * late


def _end_s(row: Row) -> float:
    return (row.wait_s or 0.0) + row.time_s


class Measure(StrEnum):
    """What places are compared by: a field of rows, all of which have it."""

    END = "end_s"
    KWH = "kwh"
    COST = "cost"
    NODE_TIME = "node_hours"

    @property
    def word(self) -> str:
        """As users read it."""
        return {Measure.KWH: "energy", Measure.COST: "cost"}.get(self, "node time")


def measure_of(choices: Iterable[Choice], objective: Objective) -> Measure:
    """Give what the objective compares; node time where its own figure is missing in one place."""
    if objective is Objective.TURNAROUND:
        return Measure.END
    wanted = Measure.KWH if objective is Objective.ENERGY else Measure.COST
    rows = [row for choice in choices if choice.known and (row := choice.row) is not None]
    return wanted if rows and all(getattr(row, wanted) for row in rows) else Measure.NODE_TIME


def side_by_side(
    choices: Sequence[Choice], objective: Objective, asked: Advice | None = None
) -> Advice | None:
    """Put places side by side: the advice of the best one, with them all.

    The answer is never a place of another cluster: files and programs may not be there.  None where
    there are not two, or none is any better than another.

    asked: advice for a job that names its place: that stays the answer; None: it names none.
    """
    if not _worth_showing(choices):
        return None
    measure = measure_of(choices, objective)
    ranked = sorted(choices, key=lambda choice: (choice.rank(measure), not choice.own))
    best = ranked[0]
    here = next((choice for choice in ranked if not choice.cluster), None)
    sure = best.known
    if here is None:
        return None
    shown = asked or here.advice
    shown.partitions = [
        PartitionRow(
            partition=choice.partition,
            cluster=choice.cluster or shown.cluster,
            constraint=choice.constraint,
            gpu_type=choice.gpu_type,
            node_type=choice.advice.node_type,
            **{name: getattr(row, name) for name in _OF_ROW if row},
            verdict=_verdict(choice),
            runs=choice.advice.runs,
            own=choice.own,
            recommended=sure and choice is best,
            reason=_reason(choice),
        )
        for choice in choices
        for row in (None if choice.unlike else choice.row,)
    ]
    if asked is None and here.known and here.options:
        shown.directive = f"#SBATCH {here.options}\n{shown.directive}"
    if sure and (asked is not None or best.cluster):
        shown.place_text = _better(best, shown, measure)
    return shown


def _worth_showing(choices: Sequence[Choice]) -> bool:
    """Whether there are two places of which something is known, and that are not the same."""
    known = [choice for choice in choices if not choice.unlike]
    ends_s = [_end_s(row) for choice in known if (row := choice.row) is not None]
    typed = any(choice.advice.node_type or choice.gpu_type for choice in known)
    return len(known) > 1 and (
        typed or max(ends_s, default=0.0) - min(ends_s, default=0.0) >= STARTING_S
    )


def _verdict(choice: Choice) -> str:
    if choice.unlike:
        return "not measured"
    return "like nodes" if choice.untried else choice.advice.verdict


def _reason(choice: Choice) -> str:
    if choice.unlike:
        return _UNLIKE
    return "" if choice.advice.nodes else choice.advice.reason


def _better(best: Choice, asked: Advice, measure: Measure) -> str:
    """Say what the best place gives beside what is asked for; empty: nothing to speak of."""
    row = best.row
    own = Choice(advice=asked).row
    if row is None or own is None:
        return ""
    where = f"With {printable(best.options)} it would"
    later_s = _end_s(row) - _end_s(own)
    if measure is Measure.END:
        if -later_s < STARTING_S:
            return ""
        more = row.node_hours - own.node_hours
        cost = f"{hours(abs(more))} {asked.unit.word}-hours {'more' if more > 0 else 'less'}"
        return f"{where} end {duration_text(-later_s)} sooner, for {cost}."
    if not getattr(own, measure):
        measure = Measure.NODE_TIME
    price = getattr(row, measure)
    before = getattr(own, measure)
    if price > (1 - _CHEAPER) * before:
        return ""
    when = "no later"
    if abs(later_s) >= 1.0:
        when = f"{duration_text(abs(later_s))} {'later' if later_s > 0 else 'sooner'}"
    return f"{where} take {percent(1 - price / before)} less {measure.word}, and end {when}."


def jobs_in_places(
    cluster: Cluster, case: Situation, type_of: TypeOf
) -> Iterator[AllocationRequest]:
    """Give a job as it would be in each place that it may ask for, its own ones first.

    A partition with several kinds of nodes is a place for each kind that can be asked for.
    """
    job, own = case.request.resources, partitions_of(case)
    devices = gpus_of(job, job.min_nodes)[1]
    jobs = in_each_partition(cluster, job)
    for one in sorted(jobs, key=lambda one: one.partition not in own):
        part = cluster.partitions[one.partition]
        named = job.partition and one.partition in own
        groups = _groups(cluster, one, part)
        kept = not devices and all(dict(group.gres).get("gpu") for group in groups)
        too_short = job.time_limit and 60.0 * job.time_limit > (part.max_time_s or inf)
        if named or (groups and not kept and not too_short):
            for kind in _by_kind(one, groups, type_of):
                yield from _by_gpu_type(kind, _groups(cluster, kind, part))


def _groups(cluster: Cluster, job: AllocationRequest, part: Partition) -> Groups:
    """Nodes of a partition that a job may get, by what they are like."""
    if part.pool is None:
        return {}
    allowed = frozenset(part.pool.names(terms_of(cluster, job, part).share))
    groups = {
        group: [name for name in names if name in allowed]
        for group, names in part.pool.groups.items()
    }
    return {group: names for group, names in groups.items() if names}


def _by_kind(
    job: AllocationRequest, groups: Groups, type_of: TypeOf
) -> Iterator[AllocationRequest]:
    sets = alternatives(job.features) if job.features else None
    if sets and len(sets) > 1:
        for one in sets:
            if any(group.features >= one for group in groups):
                yield replace(job, features="&".join(sorted(one)))
        return
    words = () if job.features else _telling(groups, type_of)
    if words:
        yield from (replace(job, features=word) for word in words)
    else:
        yield job


def _by_gpu_type(job: AllocationRequest, groups: Groups) -> Iterator[AllocationRequest]:
    """Give a job that asks for GPUs of any type as it would be with each type that there is."""
    types = {group.gpu_type for group in groups} - {""}
    if len(types) > 1 and gpus_of(job, job.min_nodes)[1] and not gpu_type_of(job):
        yield from (with_gpu_type(job, one) for one in sorted(types))
    else:
        yield job


def _telling(groups: Groups, type_of: TypeOf) -> list[str]:
    """List a feature for each type of node that all such nodes have, and no other ones.

    Empty: there is one type, or one has no such feature.
    """
    shared: dict[str, frozenset[str]] = {}
    every: dict[str, frozenset[str]] = {}
    for group, names in groups.items():
        for node_type in set(map(type_of, names)):
            features = group.features
            shared[node_type] = shared.get(node_type, features) & features
            every[node_type] = every.get(node_type, features) | features
    if len(shared) < 2 or "" in shared:
        return []
    telling = []
    for node_type, features in shared.items():
        others = frozenset[str]().union(*(had for one, had in every.items() if one != node_type))
        telling.append(min(features - others, default=""))
    return telling if all(telling) else []


def is_own(case: Situation, job: AllocationRequest) -> bool:
    """Whether a job in one place is what the job may get as it is asked for."""
    asked = case.request.resources.features
    sets = alternatives(asked) if asked else None
    fits = (
        job.features == asked
        or not asked
        or (sets is not None and frozenset(job.features.split("&")) in sets)
    )
    return job.partition in partitions_of(case) and fits


def is_unlike(cluster: Cluster, case: Situation, job: AllocationRequest) -> bool:
    """Whether nodes that nobody measured are of another kind than those that the job would get."""
    if is_own(case, job):
        return False
    own = kinds_of_nodes(cluster, partitions_of(case))
    there = kinds_of_nodes(cluster, [job.partition])
    return not own or not there <= own


def kinds_of_nodes(cluster: Cluster, names: Iterable[str]) -> set[tuple[object, ...]]:
    """Tell what the nodes of partitions are like."""
    parts = (cluster.partitions[name] for name in names if name in cluster.partitions)
    return {
        (
            *(group.cpus, group.threads_core, group.mem_mib),
            *(group.gres, group.gpu_type, group.features),
        )
        for part in parts
        for group in (part.pool.groups if part.pool else ())
    }


def partitions_of(case: Situation) -> Sequence[str]:
    """Name the partitions that a job names, or would come to."""
    return (case.partition.name if case.partition else case.request.resources.partition).split(",")
