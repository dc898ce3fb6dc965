"""A user's own history, where no nimod runs: read, kept, fitted; and what a bad sacct does."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sacct_ingest.store import Store
from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.nimo import main as nimo
from slurm_plugin.slurm.job_request import user_name
from tests.predictor.rows import outdate

DAY_S = 86_400
NAMES = (
    *("JobIDRaw", "JobID", "Cluster", "User", "UID", "Partition", "State", "Submit", "Eligible"),
    *("Start", "End", "NNodes", "NCPUS", "TotalCPU", "SubmitLine", "WorkDir", "JobName"),
    *("ElapsedRaw", "ReqNodes", "AdminComment"),
)
SACCT = f"""\
#!{sys.executable} -S
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if "--helpformat" in sys.argv:
    sys.exit(print({" ".join(NAMES)!r}))
given = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
names, word = given["format"].split(","), os.environ["SLURM_TIME_FORMAT"][2:]
begin_s, end_s = int(given["starttime"][3:]), int(given["endtime"][3:])
rows = json.load(open(here + "/rows.json"))
rows = [row for row in rows if begin_s <= row["End"] < end_s]
text = lambda row, name: f"{{row[name]}}{{word * (name in ('Submit', 'Start', 'End', 'Eligible'))}}"
lines = [names, *([text(row, name) for name in names] for row in rows)]
print("\\n".join(given["delimiter"].join(line) for line in lines))
"""
SQUEUE = """\
#!/bin/sh
case "$*" in
*all*) s=$(printf '\\037'); printf "9${s}COMPLETED${s}4${s}4${s}b${s}a${s}q${s}100${s}110${s}170" &&
    printf "${s}/w${s}app${s}app.sh\\n" ;;
*) cat "$(dirname "$0")/waiting" ;;
esac
"""


class Login:
    """A login node with stand-ins for sacct and squeue, without nimod."""

    def __init__(self, folder):
        self.bin, self.work = folder / "bin", folder / "work"
        self.bin.mkdir()
        self.work.mkdir()
        (self.work / "app.sh").write_text("#!/bin/sh\n#SBATCH -J app\nsrun ./app\n")
        self.program("sacct", SACCT)
        self.program("squeue", SQUEUE)
        self.program("sbatch", "#!/bin/sh\n")
        self.is_on("pine")
        self.runs(180, [16])

    def is_on(self, cluster):
        """Have Slurm's commands be those of this cluster; empty: slurmctld does not answer."""
        answer = f'echo "ClusterName             = {cluster}"' if cluster else "exit 1"
        self.program("scontrol", f'#!/bin/sh\n[ "$*" = "show config" ] || exit 1\n{answer}\n')

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def runs(self, days, counts, *, name="app"):
        """Have run the application on 1, 2, 4 nodes and these, evenly over the last days."""
        counts = [1, 2, 4] * 3 + counts
        now_s, rows = int(time.time()) - 600, []
        for number, nodes in enumerate(counts):
            end_s = now_s - (len(counts) - 1 - number) * days * DAY_S // len(counts)
            elapsed_s = 100 + 3200 // nodes
            rows.append({
                "JobIDRaw": number, "JobID": number, "Cluster": "pine", "User": user_name(),
                "UID": os.getuid(), "Partition": "b", "State": "COMPLETED", "TotalCPU": "00:00:09",
                "Submit": end_s - elapsed_s - 60, "Eligible": end_s - elapsed_s - 60,
                "Start": end_s - elapsed_s, "End": end_s, "NNodes": nodes, "NCPUS": nodes,
                "SubmitLine": f"sbatch -N {nodes} {name}.sh", "WorkDir": str(self.work),
                "JobName": name, "ElapsedRaw": elapsed_s, "ReqNodes": nodes, "AdminComment": "",
            })  # fmt: skip
        path = self.bin / "rows.json"
        before = json.loads(path.read_text()) if path.exists() and name != "app" else []
        path.write_text(json.dumps(before + rows))

    def asked(self):
        """Give the questions to sacct since the last call of this."""
        calls = self.bin / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [line for line in lines if "--helpformat" not in line]

    @property
    def kept(self):
        return self.bin.parent / "data" / "nimo" / "local-pine.db"


@pytest.fixture
def login(tmp_path, monkeypatch):
    made = Login(tmp_path)
    # Another cluster's, as where Slurm's own is elsewhere.
    (tmp_path / "slurm.conf").write_text("ClusterName=elm\n")
    config = tmp_path / "nimo.yaml"
    config.write_text(f"socket: {tmp_path}/none\n")
    for name, value in {
        "PATH": f"{made.bin}:{os.environ['PATH']}",
        "SLURM_CONF": str(tmp_path / "slurm.conf"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NIMO_CONFIG": str(config),
        "OPENBLAS_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.work)
    return made


def test_the_first_question_reads_ones_own_jobs_and_the_next_ones_do_not(login, capsys):
    assert advise(["-N", "1-8", "--json", "app.sh"]) in (0, 3)
    times = {row["nodes"]: row["time_s"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert times[4] == pytest.approx(900, rel=0.1)
    asked = login.asked()
    assert all(f"--user={os.getuid()} " in one and "--allusers" not in one for one in asked)
    # A day first, then longer ones; old windows without steps, whose CPU time would be zero.
    assert 5 < len(asked) < 20
    old, new = asked[0], asked[-1]
    assert "--allocations" in old and "TotalCPU" not in old
    assert "--allocations" not in new and "TotalCPU" in new
    assert login.kept.stat().st_mode & 0o777 == 0o600
    assert nimo(["predict", "app"]) == 0
    assert nimo(["report"]) == 0
    assert not login.asked()
    assert nimo(["local"]) == 0
    assert "10 jobs of yours, sacct asked last at" in capsys.readouterr().out
    assert nimo(["local", "--forget"]) == 0
    assert not list(login.kept.parent.iterdir())


def test_tables_of_another_release_are_made_anew_where_no_job_is_new(login, capsys):
    assert advise(["-N", "1-8", "--json", "app.sh"]) in (0, 3)
    first = json.loads(capsys.readouterr().out)["rows"]
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        outdate(store)
    assert advise(["-N", "1-8", "--json", "app.sh"]) in (0, 3)
    again = json.loads(capsys.readouterr().out)["rows"]
    assert [row["nodes"] for row in again] == [row["nodes"] for row in first]


def test_later_only_what_is_new_is_read_and_fitted(login):
    login.runs(20, [16])
    login.runs(20, [], name="other")
    assert nimo(["predict"]) == 0
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        first = {row.key: row.fitted_s for row in store.fits.all()}
        store.watermarks.set("own history asked", int(time.time()) - 700)
        mark_s = store.watermarks.get("sacct:pine")
    login.asked()
    login.runs(0, [], name="other")
    assert nimo(["predict"]) == 0
    (again,) = (one for one in login.asked() if "--jobs=" not in one)
    assert f"--starttime=uts{mark_s - 3600} " in again
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        new = {row.key for row in store.fits.all() if row.fitted_s != first.get(row.key)}
        lines = {row.key for row in store.fits.all() if row.label.endswith("/other")}
    assert lines & new and new < first.keys()


@pytest.mark.parametrize(("asked_s", "again"), [(90, True), (30, False)])
def test_a_command_that_ran_first_a_moment_ago_is_known_a_minute_later(
    login, capsys, asked_s, again
):
    (login.work / "other.sh").write_text("#!/bin/sh\n#SBATCH -J other\nsrun ./other\n")
    advise(["-N", "4", "other.sh"])
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        store.watermarks.set("own history asked", int(time.time()) - asked_s)
    login.runs(0, [], name="other")
    login.asked()
    assert advise(["-N", "4", "app.sh"]) in (0, 3)  # it is known
    assert not login.asked()
    capsys.readouterr()
    advise(["-N", "4", "--json", "other.sh"])
    assert bool(login.asked()) is again
    (row,) = (row for row in json.loads(capsys.readouterr().out)["rows"] if row["nodes"] == 4)
    assert (row["time_s"] == pytest.approx(900, rel=0.1)) is again


def test_who_never_ran_a_job_is_told_so(login, capsys):
    (login.bin / "rows.json").write_text("[]")
    login.program("squeue", "#!/bin/sh\n")
    advise(["-N", "4", "app.sh"])
    assert (
        "nimo-advise: sacct shows no job of yours; nor does squeue show one that ended in the "
        "last minutes\n"
    ) in capsys.readouterr().err


def test_two_login_nodes_read_one_after_the_other(login):
    code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(['predict']))"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    starts = [word for one in login.asked() for word in one.split() if "starttime" in word]
    assert len(set(starts)) == len(starts)


BROKEN = {
    "slow": ("sleep 60", "said nothing for 1 s"),
    "denied": ("echo 'sacct: error: Access denied' >&2; exit 1", "Access denied"),
    "cut off": ("printf 'JobIDRaw'", "broke off"),
    "missing": (None, "cannot run sacct"),
}


@pytest.mark.parametrize("trouble", BROKEN)
def test_a_sacct_that_does_not_answer_is_named_and_squeue_asked(
    login, trouble, monkeypatch, capsys
):
    action, word = BROKEN[trouble]
    if action is None:
        (login.bin / "sacct").unlink()
        monkeypatch.setenv("PATH", str(login.bin))
    else:
        fields = f"[ $1 = --helpformat ] && echo {' '.join(NAMES)} && exit"
        login.program("sacct", f"#!/bin/sh\n{fields}\n{action}\n")
    if trouble == "slow":
        with Path(os.environ["NIMO_CONFIG"]).open("a") as config:
            config.write("local: {timeout_s: 1.0}\n")
    assert advise(["--local", "-N", "4", "app.sh"]) in (0, 3)
    told = capsys.readouterr()
    assert word in told.err
    assert "squeue shows 1 job that ended in the last minutes" in told.err
    assert "1 run" in told.out or "1 min" in told.out
    # It is not asked again at once.
    assert advise(["--local", "-N", "4", "app.sh"]) in (0, 3)
    assert capsys.readouterr().err == ""


def test_waits_are_those_of_ones_own_jobs_beside_slurms_plan(login, capsys):
    now_s = int(time.time())
    words = (77, 77, "N/A", user_name(), "b", 4, "Priority", now_s + 90, now_s, "app")
    (login.bin / "waiting").write_text("\x1f".join(map(str, words)) + "\n")
    login.runs(20, [16])
    assert nimo(["wait", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["rows"]
    assert shown["slurm_start_s"] == now_s + 90
    assert shown["start_s"] == now_s + 60
    assert nimo(["wait"]) == 0
    assert "Other jobs' waits need nimod" in " ".join(capsys.readouterr().out.split())


def test_what_came_of_a_job_is_told_beside_what_such_jobs_take(login, capsys):
    assert nimo(["why", "7"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "/app) ran on 2 nodes for 28 min, and completed. No nimod decides here" in told
    assert re.search(r"Such jobs on 2 nodes take 2\d min \(90 % of runs: .*\), by 10 runs", told)
    modes = {path.name: path.stat().st_mode & 0o777 for path in login.kept.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert nimo(["why", "777"]) != 0
    assert "no job 777 of yours has ended and been read" in capsys.readouterr().err


def shows(login, state):
    """Have Slurm show job 99 in a state."""
    shown = f"JobId=99 JobName=app UserId={user_name()}({os.getuid()}) JobState={state}"
    login.program(
        "scontrol",
        f"""\
#!/bin/sh
case "$*" in
"show config") echo "ClusterName             = pine" ;;
"show job 99") echo "{shown}" ;;
*) exit 1 ;;
esac
""",
    )


def test_of_a_job_that_runs_it_is_said_that_it_runs(login, capsys):
    shows(login, "RUNNING")
    assert nimo(["why", "99"]) != 0
    assert "job 99 is running: what came of it is said once it has" in capsys.readouterr().err


def test_of_a_job_that_has_just_ended_the_accounting_is_asked_again(login, capsys, monkeypatch):
    assert nimo(["why", "7"]) == 0
    path = login.bin / "rows.json"
    rows = json.loads(path.read_text())
    now_s = int(time.time())
    ended = {"JobIDRaw": 99, "JobID": 99, "ElapsedRaw": 100, "End": now_s + 100}
    ended |= dict.fromkeys(("Submit", "Eligible", "Start"), now_s)
    path.write_text(json.dumps([*rows, rows[-1] | ended]))
    monkeypatch.setattr(time, "time", lambda: now_s + 400.0)
    assert nimo(["why", "99"]) != 0  # nothing says that it has ended
    shows(login, "COMPLETED")
    capsys.readouterr()
    assert nimo(["why", "99"]) == 0
    assert "Job 99" in capsys.readouterr().out


def test_what_a_nimod_changed_is_not_said_to_be_unchanged(login, capsys):
    path = login.bin / "rows.json"
    rows = json.loads(path.read_text())
    note = "NIMO1:dd68975d7f7c:n=2,req=1-8,t=6,lo=5,hi=7,v=reliable,m=enforce,r=cheapest"
    rows[7]["AdminComment"] = note
    path.write_text(json.dumps(rows))
    assert nimo(["why", "--local", "7"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "NIMO chose 2 nodes: " in told
    assert "nothing was changed" not in told


def test_the_report_counts_the_counts_that_a_nimod_changed(login, capsys):
    path = login.bin / "rows.json"
    rows = json.loads(path.read_text())
    note = "n=2,req=1-8,t=1700,lo=1600,hi=1800,v=reliable,m=enforce,r=cheapest,a=4-900"
    rows[7]["AdminComment"] = f"NIMO1:dd68975d7f7c:{note}"
    path.write_text(json.dumps(rows))
    assert nimo(["report", "--local"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "NIMO changed the node count of 1 job. It ran 13 min longer (12 to 14 min)" in told
    assert "guard" not in told  # no wait was promised


def test_what_needs_nimod_says_so_in_one_line(login, capsys):
    assert nimo(["status"]) != 0
    told = capsys.readouterr().err
    assert "does it run? systemctl status nimod" in told
    assert told.count("\n") == 1


def test_each_cluster_of_a_home_has_a_history_of_its_own(login, capsys):
    assert advise(["-N", "1-8", "app.sh"]) in (0, 3)
    login.asked()
    login.is_on("elm")
    (login.bin / "rows.json").write_text("[]")
    login.program("squeue", "#!/bin/sh\n")
    assert advise(["-N", "1-8", "app.sh"]) == 3
    assert all(" -M elm" in line for line in login.asked())
    with Store.open(f"sqlite:///{login.kept.with_name('local-elm.db')}") as store:
        assert store.runs.count() == 0
    login.is_on("pine")
    assert nimo(["predict", "app"]) == 0
    assert nimo(["local"]) == 0
    assert str(login.kept) in capsys.readouterr().out


def test_a_history_with_another_clusters_jobs_is_read_anew(login, capsys):
    """Earlier releases took the name out of a slurm.conf that may not be Slurm's."""
    login.is_on("elm")
    assert advise(["-N", "1-8", "app.sh"]) in (0, 3)
    elm = login.kept.with_name("local-elm.db")
    with Store.open(f"sqlite:///{elm}") as store:
        assert store.runs.clusters() == {"pine"}  # as this stand-in for sacct answers
    login.asked()
    rows = json.loads((login.bin / "rows.json").read_text())
    renamed = [row | {"Cluster": "elm"} for row in rows[:3]]
    (login.bin / "rows.json").write_text(json.dumps(renamed))
    assert advise(["-N", "1-8", "app.sh"]) in (0, 3)
    with Store.open(f"sqlite:///{elm}") as store:
        assert (store.runs.clusters(), store.runs.count()) == ({"elm"}, 3)


def test_a_job_for_another_cluster_gets_advice_by_its_runs_there(login, capsys, monkeypatch):
    assert advise(["--local", "-M", "elm", "-N", "1-8", "app.sh"]) in (0, 3)
    assert all(" -M elm" in line for line in login.asked())
    monkeypatch.setenv("SLURM_CLUSTERS", "oak")
    assert advise(["--local", "-N", "1-8", "app.sh"]) in (0, 3)
    assert all(" -M oak" in line for line in login.asked())
    capsys.readouterr()
    assert advise(["--local", "-M", "elm,oak", "app.sh"]) == 1
    assert "name one with -M" in capsys.readouterr().err


def test_where_slurm_does_not_say_its_name_nothing_is_guessed(login, capsys):
    login.is_on("")
    assert advise(["-N", "1-8", "app.sh"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "which cluster this is" in err
    assert not login.asked()
