"""What the next job of an application should ask for, by its table alone: no queue, no request."""

from dataclasses import dataclass, replace

from predictor.change.request import for_request
from predictor.table import at, covers, level_quantile
from predictor.types import Point, PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.memory import memory_to_ask
from slurm_plugin.decision.time_limits import TimeLimits, from_prediction
from slurm_plugin.text.formatting import duration

_FEWEST_RUNS = 10  #: for a limit that no verdict stands behind, as in advice


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Count, limit and memory of the next job; 0 and None where nothing can be said.

    job: run times of one problem on other counts: what a job asked on ``nodes`` would take there.
    """

    nodes: int
    time_s: float
    limit_s: float | None
    mem_mib: int | None
    job: PredictionTable

    @property
    def options(self) -> list[str]:
        """Options of sbatch."""
        own = self.nodes if self.job.unit is Unit.NODES else 0
        return [
            *([f"--nodes={own}"] if own else []),
            *([f"--time={duration(self.limit_s)}"] if self.limit_s else []),
            *([f"--mem={self.mem_mib}M"] if self.mem_mib else []),
        ]


def usual(table: PredictionTable) -> Point | None:
    """Find the count of most runs, the largest of these; None: there is no finished run."""
    return max(table.observed, key=lambda one: (one.repeats, one.nodes), default=None)


def suggestion(table: PredictionTable, config: Config) -> Suggestion | None:
    """Suggest what to ask for: the usual count, with the limit and memory of its runs.

    Other counts are advice of nimod, which sees the queue.  None: there is no finished run.
    """
    own = usual(table)
    if own is None or not covers(table, own.nodes):
        return None
    job = for_request(replace(table, acting={}), own.nodes)
    limits: TimeLimits | None = None
    if table.runs >= _FEWEST_RUNS:
        limits = from_prediction(
            table,
            [own.nodes],
            config.time_limit,
            own_s=None,
            own_least_s=None,
            with_least=False,
            time_s=level_quantile,
        )
    return Suggestion(
        nodes=own.nodes,
        time_s=at(table, own.nodes).time_s,
        limit_s=limits.limit_s if limits else None,
        mem_mib=memory_to_ask(table, own.nodes, margin=config.policy.memory_margin),
        job=job,
    )
