"""Three hostile users at work, and a fourth whose jobs are decided as if they were not there."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from sacct_ingest.store import Store
from slurm_plugin.nimod import client
from tests.end_to_end.site import site_on
from tests.processes import LONGEST_WAIT_S, Account, wait_until
from tests.slurm_plugin.test_poisoning import runs_of

HONEST, HOSTILE = "games", ("daemon", "bin", "nobody")
JOBS = int(os.environ.get("NIMO_ATTACK_JOBS", "100"))
SECONDS = float(os.environ.get("NIMO_ATTACK_SECONDS", "300"))  #: at most
MOST_MIB, MOST_HELD_S = 300, 0.05
SCRIPT = "#!/bin/sh\nsrun ./solve\n"
TAG = "--comment=nimo:app=cfd"
#: What the honest user submits again and again; arrays book no nodes, so that a job does not depend
#: on how soon it follows another one.  Every one is held: what runs changes what is free.
HELD = ("--hold", "-J", "solve", TAG)
SHAPES = (
    *((*HELD, "-N", str(n), "-t", "50", "--array=1") for n in (1, 2, 4, 8)),
    (*HELD, "-N", "8", "-t", "50", "--array=1", "--deadline=now+45minutes"),
    (*HELD, "-N", "1", "-t", "50", "--array=1", "--deadline=now+10minutes"),
    ("--hold", "-J", "other", "-N", "2", "-t", "30", "--array=1"),
)
RANGE = (*HELD, "-N", "1-8", "-t", "50")
SETTINGS = {
    "time_limit": {"use": "set"},
    "deadline": {"missed": "refuse"},
    "snapshot": {"interval_s": 1.0},
}
hostile_user = Path(__file__).with_name("hostile_user.py").read_text()
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become several users")


@pytest.fixture(scope="module")
def site(slurm_cluster):
    """A site that enforces limits and deadlines, and knows the honest user's application."""
    with site_on(slurm_cluster) as site:
        with Store.open(site.nimod.store) as store:
            store.runs.add(runs_of(HONEST, 1800.0))
        for _ in range(3):  # what a refit learns of predictions counts from the next one on
            site.nimod.run("fit")
        site.run_nimod("enforce", **SETTINGS)
        wait_until(lambda: site.status().identities > 0, what="nimod to have tables")
        yield site


def submitted(site, *options):
    """Submit a job of the honest user; its nodes, its limit and why, or that it was refused."""
    argv = ("sbatch", "--parsable", *options)
    done = site.cluster.run(*argv, stdin=SCRIPT, user=HONEST, check=False)
    if done.returncode:
        # The message names the deadline, which is another one each time.
        return ("refused", "deadline" if "deadline" in done.stderr else done.stderr)
    job = site.cluster.job(int(done.stdout.strip().partition(";")[0]))
    # Verdict, mode, reason and limit.  Before them is the interval, of guesses too, which act not.
    return job["NumNodes"], job["TimeLimit"], job["AdminComment"].partition(",v=")[2]


def range_submitted(site):
    site.settled()
    return submitted(site, *RANGE)


def poison(site):
    """Runs of the hostile users with the honest one's tag, name and script; then a refit."""
    with Store.open(site.nimod.store) as store:
        for number, user in enumerate(HOSTILE):
            short = runs_of(user, 1.0, first=10_000 * (number + 1), repeats=34)
            store.runs.add(short)
            store.runs.add(runs_of(user, 90_000.0, first=100_000 * (number + 1)))
    for _ in range(2):
        site.learn()


@contextmanager
def attacked(site):
    folder = site.cluster.layout.work
    users = []
    for number, user in enumerate(HOSTILE):
        account = Account.of(user)
        given = (site.nimod.socket, number, SECONDS, account.uid, account.gid)
        users.append(
            subprocess.Popen(
                [sys.executable, "-I", "-c", hostile_user, *map(str, given)],
                env={**site.cluster.env, "USER": user, "LOGNAME": user},
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        yield users
    finally:
        for one in users:
            one.kill()
            one.wait(LONGEST_WAIT_S)


class Pauses(threading.Thread):
    """Asks nimod as root, as slurmctld is served, and notes how long answers take."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self._site = site
        self._over = threading.Event()
        self.seconds = []

    def run(self):
        while not self._over.wait(0.01):
            began = time.monotonic()
            client.status(self._site.nimod.socket, timeout_s=LONGEST_WAIT_S)
            self.seconds.append(time.monotonic() - began)

    def end(self):
        self._over.set()
        self.join(LONGEST_WAIT_S)
        return sorted(self.seconds)


def most_mib(site):
    """Most memory that nimod had so far."""
    pids = subprocess.run(
        ["pgrep", "-f", f"serve --config {site.nimod.config}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    status = (Path("/proc") / pids[0] / "status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.long
@pytest.mark.timeout(1200)  # four minutes where other work has both cores
def test_every_honest_job_is_decided_as_without_hostile_users(site, pytestconfig, capsys):
    expected = {shape: submitted(site, *shape) for shape in SHAPES}
    expected[RANGE] = range_submitted(site)
    assert len({one[2:] for one in expected.values()}) > 3, expected
    assert any(one[0] == "refused" for one in expected.values()), expected
    before_mib, pauses = most_mib(site), Pauses(site)
    with attacked(site) as users:
        pauses.start()
        wrong = []
        for number in range(JOBS):
            if number == JOBS // 3:
                poison(site)
            shape = RANGE if number % 10 == 9 else SHAPES[number % len(SHAPES)]
            got = range_submitted(site) if shape is RANGE else submitted(site, *shape)
            if got != expected[shape]:
                wrong.append((number, shape, got, expected[shape]))
        for one in users:
            one.terminate()
        done = [json.loads(one.communicate(timeout=SECONDS + LONGEST_WAIT_S)[0]) for one in users]
        took = pauses.end()
    mib, held_s = most_mib(site), site.status().longest_s
    decided = [row for row in site.made(0.0) if row.user == HONEST]
    with capsys.disabled():
        pytestconfig.get_terminal_writer().line(
            f"\nhostile acts: {done}\nnimod: {before_mib:.0f} MiB before, {mib:.0f} MiB at most; "
            f"root's {len(took)} questions: half within {1e3 * took[len(took) // 2]:.1f} ms, 99 % "
            f"within {1e3 * took[len(took) * 99 // 100]:.1f} ms, all within {1e3 * took[-1]:.1f} "
            f"ms; longest processor time without a look at requests {1e3 * held_s:.1f} ms"
        )
    assert not wrong, Counter(one[1:] for one in wrong).most_common(12)
    assert len(decided) == JOBS + len(expected)
    assert mib < MOST_MIB
    # Processor time: how busy the machine is does not decide.
    assert held_s < MOST_HELD_S
    assert all(sum(value for name, value in one.items() if name != "uid") > 20 for one in done)
