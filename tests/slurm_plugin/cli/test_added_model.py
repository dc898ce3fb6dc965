"""Recipe 2 of CONTRIBUTING, followed to the letter: an added model predicts in production."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from predictor import models
from slurm_plugin.cli.nimo import main
from slurm_plugin.demo.sandbox import DemoSite

MODEL = '''\
"""Constant work: the node time of the first observation, on any count (no paper)."""

from dataclasses import dataclass

from predictor.models.base import register
from predictor.types import Prediction


@dataclass(frozen=True)
class ConstantWorkFit:
    node_s: float
    model: str = "constant_work"
    problems: tuple = ()

    def predict(self, nodes, level=0.9):
        times = [(n, self.node_s / n) for n in nodes]
        return [Prediction(n, t, t / 1.05, t * 1.05, level, 0.01) for n, t in times]


@register("constant_work")
@dataclass(frozen=True)
class ConstantWork:
    min_points: int = 1

    def fit(self, curve):
        return ConstantWorkFit(curve.points[0].nodes * curve.points[0].time_s)
'''


@pytest.fixture
def added(use: DemoSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoSite:
    """A copy of the learned site, with a new file beside the models and its name in nimo.yaml."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "constant_work.py").write_text(MODEL)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path / "models")])
    site = replace(use, folder=tmp_path / "site")
    shutil.copytree(use.folder, site.folder)
    # Another test's nimod answers for the site that was copied, not for this one.
    moved = {str(use.folder): str(site.folder), str(use.socket): str(tmp_path / "nimod.sock")}
    text = use.config.read_text()
    for before, after in moved.items():
        text = text.replace(before, after)
    site.config.write_text(f"{text}\nfit:\n  model: constant_work\n")
    monkeypatch.setenv("NIMO_CONFIG", str(site.config))
    monkeypatch.chdir(site.folder)
    return site


def test_an_added_model_predicts(added, capsys):
    assert main(["fit", "--workers", "1"]) == 0
    capsys.readouterr()
    assert main(["predict", "wrf-d02", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert table["model"] == "constant_work"
    times = dict(zip(table["nodes"], table["median_s"], strict=True))
    assert times[4] == pytest.approx(2 * times[8], rel=0.05)
