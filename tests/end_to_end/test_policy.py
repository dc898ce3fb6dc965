"""The policy on a real queue: both directions, a burst, time limits, and being switched off."""

import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from predictor.stored_table import decode, encode
from sacct_ingest.store import Store
from tests.end_to_end.site import PACE_S
from tests.processes import wait_until
from tests.slurm_plugin.made import amdahl, table, with_tails

#: What a job says that leaves its node count open; Slurm alone would give it one.  It has whole
#: nodes, so that a queue makes them dear.
OPEN = ("-t", "5", "--exclusive", "--comment=nimo:nodes=1-8")


@contextmanager
def nimod(site, **settings):
    """Run nimod with other settings for a while."""
    site.run_nimod("enforce", **settings)
    try:
        yield
    finally:
        site.empty_queue()
        site.run_nimod("enforce")


def fill_queue(site, jobs):
    """Keep all nodes busy, and so many jobs waiting for them; wait until nimod knows."""
    sleeper = site.write_script("sleeper.sh", "#!/bin/sh\n#SBATCH -J sleeper\nsleep 600\n")
    for _ in range(jobs + 1):
        site.submit("-N", "8", "--exclusive", "-t", "1", script=sleeper)

    def waiting():
        shown = site.cluster.run("squeue", "-h", "-t", "PD", "-n", "sleeper", "-o", "%A").stdout
        return len(shown.split()) == jobs

    wait_until(waiting, what="the first one to start")
    site.settled()


@contextmanager
def tables(site, change):
    """Let nimod have other prediction tables for a while."""
    with Store.open(site.nimod.store) as store:
        whole = store.fits.all()
        made = [replace(row, payload=encode(change(decode(row.payload)))) for row in whole]
        store.fits.replace(made)
    try:
        site.run_nimod("enforce")
        yield
    finally:
        with Store.open(site.nimod.store) as store:
            store.fits.replace(whole)
        site.empty_queue()
        site.run_nimod("enforce")


def exact(recorded):
    """Give a curve that leaves no doubt which count is best; accounting has whole seconds only."""
    return curve(recorded, serial_s=1.5, parallel_s=48.0)


def knee_at_all_nodes(recorded):
    """Give one whose nodes are worth their time while no job waits, and half of them then."""
    return curve(recorded, serial_s=3.0, parallel_s=24.0)


def curve(recorded, *, serial_s, parallel_s):
    named = {name: getattr(recorded, name) for name in ("level", "key", "label", "owner")}
    law = amdahl(serial_s, parallel_s)
    return table(law, nodes=range(1, 9), observed=(1, 2, 4, 8), **named)


def test_grown_when_idle_and_shrunk_under_load(enforcing):
    with tables(enforcing, exact):
        enforcing.settled()
        job, grown = enforcing.decided(*OPEN, "--hold")
        assert grown.applied, grown.reason
        assert grown.nodes > 1
        assert job["NumNodes"].split("-")[0] == str(grown.nodes)

        fill_queue(enforcing, 12)
        job, shrunk = enforcing.decided(*OPEN, "--hold")
    assert shrunk.applied, shrunk.reason
    assert shrunk.nodes < grown.nodes
    assert job["NumNodes"].split("-")[0] == str(shrunk.nodes)


def test_a_burst_between_two_snapshots_is_reckoned_with(enforcing):
    unseeing = {"interval_s": 500.0, "max_age_s": 1000.0}
    with tables(enforcing, knee_at_all_nodes), nimod(enforcing, snapshot=unseeing):
        since = time.time()
        for _ in range(50):
            enforcing.submit(*OPEN)
        decisions = enforcing.made(since)
    assert len(decisions) == 50
    # Nimod has seen none of these jobs in the queue, and yet:
    starting = [d.nodes or 0 for d in decisions if d.wait_s == 0.0]
    assert sum(starting) <= 8
    assert decisions[-1].nodes < decisions[0].nodes
    waiting = [d.nodes or 0 for d in decisions if d.wait_s != 0.0]
    assert len(waiting) >= 40
    assert waiting == sorted(waiting, reverse=True)


def keeps_limit(site):
    """Tell whether backfill of this Slurm cuts a limit down to ``--time-min`` only when it must."""
    release = site.cluster.run("sinfo", "--version").stdout.split()[1]
    return [int(number) for number in release.split("-")[0].split(".")] >= [25, 5, 3]


def test_a_job_that_asks_for_it_gets_its_time_limit_and_time_min(enforcing):
    # On 8 nodes it takes a little over 6 s: some four and two minutes.
    with tables(enforcing, with_tails(15.0, 30.0)):
        asked = ("-N", "8", "-t", "60", "--hold", "--comment=nimo:time=set")
        job, decision = enforcing.decided(*asked)
        assert (decision.action, decision.reason, decision.applied) == ("keep", "fixed_count", True)
        assert decision.limit_s == 3600
        assert 120 <= decision.given_limit_s < 600
        assert job["TimeLimit"] == f"00:{decision.given_limit_s // 60:02}:00"
        advised = enforcing.advise("-N", "8", "-t", "60", enforcing.script).stdout
        assert "#SBATCH --time=" in advised
        assert ("--time-min=" in advised) is keeps_limit(enforcing)
        if keeps_limit(enforcing):
            assert 120 <= decision.given_min_s < decision.given_limit_s
            assert job["TimeMin"] == f"00:{decision.given_min_s // 60:02}:00"
        else:
            assert (decision.given_min_s, job["TimeMin"]) == (None, "N/A")
        # Nobody else's limit changes, and none becomes longer.
        job, decision = enforcing.decided("-N", "8", "-t", "60", "--hold")
        assert (job["TimeLimit"], decision.given_limit_s) == ("01:00:00", None)
        job, decision = enforcing.decided("-N", "8", "-t", "2", "--hold", "--comment=nimo:time=set")
        assert (job["TimeLimit"], decision.given_limit_s) == ("00:02:00", None)


def test_backfill_cuts_no_limit_that_fits(enforcing):
    # Half of the nodes are busy for a quarter of an hour, and a job waits for all of them.
    sleeper = enforcing.write_script("sleeper.sh", "#!/bin/sh\n#SBATCH -J sleeper\nsleep 900\n")
    with tables(enforcing, with_tails(3.0, 15.0)):
        fixed = ("--exclusive", "-t", "15", "--comment=nimo:off")
        busy = enforcing.submit("-N", "4", *fixed, script=sleeper)
        wait_until(lambda: enforcing.cluster.job(busy)["JobState"] == "RUNNING", what="a start")
        enforcing.submit("-N", "8", *fixed, script=sleeper)
        asked = ("-N", "2", "-t", "120", "--comment=nimo:time=set")
        shown, decision = enforcing.decided(*asked)
        job_id = int(shown["JobId"])
        wait_until(lambda: enforcing.cluster.job(job_id)["JobState"] != "PENDING", what="backfill")
        started = enforcing.cluster.job(job_id)
        assert started["TimeLimit"] == f"00:{decision.given_limit_s // 60:02}:00"


def test_nimo_off_keeps_a_job_as_it_is(enforcing):
    job, decision = enforcing.decided("-N", "1-8", "-t", "5", "--hold", "--comment=nimo:off")
    assert (decision.reason, decision.applied) == ("opted_out", False)
    assert job["NumNodes"] == "1-8"


def run_three(site, pace_s):
    """Run the program three times on 2 nodes, at once, and read what came of it."""
    site.set_pace(pace_s)
    jobs = [site.submit("-N", "2", "-t", "5") for _ in range(3)]
    site.cluster.wait(*jobs, accounted=True)
    site.nimod.run("ingest")


@pytest.mark.long
def test_what_becomes_three_times_slower_is_switched_off_until_it_recovers(enforcing):
    band = {"runs": 3, "least": 3}
    with nimod(enforcing, band=band):
        try:
            run_three(enforcing, 3 * PACE_S)
            _, decision = wait_for_reason(enforcing, "out_of_band")
            assert not decision.applied
            said = enforcing.nimod.run("predict", "root/moldable").stdout
            assert "switched off since" in said
            assert "switched off since" in enforcing.nimod.run("report").stdout
            run_three(enforcing, PACE_S)
            _, decision = wait_for_reason(enforcing, "cheapest")
            assert decision.applied
        finally:
            enforcing.set_pace(PACE_S)
            with Store.open(enforcing.nimod.store) as store:
                rows = [replace(row, off=False) for row in store.standings.all()]
                store.standings.put(rows)


def wait_for_reason(site, reason):
    """Submit held jobs until nimod has read the new standing and decides for this reason."""
    observed = []

    def decided():
        observed.append(site.decided("-N", "1-8", "-t", "5", "--hold"))
        return observed[-1][1].reason == reason

    wait_until(decided, what=f"a decision for {reason}")
    return observed[-1]
