"""What a lever is: one way of changing a job."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from predictor.prediction_table import PredictionTable
from predictor.table import covers
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.policy import Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.soft_plans import SoftPlans
from slurm_plugin.slurm.cluster_state import Cluster


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What levers look at beside the job and what was decided of it."""

    config: Config  #: the site's settings
    cluster: Cluster | None  #: latest view, which says how Slurm plans; None: there is none
    plans: SoftPlans  #: what came of limits to plan with


@dataclass(frozen=True, slots=True)
class TagWord:
    """Word of a job's tag that asks for a lever."""

    word: str
    #: What the lever takes, for those who ask in vain.
    takes: str
    #: Whether a tag asks for it, and it did nothing.
    asked_in_vain: Callable[[Tag, Situation, Decision], bool]
    #: What of its own kept it from a job whose prediction is good; empty: nothing.
    obstacle: Callable[[Situation, Decision], str]


class Lever(NamedTuple):
    """One way of changing a job, in a module of its own."""

    #: Says what it does to a job; None: nothing.  Count and limit are those that were chosen.
    adjustment: Callable[[Situation, Decision, Surroundings], Adjustment | None]
    word: TagWord | None = None  #: with which users ask for it; None: there is none


def size_of(case: Situation, decided: Decision, table: PredictionTable) -> int | None:
    """Size to look up: the chosen one, or that of the request; None: no run says anything of it."""
    if decided.chosen is not None:
        return decided.chosen.nodes
    size = case.request.asked or case.request.low
    if table.is_guess and table.nodes:  # what a user's jobs are like says the same of all sizes
        size = min(max(size, table.nodes[0]), table.nodes[-1])
    return size if covers(table, size) else None
