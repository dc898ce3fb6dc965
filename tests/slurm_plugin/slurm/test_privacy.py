"""Whose jobs a user may see, by what Slurm's commands print."""

import os
import pwd
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.slurm_conf import PrivateDataRules, visibility
from tests.cluster import SlurmCluster

CONFIG = "PrivateData             = {}\nSlurmUser               = slurm(64030)\n"


def visible(uid: int, private: str, user: str = "", owner: int | None = None) -> PrivateDataRules:
    def run(argv: Sequence[str]) -> str:
        return CONFIG.format(private) if argv[0] == "scontrol" else user

    return visibility(uid, "ada", owner_uid=owner, run=run)


@pytest.mark.parametrize(
    ("uid", "private", "user"),
    [
        (0, "jobs", ""),
        (64030, "jobs", ""),
        (1001, "none", ""),
        (1001, "accounts,nodes", ""),
        (1001, "jobs", "Operator|\n"),
        (1001, "all", "Administrator|\n"),
    ],
)
def test_who_sees_all(uid, private, user):
    assert visible(uid, private, user) == PrivateDataRules()


def test_who_owns_the_store_sees_all():
    assert visible(1001, "jobs", "None|\n", owner=1001) == PrivateDataRules()
    assert visible(1001, "jobs", "None|\n", owner=1002).only_user == "ada"


@pytest.mark.parametrize("private", ["jobs", "usage", "users,all"])
def test_others_see_their_own_and_those_they_coordinate(private):
    result = visible(1001, private, "None|bio,hpc\n")
    assert (result.only_user, result.accounts) == ("ada", ("bio", "hpc"))
    assert visible(1001, private, "").only_user == "ada"


def test_without_an_answer_only_ones_own_are_visible():
    def run(argv: Sequence[str]) -> str:
        raise SlurmError("scontrol: not found on PATH")

    result = visibility(1001, "ada", owner_uid=None, run=run)
    assert result.only_user == "ada"
    assert "scontrol: not found" in result.why


@pytest.mark.parametrize("private", ["none", "jobs"])
def test_a_site_may_hide_more_than_slurm_does(private):
    def run(argv: Sequence[str]) -> str:
        return CONFIG.format(private) if argv[0] == "scontrol" else "None|bio\n"

    result = visibility(1001, "ada", owner_uid=None, run=run, own_only=True)
    assert (result.only_user, result.accounts) == ("ada", ("bio",))
    assert visibility(64030, "slurm", owner_uid=None, run=run, own_only=True) == PrivateDataRules()


def test_whom_only_a_name_tells_is_neither_root_nor_owner():
    def run(argv: Sequence[str]) -> str:
        raise SlurmError("scontrol: not found on PATH")

    for owner in (None, 0, 1001):
        assert visibility(-1, "root", owner_uid=owner, run=run).only_user == "root"


@pytest.fixture
def physics(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A real slurmdbd that has nobody as a user of an account, and Slurm's commands on PATH."""
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    slurm.run("sacctmgr", "-i", "add", "account", "physics")
    slurm.run("sacctmgr", "-i", "add", "user", "nobody", "account=physics")
    yield slurm
    slurm.run("sacctmgr", "-i", "delete", "user", "nobody")
    slurm.run("sacctmgr", "-i", "delete", "account", "physics")


def test_slurmdbd_tells_who_coordinates_and_who_is_above(physics):
    def reported() -> PrivateDataRules:
        run = partial(commands.run, timeout_s=60)
        return visibility(
            pwd.getpwnam("nobody").pw_uid, "nobody", owner_uid=0, run=run, own_only=True
        )

    assert (reported().only_user, reported().accounts) == ("nobody", ())
    physics.run("sacctmgr", "-i", "add", "coordinator", "account=physics", "names=nobody")
    assert (reported().only_user, reported().accounts) == ("nobody", ("physics",))
    physics.run("sacctmgr", "-i", "modify", "user", "nobody", "set", "adminlevel=operator")
    assert reported() == PrivateDataRules()
