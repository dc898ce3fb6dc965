"""Whose jobs a user may see, by what Slurm's commands print."""

from collections.abc import Sequence

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.privacy import Sight, sight

CONFIG = "PrivateData             = {}\nSlurmUser               = slurm(64030)\n"


def seen(uid: int, private: str, user: str = "", owner: int | None = None) -> Sight:
    def run(argv: Sequence[str]) -> str:
        return CONFIG.format(private) if argv[0] == "scontrol" else user

    return sight(uid, "ada", owner_uid=owner, run=run)


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
def test_who_sees_all(uid: int, private: str, user: str) -> None:
    assert seen(uid, private, user) == Sight()


def test_who_owns_the_store_sees_all() -> None:
    assert seen(1001, "jobs", "None|\n", owner=1001) == Sight()
    assert seen(1001, "jobs", "None|\n", owner=1002).only_user == "ada"


@pytest.mark.parametrize("private", ["jobs", "usage", "users,all"])
def test_others_see_their_own_and_those_they_coordinate(private: str) -> None:
    found = seen(1001, private, "None|bio,hpc\n")
    assert (found.only_user, found.accounts) == ("ada", ("bio", "hpc"))
    assert seen(1001, private, "").only_user == "ada"


def test_without_an_answer_only_ones_own_are_seen() -> None:
    def run(argv: Sequence[str]) -> str:
        raise SlurmError("scontrol: not found on PATH")

    found = sight(1001, "ada", owner_uid=None, run=run)
    assert found.only_user == "ada"
    assert "scontrol: not found" in found.why


@pytest.mark.parametrize(("private", "shared"), [("none", True), ("jobs", False)])
def test_a_site_may_hide_more_than_slurm_does(*, private: str, shared: bool) -> None:
    def run(argv: Sequence[str]) -> str:
        return CONFIG.format(private) if argv[0] == "scontrol" else "None|bio\n"

    found = sight(1001, "ada", owner_uid=None, run=run, own_only=True)
    assert (found.only_user, found.accounts, found.shared) == ("ada", ("bio",), shared)
    assert sight(64030, "slurm", owner_uid=None, run=run, own_only=True) == Sight()


def test_whom_only_a_name_tells_is_neither_root_nor_owner() -> None:
    def run(argv: Sequence[str]) -> str:
        raise SlurmError("scontrol: not found on PATH")

    for owner in (None, 0, 1001):
        assert sight(-1, "root", owner_uid=owner, run=run).only_user == "root"
