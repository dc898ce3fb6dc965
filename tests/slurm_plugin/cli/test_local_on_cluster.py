"""A user with nothing but the wheel, on a real Slurm without nimod: advice, waits, studies.

``PrivateData`` hides all that is not the user's own.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import time
import venv

import pytest

from predictor.stored_table import decode
from sacct_ingest.store import Store
from tests.conftest import scratch_directory
from tests.environments import fill
from tests.processes import Account, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long]
USER = "games"  # Slurm 25.11 takes the uid of nobody for no user
#: Takes longest on one node; with BEYOND it fails there, and more nodes make it slower.
APP = """\
#!/bin/sh
#SBATCH -J app
n=$SLURM_JOB_NUM_NODES
[ -z "$BEYOND" ] || [ $n -gt 1 ] || exit 3
sleep $((${BEYOND:+n + }1 + 8 / n))
"""
GPU_APP = "#!/bin/sh\n#SBATCH -J gpu-app\nsleep $((1 + 8 / SLURM_GPUS))\n"
PRIVATE = "PrivateData=accounts,events,jobs,reservations,usage,users"


class Login:
    """A login node: the wheel's commands, as an unprivileged user with a home of its own."""

    def __init__(self, folder, cluster, wheel):
        venv.create(folder / "venv")
        fill(folder / "venv" / "bin" / "python", wheel, ["plot"])
        self.bin, self.cluster, self.home = folder / "venv" / "bin", cluster, folder / "home"
        self.home.mkdir()
        self.user = USER if os.geteuid() == 0 else None
        (self.home / "app.sh").write_text(APP)
        (self.home / "gpu.sh").write_text(GPU_APP)
        if self.user:
            account = Account.of(USER)
            os.chown(self.home, account.uid, account.gid)
        self.env = {"HOME": str(self.home), "NIMO_CONFIG": "", "OPENBLAS_NUM_THREADS": "1"}

    def run(self, program, *words, **more):
        where = {"user": self.user, "env": self.env, "cwd": self.home, "timeout_s": 900}
        return self.cluster.run(self.bin / program, *words, **where, **more)

    def start(self, *words, program="nimo"):
        account = Account.of(USER) if self.user else Account.mine()
        env = {**self.cluster.env, **self.env}
        return subprocess.Popen(
            [str(self.bin / program), *words], env=env, cwd=self.home, stderr=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True, **account.popen_arguments(),
        )  # fmt: skip

    def few_commands(self):
        """Make a folder with Slurm's commands but for sacct, to be all of PATH."""
        folder = self.home.parent / "few"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for one in ("squeue", "sbatch", "scontrol", "sinfo", "scancel"):
            (folder / one).symlink_to(self.cluster.bin / one)
        (folder / "sleep").symlink_to("/bin/sleep")  # jobs inherit PATH
        self.env["PATH"] = str(folder)
        return folder

    @property
    def kept(self):
        return self.home / ".local" / "share" / "nimo" / "local-nimo.db"

    def queue(self):
        return self.cluster.run("squeue", "-h", "-o", "%i").stdout.split()


@pytest.fixture(scope="module")
def login(slurm_cluster, wheel):
    with slurm_cluster(gpus=2, conf=[PRIVATE]) as cluster:
        with (cluster.layout.etc / "slurmdbd.conf").open("a") as settings:
            settings.write(f"{PRIVATE}\n")
        cluster.restart("slurmdbd")
        if os.geteuid() == 0:
            cluster.run("sacctmgr", "-i", "add", "account", "lab")
            cluster.run("sacctmgr", "-i", "add", "user", USER, "account=lab")
        with scratch_directory("nimo-local-") as folder:
            yield Login(folder, cluster, wheel)


def test_advice_of_ones_own_jobs_and_the_plan_of_the_queue(login):
    submit = {"user": login.user, "cwd": login.home}
    jobs = [login.cluster.sbatch(f"-N{n}", "app.sh", **submit) for n in (1, 2, 4, 4, 2, 1)]
    login.cluster.wait(*jobs, accounted=True)
    first = login.run("nimo-advise", "-N", "1-8", "app.sh", check=False)
    assert f"{login.user or 'root'}/app, 6 runs" in first.stdout, first.stderr
    second = login.run("nimo-advise", "-N", "1-8", "app.sh", check=False)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert login.kept.stat().st_mode & 0o777 == 0o600
    assert login.run("nimo", "local", "--forget").stdout.count("local-nimo.db") == 1
    two = [login.start("-N", "1-8", "app.sh", program="nimo-advise") for _ in range(2)]
    assert [one.communicate()[0] for one in two] == [first.stdout] * 2
    login.cluster.sbatch("--begin=now+1hour", login.home / "app.sh")  # another user's
    later = login.cluster.sbatch("--begin=now+1hour", "app.sh", **submit)
    shown = json.loads(login.run("nimo", "wait", "--json").stdout)
    assert [row["job_id"] for row in shown["rows"]] == [later]
    login.cluster.run("scancel", *login.queue())


TROUBLES = {
    "denied": "Permission denied",
    "slow": "said nothing for 2 s",
    "cut off": "broke off",
    "missing": "cannot run sacct",
    "hidden": "sacct shows no job of yours",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_where_sacct_says_nothing_a_line_says_so_and_squeue_has_the_last_jobs(login, trouble):
    job = login.cluster.sbatch("-N4", "app.sh", user=login.user, cwd=login.home)
    login.cluster.wait(job)
    sacct = login.few_commands() / "sacct"
    if trouble == "denied":
        sacct.touch(0o644)
    elif trouble != "missing":
        cut = {"cut off": " | head -c 700", "hidden": " | head -n 1"}.get(trouble, "")
        real = f'{login.cluster.bin}/sacct "$@"'
        columns = f"[ $1 = --helpformat ] && exec {real}"
        sacct.write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{columns}\n{real}{cut}\n")
        sacct.chmod(0o755)
    seconds = 2.0 if trouble == "slow" else 60.0
    (login.home / "nimo.yaml").write_text(f"local: {{timeout_s: {seconds}}}\n")
    login.env["NIMO_CONFIG"] = str(login.home / "nimo.yaml")
    login.run("nimo", "local", "--forget")
    if trouble == "slow":
        login.cluster.processes.signal("slurmdbd", signal.SIGSTOP)
    try:
        done = login.run("nimo-advise", "-N", "1-8", "app.sh", check=False)
    finally:
        login.cluster.processes.signal("slurmdbd", signal.SIGCONT)
        login.env |= {"NIMO_CONFIG": ""}
        del login.env["PATH"]
        login.run("nimo", "local", "--forget")
    assert TROUBLES[trouble] in done.stderr
    assert "ended in the last minutes" in done.stderr
    assert "Traceback" not in done.stderr
    assert "app, " in done.stdout


def test_a_study_that_is_killed_goes_on_and_advice_knows_its_curve(login):
    words = ("scale", "app.sh", "-N", "1-8", "--time", "2", "-d", "knee")
    process = login.start(*words)
    wait_until(login.queue, what="the first run is in the queue")
    process.kill()
    process.wait()
    done = login.run("nimo", "scale", "--resume", "knee")
    study = json.loads((login.home / "knee" / "study.json").read_text())
    counts = [run["count"] for run in study["runs"]]
    assert 3 < len(counts) <= 6
    assert "another run would not change the answer" in done.stdout or len(counts) == 6
    assert (login.home / "knee" / "plot.pdf").stat().st_size > 1000
    assert not login.queue()
    advice = json.loads(login.run("nimo-advise", "--json", "app.sh", check=False).stdout)
    with Store.open(f"sqlite:///{login.kept}?journal=DELETE") as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.label.endswith("/app")]
    assert max(one.change.tries for one in tables if one.change) == len(counts)
    assert {*counts} <= {point["nodes"] for point in advice["points"]}
    existing = login.run("nimo", "scale", "app.sh", "-N", "1-8", "--existing", "-d", "before")
    assert "from the accounting" in existing.stdout


@pytest.mark.parametrize("sacct", ["missing", "silent"])
def test_a_study_without_sacct_has_its_run_times_from_squeue(login, sacct):
    """It waited for ever where sacct answers and shows no job."""
    few = login.few_commands()
    if sacct == "silent":
        real = f'{login.cluster.bin}/sacct "$@" | sed "/COMPLETED/d"'
        (few / "sacct").write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{real}\n")
        (few / "sacct").chmod(0o755)
    try:
        login.run("nimo", "scale", "app.sh", "-N", "1,2,4", "--runs", "3", "-d", sacct)
    finally:
        del login.env["PATH"]
    runs = json.loads((login.home / sacct / "study.json").read_text())["runs"]
    assert {run["count"] for run in runs if run["state"] == "COMPLETED"} == {1, 2, 4}


def test_a_study_of_gpus(login):
    words = ("gpu.sh", "--sizes", "gpus", "-N", "1,4,16", "--time", "2", "-d", "gpus")
    done = login.run("nimo", "scale", *words)
    with (login.home / "gpus" / "table.csv").open() as file:
        rows = {int(row["count"]): row for row in csv.DictReader(file)}
    assert {1, 4, 16} <= rows.keys()
    assert float(rows[1]["time_s"]) > 1.7 * float(rows[4]["time_s"])
    assert "GPU-hours a run" in " ".join(done.stdout.split())
    given = login.cluster.sacct("-X", "--name=gpu-app", fields=("AllocTRES",))
    assert any("gres/gpu=16" in row["AllocTRES"] for row in given)
    asked = login.run("nimo-advise", "--json", "--gpus=4", "gpu.sh", check=False)
    assert json.loads(asked.stdout)["runs"] == len(given), asked.stderr


def test_a_study_that_is_interrupted_leaves_nothing_and_a_count_that_fails_is_a_row(login):
    login.env["BEYOND"] = "1"
    process = login.start("scale", "app.sh", "-N", "1,2,4,8", "--time", "2", "-d", "slow")
    wait_until(lambda: len(login.queue()) == 3, what="three runs are in the queue")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    wait_until(lambda: not login.queue(), what="the queue is empty")
    done = login.run("nimo", "scale", "--resume", "slow", check=False)
    table = (login.home / "slow" / "table.csv").read_text()
    assert "FAILED, exit status 3" in table, done.stderr
    assert "1,0,," in table
