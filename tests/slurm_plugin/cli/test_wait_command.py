"""``nimo wait``: what is asked, printed and returned."""

import json

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod import client
from slurm_plugin.protocol import WaitRow, Waits

NOW = 1_790_000_000.0


def row(job_id, **fields):
    given = {"user": "ada", "name": "wrf", "partition": "batch", "nodes": 4, "reason": "Priority"}
    given |= {"start_s": NOW + 600.0, "low_s": NOW + 60.0, "high_s": NOW + 7_200.0}
    return WaitRow(job_id=job_id, **given | fields)


@pytest.fixture
def asked(monkeypatch):
    """Jobs that were asked for; nimod knows of two."""
    made = []

    def waits(path, job_ids, *, timeout_s):
        made.append(list(job_ids))
        rows = [row(4711), row(4712, tasks=9, start_s=None, low_s=None, high_s=None)]
        rows = [one for one in rows if not job_ids or one.job_id in job_ids]
        missing = [one for one in job_ids if one not in (4711, 4712)]
        return Waits(made_s=NOW, recorded=120, rows=rows, missing=missing)

    monkeypatch.setattr(client, "waits", waits)
    return made


def test_all_own_jobs_with_what_slurm_plans(asked, capsys):
    assert main(["wait", "--format=job_id,start,low,high,slurm_start"]) == 0
    assert asked == [[]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["job", "starts", "not", "before", "by", "Slurm's", "start"]
    assert lines[2].split() == ["4712", "(9", "tasks)", "-", "-", "-", "-"]
    assert "120 starts recorded" in lines[-1]


def test_arrays_and_their_tasks_are_asked_for_by_the_array(asked, capsys):
    assert main(["wait", "--json", "4711", "4712_7", "4712_[1-3,9]"]) == 0
    assert asked == [[4711, 4712, 4712]]
    assert json.loads(capsys.readouterr().out)["rows"][0]["start_s"] == NOW + 600.0


def test_a_job_that_does_not_wait_is_status_3(asked, capsys):
    assert main(["wait", "99"]) == 3
    told = capsys.readouterr()
    assert told.out == "no such job is waiting\n"
    assert "job 99 is not waiting, or you may not see it" in told.err


def test_lines_for_scripts(asked, capsys):
    assert main(["wait", "-P", "4711"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert dict(zip(header.split("|"), line.split("|"), strict=True))["StartS"] == "1790000600"


@pytest.mark.parametrize("wrong", ["x", "4711.0", "4711_", "-1", "4711_1;ls"])
def test_what_is_no_job_id_is_a_usage_error(wrong, asked, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["wait", wrong])
    assert ended.value.code == 2
    assert asked == []
