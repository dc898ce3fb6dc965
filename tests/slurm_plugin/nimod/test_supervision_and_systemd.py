"""nimod.service as it is shipped, started by a real systemd of the test's own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.processes import wait_until

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
SYSTEMD = Path("/lib/systemd/systemd")
CANNOT = 3


class Systemd:
    """A systemd that runs under `unshare`, whose only child it is."""

    def __init__(self, process):
        self.process = process

    @property
    def pid(self):
        return (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().strip()
        )

    def run(self, *argv, check=True):
        """Run a command beside it."""
        enter = ("nsenter", "-t", self.pid, "-m", "-p", "-u", "-i", "-C")
        done = subprocess.run([*enter, *argv], capture_output=True, text=True, check=check)
        return done.stdout.strip()

    def said(self, name):
        return self.run("systemctl", "show", "nimod", "-p", name, "--value", check=False)

    def active(self):
        return self.said("ActiveState") == "active"


@pytest.fixture(scope="module")
def systemd(tmp_path_factory):
    """One with nimod.service started."""
    if os.geteuid() != 0 or not SYSTEMD.exists() or not shutil.which("nsenter"):
        pytest.skip("a systemd of one's own needs root, systemd and nsenter")
    log = tmp_path_factory.mktemp("systemd") / "log"
    argv = [HERE / "under_systemd.sh", PROJECT, sys.base_prefix, sysconfig.get_path("purelib")]
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
    made = Systemd(process)
    try:
        wait_until(
            lambda: process.poll() is not None or bool(made.pid and made.said("LoadState")),
            what="systemd",
        )
        if process.poll() is not None:
            pytest.skip(f"no systemd of one's own here: {log.read_text()[-300:]}")
        wait_until(made.active, what=f"nimod.service, see {log}")
        yield made
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        tidy(process.pid)


def tidy(pid):
    """Remove the control groups; they can go when their last process has."""

    def gone():
        left = [
            *Path("/sys/fs/cgroup").glob(f"nimo-test-{pid}"),
            *Path("/sys/fs/cgroup").glob(f"*/nimo-test-{pid}"),
        ]
        for top in left:
            for folder in sorted((p for p in [top, *top.rglob("*")] if p.is_dir()), reverse=True):
                try:
                    folder.rmdir()
                except OSError:
                    return False
        return True

    wait_until(gone, what="control groups to end")


def test_the_hardened_unit_answers(systemd):
    assert systemd.said("Type") == "notify"
    assert "requests" in systemd.run("nimo", "status", "--config", "/etc/nimo/nimo.yaml")
    process = systemd.run("cat", f"/proc/{systemd.said('MainPID')}/status").splitlines()
    said = dict(line.split(":\t", 1) for line in process if ":\t" in line)
    assert said["Uid"].split() == ["64998"] * 4
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert int(said["CapBnd"], 16) == 0
    assert systemd.run("stat", "-c", "%U %a", "/run/nimo/nimod.sock") == "nimo 666"
    assert systemd.run("stat", "-c", "%U %a", "/var/lib/nimo/nimo.db") == "nimo 640"


def test_all_its_threads_answer_before_others_compute(systemd):
    limits = systemd.run("cat", f"/proc/{systemd.said('MainPID')}/limits")
    if re.search(r"^Max realtime priority +0 ", limits, re.MULTILINE):
        pytest.skip("systemd may raise no limits here (CAP_SYS_RESOURCE)")
    classes = systemd.run("ps", "-L", "-o", "class=", "-p", systemd.said("MainPID")).split()
    assert len(classes) > 1
    assert set(classes) == {"RR"}


def test_it_is_restarted_reloaded_and_stopped(systemd):
    before = systemd.said("MainPID")
    systemd.run("kill", "-KILL", before)
    wait_until(
        lambda: systemd.active() and systemd.said("MainPID") not in ("0", before), what="the next"
    )
    systemd.run("systemctl", "reload", "nimod")
    assert "requests" in systemd.run("nimo", "status", "--config", "/etc/nimo/nimo.yaml")
    systemd.run("systemctl", "stop", "nimod")
    assert systemd.said("Result") == "success"
    systemd.run("systemctl", "start", "nimod")
    assert systemd.active()


IN_A_PROCESS = """
import os, resource, threading
from slurm_plugin.nimod import supervision
resource.getrlimit = lambda what: (LIMIT, LIMIT) if what == resource.RLIMIT_RTPRIO else None
CHANGE
entered = supervision.enter_real_time_class()
classes = []
thread = threading.Thread(target=lambda: classes.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
print(entered, classes == [os.SCHED_RR])
"""
REFUSED = """
def refuse(*_): raise PermissionError(1, "no")
os.sched_setscheduler = refuse
"""


def entered(limit, change=""):
    code = IN_A_PROCESS.replace("LIMIT, LIMIT", f"{limit}, {limit}").replace("CHANGE", change)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


def may_enter():
    code = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    return done.returncode == 0


@pytest.mark.skipif(not may_enter(), reason="no right to a real-time class")
def test_all_threads_enter_it_where_the_unit_allows_it():
    assert entered(1) == ("True True", "")


def test_nobody_enters_it_unasked():
    assert entered(0) == ("False False", "")
    assert "\nLimitRTPRIO=0\n" in Path("etc/systemd/nimod.service").read_text()


def test_a_kernel_that_refuses_is_no_error():
    reported, warning = entered(1, REFUSED)
    assert reported == "False False"
    assert "late where all cores are busy" in warning
