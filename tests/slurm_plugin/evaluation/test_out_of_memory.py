"""Applications keep their memory once a run ended for lack of it; jobs may run again."""

import itertools
import os
import pwd
import re
from dataclasses import replace
from functools import partial

import pytest

from predictor.memory import Memory, MemoryNeed
from predictor.refit import row_of
from predictor.stored_table import decode
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.evaluation import feedback
from tests.processes import wait_until
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import AT_S, decision

MIB, UID = 2**20, 1001
RECORDED = MemoryNeed(9, 9, 9, 0.0, (Memory(4, 100 * MIB),), (Memory(4, 800 * MIB),))
NUMBER = itertools.count(1)


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as opened:
        opened.fits.replace([row_of(table(level="line", key="ab12", label="wrf", need=RECORDED))])
        yield opened


def states(slurm, task):
    shown = slurm.run("scontrol", "-o", "show", "job", f"1_{task}").stdout
    return re.search(r"JobState=(\w+)", shown)[1]


class Slurm:
    """Stands for scontrol and sbatch: shows jobs, and records the commands run as their user."""

    def __init__(self, shown, *, refused="", root=True):
        self.shown, self.refused, self.root, self.commands = shown, refused, root, []

    def may_run_as(self, uid):
        return self.root and uid == UID

    def run(self, argv, *, timeout_s, uid=None):
        assert timeout_s > 0
        if isinstance(self.shown, Exception):
            raise self.shown
        assert uid == (None if "show" in argv else UID)
        self.commands.append(argv[1:])
        if self.refused in argv:
            raise SlurmError("scontrol: QOSMaxMemoryPerJob")
        return self.shown if "show" in argv else ""


#: As scontrol writes a job; the last task of an array has its id.
LINE = (
    "JobId={0} {more}JobName=wrf UserId=root(0) JobState=OUT_OF_MEMORY {memory} "
    "AdminComment=NIMO1:{0:012x}:"
)


def ended(store, state=JobState.OUT_OF_MEMORY, *, given=600, asked=800, uid=UID, **fields):
    number = next(NUMBER)
    name, at_s = f"wrf{number}", AT_S + 10 * number
    one = decision(decision_id=f"{number:012x}", at_s=at_s, name=name)
    store.decisions.add([replace(one, uid=uid, given_mem_mib=given, asked_mem_mib=asked)])
    made = {
        "job_id": number, "uid": uid, "submit_s": int(at_s), "name": name, "nodes": 4, "cpus": 8,
        "state": state, "elapsed_s": 5.0, "end_s": int(at_s) + 5, "work_dir": "/home/ada",
        "req_mem_bytes": 4 * given * MIB, "admin_comment": f"NIMO1:{number:012x}:",
    }  # fmt: skip
    store.runs.add([run(**made | fields)])
    store.decisions.join_outcomes()
    return number


def update(store, *, requeue=False):
    return feedback.keep_memory(store, requeue=requeue, now_s=AT_S + 10 * next(NUMBER))


def need(store):
    (row,) = store.fits.find([(KeyLevel.LINE, "ab12")])
    return decode(row.payload).need


def test_an_application_keeps_its_memory_from_then_on(store):
    ended(store, JobState.COMPLETED)
    assert update(store) == []
    assert need(store) == RECORDED
    version = store.fits.version()
    ended(store)
    assert update(store) == ["wrf: keeps its memory, as a run ended for lack of it"]
    assert (need(store).runs, store.fits.version()) == (0, version + 1)
    assert update(store) == []


def test_what_a_fit_has_learned_from_says_nothing_new(store):
    number = ended(store)
    recorded = replace(RECORDED, short_s=AT_S + 10.0 * number + 5)
    store.fits.replace([row_of(table(level="line", key="ab12", label="wrf", need=recorded))])
    assert update(store) == []
    assert need(store) == recorded


@pytest.mark.parametrize(
    ("words", "memory"),
    [("MinMemoryNode=600M", "MinMemoryNode=800"), ("MinMemoryCPU=300M", "MinMemoryCPU=400")],
)
def test_a_job_runs_again_with_what_it_asked_for(store, monkeypatch, words, memory):
    number = ended(store)
    slurm = Slurm(LINE.format(number, more="", memory=words))
    monkeypatch.setattr(feedback, "commands", slurm)
    lines = update(store, requeue=True)
    assert f"job {number}: runs again with --mem=800M, which it asked for" in lines
    job = str(number)
    assert slurm.commands[2:] == [
        ["requeuehold", job],
        ["update", f"JobId={job}", memory],
        ["release", job],
    ]


@pytest.mark.parametrize("words", ["MinMemoryNode=500M", "MinMemoryNode=0", "MinMemoryCPU=250M"])
def test_a_job_whose_user_has_changed_its_memory_is_left_alone(store, monkeypatch, words):
    slurm = Slurm(LINE.format(ended(store), more="", memory=words))
    monkeypatch.setattr(feedback, "commands", slurm)
    assert not any("runs again" in line for line in update(store, requeue=True))
    assert len(slurm.commands) == 1


def test_of_an_array_that_task_alone_runs_again(store, monkeypatch):
    number = ended(store, array_job_id=1, array_task_id=3)
    more, memory = f"ArrayJobId={number} ArrayTaskId=", "MinMemoryNode=600M"
    others = [LINE.format(900 + n, more=f"{more}{n} ", memory=memory) for n in range(3)]
    running = LINE.replace("OUT_OF_MEMORY", "RUNNING").format(901, more=f"{more}1 ", memory=memory)
    last = LINE.format(number, more=f"{more}3 ", memory=memory)
    slurm = Slurm("\n".join([running, *others, last]))
    monkeypatch.setattr(feedback, "commands", slurm)
    assert f"job {number}_3: runs again with --mem=800M, which it asked for" in update(
        store, requeue=True
    )
    name = f"{number}_3"
    assert [argv[-2:] for argv in slurm.commands[2:]] == [
        ["requeuehold", name],
        [f"JobId={name}", "MinMemoryNode=800"],
        ["release", name],
    ]


@pytest.mark.parametrize(
    ("refused", "state", "commands"),
    [("--test-only", "has ended for lack of memory", 2), ("update", "is held", 4)],
)
def test_what_slurm_does_not_give_the_user_is_left(store, monkeypatch, refused, state, commands):
    shown = LINE.format(ended(store), more="", memory="MinMemoryNode=600M")
    slurm = Slurm(shown, refused=refused)
    monkeypatch.setattr(feedback, "commands", slurm)
    assert f"{state}, Slurm does not give its user 800M now" in update(store, requeue=True)[-1]
    assert len(slurm.commands) == commands
    assert not any("release" in argv for argv in slurm.commands)


def test_who_cannot_act_as_the_user_leaves_the_job_alone(store, monkeypatch):
    shown = LINE.format(ended(store), more="", memory="MinMemoryNode=600M")
    slurm = Slurm(shown, root=False)
    monkeypatch.setattr(feedback, "commands", slurm)
    assert "only root can let it ask for 800M again" in update(store, requeue=True)[-1]
    assert len(slurm.commands) == 1


@pytest.mark.parametrize(
    "shown",
    [
        "JobId={0} JobState=RUNNING AdminComment=NIMO1:{0:012x}:",
        "JobId={0} JobState=COMPLETED AdminComment=NIMO1:{0:012x}:",
        "JobId={0} JobState=OUT_OF_MEMORY AdminComment=NIMO1:ffffffffffff:",  # of another cluster
        "JobId={0} ArrayJobId={0} ArrayTaskId=1-3 JobState=OUT_OF_MEMORY NIMO1:{0:012x}:",
        "JobId={0} HetJobId={0} JobState=OUT_OF_MEMORY AdminComment=NIMO1:{0:012x}:",
        "",
    ],
)
def test_other_jobs_are_left_alone(store, monkeypatch, shown):
    number = ended(store)
    slurm = Slurm(shown.format(number))
    monkeypatch.setattr(feedback, "commands", slurm)
    assert not any("again" in line for line in update(store, requeue=True))
    assert [argv[0] for argv in slurm.commands] == ["-o"]


def test_a_job_that_had_what_it_asked_for_does_not_run_again(store, monkeypatch):
    ended(store, req_mem_bytes=4 * 800 * MIB)
    slurm = Slurm("")
    monkeypatch.setattr(feedback, "commands", slurm)
    update(store, requeue=True)
    assert slurm.commands == []


def test_without_slurm_it_is_logged(store, monkeypatch, caplog):
    number = ended(store)
    monkeypatch.setattr(feedback, "commands", Slurm(SlurmError("scontrol: gone")))
    update(store, requeue=True)
    assert f"job {number} cannot run again: scontrol: gone" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as somebody else")
def test_a_task_gets_what_slurm_gives_its_user(store, slurm_cluster, monkeypatch):
    conf = ["SelectTypeParameters=CR_Core_Memory", "AccountingStorageEnforce=limits"]
    with slurm_cluster(nodes=1, cpus=4, conf=conf) as slurm:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, slurm.env[name])
        for words in ("add account proj", "add user games account=proj"):
            slurm.run("sacctmgr", "-i", *words.split())
        task = {"job_id": 1, "array_job_id": 1, "array_task_id": 3, "nodes": 1, "cpus": 1}
        task |= {"uid": pwd.getpwnam("games").pw_uid, "req_mem_bytes": 20 * MIB}
        note = f"--comment=NIMO1:{ended(store, given=20, asked=40, **task):012x}:"
        tasks = "sleep $((SLURM_ARRAY_TASK_ID == 2 ? 300 : 0)); exit $SLURM_ARRAY_TASK_ID"
        argv = ("-Jwrf", "-N1", "--mem=20M", "--array=0-3", note, f"--wrap={tasks}")
        assert slurm.sbatch(*argv, user="games") == 1
        state = partial(states, slurm)
        wait_until(lambda: (state(3), state(2)) == ("FAILED", "RUNNING"), what="tasks")
        limit = "modify qos normal set MaxTRESPerJob=mem=30M Flags=DenyOnLimit"
        slurm.run("sacctmgr", "-i", *limit.split())
        limits = partial(slurm.run, "scontrol", "show", "assoc_mgr", "flags=qos")
        wait_until(lambda: "MaxTRESPJ=mem=30" in limits().stdout, what="the limit")
        lines = update(store, requeue=True)
        assert "has ended for lack of memory, Slurm does not give its user 40M now" in lines[-1]
        assert (state(3), state(2)) == ("FAILED", "RUNNING")
        slurm.run("sacctmgr", "-i", *limit.replace("30M", "50M").split())
        wait_until(lambda: "MaxTRESPJ=mem=50" in limits().stdout, what="the limit")
        assert "job 1_3: runs again with --mem=40M" in update(store, requeue=True)[-1]
        assert (state(3), state(2), state(1)) == ("PENDING", "RUNNING", "FAILED")
