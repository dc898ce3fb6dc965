"""The other clusters of one slurmdbd: looked at when asked about, within 2 s, by their users."""

import threading
import time

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.slurm import other_clusters
from slurm_plugin.slurm.other_clusters import OtherClusters, run_on

CONFIG = "ClusterName = {0}\nSLURM_VERSION = 22.05.8\nAccountingStorageEnforce = {1}\n"
LISTED = "oak|10.0.0.1\npine|10.0.0.2\ngone|\n"
PARTITION = "PartitionName=batch State=UP Default=YES TotalNodes=1 Nodes=n1\n"


class Slurm:
    """Commands of three clusters, of which one has ended."""

    def __init__(self):
        self.asked, self.now_s = [], 1000.0
        self.listed, self.enforced, self.users = LISTED, "none", ""
        self.config = CONFIG
        self.failing = ""
        self.hold = threading.Event()
        self.hold.set()

    def run(self, argv, *, timeout_s):
        assert timeout_s <= 5.0
        self.asked.append(" ".join(argv))
        if argv[0] == "sacctmgr":
            return self.users if "assoc" in argv else self.listed
        assert argv[1] == "--clusters=pine"
        self.hold.wait(10)
        if self.failing:
            raise SlurmError(self.failing)
        if "config" in argv:
            return self.config.format("pine", self.enforced)
        return PARTITION if "partition" in argv else ""


def seen_by(slurm, run):
    def add_forecasts(_):
        return lambda look, *_: look

    return OtherClusters(add_forecasts, how=Snapshot(), run=run, clock=lambda: slurm.now_s)


@pytest.fixture
def slurm():
    return Slurm()


@pytest.fixture
def others(slurm):
    made = OtherClusters(
        lambda _: lambda look, *_: look, how=Snapshot(), run=slurm.run, clock=lambda: slurm.now_s
    )
    yield made
    slurm.hold.set()
    made.close()


def test_the_clusters_beside_the_own_one_are_looked_at_and_no_others(slurm, others):
    found = others.views("oak", "ann")
    assert list(found.views) == ["pine"]
    assert found.silent == {}
    assert found.views["pine"].default_partition == "batch"
    assert not any("gone" in one or "oak" in one for one in slurm.asked)


def test_a_new_view_is_not_renewed_at_once(slurm, others):
    first = others.views("oak", "ann").views["pine"]
    count = len(slurm.asked)
    assert others.views("oak", "ann").views["pine"] is first
    assert len(slurm.asked) == count
    slurm.now_s += 61.0
    assert others.views("oak", "ann").views["pine"] is not first


def test_a_cluster_that_hangs_is_waited_for_two_seconds_at_most(slurm, others, monkeypatch):
    monkeypatch.setattr(other_clusters, "_WAIT_S", 0.2)
    others.views("oak", "ann")
    slurm.now_s += 61.0
    slurm.hold.clear()
    assert others.views("oak", "ann").silent == {"pine": "no answer yet"}
    asked = len(slurm.asked)
    # One look is under way, and nobody waits for it once more.
    monkeypatch.setattr(other_clusters, "wait", lambda _, timeout: waited.append(timeout))
    waited = []
    assert others.views("oak", "ann").silent == {"pine": "no answer yet"}
    assert (len(slurm.asked), waited) == (asked, [0.0])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("scontrol: no answer within 5 s", "no answer"),
        ("scontrol: error: 'pine' can't be reached now, or it is an invalid entry", "no answer"),
        ("scontrol: error: protocol", "its answers cannot be read"),
    ],
)
def test_a_cluster_that_fails_is_left_alone_for_a_minute(slurm, others, said, why):
    slurm.failing = said
    assert others.views("oak", "ann") == ({}, {"pine": why})
    asked = len(slurm.asked)
    slurm.now_s += 30.0
    slurm.failing = ""
    assert others.views("oak", "ann").silent == {"pine": why}
    assert len(slurm.asked) == asked
    slurm.now_s += 31.0
    assert list(others.views("oak", "ann").views) == ["pine"]


def test_text_that_is_none_of_slurms_is_no_crash(slurm, others):
    slurm.config = "\x00{0}{1}"
    slurm.listed = "|||\n\n\x1f\npine|x\n"
    assert others.views("oak", "ann").silent == {"pine": "its answers cannot be read"}


def test_without_slurmdbd_there_are_none(slurm, others):
    def refused(argv, *, timeout_s):
        raise SlurmError("sacctmgr: error: no slurmdbd")

    none = OtherClusters(
        lambda _: lambda look, *_: look, how=Snapshot(), run=refused, clock=lambda: slurm.now_s
    )
    assert none.views("oak", "ann") == ({}, {})


def test_a_cluster_that_wants_associations_is_for_its_users(slurm, others):
    slurm.enforced, slurm.users = "associations,qos", "\nbob\nbob\n"
    assert others.views("oak", "ann") == ({}, {})
    assert list(others.views("oak", "bob").views) == ["pine"]


def test_a_queue_that_is_hidden_says_nothing(slurm, others, monkeypatch):
    slurm.config = CONFIG + "PrivateData = jobs\nSlurmUser = slurm(64030)\n"
    monkeypatch.setattr(other_clusters, "may_update", lambda *_: False)
    assert others.views("oak", "ann").silent == {"pine": "it hides its queue from NIMO"}


def test_many_ask_at_once_and_one_look_is_made(slurm, others):
    slurm.hold.clear()
    threads = [threading.Thread(target=others.views, args=("oak", "ann")) for _ in range(8)]
    for one in threads:
        one.start()
    time.sleep(0.1)
    slurm.hold.set()
    for one in threads:
        one.join()
    assert sum("show config" in one for one in slurm.asked) == 1


def test_the_cluster_is_named_to_all_commands_but_sacctmgr():
    def asked(argv, *, timeout_s):
        return " ".join(argv)

    assert run_on("", ["squeue", "-h"], timeout_s=1.0, run=asked) == "squeue -h"
    assert run_on("pine", ["squeue", "-h"], timeout_s=1.0, run=asked) == "squeue --clusters=pine -h"
    assert run_on("pine", ["sacctmgr", "x"], timeout_s=1.0, run=asked) == "sacctmgr x"
