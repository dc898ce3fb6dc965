"""One job request with all data on it at that moment."""

from dataclasses import dataclass

import msgspec

from predictor.types import PredictionTable
from sacct_ingest.records import Identity
from slurm_plugin.config.settings import JobSettings
from slurm_plugin.decision.request import Request
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.supply import Supply


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Where a job may run: nodes of one type, and the partition that has them, if there is one."""

    node_type: str
    partition: str = ""


class DecisionContext(msgspec.Struct, frozen=True):
    """A request with all data on it at the moment of its submission."""

    identity: Identity
    site: JobSettings
    request: Request
    table: PredictionTable | None
    partition: Partition | None  #: None: unknown, or several
    supply: Supply | None  #: what it has, counted as the request is
    now_s: float
    node_type: str = ""  #: of the nodes it may get; empty: unknown, or they differ
    unready: bool = False  #: its nodes are not counted yet, so that the partition is left out
