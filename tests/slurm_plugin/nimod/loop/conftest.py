"""Fixtures: a loop of the test's own."""

import pytest

from tests.slurm_plugin.nimod.loop.running_loop import Running


@pytest.fixture
def running(tmp_path):
    made = Running(str(tmp_path / "s"))
    yield made
    made.end()
