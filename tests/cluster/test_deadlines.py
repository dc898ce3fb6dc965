"""What NIMO says that Slurm does with a deadline is what a real slurmctld does."""

import time

import pytest

from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.config.setting_types import Mode, TimeUse, Trust
from slurm_plugin.config.settings import JobSettings, OptIn
from slurm_plugin.decision.eligibility import resolve
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job
from slurm_plugin.slurm.node_pool import profile
from tests.processes import ProcessError, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.releases]

#: Their default and their longest limit, minutes.
PARTITIONS = {"hour": (60, 600), "most": (None, 60), "any": (None, None)}
REQUESTS = {
    "-p hour -t 60 --deadline=now+10minutes": False,
    "-p hour -t 1 --deadline=now+90seconds": True,
    "-p hour -t 1 --deadline=now+50seconds": False,
    "-p hour --deadline=now+10minutes": False,
    "-p most --deadline=now+10minutes": True,
    "-p any --deadline=now+10minutes": True,
    "-p any --deadline=now+50seconds": False,
    "-p hour -t 60 --time-min=5 --deadline=now+10minutes": True,
    "-p hour -t 60 --time-min=15 --deadline=now+10minutes": False,
    "-p hour -t 5 --begin=now+5seconds --deadline=now+303seconds": False,
}


@pytest.fixture(scope="module")
def cluster(slurm_cluster):
    conf = [
        f"PartitionName={name} Nodes=n[1-2]"
        f"{f' DefaultTime={default}' if default else ''}{f' MaxTime={most}' if most else ''}"
        for name, (default, most) in PARTITIONS.items()
    ]
    with slurm_cluster(nodes=2, conf=conf) as cluster:
        yield cluster


def starts(cluster, words):
    """Whether Slurm starts a job that has an idle cluster to itself."""
    try:
        job = cluster.sbatch(*words.split(), "--wrap", "sleep 1")
    except ProcessError:  # later releases refuse what 22.05 ends a moment later
        return False
    ended = ("COMPLETED", "DEADLINE")
    wait_until(lambda: cluster.job(job)["JobState"] in ended, what=f"{words} to end")
    return cluster.job(job)["JobState"] == "COMPLETED"


def said_to_start(words):
    """Whether NIMO says that Slurm starts it."""
    now_s = time.time()
    line = parse_command_line(["sbatch", *words.split(), "job.sh"])
    job = make_job(job_fields(line, "#!/bin/sh\n", Submitter("ann", 1000, "/"), now_s=now_s))
    default, most = PARTITIONS[job.partition]
    part = Partition(
        name=job.partition,
        nodes=2,
        profile=profile([(now_s, 2)]),
        default_time_s=default and 60.0 * default,
        max_time_s=most and 60.0 * most,
    )
    site = JobSettings(mode=Mode.ENFORCE, time_limit=TimeUse.OFF, trust=Trust.AUTO)
    request = resolve(SubmittedJob.of(job, part), None, settings=site, opt_in=OptIn(), now_s=now_s)
    return max(now_s, request.begin_s) <= request.latest_start_s(request.limit_s)


@pytest.mark.parametrize(("words", "runs"), REQUESTS.items())
def test_slurm_starts_what_is_said_to_start(cluster, words, runs):
    assert said_to_start(words) is runs
    assert starts(cluster, words) is runs
