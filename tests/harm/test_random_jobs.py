"""Three hundred random jobs with NIMO and without: none that finishes without it fails with it."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.store import Store
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.slurm.converters import tres
from tests.end_to_end.site import site_on
from tests.harm.jobs import DEFAULT_MIB, Job, random_jobs

JOBS, SEED = 300, 20260921
WEEK_S, COUNTS = 7 * 86400, (1, 2, 4, 8)
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one job, by Slurm's account and its application's formula."""

    job: Job
    run: JobRun
    mem_mib: float  #: that each of its nodes gave it

    @property
    def cpus(self):
        """CPUs of each node."""
        return self.run.cpus // max(self.run.nodes, 1)

    @property
    def time_s(self):
        """How long it takes on what it got."""
        return self.job.time_s(max(self.run.nodes, 1), self.cpus)

    @property
    def need_mib(self):
        """Memory that it needs on each node."""
        return self.job.formula.mem_mib / max(self.run.nodes, 1)

    @property
    def failure(self):
        """Why it fails; empty where it finishes."""
        if self.run.state is not JobState.COMPLETED:
            return str(self.run.state)
        if self.run.limit_s is not None and self.time_s > self.run.limit_s:
            return f"TIMEOUT: takes {self.time_s:.0f} s, limit {self.run.limit_s} s"
        if self.need_mib > self.mem_mib:
            return f"OUT_OF_MEMORY: needs {self.need_mib:.0f} MiB, has {self.mem_mib:.0f}"
        return ""

    def history(self):
        """Runs of the weeks before as accounting has them: this one, and others on more nodes.

        Some applications never ran with as many CPUs on each node as this job asks for.
        """
        if self.job.formula.learned_cpus not in (0, self.cpus):
            return
        counts = (max(self.run.nodes, 1), *COUNTS)
        first = self.run.job_id % len(counts)  # each week has runs on all counts
        for week, nodes in enumerate((*counts[first:], *counts[:first]), start=1):
            yield self._at_a_site(week, nodes)

    def _at_a_site(self, week, nodes):
        run, before_s = self.run, week * WEEK_S
        lasted_s, state = round(self.job.time_s(nodes, self.cpus)), JobState.COMPLETED
        if run.limit_s is not None and lasted_s > run.limit_s:
            lasted_s, state = run.limit_s, JobState.TIMEOUT
        need = self.job.formula.mem_mib / nodes
        if need > self.mem_mib:
            lasted_s, state = 1, JobState.OUT_OF_MEMORY
        start_s = (run.start_s or 0) - before_s
        return replace(
            run,
            state=state,
            nodes=nodes,
            cpus=nodes * self.cpus,
            submit_s=run.submit_s - before_s,
            eligible_s=run.submit_s - before_s,
            start_s=start_s,
            end_s=start_s + lasted_s,
            elapsed_s=float(lasted_s),
            mem_bytes=round(min(need, self.mem_mib) * MIB) if need else None,
            steps=(),
        )


@pytest.fixture(scope="module")
def site(slurm_cluster):
    """Memory that is given out with the CPUs, and a script for each kind of job."""
    conf = ("SelectTypeParameters=CR_Core_Memory", f"DefMemPerCPU={DEFAULT_MIB}")
    with site_on(slurm_cluster, conf=conf) as site:
        yield site


def run_all(site, jobs):
    """Submit all jobs, wait for them, and give what became of each, in their order."""
    folder = site.cluster.layout.work / "scripts"
    folder.mkdir(exist_ok=True)
    for name in {job.name for job in jobs}:
        (folder / f"{name}.sh").write_text(f"#!/bin/sh\n#SBATCH -J {name} -o /dev/null\nexit 0\n")

    def submit(job):
        return site.cluster.sbatch(*job.options, folder / f"{job.name}.sh", user=job.user)

    # Jobs end at once, but are predicted to take hours: in their queue deadlines would be missed.
    urgent = {place: job for place, job in enumerate(jobs) if job.name == "deadline"}
    others = [job for job in jobs if job.name != "deadline"]
    alone = {}
    for place, job in urgent.items():
        alone[place] = submit(job)
        site.cluster.wait(alone[place])
    with ThreadPoolExecutor(4) as pool:
        rest = pool.map(submit, others)
        ids = [alone[place] if place in alone else next(rest) for place in range(len(jobs))]
    site.cluster.wait(*ids, accounted=True)
    begin_s = int(time.time()) - 3600
    source = LiveSacct(command=(str(site.cluster.bin / "sacct"),))
    ended = source.read(begin_s, begin_s + 7200, Tally())
    runs = {run.array_job_id or run.job_id: run for run in ended}
    rows = site.cluster.sacct("-X", fields=("JobID", "AllocTRES"))
    given = {int(row["JobID"].partition("_")[0]): tres(row["AllocTRES"]) for row in rows}
    return [
        Ended(job, runs[job_id], given[job_id].get("mem", 0.0) / max(runs[job_id].nodes, 1))
        for job, job_id in zip(jobs, ids, strict=True)
    ]


def is_ours(ended, made):
    """Whether NIMO chose what the job failed with: its nodes, or else its time limit.

    A job that keeps its range of nodes starts on those that are free at that moment, and so does
    one that gets its range back since it did not start as planned: it has another count then.
    """
    note = parse(ended.run.admin_comment)
    decision = made.get(note.decision_id) if note else None
    if decision is None or not decision.applied:
        return False
    changed = decision.nodes != decision.requested_nodes
    chose_nodes = changed and ended.run.nodes == decision.nodes
    return chose_nodes or not ended.failure.startswith("OUT_OF_MEMORY")


@pytest.mark.long
def test_no_job_that_finishes_without_nimo_fails_with_it(site):
    jobs = random_jobs(JOBS, SEED)
    site.nimod.kill_switch.touch()
    without = run_all(site, jobs)
    site.nimod.kill_switch.unlink()
    with Store.open(site.nimod.store) as store:
        store.runs.add(run for one in without for run in one.history())
    site.nimod.run("fit")
    site.run_nimod("enforce", time_limit={"use": "set"}, deadline={"missed": "refuse"})
    since = time.time()
    with_nimo = run_all(site, jobs)
    decisions = site.made(since)
    applied = Counter(decision.name for decision in decisions if decision.applied)
    limited = [d for d in decisions if d.applied and d.given_limit_s is not None]

    pairs = list(zip(without, with_nimo, strict=True))
    finished = [after for before, after in pairs if not before.failure]
    made = {decision.decision_id: decision for decision in decisions}
    worse = [
        f"{after.job} {after.run.nodes} nodes: {after.failure}"
        for after in finished
        if after.failure and is_ours(after, made)
    ]
    assert worse == []
    assert len(finished) > 0.8 * JOBS
    assert sum(applied.values()) > 0.2 * JOBS, Counter(d.reason for d in decisions)
    assert len(limited) > 0.05 * JOBS
