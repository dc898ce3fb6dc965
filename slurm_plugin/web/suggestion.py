"""What the next job of an application should ask for, by its table alone: no queue, no request."""

from dataclasses import dataclass, replace

from predictor.change.request import for_request
from predictor.table import at, covers, level_quantile
from predictor.types import Point, PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.memory import memory_to_ask
from slurm_plugin.decision.time_limits import from_prediction
from slurm_plugin.text.formatting import duration

_FEWEST_RUNS = 10  #: for a limit that no verdict stands behind, as in advice


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Count, limit and memory of the next job; None where nothing can be said."""

    nodes: int
    unit: Unit
    time_s: float
    limit_s: float | None
    mem_mib: int | None

    @property
    def options(self) -> list[str]:
        """Options of sbatch."""
        return [
            *([f"--nodes={self.nodes}"] if self.unit is Unit.NODES else []),
            *([f"--time={duration(self.limit_s)}"] if self.limit_s else []),
            *([f"--mem={self.mem_mib}M"] if self.mem_mib else []),
        ]


def usual(table: PredictionTable) -> Point | None:
    """Find the count of most runs, the largest of these; None: there is no finished run."""
    return max(table.observed, key=lambda one: (one.repeats, one.nodes), default=None)


def job_table(table: PredictionTable, asked: int) -> PredictionTable | None:
    """Table of one job that asks for a count: what it would take on others; None: not covered."""
    return for_request(replace(table, acting={}), asked) if covers(table, asked) else None


def suggestion(table: PredictionTable, config: Config) -> Suggestion | None:
    """Suggest the usual count, with the limit and the memory of its runs.

    Other counts are advice of nimod, which sees the queue.  None: there is no finished run.
    """
    own = usual(table)
    if own is None or not covers(table, own.nodes):
        return None
    return Suggestion(
        nodes=own.nodes,
        unit=table.unit,
        time_s=at(table, own.nodes).time_s,
        limit_s=limit_s(table, own.nodes, config),
        mem_mib=memory_to_ask(table, own.nodes, margin=config.policy.memory_margin),
    )


def limit_s(table: PredictionTable, nodes: int, config: Config) -> float | None:
    """Time limit that holds runs on a count, seconds; None: too few runs to say."""
    if table.runs < _FEWEST_RUNS:
        return None
    made = from_prediction(
        table,
        [nodes],
        config.time_limit,
        own_s=None,
        own_least_s=None,
        with_least=False,
        time_s=level_quantile,
    )
    return made.limit_s if made else None
