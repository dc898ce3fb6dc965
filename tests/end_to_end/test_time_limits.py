"""A limit that cuts a job short: what NIMO says and sets afterwards is never shorter than that."""

from collections.abc import Iterator

import msgspec
import pytest

from sacct_ingest.records import JobState
from slurm_plugin.protocol.advice_messages import Advice
from tests.conftest import ClusterFactory
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, Site, site_on

#: Work that is shared by CPUs, and how much of it there is, in milliseconds, in a file.
PROGRAM = f"""\
#!/bin/bash
{BEGAN}
{SLEEP_UNTIL}
sleep_until $((1000 + $(cat work) / SLURM_CPUS_PER_TASK))
"""
HISTORY = (1, 2, 4, 8)
WORK_MS = 16_000
SIZE = 4


@pytest.fixture(scope="module")
def growing(slurm_cluster: ClusterFactory) -> Iterator[Site]:
    """A site with a history of the program on four sizes; nimod enforces."""
    with site_on(slurm_cluster, nodes=4, cpus=8) as site:
        site.set_number("work", WORK_MS)
        site.script = site.write_script("growing.sh", PROGRAM)
        site.run_and_learn(((options(n), site.script) for n in HISTORY), repeats=3)
        yield site


def options(cpus: int = SIZE, minutes: int = 10) -> tuple[str, ...]:
    tag = "--comment=nimo:time=set,cpus=4-8"
    return ("-Jgrowing", "-N1", f"-c{cpus}", f"-t{minutes}", tag)


def advice(site: Site) -> Advice:
    """What nimo-advise says of the program now."""
    done = site.advise("--json", *options(), site.script, check=False)
    return msgspec.json.decode(done.stdout, type=Advice)


@pytest.mark.long
def test_what_a_limit_cut_short_is_not_predicted_to_be_shorter(growing):
    site = growing
    site.settled()
    before = advice(site)
    assert before.nodes is not None
    # The problem has grown: a limit that its runs so far did not need ends the job.
    site.set_number("work", 4_000_000)
    job, decision = site.decided(*options(minutes=1))
    job_id = int(job["JobId"])
    site.cluster.wait(job_id, timeout_s=300, accounted=True)
    run = site.outcome(decision)
    assert (run.job_id, run.state) == (job_id, JobState.TIMEOUT)
    assert run.elapsed_s >= 60 > before.rows[0].high_s
    site.learn()
    site.run_nimod("enforce")
    site.settled()
    # The run would have taken longer still, and longer than that on fewer CPUs.
    after = advice(site)
    shown = {row.nodes: row for row in after.rows if row.nodes <= run.nodes}
    assert shown
    longest = 0.99 * run.elapsed_s  # run times are rounded
    assert min(row.high_s for row in shown.values()) >= longest
    limits = [row.limit_s for row in shown.values() if row.limit_s is not None]
    assert min(limits, default=run.elapsed_s) >= run.elapsed_s
    job, decision = site.decided(*options(), "--hold")
    assert (decision.given_limit_s or 600) >= run.elapsed_s
    if decision.nodes == run.nodes:
        assert decision.high_s is not None
        assert decision.high_s >= longest
    site.empty_queue()
