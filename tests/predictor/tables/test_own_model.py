"""A model that somebody adds predicts in production: recipe 2 of CONTRIBUTING."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from predictor.level.calibration import BacktestSettings
from predictor.models import base
from predictor.tables.build import tabulate
from predictor.tables.settings import TableSettings
from predictor.types import Curve, Prediction
from sacct_ingest.records import KeyLevel
from tests.predictor.tables.test_build import row

OWN = TableSettings(backtest=BacktestSettings(model="constant-work"))


@dataclass(frozen=True, slots=True)
class ConstantWorkFit:
    """The node time of the first observation, on any count."""

    node_s: float
    model: str = "constant-work"
    problems: tuple[()] = ()

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        times = [(n, self.node_s / n) for n in nodes]
        return [Prediction(n, t, t / 1.05, t * 1.05, level, 0.01) for n, t in times]


@dataclass(frozen=True, slots=True)
class ConstantWork:
    """Ten lines of a model."""

    min_points: int = 1

    def fit(self, curve: Curve) -> ConstantWorkFit:
        return ConstantWorkFit(curve.points[0].nodes * curve.points[0].time_s)


def test_a_registered_model_makes_the_tables(monkeypatch):
    # So that other tests do not meet it.
    monkeypatch.setattr(base, "MODELS", dict(base.MODELS))
    base.register("constant-work")(ConstantWork)
    rows = [
        replace(row(n, 960 / n), run_id=i, end_s=10_000 * i) for i, n in enumerate([1, 2, 4, 8] * 4)
    ]
    table = tabulate(KeyLevel.SCRIPT, "k", rows, now_s=9.0, settings=OWN)
    assert table.model == "constant-work"
    times = dict(zip(table.nodes, table.median_s, strict=True))
    assert [times[n] for n in (1, 2, 16)] == pytest.approx([960, 480, 60], rel=0.01)
    assert table.tails


def test_a_model_that_nobody_registered_is_named():
    unknown = TableSettings(backtest=BacktestSettings(model="nix"))
    with pytest.raises(base.UnknownModel, match=r"no model is called nix; there are: .*averaged"):
        tabulate(
            KeyLevel.SCRIPT, "k", [row(n, 9.0) for n in (1, 2, 4)], now_s=9.0, settings=unknown
        )
