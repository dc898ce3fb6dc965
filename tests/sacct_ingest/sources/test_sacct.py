"""sacct as a process: a real one, and one that misbehaves."""

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sacct_ingest.errors import SacctError
from sacct_ingest.ingest import IngestSettings, ingest
from sacct_ingest.records import JobRun, JobState, KeyLevel
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.store import Store
from tests.cluster import SlurmCluster
from tests.processes import wait_until

HEADER = "JobID Cluster State Submit ElapsedRaw"


def fake(folder: Path, body: str) -> LiveSacct:
    """Make a sacct that offers five columns; $D is the delimiter that it was given."""
    path = folder / "sacct"
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --helpformat ] && {{ echo "{HEADER} Nonsense"; exit; }}\n'
        "for word; do case $word in --delimiter=*) D=${word#*=};; esac; done\n"
        f'echo "{HEADER}" | sed "s/ /$D/g"\n{body}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return LiveSacct(command=[str(path)])


def read(source: LiveSacct) -> list[JobRun]:
    return list(source.read(0, 10, Tally()))


ROW = 'printf "%s$D" 1 c FAILED 50; echo 7'


def test_rows_are_read_as_they_are_printed(tmp_path: Path) -> None:
    assert read(fake(tmp_path, ROW))[0].elapsed_s == 7


def test_asks_for_what_both_sides_know(tmp_path: Path) -> None:
    body = f'echo "$@" >{tmp_path}/argv; env >{tmp_path}/environment\n{ROW}'
    read(fake(tmp_path, body))
    argv = (tmp_path / "argv").read_text()
    assert "--format=JobID,Cluster,State,Submit,ElapsedRaw" in argv
    assert "--starttime=uts0 --endtime=uts10" in argv
    assert "SLURM_TIME_FORMAT=%s" in (tmp_path / "environment").read_text()


def test_the_delimiter_is_another_each_time(tmp_path: Path) -> None:
    source = fake(tmp_path, f'echo "$D" >>{tmp_path}/delimiters\n{ROW}')
    read(source)
    read(source)
    assert len(set((tmp_path / "delimiters").read_text().split("\n")[:2])) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{ROW}\necho 'no slurmdbd' >&2; exit 1", "status 1: no slurmdbd"),
        (f"{ROW}\nkill -9 $$", "status -9: it gave no reason"),
        (f'{ROW}\nprintf "2$Dc$DFAI"', "broke off"),
    ],
)
def test_a_sacct_that_fails_is_an_error_after_its_rows(
    tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(SacctError, match=message):
        read(fake(tmp_path, body))


def test_a_sacct_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SacctError, match=r"cannot run .*no-sacct: No such file"):
        read(LiveSacct(command=[str(tmp_path / "no-sacct")]))


def test_nobody_is_left_behind_by_a_reader_that_stops_early(tmp_path: Path) -> None:
    source = fake(tmp_path, f"echo $$ >{tmp_path}/pid\n{ROW}\n{ROW}\nexec sleep 300")
    runs = source.read(0, 10, Tally())
    next(runs)
    runs.close()  # type: ignore[attr-defined]
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def history(slurm: SlurmCluster) -> Iterator[dict[str, int]]:
    """Jobs of all kinds on a real cluster: name to id."""
    submit = slurm.sbatch
    ids = {
        "array": submit("-J", "array", "--array=0-2", "--wrap=test $SLURM_ARRAY_TASK_ID != 1"),
        "odd": submit("-J", "two\nlines|x\x1f", "--comment=a|b\nc", "--wrap=true"),
        "failed": submit("-J", "failed", "--wrap=exit 3"),
        "held": submit("-J", "held", "-H", "--wrap=true"),
        "requeued": submit("-J", "requeued", "--requeue", "--wrap=sleep 60"),
        "long": submit("-J", "long", "--wrap=sleep 300"),
    }
    script = slurm.layout.work / "solve.sh"
    script.write_text("#!/bin/sh\nsrun sleep 0.2\n")
    for nodes in (1, 2, 4):
        ids[f"solve{nodes}"] = submit(
            *(f"-N{nodes}", "--comment=ours nimo:app=solve", str(script), "in put.dat")
        )
    wait_until(
        lambda: slurm.job(ids["requeued"])["JobState"] == "RUNNING", timeout_s=30, what="running"
    )
    slurm.run("scancel", str(ids["held"]))
    slurm.run("scontrol", "requeue", str(ids["requeued"]))
    # Slurm would wait two minutes to start it again.
    slurm.run("scancel", str(ids["requeued"]))
    slurm.wait(*(job_id for name, job_id in ids.items() if name != "long"), accounted=True)
    yield ids
    slurm.run("scancel", str(ids["long"]))


def ingest_now(
    slurm: SlurmCluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int, int]:
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    lately = IngestSettings(first_s=3600)
    summary = ingest(store, LiveSacct(), now_s=int(time.time()) + 1, settings=lately)
    assert summary.refused == 0
    return summary.new, summary.changed, summary.same


def test_a_real_sacct_tells_all_that_has_ended(
    slurm: SlurmCluster,
    history: dict[str, int],
    sqlite_store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, _, _ = ingest_now(slurm, sqlite_store, monkeypatch)
    assert new >= 10
    states: dict[int, set[JobState]] = {}
    rows = [row for _, group in sqlite_store.runs.by_key(KeyLevel.USER) for row in group]
    for row in rows:
        states.setdefault(row.job_id, set()).add(row.state)
    assert states[history["failed"]] == {JobState.FAILED}
    assert states[history["held"]] == {JobState.CANCELLED}
    # Its second row follows up to 5 s later.
    assert JobState.REQUEUED in states[history["requeued"]]
    assert history["long"] not in states
    names = {row.name for row in rows}
    assert "two\nlines|x" in names
    again = ingest_now(slurm, sqlite_store, monkeypatch)
    assert again[2] >= new


def test_runs_on_all_node_counts_share_their_keys(
    slurm: SlurmCluster,
    history: dict[str, int],
    sqlite_store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ingest_now(slurm, sqlite_store, monkeypatch)
    rows = sqlite_store.runs.history(KeyLevel.TAG, "solve")
    assert sorted(row.nodes for row in rows) == [1, 2, 4]
    assert len({row.line for row in rows}) == 1
    assert rows[0].line


def test_an_ingest_without_a_cluster_says_so(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SacctError):
        ingest(sqlite_store, LiveSacct(command=[str(tmp_path / "sacct")]), now_s=1000)
    assert sqlite_store.watermarks.get("sacct:") is None
