"""The class that nimod is scheduled in."""

import subprocess
import sys
from pathlib import Path

import pytest

IN_A_PROCESS = """
import os, resource, threading
from slurm_plugin.nimod import loop as supervision
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


def entered(limit: int, change: str = "") -> tuple[str, str]:
    code = IN_A_PROCESS.replace("LIMIT, LIMIT", f"{limit}, {limit}").replace("CHANGE", change)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


def may_enter() -> bool:
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
