"""Upgrade and removal under submissions that never pause: none is refused, none is lost."""

import operator
import re
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_plugin.nimod import client
from tests.cluster.nimod import HOOKS, Nimod, hooks_for
from tests.conftest import scratch_directory
from tests.processes import wait_until

#: Two at a time: one is always on its way while something is replaced.
_SUBMITTERS = 2
#: What `scontrol reconfigure` of 22.05 does to a connection now and then, with or without hooks.
#: The answer is lost; whether the job was taken shows in the queue only.
_DROPPED = re.compile("Unexpected missing socket|Zero Bytes were transmitted")


class Submissions:
    """Jobs that are submitted one after the other, held, for as long as this is running."""

    def __init__(self, cluster):
        self.taken = set()  #: names of jobs that sbatch gave an id for
        self.unanswered = set()  #: names of jobs of which the answer was lost
        self.phase = "before"
        self.refused = []  #: phase, and what sbatch said
        self._cluster = cluster
        self._done = [0] * _SUBMITTERS
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._submit, args=(number,)) for number in range(_SUBMITTERS)
        ]

    def _submit(self, number):
        while not self._end.is_set():
            self._submit_one(f"job-{number}-{self._done[number]}")
            self._done[number] += 1

    def _submit_one(self, name):
        options = ("--hold", "-J", name, "-N1-2", "--deadline=now+3days", "--wrap=true")
        phase = self.phase
        done = self._cluster.run("sbatch", "--parsable", *options, check=False)
        if not done.returncode:
            self.taken.add(name)
        elif _DROPPED.search(done.stderr) and "reconfigured" in (phase + self.phase):
            self.unanswered.add(name)
        else:
            self.refused.append((phase, done.stderr))

    @contextmanager
    def going_on(self):
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in self._threads:
                thread.join()

    def wait_for_more(self):
        """Wait until each submitter has ended one that it began after now."""
        enough = [done + 2 for done in self._done]

        def ended():
            return all(map(operator.ge, self._done, enough))

        wait_until(ended, what="more submissions")


@pytest.fixture(scope="module")
def site(slurm_cluster):
    with (
        scratch_directory("nimo-upgrade-") as directory,
        slurm_cluster(nodes=2, lua=hooks_for(directory, timeout_ms=1000)) as cluster,
    ):
        nimod = Nimod(directory, cluster, {"ingest": {"first_days": 1}})
        nimod.run("ingest")  # makes the store
        nimod.start()
        yield nimod


def test_jobs_flow_through_upgrade_and_removal(site):
    cluster, etc = site.cluster, site.cluster.layout.etc
    jobs = Submissions(cluster)
    with jobs.going_on():
        decided_more(site, jobs)

        for _ in range(2):  # each upgrade starts the daemon anew
            jobs.phase = "nimod stopped"
            site.stop()
            jobs.wait_for_more()
            jobs.phase = "nimod started"
            site.start()
            decided_more(site, jobs)

        jobs.phase = "hooks replaced"
        older(etc / "nimo_link.lua")
        older(etc / "job_submit.lua")
        cluster.run("nimo", "hook-path", "--install", etc)
        assert (etc / "nimo_link.lua").read_bytes() == (HOOKS / "nimo_link.lua").read_bytes()
        decided_more(site, jobs)

        # In this order: what cli_filter puts before comments only job_submit takes away.
        for parameter in ("CliFilterPlugins", "JobSubmitPlugins"):
            jobs.phase = f"without {parameter}"
            without(parameter, etc / "slurm.conf")
            jobs.wait_for_more()
            jobs.phase = f"reconfigured without {parameter}"
            cluster.reconfigure()
            jobs.wait_for_more()
        before = decisions(site)
        jobs.wait_for_more()
        assert decisions(site) == before

        jobs.phase = "removed"
        site.stop()
        for name in (path.name for path in HOOKS.glob("*.lua")):
            (etc / name).unlink()
        for command in ("nimo", "nimo-advise"):
            (cluster.bin / command).unlink()
        jobs.wait_for_more()

    assert jobs.refused == []
    queued = cluster.run("squeue", "-h", "-o", "%j|%k").stdout.splitlines()
    comments = dict(row.split("|") for row in queued)
    assert len(queued) == len(comments)  # none was submitted twice
    assert jobs.taken <= set(comments) <= jobs.taken | jobs.unanswered
    assert set(comments.values()) == {"(null)"}  # nobody sees what cli_filter puts before it


def decisions(site):
    counts = client.status(site.socket, timeout_s=30).counts
    return sum(decided.count for decided in counts.decisions)


def decided_more(site, jobs):
    """Wait for submissions that began after now, and for decisions about some."""
    before = decisions(site)
    jobs.wait_for_more()
    wait_until(lambda: decisions(site) > before, what="more decisions")


def older(path):
    """Make a hook one of an older release that slurmctld has loaded, whatever its content."""
    shutil.copyfile(path, f"{path}.old")
    Path(f"{path}.old").write_text(f"{path.read_text()}\n-- of an older release\n")
    Path(f"{path}.old").replace(path)


def without(parameter, slurm_conf):
    """Take a line away, from one moment to the next: commands read the file all the time."""
    new = slurm_conf.with_suffix(".new")
    new.write_text(re.sub(rf"(?m)^{parameter}=.*\n", "", slurm_conf.read_text()))
    new.replace(slurm_conf)
