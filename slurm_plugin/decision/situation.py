"""What is decided on: one request with all data on it at the moment of its submission."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from predictor.prediction_table import PredictionTable
from sacct_ingest.records import Identity
from slurm_plugin.config.setting_types import Mode, TimeUse, Trust
from slurm_plugin.config.settings import JobSettings
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.request import Request
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.supply import Supply

_UNKNOWN = Identity("", "")
_OBSERVED = JobSettings(mode=Mode.OBSERVE, time_limit=TimeUse.OFF, trust=Trust.AUTO)


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Where a job may run: nodes of one type, and the partition that has them, if there is one."""

    node_type: str
    partition: str = ""


class PlaceOption(NamedTuple):
    """One of the places that a job names: a partition, or features."""

    name: str
    tier: int  #: jobs of a higher one go first; of features all the same
    table: PredictionTable  #: for its nodes, which are of one type


class Situation(msgspec.Struct, frozen=True):
    """What a job asks for, what its application takes, and what there is of nodes."""

    request: Request
    table: PredictionTable | None  #: of its application; None: it is not known
    supply: Supply | None  #: what its partition has, counted as the request is; None: unknown
    rules: PolicySettings
    now_s: float  #: time of the decision, seconds since the epoch
    identity: Identity = _UNKNOWN
    site: JobSettings = _OBSERVED  #: what the site wants for such jobs
    partition: Partition | None = None  #: None: unknown, or several
    node_type: str = ""  #: of the nodes it may get; empty: unknown, or they differ
    #: those between which Slurm would choose; none: nobody asks, or of one nothing is known
    places: tuple[PlaceOption, ...] = ()
    blind: Reason | None = None  #: why the nodes that it would run on are unknown
    unready: bool = False  #: its nodes are not counted yet, so that the partition is left out
