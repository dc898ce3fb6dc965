"""How nimod begins, reloads and ends."""

import signal
import subprocess
import time
from pathlib import Path

from slurm_plugin.nimod import client
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import table
from tests.slurm_plugin.nimod.own_nimod import SLURM, hang_up


def test_new_tables_are_noticed_by_themselves(running):
    assert running.decide(user_name="bob").reason == "unknown_application"
    running.fit(table(), table(key="bob/solve", owner="bob"))
    wait_until(lambda: running.status().identities == 2, what="the new tables")
    assert running.decide(user_name="bob").action == "set"


def test_a_hangup_reads_the_tables_again(running):
    before = running.status().loaded_s
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: running.status().loaded_s > before, what="the reload")
    assert running.decide().action == "set"


def test_a_hangup_reads_the_settings_and_a_broken_file_leaves_them(running):
    whole = (running.folder / "nimo.yaml").read_text()
    assert running.decide().action == "set"
    hang_up(running, whole.replace("mode: enforce", "mode: [broken"), "stay as they were")
    assert running.decide().action == "set"
    hang_up(running, whole.replace("mode: enforce", "mode: observe"), "settings read")
    assert running.decide().action == "keep"


def test_a_hangup_tells_which_changes_need_a_restart(running):
    whole = (running.folder / "nimo.yaml").read_text()
    hang_up(running, whole.replace("nimod.sock", "other.sock"), "socket was changed: that needs")
    assert running.status().ok


def test_reload_by_message(running):
    before = running.status().loaded_s
    assert client.status(running.socket, reload=True, timeout_s=LONGEST_WAIT_S).ok
    wait_until(lambda: running.status().loaded_s > before, what="the reload")


def test_the_end_is_clean_and_loses_no_decision(running):
    answers = [running.decide() for _ in range(20)]
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(LONGEST_WAIT_S) == 0
    assert running.notify.recv(100) == b"STOPPING=1"
    assert not Path(running.socket).exists()
    assert len(running.decisions()) == len(answers)


def test_a_second_one_refuses_to_start(running):
    second = subprocess.run(
        running.process.args, capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=False
    )
    assert second.returncode == 78
    assert f"another nimod has it (process {running.process.pid})" in second.stderr
    assert running.status().ok


def test_one_that_was_killed_is_followed_by_the_next(running):
    running.process.kill()
    running.process.wait()
    running.start()
    assert running.status().identities == 1


def test_it_begins_without_slurm_and_without_a_store(nimod):
    nimod.set_slurm("#!/bin/sh\necho 'slurmctld is away' >&2; exit 1\n")
    nimod.start()
    assert nimod.decide().reason == "no_snapshot"
    assert "slurmctld is away" in nimod.log.read_text()
    nimod.set_slurm(SLURM)
    nimod.fit()
    nimod.see_cluster()
    wait_until(lambda: nimod.status().identities == 1, what="the tables")
    assert nimod.decide().action == "set"
    # The record from before the cluster's name was known has it all the same.
    wait_until(lambda: len(nimod.decisions()) == 2, what="both decisions")
    assert nimod.log.read_text().count("slurmctld is away") == 1


def test_a_slurm_that_hangs_delays_no_answer(nimod):
    nimod.set_slurm("#!/bin/sh\nexec sleep 60\n")
    nimod.fit()
    nimod.start()
    began = time.monotonic()
    assert nimod.decide().reason == "no_snapshot"
    assert time.monotonic() - began < 30
    nimod.process.send_signal(signal.SIGTERM)
    assert nimod.process.wait(LONGEST_WAIT_S) == 0


def test_systemd_is_notified_that_it_lives(nimod):
    nimod.start(WATCHDOG_USEC="300000")
    assert {nimod.notify.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
