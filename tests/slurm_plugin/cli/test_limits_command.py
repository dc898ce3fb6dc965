"""``nimo limits``: who is planned with less, and taking that back."""

from functools import partial

import pytest

from slurm_plugin.cli import nimo
from slurm_plugin.slurm import commands
from tests.slurm_plugin.slurm.test_soft_limits import Slurm, record, running


def answered(slurm, argv, *, timeout_s):
    assert timeout_s > 0
    return slurm(argv)


@pytest.fixture
def slurm(monkeypatch):
    made = Slurm(record(7), record(8, least=0), running(9), running(11, limit=6))
    monkeypatch.setattr(commands, "run", partial(answered, made))
    return made


def test_it_lists_who_is_planned_with_less_and_who_runs_with_less(slurm, capsys):
    assert nimo.main(["limits"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[0], row[3]) for row in rows] == [("7", "waits"), ("9", "runs"), ("11", "shorter")]


def test_its_table_is_chosen_and_parsed_as_all_others(slurm, capsys):
    assert nimo.main(["limits", "-P", "-o", "job,state,planned_s,limit_s"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head == "job|state|planned|limit"
    assert first == "7|waits|300|3600"
    assert nimo.main(["limits", "-n", "-o", "job"]) == 0
    assert capsys.readouterr().out.split() == ["7", "9", "11"]


def test_restoring_takes_plans_back_and_names_the_running_jobs_that_a_person_may_raise(
    slurm, capsys
):
    assert nimo.main(["limits", "--restore"]) == 0
    assert slurm.updates == [("jobid=7", "timemin=0")]
    assert capsys.readouterr().out.splitlines() == [
        "timemin=0: 7",
        "job 11 runs with 6 min of the 60 min it had at submission; if backfill cut it: "
        "scontrol update jobid=11 timelimit=60",
    ]


def test_a_plan_that_stays_is_an_error(slurm, capsys):
    slurm.deaf = True
    assert nimo.main(["limits", "--restore"]) == 1
    capsys.readouterr()
