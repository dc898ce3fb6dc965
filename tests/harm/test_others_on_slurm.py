"""The property of `tests.harm.test_others` on a real Slurm: fewer acts, nothing simulated."""

import os
import random
import time

import pytest
from msgspec.structs import replace

from sacct_ingest.store import Store
from slurm_plugin.slurm.node_pool import profile
from tests.end_to_end.site import site_on
from tests.processes import wait_until
from tests.slurm_plugin.test_poisoning import runs_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become several users"),
]

HONEST, HOSTILE, NODES, LIMIT_S = "games", "daemon", 8, 3000
ACTS, SEED = int(os.environ.get("NIMO_OTHERS_ACTS", "14")), 20261128
#: A job with tasks for each node never waits for a prediction: it could not get its range back.
RANGE = ("-H", "-J", "solve", "--comment=nimo:app=cfd", "-N1-8", "--ntasks-per-node=1", "-t50")
SCRIPT = "#!/bin/sh\nsrun ./solve\n"
SLEEPER = "#!/bin/sh\nsleep 100000\n"
TAGS = ("nimo:off", "nimo:app=tiny", "nimo:app=cfd", "")
#: Jobs that can never start: Slurm takes them all the same.
NEVER = (
    ("-p", "small", "-N1", "-t", "1-0", "--array=0-199"),
    ("-p", "small", "-N3", "-t", "10", "--array=0-49"),
    ("-H", "-N8", "-t", "7-0", "--array=0-49"),
    ("--begin=now+2days", "-N8", "-t", "7-0"),
    ("-p", "small", "-N2", "-t", "5-0"),
)


@pytest.fixture(scope="module")
def site(slurm_cluster):
    """An honest user's application of half an hour, and a hostile user's of three minutes."""
    with site_on(slurm_cluster, nodes=NODES) as made:
        tiny = [
            replace(run, comment="nimo:app=tiny", name="tiny")
            for run in runs_of(HOSTILE, 180.0, first=300_000)
        ]
        with Store.open(made.nimod.store) as store:
            store.runs.add([*runs_of(HONEST, 1800.0), *tiny])
        for _ in range(3):  # what a refit learns of predictions counts from the next one on
            made.nimod.run("fit")
        made.run_nimod("enforce")
        wait_until(lambda: made.status().identities > 0, what="nimod to have tables")
        yield made


class Hostile:
    """A user who submits, tags, holds, cancels and updates at random."""

    def __init__(self, site, dice):
        self.site, self.dice = site, dice
        self.never, self.running = [], []

    def run(self, *argv, stdin=None):
        return self.site.cluster.run(*argv, user=HOSTILE, stdin=stdin, check=False).stdout.strip()

    def submit(self, *options):
        tag = self.dice.choice(TAGS)
        made = self.run("sbatch", "--parsable", f"--comment={tag}", *options, stdin=SLEEPER)
        return made.splitlines()[-1:] if made else []

    def act(self):
        free = NODES - sum(nodes for _, nodes, _ in running(self.site))
        acts = [self.floods, self.floods]
        acts += [self.takes] * 2 * (free > 0) + [self.cancels, self.updates] * bool(self.running)
        act = self.dice.choice(acts)
        act(free)
        return act.__name__

    def floods(self, _):
        self.never += self.submit(*self.dice.choice(NEVER))

    def takes(self, free):
        nodes, limit = self.dice.randint(1, free), self.dice.choice(("6", "50", "7-0"))
        name = self.dice.choice(("tiny", "solve"))
        self.running += self.submit("-J", name, f"-N{nodes}", "--exclusive", "-t", limit)
        wait_until(lambda: len(running(self.site)) >= len(self.running), what="its job to run")

    def cancels(self, _):
        self.run("scancel", self.running.pop(self.dice.randrange(len(self.running))))

    def updates(self, _):
        job = self.dice.choice(self.running)
        self.run("scontrol", "update", f"jobid={job}", f"comment={self.dice.choice(TAGS)}")
        self.run("scontrol", "update", f"jobid={job}", "timelimit=5")


def running(site):
    """Id, nodes and end by its limit of each job that runs, or is just ending."""
    argv = ("-h", "-t", "R,CG,CF", "-O", "JobID:20,NumNodes:20,EndTime:30")
    text = site.cluster.run("squeue", *argv, env={"SLURM_TIME_FORMAT": "%s"}).stdout
    return [(job, int(nodes), float(end)) for job, nodes, end in map(str.split, text.splitlines())]


def decided(site):
    """Submit the honest job, and give the count that it is pinned to; None: it keeps its range."""
    site.settled()
    argv = ("sbatch", "--parsable", *RANGE)
    job_id = site.cluster.run(*argv, user=HONEST, stdin=SCRIPT).stdout.strip()
    low, _, high = site.cluster.job(int(job_id))["NumNodes"].partition("-")
    site.cluster.run("scancel", job_id)
    return int(low) if low == high else None


def is_no_later(site, count):
    """Whether it starts no later on a count than as asked if all jobs run to their limits.

    Or ends no later: with the run times that nimod knows, on fewer nodes it never does.
    """
    now_s, jobs = time.time(), running(site)
    free = NODES - sum(nodes for _, nodes, _ in jobs)
    there = profile([(now_s, free), *((max(end, now_s), nodes) for _, nodes, end in jobs)])
    return there.earliest_start(count, LIMIT_S) <= there.earliest_start(1, LIMIT_S)


def test_an_honest_job_is_decided_as_without_a_hostile_user_or_no_later_by_limits(site):
    alone = decided(site)
    assert alone is not None, "the honest user's jobs are not decided on"
    hostile, acts = Hostile(site, random.Random(SEED)), []
    for _ in range(ACTS):
        acts.append(hostile.act())
        wait_until(lambda: not ending(site), what="what was cancelled to end")
        count = decided(site)
        if not running(site):
            assert count == alone, acts
        assert count is None or is_no_later(site, count), (acts, count, running(site))
    assert {"floods", "takes"} <= set(acts), acts


def ending(site):
    """List the jobs that are ending."""
    return site.cluster.run("squeue", "-h", "-t", "CG", "-O", "JobID").stdout.split()
