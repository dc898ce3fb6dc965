"""``nimo wait``: what is asked, printed and returned."""

import json
import re

import pytest

from slurm_plugin.cli.commands import doctor, why
from slurm_plugin.cli.commands.status import describe
from slurm_plugin.cli.nimo import main
from slurm_plugin.doctor import Finding, FindingState
from slurm_plugin.nimod import client
from slurm_plugin.protocol.query_messages import Explanation
from slurm_plugin.protocol.status_messages import Counts, Status, WaitRow, Waits
from slurm_plugin.slurm import commands
from slurm_plugin.text.formatting import short_clock
from tests.slurm_plugin.reports.rows import decision

NOW = 1_790_000_000.0


def row(job_id, **fields):
    given = {"user": "ada", "name": "wrf", "partition": "batch", "nodes": 4, "reason": "Priority"}
    given |= {"start_s": NOW + 600.0, "low_s": NOW + 60.0, "high_s": NOW + 7_200.0}
    return WaitRow(job_id=job_id, **given | fields)


@pytest.fixture
def asked(monkeypatch):
    """Jobs that were asked for; nimod knows of two."""
    made = []

    def waits(path, jobs, *, user, partition, timeout_s):
        made.append([*jobs, *filter(None, (user, partition))])
        rows = [row(4711), row(4712, tasks=9, start_s=None, low_s=None, high_s=None)]
        rows += [row(4712, array_id=4712, task=task, start_s=NOW + task) for task in range(9)]
        of = [(one.job_id, -1 if one.task is None else one.task) for one in rows]
        rows = [one for one, job in zip(rows, of, strict=True) if job in (jobs or of[:2])]
        return Waits(made_s=NOW, recorded=120, rows=rows)

    monkeypatch.setattr(client, "waits", waits)
    return made


def test_all_own_jobs_with_what_slurm_plans(asked, capsys):
    assert main(["wait", "--format=job_id,start,low,high,slurm_start"]) == 0
    assert asked == [[]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["job", "starts", "not", "before", "by", "Slurm's", "start"]
    assert lines[2].split() == ["4712", "(9", "tasks)", "-", "-", "-", "-"]
    assert "120 starts recorded" in " ".join(lines[-2:])


def test_tasks_of_an_array_are_asked_for_one_by_one(asked, capsys):
    assert main(["wait", "--json", "4711", "4712_7", "4712_[0-3:3,7%2]"]) == 0
    assert asked == [[(4711, -1), (4712, 7), (4712, 0), (4712, 3)]]
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["start_s"] == NOW + 600.0
    assert [one["task"] for one in rows] == [None, 0, 3, 7]
    assert main(["wait", "--format=job_id", "4712_0"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["4712_0"]


def test_a_task_that_has_started_is_missing_though_its_array_waits(asked, capsys):
    assert main(["wait", "4712_7", "4712_11"]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "nimo wait: job 4712_11 is not waiting, or you may not see it",
        "A job that was just submitted is seen some seconds later.",
    ]


def test_no_more_than_a_thousand_tasks_are_asked_for(asked, capsys):
    assert main(["wait", "4712_[7,1-8]"]) == 0
    with pytest.raises(SystemExit) as ended:
        main(["wait", "4712_[0-1000]"])
    assert ended.value.code == 2
    assert "give 4712" in capsys.readouterr().err
    assert len(asked) == 1


def test_jobs_of_a_user_and_in_a_partition(asked, capsys):
    assert main(["wait", "-u", "bob", "-p", "batch"]) == 0
    assert asked == [["bob", "batch"]]


def test_a_job_that_does_not_wait_is_status_3(asked, capsys):
    assert main(["wait", "99"]) == 3
    reported = capsys.readouterr()
    assert re.fullmatch("none of these jobs was waiting .* ago\n", reported.out)
    assert "job 99 is not waiting, or you may not see it" in reported.err


def test_where_no_job_waits_it_says_whose(monkeypatch, capsys):
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(made_s=NOW, recorded=0, rows=[]))
    assert main(["wait"]) == 0
    # A job that was just submitted is not in what nimod saw.
    said = capsys.readouterr().out
    assert re.match(r"none of your jobs was waiting [\d.]+ \w+ ago; -u USER", said)
    assert main(["wait", "-u", "bob"]) == 0
    assert capsys.readouterr().out.startswith("none of the jobs selected was waiting ")
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(own=True, rows=[]))
    assert main(["wait"]) == 0
    assert capsys.readouterr().out.startswith("none of your jobs is waiting; -u USER")


def test_lines_for_scripts(asked, capsys):
    assert main(["wait", "-P", "4711"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert dict(zip(header.split("|"), line.split("|"), strict=True))["starts"] == "1790000600"


@pytest.mark.parametrize(
    "wrong", ["x", "4711.0", "4711_", "-1", "4711_1;ls", "4711_[x]", "4711_[]", "4711_[1-]"]
)
def test_what_is_no_job_id_is_a_usage_error(wrong, asked, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["wait", wrong])
    assert ended.value.code == 2
    assert asked == []


SHOWN = """JobId=17 JobName=my job
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState=PENDING Reason=Priority Dependency=(null)
   RunTime=00:00:00 TimeLimit=02:00:00 TimeMin=N/A
   SubmitTime=1790000000 EligibleTime=1790000000
   NumNodes=1-8 NumCPUs=8 NumTasks=1
   WorkDir=/home/ada/run 1
"""


@pytest.fixture
def explained(monkeypatch):
    """Have nimod answer so, of the job that scontrol shows; give what it was asked."""

    def answer(explanation):
        asked = []

        def exchange(_, ask, *__):
            asked.append(ask)
            return explanation

        monkeypatch.setattr(why, "own_history_is_meant", lambda _: False)
        monkeypatch.setattr(why, "_waiting", lambda *_: [])
        monkeypatch.setattr(commands, "run", lambda *_, **__: SHOWN)
        monkeypatch.setattr(client, "exchange", exchange)
        return asked

    return answer


def test_why_asks_by_what_scontrol_shows(explained, capsys):
    asked = explained(Explanation(decision=decision()))
    # A task was decided about with its array.
    assert main(["why", "17_2"]) == 0
    (ask,) = asked
    assert (ask.job_id, ask.shown.user, ask.shown.name) == (17, "ada", "my job")
    assert (ask.shown.low_nodes, ask.shown.high_nodes, ask.shown.limit_s) == (1, 8, 7200)
    printed = capsys.readouterr().out
    assert "Job 17 (ada/wrf) asked for" in printed
    assert "outcome" not in printed, "it waits: nothing can have come of it"


@pytest.mark.parametrize(
    ("explanation", "words"),
    [
        (Explanation(), "no decision about a job 17 that you may see"),
        (Explanation(at_that_time=3), "decided about 3 jobs .* none asked for what scontrol shows"),
        (Explanation(at_that_time=3, fitting=2), "2 jobs .* with the same request"),
    ],
)
def test_where_no_decision_fits_that_is_said(explained, capsys, explanation, words):
    explained(explanation)
    assert main(["why", "17"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(words, err)


@pytest.mark.parametrize(("age_s", "pause_s"), [(0.0, 2.5), (2.0, 0.5), (3.0, 0.0), (-99.0, 2.5)])
def test_decisions_of_the_last_seconds_are_waited_for(
    explained, monkeypatch, capsys, age_s, pause_s
):
    explained(Explanation(decision=decision()))
    slept = []
    monkeypatch.setattr(why.time, "time", lambda: 1790000000 + age_s)
    monkeypatch.setattr(why.time, "sleep", slept.append)
    assert main(["why", "17"]) == 0
    assert slept == [pause_s]


def test_nimod_tells_how_it_is(nimod, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.commands.status.terminal_width", lambda: 50)
    assert main(["status", "--config", str(nimod.config), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["identities"] > 7
    assert status["snapshot_age_s"] < 60
    assert status["counts"]["began_s"] > 0
    assert len(status["counts"]["bins"]) == len(status["counts"]["bounds_s"]) + 1
    assert main(["status", "--config", str(nimod.config)]) == 0
    text = capsys.readouterr().out
    assert "cluster    read " in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 50
    folded = [line for line in lines if not line[:1].isalpha()]
    assert folded
    assert all(line.startswith(" " * 11) for line in folded)


def test_no_nimod_is_one_line(tmp_path, capsys):
    config = tmp_path / "nimo.yaml"
    config.write_text(f"socket: {tmp_path}/none.sock\n")
    assert main(["status", "--config", str(config)]) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nimo: nimod at {tmp_path}/none.sock: ")
    assert "systemctl status nimod" in err


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(None, "not read yet"), (12.0, "read 12 s ago"), (61.0, "read 1 min ago: too old")],
)
def test_what_nimod_sees_of_the_cluster(age_s, words):
    text = describe(Status(snapshot_age_s=age_s), now_s=0, max_age_s=60)
    assert f"cluster    {words}" in text
    assert ("pass unchanged" in text) is (age_s != 12.0)


def test_before_the_first_look_at_the_store_there_are_no_tables():
    assert "tables     none yet" in describe(Status(), now_s=0, max_age_s=60)


def test_tables_of_another_release_are_counted():
    text = describe(Status(identities=7, outdated=3, loaded_s=0.0), now_s=0, max_age_s=60)
    assert "; 3 of another release wait for 'nimo fit' and are not used" in text


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        ([0, 0, 0], "none to submissions yet"),
        ([99, 1, 0], "to 100 submissions: half within 0.5 ms, 99 % within 0.5 ms"),
        ([1, 1, 0], "to 2 submissions: half within 0.5 ms, 99 % within 20 ms"),
        ([9, 0, 1], "to 10 submissions: half within 0.5 ms, over 1 % took more than 20 ms"),
        (
            [0, 0, 1],
            "to 1 submission: over half took more than 20 ms, over 1 % took more than 20 ms",
        ),
    ],
)
def test_how_long_answers_take(bins, words):
    counts = Counts(bounds_s=[0.0005, 0.02], bins=bins)
    assert f"answers    {words}\n" in describe(Status(counts=counts), now_s=0, max_age_s=60)


LONG = Finding(
    check="hook files",
    state=FindingState.ERROR,
    message="missing in /etc/slurm: cli_filter.lua, job_submit.lua, nimo_submit.lua, nimo_json.lua",
    fix="nimo hook-path --install /etc/slurm, and then restart slurmctld with systemctl",
)


@pytest.fixture
def printed(monkeypatch, capsys):
    """Rows that `nimo doctor` prints of a finding in so many columns."""

    def rows(finding, width):
        monkeypatch.setattr(doctor, "installation_of", lambda _: None)
        monkeypatch.setattr(doctor, "examine", lambda _, **__: [finding])
        monkeypatch.setattr(doctor, "terminal_width", lambda: width)
        assert main(["doctor"]) == int(finding.state is FindingState.ERROR)
        return capsys.readouterr().out.splitlines()

    return rows


def test_findings_fold_at_the_width_of_the_terminal(printed):
    rows = printed(LONG, 80)
    assert rows[0].startswith("error    hook files     missing in /etc/slurm: ")
    assert len(rows) > 2
    assert max(map(len, rows)) <= 80
    assert all(row.startswith(" " * 24) for row in rows[1:])


def test_paths_stay_whole_in_a_narrow_terminal(printed):
    path = "/srv/" + "long-name/" * 9
    rows = printed(Finding(check="store", state=FindingState.OK, message=path), 40)
    assert rows[-1].split()[-1] == path


def test_no_limit_to_plan_with_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(commands, "run", lambda *_, **__: "")
    assert main(["limits"]) == 0
    assert capsys.readouterr().out == "no job has a limit to plan with\n"


def test_an_interval_whose_ends_read_the_same_is_not_printed(monkeypatch, capsys):
    moment_s = NOW - NOW % 60
    ends = {"start_s": moment_s, "low_s": moment_s + 2, "high_s": moment_s + 9}
    wide = {**ends, "high_s": moment_s + 7_200}
    rows = [row(28, **ends), row(29, **wide), row(30, **{**ends, "high_s": None})]
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(made_s=NOW, rows=rows))
    assert main(["wait", "--format=job_id,start_s,low_s,high_s"]) == 0
    _, same, apart, open_end, *_ = capsys.readouterr().out.splitlines()
    start = short_clock(moment_s)
    assert same.split() == ["28", *start.split(), "-", "-"]
    assert apart.split() == ["29", *f"{start} {start} {short_clock(moment_s + 7_200)}".split()]
    assert open_end.split() == ["30", *f"{start} {start}".split(), "-"]
    assert main(["wait", "--parsable2", "--format=low_s,high_s", "--noheader"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{moment_s + 2:.0f}|{moment_s + 9:.0f}"


def test_a_start_that_hangs_on_another_job_says_so(monkeypatch, capsys):
    rows = [row(4711), row(4712, condition="if job 4711 ends well")]
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(made_s=NOW, rows=rows))
    assert main(["wait"]) == 0
    printed = capsys.readouterr().out
    assert "\nJob 4712 starts then if job 4711 ends well.\nHalf of such jobs" in printed
