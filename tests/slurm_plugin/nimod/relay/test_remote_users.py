"""What users of login nodes may ask of nimod: no more than users of its own host."""

import json
import os
import pwd

import pytest

from sacct_ingest.store import Store
from slurm_plugin.config.settings import RelaySettings
from slurm_plugin.nimod import client
from slurm_plugin.nimod.relay import relay as uplink
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask, Command
from tests.cluster.host import missing_programs
from tests.conftest import unavailable
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.made import job, table
from tests.slurm_plugin.nimod.own_nimod import SLURM
from tests.slurm_plugin.nimod.relay.credentials import munged
from tests.slurm_plugin.nimod.relay.links import HOST, asked, port
from tests.slurm_plugin.reports.rows import decision

NOBODY = pwd.getpwnam("nobody").pw_uid
GAMES = pwd.getpwnam("games").pw_uid
PRIVATE = SLURM.replace('"ClusterName = pine"', '"ClusterName = pine\nPrivateData = jobs"')
MINE = {"level": "line", "key": "a1", "label": "nobody/solve"}
THEIRS = {"level": "line", "key": "b2", "label": "games/solve"}


@pytest.fixture
def site(in_the_open, links):
    links.patch.setattr(uplink, "PENDING_S", LONGEST_WAIT_S)
    if "munged" in missing_programs():
        unavailable("not installed: munged")
    with munged(in_the_open.folder / "munge") as munge_socket:
        settings = RelaySettings(listen=f"{HOST}:{port()}", munge_socket=munge_socket)
        in_the_open.fit(table(**MINE), table(**THEIRS))
        in_the_open.settings = settings

        at = int(settings.listen.partition(":")[2])
        in_the_open.link = lambda: links.uplink(at, settings=settings)
        yield in_the_open


def begin(site, slurm=SLURM):
    site.set_slurm(slurm)
    site.start(relay=site.settings)
    site.see_cluster()
    return site.link()


def answer(link, ask, uid):
    return json.loads(asked(link, encode(ask), uid)[0])


def test_status_names_the_relays(site):
    link = begin(site)
    assert answer(link, Ask(op="status"), NOBODY)["relays"] == [os.uname().nodename]


def test_decisions_and_reloads_are_not_for_login_nodes_not_even_for_their_root(site):
    link = begin(site)
    for uid in (0, NOBODY):
        for op in ("decide", "reload"):
            reported = answer(link, Ask(op=op, job=job()), uid)
            assert (reported["ok"], reported["error"]) == (False, f"{op} is not for user {uid}")
    with Store.open(site.url) as store:
        assert list(store.decisions.with_outcomes()) == []


def test_users_ask_about_their_own_jobs_only(site):
    link = begin(site)
    own = answer(link, Ask(op="advise", job=job(user_id=None, user_name="")), NOBODY)
    assert own["ok"]
    reported = answer(link, Ask(op="advise", job=job(user_id=GAMES, user_name="games")), NOBODY)
    assert not reported["ok"]
    assert "not for user" in reported["error"]
    assert not answer(link, Ask(op="advise", job=job()), 0)["ok"], (
        "root there is a user like others"
    )


@pytest.mark.parametrize("private", [False, True])
def test_applications_are_shown_as_to_users_here(site, private):
    link = begin(site, PRIVATE if private else SLURM)
    own = answer(link, Ask(op="applications"), NOBODY)
    assert [one["label"] for one in own["tables"]] == ["nobody/solve"]
    theirs = answer(link, Ask(op="applications", name="games/solve"), NOBODY)
    assert len(theirs["tables"]) == (0 if private else 1)
    assert answer(link, Ask(op="applications"), 0)["tables"] == []
    assert "has no name" in answer(link, Ask(op="applications"), 4_000_000)["error"]


def test_a_decision_is_for_its_owner(site):
    with Store.open(site.url) as store:
        store.decisions.add([decision(decision_id=f"{1:012x}", user="games", name="solve")])
    link = begin(site)
    ask = Ask(op="explain", job_id=17, decision_id=f"{1:012x}")
    assert answer(link, ask, NOBODY)["decision"] is None


def test_a_rate_holds_over_all_relays(site):
    first = begin(site)
    second = site.link()
    reported = [
        answer(link, Ask(op="status"), NOBODY) for _ in range(40) for link in (first, second)
    ]
    refused = [one["error"] for one in reported if not one["ok"]]
    assert refused
    assert set(refused) == {f"more than 20 requests a second from user {NOBODY}; wait a moment"}
    assert answer(second, Ask(op="status"), GAMES)["ok"], "another user's rate is another"
    assert client.status(site.socket, timeout_s=60).ok


def test_a_command_is_prepared_as_its_user(site):
    link = begin(site)
    command = Command(argv=["solve.sh"], script="#!/bin/sh\n", options={"nodes": "1-8"})
    assert "error" not in answer(link, Ask(op="prepare", command=command), NOBODY)
