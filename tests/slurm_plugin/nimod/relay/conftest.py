"""Fixtures of links."""

from contextlib import ExitStack

import pytest

from tests.slurm_plugin.nimod.relay.links import Links


@pytest.fixture
def links(monkeypatch):
    with ExitStack() as stack:
        yield Links(monkeypatch, stack)
