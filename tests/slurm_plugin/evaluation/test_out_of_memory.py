"""Applications keep their memory once a run ended for lack of it; jobs may run again."""

import itertools
from dataclasses import replace

import pytest

from predictor.refit import row_of
from predictor.table import decode
from predictor.types import Memory, MemoryNeed
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.evaluation import out_of_memory
from tests.sacct_ingest.records import run
from tests.slurm_plugin.made import table
from tests.slurm_plugin.reports.rows import AT_S, decision

MIB = 2**20
RECORDED = MemoryNeed(9, 9, 9, 0.0, (Memory(4, 100 * MIB),), (Memory(4, 800 * MIB),))
NUMBER = itertools.count(1)


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as opened:
        opened.fits.replace([row_of(table(level="line", key="ab12", label="wrf", need=RECORDED))])
        yield opened


class Slurm:
    """Shows one job, and notes what it is told."""

    def __init__(self, shown):
        self.shown, self.commands = shown, []

    def run(self, argv, *, timeout_s):
        assert timeout_s > 0
        if isinstance(self.shown, Exception):
            raise self.shown
        self.commands.append(argv[1:])
        return self.shown if argv[1] == "show" else ""


def ended(store, state=JobState.OUT_OF_MEMORY, *, given=600, asked=800, **fields):
    number = next(NUMBER)
    name, at_s = f"wrf{number}", AT_S + 10 * number
    one = decision(decision_id=f"{number:012x}", at_s=at_s, name=name)
    store.decisions.add([replace(one, given_mem_mib=given, asked_mem_mib=asked)])
    made = {
        "job_id": number, "submit_s": int(at_s), "name": name, "nodes": 4, "cpus": 8,
        "state": state, "elapsed_s": 5.0, "end_s": int(at_s) + 5, "work_dir": "/home/ada",
        "req_mem_bytes": 4 * given * MIB,
    }  # fmt: skip
    store.runs.add([run(**made | fields)])
    store.decisions.join_outcomes()
    return number


def update(store, *, requeue=False):
    return out_of_memory.update(store, requeue=requeue, now_s=AT_S + 10 * next(NUMBER))


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
    shown = f"JobId={number} JobState=OUT_OF_MEMORY {words} AdminComment=NIMO1:{number:012x}:"
    slurm = Slurm(shown)
    monkeypatch.setattr(out_of_memory, "commands", slurm)
    lines = update(store, requeue=True)
    assert f"job {number}: runs again with --mem=800M, which it asked for" in lines
    job = str(number)
    assert slurm.commands[1:] == [
        ["requeuehold", job],
        ["update", f"JobId={job}", memory],
        ["release", job],
    ]


@pytest.mark.parametrize(
    "shown",
    [
        "JobState=RUNNING AdminComment=NIMO1:{0:012x}:",
        "JobState=COMPLETED AdminComment=NIMO1:{0:012x}:",
        "JobState=OUT_OF_MEMORY AdminComment=NIMO1:ffffffffffff:",  # of another cluster
        "",
    ],
)
def test_other_jobs_are_left_alone(store, monkeypatch, shown):
    number = ended(store)
    slurm = Slurm(shown.format(number))
    monkeypatch.setattr(out_of_memory, "commands", slurm)
    assert not any("again" in line for line in update(store, requeue=True))
    assert [argv[0] for argv in slurm.commands] == ["show"]


def test_a_job_that_had_what_it_asked_for_does_not_run_again(store, monkeypatch):
    ended(store, req_mem_bytes=4 * 800 * MIB)
    slurm = Slurm("")
    monkeypatch.setattr(out_of_memory, "commands", slurm)
    update(store, requeue=True)
    assert slurm.commands == []


def test_without_slurm_it_is_logged(store, monkeypatch, caplog):
    number = ended(store)
    monkeypatch.setattr(out_of_memory, "commands", Slurm(SlurmError("scontrol: gone")))
    update(store, requeue=True)
    assert f"job {number} cannot run again: scontrol: gone" in caplog.text
