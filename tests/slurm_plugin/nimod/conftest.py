"""Fixtures: a nimod of the test's own."""

import tempfile
from pathlib import Path

import pytest

from tests.processes import wait_until
from tests.slurm_plugin.made import table
from tests.slurm_plugin.nimod.own_nimod import Nimod


@pytest.fixture
def nimod(tmp_path):
    made = Nimod(tmp_path)
    yield made
    made.end()


@pytest.fixture
def running(nimod):
    nimod.fit()
    nimod.start()
    nimod.see_cluster()
    wait_until(lambda: nimod.status().loaded_s is not None, what="the tables")
    return nimod


@pytest.fixture
def in_the_open():
    """A nimod in a folder that everybody can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Nimod(Path(folder))
        yield made
        made.end()


@pytest.fixture
def watched(in_the_open):
    """With a curve of alice's by its tag and of nobody's own by its name."""
    in_the_open.fit(
        table(), table(level="tag", key="cfd"), table(key="nobody/solve", owner="nobody")
    )
    in_the_open.start()
    in_the_open.see_cluster()
    return in_the_open
