"""A deadline that cannot be made is said (or refused); one that can is made."""

import json
import re
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from predictor.refit import row_of
from predictor.stored_table import decode
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.processes import ProcessError, wait_until


@pytest.fixture(scope="module", autouse=True)
def reliable(site):
    """Tables as of runs on an idle machine.

    Where other work slowed some of the runs, the tables are doubtful, and no limit is set and
    nobody refused by them.
    """
    with Store.open(site.nimod.store) as store:
        learned = store.fits.all()
        store.fits.replace([
            steady(row) if row.level == KeyLevel.LINE else row for row in learned
        ])  # fmt: skip
        site.run_nimod("enforce")
        yield
        store.fits.replace(learned)
    site.run_nimod("enforce")


def steady(row):
    """Make the table of a row reliable, within a tenth."""
    table = decode(row.payload)
    verdict, times = Verdict.RELIABLE, table.median_s
    return row_of(
        replace(
            table,
            verdict=verdict,
            verdicts=(verdict,) * len(times),
            low_s=tuple(t / 1.1 for t in times),
            high_s=tuple(t * 1.1 for t in times),
            acting={},  # other users' runs of earlier tests
        )
    )


def submit_refused(site, *argv):
    """What sbatch says to a job that it refuses; empty when it is accepted."""
    try:
        site.submit(*argv)
    except ProcessError as error:
        return str(error)
    return ""


def test_a_deadline_within_reach_is_given_a_count_that_makes_it(enforcing):
    plain, _ = enforcing.decided("-N", "1-8", "-t", "1", "--hold")
    job, decision = enforcing.decided("-N", "1-8", "-t", "1", "--deadline=now+3minutes")
    assert decision.applied, decision.reason
    assert time.time() + decision.high_s <= decision.deadline_s
    enforcing.cluster.wait(int(job["JobId"]), accounted=True)
    assert plain["JobState"] == "PENDING"
    rows = enforcing.cluster.sacct("-X", "-j", job["JobId"], fields=("State",))
    assert rows == [{"State": "COMPLETED"}]


HOUR = ("-t", "60", "--deadline=now+10minutes")


def test_a_limit_beyond_the_deadline_is_reported_with_one_that_would_do(enforcing):
    """Slurm 22.05 takes such a job, and ends it a second later."""
    advice = enforcing.advise("-N", "1-4", *HOUR, enforcing.script, check=False).stdout
    assert "#SBATCH --time=00:0" in advice
    assert "Slurm does not start this job" in " ".join(advice.split())
    for nodes in ("1-4", "1"):
        since = time.time()
        submit_refused(enforcing, "-N", nodes, *HOUR)  # later releases refuse it
        decision = enforcing.decision(since_s=since)
        assert decision.reason == "deadline_limit"
        assert "--time=00:0" in decision.message


def test_sbatch_and_advice_name_the_same_options(enforcing):
    """sbatch named a deadline two hours away, where advice named a limit of six minutes."""
    since = time.time()
    submit_refused(enforcing, "-N", "2", *HOUR)
    told = enforcing.decision(since_s=since).message
    advice = enforcing.advise("-N", "2", *HOUR, "--json", enforcing.script, check=False).stdout
    said = json.loads(advice)["deadline_text"]
    for text in (told, said):
        assert "Slurm does not start this job: its time limit of 1 h" in text
        assert "--time=00:0" in text
    assert re.findall(r"--[a-z]+=", told) == re.findall(r"--[a-z]+=", said)


@pytest.mark.parametrize("asks", ["ask_ahead", "rewrite_in_cli_filter"])
def test_moments_are_in_the_time_zone_of_the_command(enforcing, asks):
    """Slurm reads its options in it, too."""
    zone = {"TZ": "<+13>-13"}
    date = ("date", "-d", "10 minutes", "+%Y-%m-%dT%H:%M:%S")
    end = enforcing.cluster.run(*date, env=zone).stdout.strip()
    own = enforcing.cluster.layout.etc / "nimo_hook.conf"
    text = own.read_text()
    own.write_text(f"{text}{asks} = yes\n")
    since = time.time()
    try:
        options = ("-N", "1-4", "-t", "60", f"--deadline={end}")
        told = enforcing.cluster.run(
            "sbatch", *options, enforcing.script, env=zone, check=False
        ).stderr
    finally:
        own.write_text(text)
    decision = enforcing.decision(since_s=since)
    assert decision.deadline_s == int(
        enforcing.cluster.run("date", "-d", end, "+%s", env=zone).stdout
    )
    assert f"its deadline, {end[5:].replace('T', ' ')}" in " ".join(
        told.replace("sbatch: ", "").split()
    )


def test_a_limit_that_just_fits_is_not_said_to_end_the_job(enforcing):
    job, decision = enforcing.decided("-N", "1", "-t", "1", "--deadline=now+90seconds")
    assert "does not start" not in decision.message
    assert decision.reason != "deadline_limit"
    enforcing.cluster.wait(int(job["JobId"]), accounted=True)
    rows = enforcing.cluster.sacct("-X", "-j", job["JobId"], fields=("State",))
    assert rows == [{"State": "COMPLETED"}]


def test_the_limit_that_would_do_is_set_where_that_is_opted_in(enforcing):
    job, decision = enforcing.decided("-N", "1-4", *HOUR, "--comment=nimo:time=set")
    assert decision.applied, decision
    assert job["TimeLimit"] < "00:10:00"
    enforcing.cluster.wait(int(job["JobId"]), accounted=True)
    rows = enforcing.cluster.sacct("-X", "-j", job["JobId"], fields=("State",))
    assert rows == [{"State": "COMPLETED"}]
    assert decision.given_limit_s <= 600


@contextmanager
def full_cluster(site):
    """Keep all nodes busy for an hour, so that a deadline within it is out of reach.

    Slurm itself cannot tell: from 24.11 on it refuses what its limits alone keep from being made.
    """
    everything = site.cluster.sbatch(
        *("-J", "full", "-N", "8", "--exclusive", "-t", "60", "--wrap=sleep 3600")
    )
    wait_until(
        lambda: site.cluster.job(everything)["JobState"] == "RUNNING", what="the cluster to be full"
    )
    site.settled()
    try:
        yield
    finally:
        site.empty_queue()
        site.settled()


LATE = ("-N", "1", "-t", "1", "--deadline=now+10minutes")


def test_a_deadline_behind_a_full_cluster_is_warned_of_with_the_numbers(enforcing):
    with full_cluster(enforcing):
        job, decision = enforcing.decided(*LATE)
    assert decision.reason == "deadline_unsure"
    assert "only if it starts" in decision.message
    assert job["NumNodes"] in ("1", "1-1")


def test_a_site_may_refuse_what_takes_too_long_but_nothing_for_its_wait(site):
    site.run_nimod("enforce", deadline={"missed": "refuse"})
    try:
        said = submit_refused(site, "-N", "1", "-t", "1", "--deadline=now+15seconds")
        assert "deadline" in said.lower()
        with full_cluster(site):
            assert not submit_refused(site, *LATE)
    finally:
        site.empty_queue()
        site.run_nimod("enforce")


def test_the_scripts_own_deadline_counts_where_cli_filter_is_not_installed(enforcing):
    own = enforcing.cluster.layout.etc / "cli_filter.lua"
    text = own.read_text()
    head, _, body = enforcing.script.read_text().partition("\n")
    text_with_deadline = f"{head}\n#SBATCH --deadline=now+20minutes\n{body}"
    script = enforcing.write_script("own-deadline.sh", text_with_deadline)
    own.write_text("function slurm_cli_setup_defaults() return slurm.SUCCESS end\n"
                   "function slurm_cli_pre_submit() return slurm.SUCCESS end\n"
                   "function slurm_cli_post_submit() return slurm.SUCCESS end\n")  # fmt: skip
    try:
        _, decision = enforcing.decided("-N", "1-8", "-t", "5", script=script)
    finally:
        own.write_text(text)
    assert abs(decision.deadline_s - time.time() - 1200) < 60
