"""sacct as a process: a real one, and one that misbehaves."""

import secrets
import signal
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from sacct_ingest.errors import SacctError, SacctOverload
from sacct_ingest.ingest.into_store import IngestSettings, ingest
from sacct_ingest.ingest.windows import SpanSettings
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.sources.columns import canonical_name, useful
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from tests.processes import wait_until
from tests.requests.rest import jobs, slurmrestd
from tests.sacct_ingest.records import runs_with

HEADER = "JobID Cluster State Submit ElapsedRaw"


def fake(folder, body, header=HEADER):
    """Make a sacct that offers a few columns; it was given $D as delimiter, and the word $W."""
    path = folder / "sacct"
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --helpformat ] && {{ echo "{header} Nonsense"; exit; }}\n'
        "for word; do case $word in --delimiter=*) D=${word#*=};; esac; done\n"
        "W=${SLURM_TIME_FORMAT#%s}\n"
        f'echo "{header}" | sed "s/ /$D/g"\n{body}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return LiveSacct(command=[str(path)])


def read(source):
    return list(source.read(0, 10, Tally()))


ROW = 'printf "%s$D" 1 c FAILED 1700000050$W; echo 7'


def test_rows_are_read_as_they_are_printed(tmp_path):
    assert read(fake(tmp_path, ROW))[0].elapsed_s == 7


def test_asks_for_what_both_sides_know(tmp_path):
    body = f'echo "$@" >{tmp_path}/argv; env >{tmp_path}/environment\n{ROW}'
    read(fake(tmp_path, body))
    argv = (tmp_path / "argv").read_text()
    assert "--format=JobID,Cluster,State,Submit,ElapsedRaw" in argv
    assert "--starttime=uts1000000 --endtime=uts10" in argv
    assert "SLURM_TIME_FORMAT=%s" in (tmp_path / "environment").read_text()


def test_the_delimiter_is_another_each_time(tmp_path):
    source = fake(tmp_path, f'echo "$D" >>{tmp_path}/delimiters\n{ROW}')
    read(source)
    read(source)
    assert len(set((tmp_path / "delimiters").read_text().split("\n")[:2])) == 2


def test_what_users_write_makes_no_other_jobs(tmp_path):
    genuine, forged = (
        "1${D}c${D}FAILED${D}1700000050$W${D}",
        "9${D}c${D}COMPLETED${D}1700000050${D}",
    )
    lines = (f"{genuine}x${{D}}7", f"{forged}y${{D}}8", f"{forged}z${{D}}9")
    body = "\n".join(f'echo "{line}"' for line in lines)
    tally = Tally()
    source = fake(tmp_path, body, f"{HEADER.removesuffix(' ElapsedRaw')} JobName ElapsedRaw")
    assert [run.job_id for run in source.read(0, 10, tally)] == [1]
    assert len(tally.rejects) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{ROW}\necho 'no slurmdbd' >&2; exit 1", "status 1: no slurmdbd"),
        (f"{ROW}\nkill -9 $$", "status -9: it gave no reason"),
        (f'{ROW}\nprintf "2$Dc$DFAI"', "broke off"),
        # Its last number may have lost digits.
        (f'{ROW}\nprintf "2${{D}}c${{D}}FAILED${{D}}60${{D}}12"', "middle of a line"),
    ],
)
def test_a_sacct_that_fails_is_an_error_after_its_rows(tmp_path, body, message):
    with pytest.raises(SacctError, match=message):
        read(fake(tmp_path, body))


@pytest.mark.parametrize(
    "reason", ["Too wide of a date range in query", "Query result exceeds size limit"]
)
def test_too_large_a_question_is_distinguished_from_other_failures(tmp_path, reason):
    with pytest.raises(SacctOverload, match=reason):
        read(fake(tmp_path, f"echo 'sacct: error: slurmdbd: {reason}' >&2; exit 1"))


def test_a_sacct_that_says_nothing_is_ended(tmp_path):
    source = fake(tmp_path, f"echo $$ >{tmp_path}/pid\nexec sleep 300")
    with pytest.raises(SacctOverload, match=r"said nothing for 0\.3 s"):
        read(replace(source, timeout_s=0.3))
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_the_time_that_sacct_takes_is_counted(tmp_path):
    tally = Tally()
    list(fake(tmp_path, f"sleep 0.3\n{ROW}").read(0, 10, tally))
    assert tally.waited_s > 0.2


def test_jobs_that_began_before_the_window_are_asked_for_by_their_ids(tmp_path):
    body = (
        f'echo "$@" >>{tmp_path}/argv\n'
        'case "$*" in *--jobs=*) N=2;; *) N=1;; esac\n'
        'row() { printf "%s$D" "$@"; echo 9; }\n'
        "row 7 c COMPLETED 1700000050$W 1700000060$W\n"
        "row 7.0 c COMPLETED 1700000090$W 1700000095$W\n"
        "[ $N = 1 ] || row 7.1 c COMPLETED 1700000060$W 1700000070$W\n"
        "row 8 c COMPLETED 1700000090$W 1700000105$W\n"
    )
    source = fake(tmp_path, body, header="JobID Cluster State Submit Start ElapsedRaw")
    runs = list(source.read(1_700_000_100, 1_700_000_200, Tally()))
    assert [(run.job_id, len(run.steps)) for run in runs] == [(8, 0), (7, 2)]
    asked = (tmp_path / "argv").read_text().splitlines()
    assert ["--jobs=7" in line for line in asked] == [False, True]
    assert "--starttime=uts1700000060 --endtime=uts1700000200" in asked[1]


def test_a_sacct_that_is_not_there(tmp_path):
    with pytest.raises(SacctError, match=r"cannot run .*no-sacct: No such file"):
        read(LiveSacct(command=[str(tmp_path / "no-sacct")]))


def test_nobody_is_left_behind_by_a_reader_that_stops_early(tmp_path):
    many = f"for i in $(seq 1000); do {ROW}; done"
    source = fake(tmp_path, f"echo $$ >{tmp_path}/pid\n{many}\nexec sleep 300")
    runs = source.read(0, 10, Tally())
    next(runs)
    runs.close()
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def history(slurm):
    """Jobs of all kinds on a real cluster: name to id."""
    submit = slurm.sbatch
    ids = {
        "array": submit("-J", "array", "--array=0-2", "--wrap=test $SLURM_ARRAY_TASK_ID != 1"),
        "odd": submit("-J", "two\nlines|x\x1f", "--comment=a|b\nc", "--wrap=true"),
        "failed": submit("-J", "failed", "--wrap=exit 3"),
        "all memory": submit("-J", "all-memory", "--mem=0", "--wrap=true"),
        "held": submit("-J", "held", "-H", "--wrap=true"),
        "held array": submit("-J", "held-array", "-H", "--array=0-2", "--wrap=true"),
        "requeued": submit("-J", "requeued", "--requeue", "--wrap=sleep 60"),
        "long": submit("-J", "long", "--wrap=sleep 300"),
    }
    go_on = slurm.layout.work / "resized"
    waits = f"--wrap=until [ -e {go_on} ]; do sleep 0.2; done"
    ids["resized"] = submit("-J", "resized", "-N2", waits)
    script = slurm.layout.work / "solve.sh"
    script.write_text("#!/bin/sh\nsrun sleep 0.2\n")
    for nodes in (1, 2, 4):
        ids[f"solve{nodes}"] = submit(
            *(f"-N{nodes}", "--comment=ours nimo:app=solve", str(script), "in put.dat")
        )
    for name in ("requeued", "resized"):
        wait_until(
            lambda name=name: slurm.job(ids[name])["JobState"] == "RUNNING", what=f"{name} to run"
        )
    # Its rows differ in their second of submission: resized within the first, there is but one.
    time.sleep(1.1)
    slurm.run("scontrol", "update", f"JobId={ids['resized']}", "NumNodes=1")
    go_on.touch()
    slurm.run("scancel", str(ids["held"]), str(ids["held array"]))
    slurm.run("scontrol", "requeue", str(ids["requeued"]))
    # Slurm would wait two minutes to start it again.
    slurm.run("scancel", str(ids["requeued"]))
    slurm.wait(*(job_id for name, job_id in ids.items() if name != "long"), accounted=True)
    several = f"{ids['requeued']},{ids['resized']}"

    def recorded():
        rows = slurm.sacct("-X", "-D", "-j", several, fields=("State", "Partition", "End"))
        whole = all(row["Partition"] and row["End"] != "Unknown" for row in rows)
        return whole and {"REQUEUED", "RESIZING"} <= {row["State"] for row in rows}

    # Rows of several starts may follow up to 5 s later, the half of them first.
    wait_until(recorded, what="the rows of all starts")
    yield ids
    slurm.run("scancel", str(ids["long"]))


def ingest_now(slurm, store, monkeypatch):
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    lately = IngestSettings(span=SpanSettings(first_s=3600))
    summary = ingest(store, LiveSacct(), now_s=int(time.time()) + 1, settings=lately)
    assert summary.refused == 0
    return summary.new, summary.changed, summary.same


def test_a_real_sacct_tells_all_that_has_ended(slurm, history, sqlite_store, monkeypatch):
    new, _, _ = ingest_now(slurm, sqlite_store, monkeypatch)
    assert new >= 10
    states = {}
    rows = [row for _, group in sqlite_store.runs.by_key(KeyLevel.USER) for row in group]
    for row in rows:
        # The start after the requeue follows up to 5 s later: then both are one job.
        earlier = {start.state for start in row.earlier}
        states.setdefault(row.job_id, set()).update(earlier, {row.state})
    assert states[history["failed"]] == {JobState.FAILED}
    assert states[history["held"]] == {JobState.CANCELLED}
    assert JobState.REQUEUED in states[history["requeued"]]
    assert history["long"] not in states
    assert states[history["resized"]] == {JobState.RESIZING}
    names = {row.name for row in rows}
    assert "two\nlines|x" in names
    again = ingest_now(slurm, sqlite_store, monkeypatch)
    assert again[2] >= new


def test_runs_on_all_node_counts_share_their_keys(slurm, history, sqlite_store, monkeypatch):
    ingest_now(slurm, sqlite_store, monkeypatch)
    rows = runs_with(sqlite_store, KeyLevel.TAG, "root/solve")
    assert sorted(row.nodes for row in rows) == [1, 2, 4]
    assert len({row.line for row in rows}) == 1
    assert rows[0].line


def test_steps_from_before_the_window_are_there(slurm, monkeypatch):
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    script = slurm.layout.work / "stages.sh"
    script.write_text("#!/bin/sh\nsrun true\nsleep 4\nsrun true\n")
    job_id = slurm.sbatch("-N1", str(script))
    slurm.wait(job_id, accounted=True)
    whole = one_run(LiveSacct(), job_id, 0, int(time.time()) + 1)
    assert [step.step for step in whole.steps if step.step.isdecimal()] == ["0", "1"]
    end_s = whole.end_s or 0
    assert one_run(LiveSacct(), job_id, end_s - 1, end_s + 1) == whole


def one_run(source, job_id, begin_s, end_s):
    (result,) = [run for run in source.read(begin_s, end_s, Tally()) if run.job_id == job_id]
    return result


def test_an_ingest_without_a_cluster_says_so(sqlite_store, monkeypatch, tmp_path):
    with pytest.raises(SacctError):
        ingest(sqlite_store, LiveSacct(command=[str(tmp_path / "sacct")]), now_s=1000)
    assert sqlite_store.watermarks.get("sacct:") is None


#: Fields that 22.05's JSON cannot tell, and why.
UNREPORTED = {
    "uid": "slurmdbd's JSON has names only",
    "cancelled_by": "a name, not the user's id",
    "submit_line": "not in data_parser 0.0.38",
    "exit_code": "always 0 in data_parser 0.0.38, so that it is not believed",
    "exit_signal": "unknown as the exit code is",
    "cpus": "of jobs that never started: releases differ",
}


def by_key(runs):
    """Give the runs that have ended, by what tells them apart."""
    return {
        (run.job_id, run.submit_s, run.state): structs.asdict(run)
        for run in runs
        if run.state is not JobState.RUNNING
    }


def same(text, from_json):
    """Hold what JSON says of some runs against what the text says."""
    for key, run in text.items():
        reported = {name: value for name, value in from_json[key].items() if name not in UNREPORTED}
        if not reported["user"]:
            del reported["user"]  # 22.05 has no name for users without an association
        assert reported == {name: run[name] for name in reported}


def test_what_a_real_slurmrestd_answers_is_what_sacct_says(slurm, history, tmp_path, monkeypatch):
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    tally, until = Tally(), int(time.time()) + 1
    text = by_key(LiveSacct().read(until - 3600, until, tally))
    answers = {}
    with slurmrestd(slurm, "nobody") as socket:
        for daemon in ("slurmdb", "slurm"):
            (tmp_path / daemon).write_bytes(jobs(slurm, socket, daemon))
            runs = list(SavedSacct(tmp_path / daemon).read(0, 0, tally))
            assert history["long"] in {run.job_id for run in runs}
            answers[daemon] = by_key(runs)
    assert tally.rejects == []
    assert len(text) >= 10
    # Without states to ask for, a job that never was eligible is in no list, and later releases
    # list duplicates on demand only.
    odd = {history[name] for name in ("held", "held array", "requeued", "resized")}
    first = min(history.values())  # others' jobs on this cluster may be odd as well
    listed = {key: run for key, run in text.items() if key[0] >= first and key[0] not in odd}
    assert len(listed) >= 8
    assert listed.keys() <= answers["slurmdb"].keys()
    same(listed, answers["slurmdb"])
    # Slurmctld and slurmdbd differ in when a job that never ran began.
    ended = answers["slurm"].keys() & listed.keys()
    for key in ended:
        live = answers["slurm"][key]
        for name in ("name", "nodes", "start_s", "end_s", "limit_s", "elapsed_s"):
            assert live[name] == text[key][name], (key, name)


def test_json_and_text_of_a_real_sacct_say_the_same(slurm, history, monkeypatch):
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    # Up to the second in which all of `history` had ended: the long job goes on.
    until = int(time.time()) + 1
    tally = Tally()
    text, from_json = (
        by_key(LiveSacct(as_json=as_json).read(until - 3600, until, tally))
        for as_json in (False, True)
    )
    assert tally.rejects == []
    assert len(text) >= 10
    assert text.keys() == from_json.keys()
    same(text, from_json)
    names = {run["name"] for run in from_json.values()}
    assert "two\nlines|x\x1f" in names


# Last: the tests above compare all jobs since their first.
def test_a_name_with_the_delimiter_of_sacct_makes_no_job(slurm, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "d")
    delimiter, now_s, other = "\x1fd\x1f", int(time.time()), 999_999
    offered = map(canonical_name, slurm.run("sacct", "--helpformat").stdout.split())
    times = dict.fromkeys(("Submit", "Eligible", "Start", "End"), str(now_s))
    row = {"JobIDRaw": str(other), "JobID": str(other), "State": "COMPLETED", "Cluster": "c"}
    forged = delimiter.join((row | times).get(name, "") for name in useful(set(offered)))
    name = f"x{delimiter}1\n{forged}1\nx"
    job_id = slurm.sbatch("--wrap=true", env={"SBATCH_JOB_NAME": name})
    slurm.wait(job_id)

    def ids():
        source = LiveSacct(command=[str(slurm.bin / "sacct")])
        return [run.job_id for run in source.read(now_s - 60, int(time.time()) + 1, Tally())]

    wait_until(lambda: job_id in ids(), what="sacct to list the job")
    assert other not in ids()


def test_slurmdbd_killed_while_it_answers_loses_nothing(slurm, sqlite_store, monkeypatch, tmp_path):
    slurm.wait(slurm.sbatch("--wrap=true"), accounted=True)
    ingest_now(slurm, sqlite_store, monkeypatch)
    before = contents(sqlite_store), sqlite_store.watermarks.get("sacct:")
    slurm.wait(slurm.sbatch("--array=1-3", "--wrap=true"), accounted=True)
    connected = connections(slurm)
    slurm.processes.signal("slurmdbd", signal.SIGSTOP)  # until sacct waits for its answer

    def kill():
        wait_until(lambda: connections(slurm) > connected, what="sacct to ask slurmdbd")
        slurm.processes.signal("slurmdbd", signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        with pytest.raises(SacctError, match="sacct: error: "):
            ingest_now(slurm, sqlite_store, monkeypatch)
        killed.result()
    assert (contents(sqlite_store), sqlite_store.watermarks.get("sacct:")) == before
    slurm.restart("slurmdbd")
    ingest_now(slurm, sqlite_store, monkeypatch)
    with Store.open(str(tmp_path / "undisturbed.db")) as undisturbed:
        ingest_now(slurm, undisturbed, monkeypatch)
        assert contents(sqlite_store) == contents(undisturbed)
    assert len(contents(sqlite_store)) == len(before[0]) + 3


def contents(store):
    rows = (row for _, group in store.runs.by_key(KeyLevel.USER) for row in group)
    return sorted((row.job_id, row.submit_s, row.state, row.end_s) for row in rows)


def connections(slurm):
    """Count the connections that slurmdbd's host has for it, accepted or not."""
    port = f":{slurm.settings.ports[1]:04X}"
    lines = map(str.split, Path("/proc/net/tcp").read_text().splitlines())
    return sum(line[1].endswith(port) and line[3] == "01" for line in lines)
