"""Who asks nimod, who reads the store: on login nodes nobody does the latter."""

import pytest

from slurm_plugin.cli.through_nimod import may_read_store, nimod_or_store
from slurm_plugin.config import Config, RelaySettings
from slurm_plugin.nimod.client import LinkDown, Unreachable

LOGIN_NODE = Config(relay=RelaySettings(controllers=("ctl1",)))


def unread():
    raise AssertionError("the store was read")


def asked(error):
    def ask():
        raise error

    return nimod_or_store(lambda: LOGIN_NODE, ask, unread, store_named=False)


@pytest.mark.parametrize("uid", [0, 4711])
def test_on_a_login_node_no_store_is_read_whoever_asks(monkeypatch, uid):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert not may_read_store(LOGIN_NODE)
    with pytest.raises(LinkDown, match="no link"):
        asked(LinkDown("no link"))
    with pytest.raises(Unreachable, match="systemctl start nimo-relay"):
        asked(Unreachable("nimod at /run/nimo/nimod.sock: No such file or directory"))


def test_a_store_that_is_named_is_read():
    assert nimod_or_store(lambda: LOGIN_NODE, unread, lambda: "read", store_named=True) == "read"
