"""Fixtures of links."""

from contextlib import ExitStack

import pytest

from slurm_plugin.nimod.relay import relay as uplink
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.nimod.relay.links import Links


@pytest.fixture
def links(monkeypatch):
    """Relays that wait as long as a busy machine takes."""
    monkeypatch.setattr(uplink, "ANSWER_S", LONGEST_WAIT_S)
    with ExitStack() as stack:
        yield Links(monkeypatch, stack)
