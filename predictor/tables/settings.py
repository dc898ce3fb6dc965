"""Settings of the prediction tables that a refit makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from predictor.curves.from_runs import CurveSettings
from predictor.curves.reliability import ReliabilitySettings
from predictor.level.calibration import BacktestSettings
from predictor.level.record import PooledErrors
from predictor.node_types.recognition import NodeType


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How tables are made; ``reach`` is how far beyond the largest observed count they go.

    ``tails`` are the shares of runs whose quantiles a curve's table holds, rising.  ``node_types``
    are the node types in the site's profiles.  A history reads the last ``recent`` runs and keeps
    separate figures for the last ``limits`` time limits requested in them.  ``pooled``: errors of
        all applications.  ``memory_margin`` is the ratio to what was ever needed that jobs may get.
    ``cluster_nodes`` bounds the runs that would help most; 0: unknown.  ``node_cpus``:
    most CPUs that a run had on a node, by ``cluster/partition``.  ``sized``: of an identity whose
    run times numbers explain.
    """

    confidence: float = 0.9
    tails: tuple[float, ...] = (0.9, 0.99)
    every_up_to: int = 64
    per_doubling: int = 8
    reach: int = 4
    curve: CurveSettings = field(default_factory=CurveSettings)
    reliability: ReliabilitySettings = field(default_factory=ReliabilitySettings)
    limits: int = 16
    recent: int = 1000
    memory_margin: float = 1.2
    cluster_nodes: int = 0
    backtest: BacktestSettings = field(default_factory=BacktestSettings)
    pooled: PooledErrors = field(default_factory=PooledErrors)
    node_types: Mapping[str, NodeType] = field(default_factory=dict)
    node_cpus: Mapping[str, int] = field(default_factory=dict)
    node_gpus: int = 0  #: most GPUs that a run had on a node
    sized: bool = False
