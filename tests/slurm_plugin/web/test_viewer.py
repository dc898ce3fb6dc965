"""Who asks: an account of this host, or whom a proxy names."""

import os
import pwd

import pytest

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.settings import Web
from slurm_plugin.web.viewer import (
    NAMED,
    Peer,
    Proxies,
    Unauthenticated,
    User,
    proxies_of,
    user_of,
)

PROXIES = Proxies("X-Forwarded-User", frozenset({33}), frozenset({"10.0.0.5"}))
ME = User(os.getuid(), pwd.getpwuid(os.getuid()).pw_name)


@pytest.mark.parametrize("peer", [Peer(uid=33), Peer(address="10.0.0.5")])
def test_a_proxy_names_the_user(peer):
    assert user_of(peer, ["ada"], PROXIES) == User(NAMED, "ada")
    assert user_of(peer, ["rooted"], PROXIES).uid == NAMED


@pytest.mark.parametrize(
    "named", [[], [""], ["root"], ["ada", "bob"], ["ada bob"], ["a/b"], ["x" * 300]]
)
def test_a_proxy_that_names_nobody_is_refused(named):
    with pytest.raises(Unauthenticated, match="sends no user in X-Forwarded-User"):
        user_of(Peer(uid=33), named, PROXIES)


def test_of_nobody_else_the_header_is_believed():
    assert user_of(Peer(uid=os.getuid()), ["ada"], PROXIES) == ME
    for stranger in (Peer(address="10.0.0.6"), Peer()):
        with pytest.raises(Unauthenticated):
            user_of(stranger, ["ada"], PROXIES)


def test_an_account_without_a_name_is_refused():
    with pytest.raises(Unauthenticated, match="has no name here"):
        user_of(Peer(uid=3_999_999_999), [], PROXIES)


def test_proxies_are_accounts_and_addresses():
    settings = Web(proxies=("www-data", "10.0.0.5", "2001:db8::5"))
    result = proxies_of(settings, {"www-data": 33}.__getitem__)
    assert (result.uids, result.addresses) == ({33}, {"10.0.0.5", "2001:db8::5"})


@pytest.mark.parametrize(
    ("one", "reported"),
    [
        ("127.0.0.1", "all users of this host come from there, too"),
        ("::1", "name the account that the proxy runs as"),
        ("nobody-here", "no such account here"),
    ],
)
def test_a_proxy_that_cannot_be_distinguished_from_users_is_an_error(one, reported):
    with pytest.raises(ConfigError, match=reported):
        proxies_of(Web(proxies=(one,)))
