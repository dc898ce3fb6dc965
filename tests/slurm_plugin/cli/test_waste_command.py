"""``nimo waste``: from a store, from saved files, and from bare sacct; whole outputs, bad input."""

import json
import re
import time

import pytest

from sacct_ingest.records import JobState
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from tests.predictor.rows import job
from tests.slurm_plugin.cli.test_local import Login

HOUR_S = 3600
GIB = 2**30


def jobs(user="ann", first=0):
    """Jobs that use 4 of 16 CPUs, and jobs that fail again and again."""
    idle = [
        job(
            first + n, 1, 10 * HOUR_S, user=user, cpus=16, req_cpus=16, cpu_s=40.0 * HOUR_S,
            submit_s=1_790_000_000 + n * 90_000, start_s=1_790_000_000 + n * 90_000,
            account="physics", partition="batch", limit_s=100 * HOUR_S,
        )
        for n in range(10)
    ]  # fmt: skip
    failing = [
        job(
            first + 100 + n, 2, HOUR_S, user=user, cpus=32, req_cpus=32, cpu_s=32.0 * HOUR_S,
            submit_s=1_791_000_000 + n * 9000, start_s=1_791_000_000 + n * 9000, name="deform",
            account="physics", partition="batch", state=JobState.FAILED,
        )
        for n in range(4)
    ]  # fmt: skip
    return [*idle, *failing]


@pytest.fixture
def store(tmp_path):
    path = str(tmp_path / "nimo.db")
    with Store.open(path) as opened:
        opened.runs.add([*jobs(), *jobs("bob", 1000)])
    return path


@pytest.fixture(autouse=True)
def _no_slurm(monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def waste(capsys, *options):
    assert main(["waste", *options]) == 0
    return capsys.readouterr().out


def test_the_whole_answer(store, capsys):
    assert (
        waste(capsys, "--store", store, "-S", "2026-01-01", "--by", "user")
        == """\
75 % of 220 node-hours bought nothing: 100 could come back, 81 to 130.
28 starts of jobs of 2 users, 2026-09-21 to 2026-10-03 (12 days); intervals hold
9 in 10

cause         starts  node-hours  of all  could come back    9 in 10
idle CPUs         20         150  69.4 %               96  73 to 120
failed again       6          12   5.6 %              8.0  5.2 to 11

user  node-hours  bought nothing  share  could come back   9 in 10  most by
ann          110              81   75 %               52  36 to 69  idle CPUs
bob          110              81   75 %               52  36 to 69  idle CPUs

idle CPUs: ask for fewer: 'nimo-advise JOBSCRIPT' says how many.
failed again: jobs that fail again and again: 'nimo why JOBID' shows the end of
the output; look there before the next try.
limits: half of the jobs asked for at least 10 times what they took; 18 of 20
jobs asked for over 3 times the longest run before. That costs waits, not
node-hours. Limits of 1.2 times the longest run before, for 14 starts, would
have made no wait shorter: the queue was replayed with them. 'nimo-advise
JOBSCRIPT' names a limit; 'nimo replay --limits' shows what shorter ones bring.
"""
    )


def test_parsable_and_columns(store, capsys):
    since = ["--store", store, "-S", "2026-01-01"]
    lines = waste(capsys, *since, "-P").splitlines()
    assert lines[0] == "cause|starts|node-hours|of all|could come back|at least|at most"
    assert lines[1].startswith("idle_cpus|20|150|0.694444|")
    chosen = waste(capsys, *since, "--by", "account", "-P", "-n", "-o", "account,wasted")
    assert chosen == "physics|162\n"
    options = ["--by", "application", "--sort=-starts", "-n", "-o", "application%-8,cause"]
    assert waste(capsys, *since, *options).splitlines() == [
        "ann/sol+  idle CPUs",
        "bob/sol+  idle CPUs",
        "ann/def+  failed again",
        "bob/def+  failed again",
    ]


def test_json(store, capsys):
    made = json.loads(
        waste(capsys, "--store", store, "-S", "2026-01-01", "--by", "partition", "--json")
    )
    assert (made["version"], made["starts"], made["users"], made["own"]) == (1, 28, 2, False)
    assert made["wasted"] == pytest.approx(sum(one["node_hours"] for one in made["causes"]))
    assert [one["name"] for one in made["groups"]] == ["batch"]


def test_a_selection(store, capsys):
    made = json.loads(waste(capsys, "--store", store, "-S", "2026-01-01", "-u", "bob", "--json"))
    assert (made["starts"], made["users"]) == (14, 1)
    none = waste(capsys, "--store", store, "-S", "2026-01-01", "-A", "nobody")
    assert none == "there is no job that ran\n"
    assert waste(capsys, "--store", store) == "there is no job that ran\n"  # in the last 30 days


def test_others_jobs_are_hidden_where_slurm_hides_them(store, capsys, monkeypatch):
    hidden = PrivateDataRules(only_user="bob", why="PrivateData hides others' jobs")
    monkeypatch.setattr("slurm_plugin.cli.waste_runs.visibility_for", lambda *_: hidden)
    assert main(["waste", "--store", store, "-S", "2026-01-01", "--by", "user"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("75 % of your 110 node-hours bought nothing: 52 could come back")
    assert "ann" not in said.out
    assert "only your own jobs are shown" in said.err


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_picture_for_a_slide_has_no_names(suffix, store, capsys, tmp_path):
    path = tmp_path / f"waste.{suffix}"
    waste(capsys, "--store", store, "-S", "2026-01-01", "--by", "user", "--plot", str(path))
    drawn = path.read_bytes()
    assert len(drawn) > 1000
    if suffix == "svg":
        text = drawn.decode()
        assert "75 % of 220 node-hours bought nothing" in text
        assert not re.search(r"ann|bob|physics|solve|deform|batch", text)


def test_a_picture_that_cannot_be_drawn(store, capsys, tmp_path):
    since = ["waste", "--store", store, "-S", "2026-01-01", "--plot"]
    assert main([*since, "waste.gif"]) == 73
    assert main([*since, str(tmp_path / "no" / "waste.svg")]) == 73
    assert capsys.readouterr().err.count("nimo: ") == 2


HEAD = "JobID|User|State|Submit|Start|End|NNodes|NCPUS|TotalCPU|JobName|ElapsedRaw|Cluster\n"


def test_saved_files(capsys, tmp_path):
    path = tmp_path / "saved.sacct"
    row = "{0}|ann|COMPLETED|{1}|{1}|{1}|1|16|04:00:00|solve|3600|pine\n"
    path.write_text(HEAD + "".join(row.format(n, f"2026-01-{n:02}T00:00:00") for n in range(1, 9)))
    made = json.loads(waste(capsys, str(path), "--json"))
    assert made["node_hours"] == pytest.approx(8)
    assert made["wasted"] == pytest.approx(6)


def test_files_that_say_nothing(capsys, tmp_path):
    empty, broken = tmp_path / "empty.sacct", tmp_path / "broken"
    empty.write_text(HEAD)
    broken.write_bytes(b"\x1f\x8b\x00\x01")
    assert main(["waste", str(empty)]) == 3
    assert main(["waste", str(broken)]) == 65
    assert main(["waste", str(tmp_path / "none")]) == 65
    assert capsys.readouterr().out == ""


@pytest.fixture
def login(tmp_path, monkeypatch):
    """A login node without NIMO, of a user."""
    made = Login(tmp_path)
    config = tmp_path / "nimo.yaml"
    config.write_text(
        f"socket: {tmp_path}/none\nlocal: {{timeout_s: 2}}\ningest: {{timeout_s: 2}}\n"
    )
    for name, value in {
        "PATH": f"{made.bin}:/usr/bin:/bin",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NIMO_CONFIG": str(config),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("slurm_plugin.cli.waste_runs.may_update", lambda *_: False)
    return made


def test_ones_own_jobs_from_bare_sacct(login, capsys):
    assert main(["waste", "-S", "now-180days"]) == 0
    said = capsys.readouterr().out
    assert re.match(r"Hardly any of your [\d.]+ node-hours bought nothing|\d+ % of your ", said)
    assert all("--user=" in line for line in login.asked())


@pytest.mark.parametrize(("asked_s", "again"), [(90, True), (30, False)])
def test_ones_last_jobs_are_known_a_minute_later(login, capsys, asked_s, again):
    """Asked before any job had run, the answer "no job" stayed for ten minutes."""
    rows = (login.bin / "rows.json").read_text()
    (login.bin / "rows.json").write_text("[]")
    assert main(["waste", "-S", "now-180days"]) == 0
    assert capsys.readouterr().out == "there is no job of yours that ran\n"
    (login.bin / "rows.json").write_text(rows)
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        store.watermarks.set("own history asked", int(time.time()) - asked_s)
    login.asked()
    assert main(["waste", "-S", "now-180days"]) == 0
    assert bool(login.asked()) is again


def test_an_operator_sees_all_users(login, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.waste_runs.may_update", lambda *_: True)
    assert main(["waste", "-S", "now-180days"]) == 0
    assert "your" not in capsys.readouterr().out.partition("\n")[0]
    assert all("--allusers" in line for line in login.asked())
    assert not login.kept.exists()
    assert main(["waste", "-S", "now-180days", "--local"]) == 0
    assert "of your" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\nexec sleep 60\n", "said nothing for|no job of yours"),
        ("#!/bin/sh\necho 'sacct: error: no slurmdbd' >&2\nexit 1\n", "no slurmdbd|cannot run"),
        ("#!/bin/sh\necho 'Nonsense'\n", ""),
    ],
)
def test_a_sacct_that_does_not_answer(program, words, login, capsys, monkeypatch):
    login.program("sacct", program)
    assert main(["waste"]) == 0  # of the user: what was read before stands
    said = capsys.readouterr()
    assert said.out == "there is no job of yours that ran\n"
    assert re.search(words, said.err)
    monkeypatch.setattr("slurm_plugin.cli.waste_runs.may_update", lambda *_: True)
    assert main(["waste"]) in (1, 3)
    assert capsys.readouterr().err.count("\n") == 1
