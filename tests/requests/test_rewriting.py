"""The commands that cli_filter rewrites, on a real Slurm: decided once, with tasks that fit."""

import time

import pytest

from tests.requests.conftest import hook_settings
from tests.requests.documented import promises
from tests.requests.test_requests import fill, plain

pytestmark = pytest.mark.releases

ROWS = promises("Rewritten in cli_filter")
#: Says what the job finds around it, and what its job is in slurmctld.
#: On one line, because Slurm 26.05 shows it in the job's SubmitLine.
LOOK = (
    "for name in SLURM_NNODES SLURM_NTASKS SLURM_NPROCS; do printenv $name || echo; done; "
    "scontrol -o show job $SLURM_JOB_ID | grep JobId="
)
BEGAN = "srun hostname | wc -l"
MINE = ("-J", "shapes", "-t", "10", "--comment=mine")
WITHOUT = "rewrite_in_cli_filter = no\n"


def run(site, program, options, look=LOOK):
    """Run a job; give what it finds by looking, and how many tasks a step of it has."""
    if program == "srun":
        # Tasks write at the same time: what one of them finds goes into a file.
        inside = f"[ $SLURM_PROCID != 0 ] || {{ {look}; }} > look.out; echo began"
        done = site.cluster.run("srun", *options, "sh", "-c", inside)
        lines = (site.cluster.layout.work / "look.out").read_text().splitlines()
        return [*lines, str(done.stdout.count("began"))]
    if program == "salloc":
        done = site.cluster.run("salloc", *options, "sh", "-c", f"{look}; {BEGAN}")
        return done.stdout.splitlines()
    script = site.write_script("look.sh", f"#!/bin/sh\n{look}; {BEGAN}\n")
    job_id = site.cluster.sbatch(*options, "-o", "%A.out", "-e", "/dev/null", script)
    site.cluster.wait(job_id)
    return (site.cluster.layout.work / f"{job_id}.out").read_text().splitlines()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.request)
def test_decided_once_and_laid_out_for_it(rewriting, row):
    rewriting.settled()
    since = time.time()
    program, *options = row.request.split()
    result = run(rewriting, program, [*MINE, *options])
    assert len(result) == 5, result
    nodes, tasks, procs, shown, began = result
    decision = rewriting.decision(since_s=since)
    job = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    assert decision.reason == row.why
    assert decision.applied == row.chosen
    assert job["Comment"] == "mine"
    if row.chosen:
        assert (decision.via, decision.min_nodes, decision.max_nodes) == ("cli_filter", 1, 8)
        assert f"NIMO1:{decision.decision_id}:" in shown or "AdminComment" not in job
        assert plain(job["NumNodes"]) == nodes == str(decision.nodes)
    if row.cpus:
        assert job["NumCPUs"] == fill(row.cpus, decision.nodes)
    assert tasks == procs == fill(row.tasks, decision.nodes)
    assert began == (tasks or nodes)


def test_steps_inside_a_job_are_as_they_were_asked_for(rewriting):
    since = time.time()
    # Fewer tasks than nodes would end slurmctld 22.05, with or without NIMO.
    inside = "srun -N 1-2 -n 2 sh -c 'echo $SLURM_STEP_NUM_TASKS'"
    done = rewriting.cluster.run("salloc", "-J", "x", "-N", "2", "-t", "10", "sh", "-c", inside)
    assert done.stdout.split() == ["2", "2"]
    assert len(rewriting.made(since)) == 1


def test_components_of_a_heterogeneous_job_stand(rewriting):
    since = time.time()
    script = rewriting.write_script("look.sh", f"#!/bin/sh\n{LOOK}")
    job_id = rewriting.cluster.sbatch("-H", *MINE, "-N", "1-8", ":", "-N", "1-3", script)
    assert {d.reason for d in rewriting.made(since)} == {"het"}
    shown = rewriting.cluster.run("scontrol", "show", "job", str(job_id)).stdout
    assert "NumNodes=1-8" in shown
    assert "NumNodes=1-3" in shown


@pytest.mark.parametrize(
    ("options", "reason", "shown"),
    [
        (["-a", "0-1"], "array", "1-8"),
        # As slurmctld shows it without NIMO, too: two of eight tasks on a node need four.
        (["-n", "8", "--ntasks-per-node=2"], "fixed_tasks", "4-8"),
    ],
    ids=["array", "tasks"],
)
def test_other_requests_stand(rewriting, options, reason, shown):
    since = time.time()
    script = rewriting.write_script("look.sh", f"#!/bin/sh\n{LOOK}")
    job_id = rewriting.cluster.sbatch("-H", *MINE, "-N", "1-8", *options, script)
    decision = rewriting.decision(since_s=since)
    assert (decision.reason, decision.via) == (reason, "cli_filter")
    assert rewriting.cluster.job(job_id)["NumNodes"] == shown


def test_test_only_shows_the_chosen_count_and_leaves_no_decision(rewriting):
    rewriting.settled()
    since = time.time()
    job_id = rewriting.cluster.sbatch("-H", "-t", "10", "-N", "1-8", rewriting.script)
    chosen = rewriting.decision(since_s=since).nodes
    rewriting.cluster.run("scancel", str(job_id))
    rewriting.settled()
    since = time.time()
    done = rewriting.cluster.run("sbatch", "--test-only", "-t", "10", "-N", "1-8", rewriting.script)
    assert f"using {chosen} processors" in done.stderr
    assert rewriting.made(since) == []


def test_a_forged_ticket_gives_what_was_asked_for(rewriting):
    since = time.time()
    forged = "--comment=nimo{deadline=,ticket=0123456789ab,own=4} mine"
    job_id = rewriting.cluster.sbatch("-H", "-J", "shapes", "-N", "8", forged, "--wrap=true")
    decision = rewriting.decision(since_s=since)
    assert (decision.reason, decision.applied) == ("fixed_count", False)
    job = rewriting.cluster.job(job_id)
    assert plain(job["NumNodes"]) == "8"


def test_without_nimod_everything_is_as_it_was_asked_for(rewriting):
    rewriting.nimod.stop()
    try:
        inside = "echo $SLURM_NNODES $SLURM_NTASKS"
        done = rewriting.cluster.run("salloc", *MINE, "-N", "1-8", "sh", "-c", inside)
        job = rewriting.cluster.job(
            rewriting.cluster.sbatch("-H", *MINE, "-N", "1-8", rewriting.script)
        )
    finally:
        rewriting.nimod.start()
        rewriting.settled()
    assert done.stdout.strip()
    assert (job["NumNodes"], job["Comment"]) == ("1-8", "mine")


TRIES = 10  #: on a busy machine the job may come before its decision
AHEAD = (
    ["-N", "1-8", "--ntasks-per-node=2"],
    ["-n", "4", "-N", "1-4"],
    ["-N", "1-7", "-x", "n8", "--mem=100", "-d", "singleton", "-p", "batch", "-A", "root"],
)


def _decided(site, program, options, *, ahead):
    """Submit with ``ask_ahead`` as given; what became of the job, and the decision on it."""
    with hook_settings(site, f"{WITHOUT}ask_ahead = {ahead}\n"):
        site.settled()
        since = time.time()
        result = run(site, program, [*MINE, *options])
        return result[:3], site.decision(since_s=since)


@pytest.mark.parametrize(
    ("program", "options"),
    [*(("sbatch", options) for options in AHEAD), ("salloc", AHEAD[0])],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_asked_ahead_it_is_decided_as_ever(site, program, options):
    before, asked = _decided(site, program, options, ahead="no")
    assert asked.via == "job_submit"
    # On some releases salloc's tasks per node become others in between: it is decided on again.
    recounted = program == "salloc" and "--ntasks-per-node=2" in options
    for _ in range(TRIES):  # slurmctld does not wait for a decision that is not ready
        after, ahead_one = _decided(site, program, options, ahead="yes")
        if ahead_one.via == "cli_filter" or recounted:
            break
    assert ahead_one.via == "cli_filter" or recounted
    assert after == before
    decided = (ahead_one.applied, ahead_one.reason, ahead_one.nodes)
    assert decided == (asked.applied, asked.reason, asked.nodes)
