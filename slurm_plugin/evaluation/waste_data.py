"""Waste out of a store: its runs in one pass, beside what their prediction tables say."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from predictor.prediction_table import PredictionTable
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.store.rows import DecisionSelection, RunRow
from slurm_plugin.evaluation.diagnoses import share_at_knee
from slurm_plugin.evaluation.waste import NodeShape, shapes_of
from slurm_plugin.evaluation.waste_report import AtKnee, WasteReport, WasteTally
from slurm_plugin.slurm.cluster_state import RawState

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

_STEP = 2000  #: runs between two reports of progress
_MIB = 2**20
#: Share of all node-hours from which on an identity's knee is looked for.
_LEAST = 0.005
#: Gives the table that says most about a run; None: there is none.
TableOf = Callable[[RunRow], PredictionTable | None]


def collect(  # noqa: PLR0913 - each by its name
    store: "Store",
    chosen: DecisionSelection,
    *,
    table_of: TableOf,
    slurm: RawState | None = None,
    margin: float = 1.2,
    own: bool = False,
    by: str = "",
    report_progress: Callable[[int], None] = lambda _: None,
) -> WasteReport:
    """Sum up the runs of a selection.

    slurm: nodes and partitions as Slurm shows them; None: nodes have what runs had of them.
    own, by: see `WasteTally.result`.
    report_progress: called with the number of runs read since the last call.
    """
    shapes = shapes_of(store.runs.selected(chosen))
    if slurm is not None:
        shapes |= shapes_in(slurm, shapes)
    tally = WasteTally(shapes, at_knee=knee_of(table_of), margin=margin)
    for number, run in enumerate(store.runs.selected(chosen)):
        tally.add(run)
        if number % _STEP == _STEP - 1:
            report_progress(_STEP)
    report = tally.result(own=own, by=by)
    if report.limits and report.users > 1 and _is_whole_queue(chosen):
        # numpy takes its time to load.
        from slurm_plugin.evaluation.limit_waits import replay_shorter_limits  # noqa: PLC0415

        waits = replay_shorter_limits(store.runs.selected(chosen))
        report = replace(report, limits=replace(report.limits, waits=waits))
    return report


def _is_whole_queue(chosen: DecisionSelection) -> bool:
    """Whether no jobs of other users are left out, which wait in the same queues."""
    return chosen.only_user is None and not (chosen.user or chosen.account or chosen.only_accounts)


def knee_of(table_of: TableOf) -> Callable[[RunRow], AtKnee | None]:
    """Give what says of a run how much it would have taken at its knee."""
    share = lru_cache(maxsize=1024)(share_at_knee)

    def at_knee(run: RunRow) -> AtKnee | None:
        if run.nodes * run.cpus < 2:
            return None
        table = table_of(run)
        if table is None or not table.is_curve:
            return None
        size = table.unit.size_of(run)
        return share(table, size) if size else None

    return at_knee


def shapes_in(state: RawState, seen: Mapping[str, NodeShape]) -> dict[str, NodeShape]:
    """Give the shapes of partitions as Slurm shows them: of their largest nodes.

    seen: shapes by cluster and partition, of the runs; partitions that Slurm does not show are left
        out.
    """
    made = {}
    whole = {one.name: one.exclusive for one in state.partitions}
    for place, shape in seen.items():
        name = place.rpartition("/")[2]
        nodes = [node for node in state.nodes if name in node.partitions]
        if nodes:
            mem_mib = max(node.mem_mib for node in nodes)
            made[place] = NodeShape(
                cpus=max(shape.cpus, *(node.cpus for node in nodes)),
                mem_bytes=mem_mib * _MIB if mem_mib > 1 else 0,  # 1 MiB: a site tells nothing
                gpus=max(shape.gpus, *(node.gres.get("gpu", 0) for node in nodes)),
                whole=whole.get(name, False),
            )
    return made


def widest(runs: Iterable[RunRow], *, most: int) -> list[tuple[KeyLevel, str]]:
    """Give the identities that ran on several counts, those of most node-hours first.

    Only these can have run beyond a knee; each run counts for its most specific identity.
    """
    hours: dict[tuple[KeyLevel, str], float] = defaultdict(float)
    counts: dict[tuple[KeyLevel, str], set[tuple[int, int]]] = defaultdict(set)
    for run in runs:
        keys = ((level, key) for level in CURVE_LEVELS if (key := run.identity.key(level)))
        if one := next(keys, None):
            hours[one] += run.nodes * run.elapsed_s
            counts[one].add((run.nodes, run.cpus))
    least = _LEAST * sum(hours.values())
    several = [key for key, sizes in counts.items() if len(sizes) > 1 and hours[key] >= least]
    return sorted(several, key=lambda key: -hours[key])[:most]
