"""A user with nothing but the wheel, on a real Slurm without nimod: advice, waits, a study."""

import json
import os
import signal
import subprocess
import time
import venv
from pathlib import Path

import pytest

from tests.conftest import scratch_directory
from tests.environments import fill
from tests.processes import Account, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long]
USER = "nobody"
#: Takes longest on one node; with BEYOND it fails there, and more nodes make it slower.
APP = """\
#!/bin/sh
#SBATCH -J app
n=$SLURM_JOB_NUM_NODES
[ -z "$BEYOND" ] || [ $n -gt 1 ] || exit 3
sleep $((${BEYOND:+n + }2 + 12 / n))
"""


class Login:
    """A login node: the wheel's commands, as an unprivileged user with a home of its own."""

    def __init__(self, folder: Path, cluster, wheel: Path) -> None:
        venv.create(folder / "venv")
        fill(folder / "venv" / "bin" / "python", wheel, ["plot"])
        self.bin, self.cluster, self.home = folder / "venv" / "bin", cluster, folder / "home"
        self.home.mkdir()
        self.user = USER if os.geteuid() == 0 else None
        (self.home / "app.sh").write_text(APP)
        if self.user:
            account = Account.of(USER)
            os.chown(self.home, account.uid, account.gid)
        self.env = {"HOME": str(self.home), "NIMO_CONFIG": "", "OPENBLAS_NUM_THREADS": "1"}

    def run(self, program: str, *words: str, **more):
        where = {"user": self.user, "env": self.env, "cwd": self.home}
        return self.cluster.run(self.bin / program, *words, **where, **more)

    def start(self, *words: str) -> subprocess.Popen:
        account = Account.of(USER) if self.user else Account.mine()
        env = {**self.cluster.env, **self.env}
        return subprocess.Popen(
            [str(self.bin / "nimo"), *words], env=env, cwd=self.home, stderr=subprocess.DEVNULL,
            **account.popen_arguments(),
        )  # fmt: skip

    def queue(self) -> list[str]:
        return self.cluster.run("squeue", "-h", "-o", "%i").stdout.split()


@pytest.fixture(scope="module")
def login(slurm, wheel):
    with scratch_directory("nimo-local-") as folder:
        yield Login(folder, slurm, wheel)


def test_advice_of_ones_own_jobs_and_the_plan_of_the_queue(login):
    submit = {"user": login.user, "cwd": login.home}
    jobs = [login.cluster.sbatch(f"-N{n}", "app.sh", **submit) for n in (1, 2, 4, 4, 2, 1)]
    login.cluster.wait(*jobs, accounted=True)
    first = login.run("nimo-advise", "-N", "1-8", "app.sh", check=False)
    assert f"{login.user or 'root'}/app, 6 runs" in first.stdout, first.stderr
    second = login.run("nimo-advise", "-N", "1-8", "app.sh", check=False)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    kept = next(login.home.glob(".local/share/nimo/local-*.db"))
    assert kept.stat().st_mode & 0o777 == 0o600
    later = login.cluster.sbatch("--begin=now+1hour", "app.sh", **submit)
    shown = json.loads(login.run("nimo", "wait", "--json").stdout)
    assert [row["job_id"] for row in shown["rows"]] == [later]
    login.cluster.run("scancel", str(later))


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
    assert {*counts} <= {point["nodes"] for point in advice["points"]}
    existing = login.run("nimo", "scale", "app.sh", "-N", "1-8", "--existing", "-d", "before")
    assert "from the accounting" in existing.stdout


def test_a_study_that_is_interrupted_leaves_nothing_and_a_count_that_fails_is_a_row(login):
    login.env["BEYOND"] = "1"
    process = login.start("scale", "app.sh", "-N", "1,2,4,8", "--time", "2", "-d", "slow")
    wait_until(lambda: len(login.queue()) == 3, what="three runs are in the queue")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    wait_until(lambda: not login.queue(), what="the queue is empty")
    done = login.run("nimo", "scale", "--resume", "slow", check=False)
    table = (login.home / "slow" / "table.csv").read_text()
    assert "FAILED, exit status 3" in table, done.stderr
    assert "1,0,," in table
