"""Fixtures: a site without Slurm."""

import pytest

from tests.slurm_plugin.experiments.plan.polled_site import with_polled


@pytest.fixture
def slurm(monkeypatch):
    return with_polled(monkeypatch)
