"""Programs whose run time depends on CPUs, tasks or GPUs: a history, advice, a tag, a limit."""

import msgspec
import pytest

from sacct_ingest.records import JobState
from slurm_plugin.protocol.advice_messages import Advice
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, site_on

CPUS, GPUS = 16, 4
#: Work that is shared by CPUs, tasks or GPUs, and some that is not.
PROGRAM = f"""\
#!/bin/bash
{BEGAN}
{SLEEP_UNTIL}
@COUNT@
echo $count > $SLURM_JOB_NAME.$SLURM_JOB_ID
sleep_until $((1000 + 24000 / count))
"""
COUNTS = {
    "threads": "count=${SLURM_CPUS_PER_TASK:-1}",
    "ranks": "count=$SLURM_NTASKS",
    # As CUDA does: a device that is not visible is not there.  Slurm names none that are plain
    # files, so that the script does it as a prolog would.
    "devices": """\
: ${CUDA_VISIBLE_DEVICES:=$(seq -s, $SLURM_GPUS_ON_NODE)}
IFS=, read -ra visible <<< $CUDA_VISIBLE_DEVICES
count=${#visible[@]}""",
}
#: Requests of the history; the last says how many there are.
REQUESTS = {
    "threads": ("-N1", "-c{n}"),
    "ranks": ("-N1", "-n{n}"),
    "devices": ("-N1", "--gres=gpu:{n}", "-c{n}"),
}
HISTORY = {"threads": (1, 2, 4, 8), "ranks": (1, 2, 4, 8), "devices": (1, 2, 3, 4)}


@pytest.fixture(scope="module")
def sized(slurm_cluster):
    """A site with a history of each program on four sizes; nimod enforces."""
    with site_on(slurm_cluster, nodes=2, cpus=CPUS, gpus=GPUS) as site:
        jobs = [
            ((*_options(name, n), "-t5"), _program(site, name))
            for name, counts in HISTORY.items()
            for n in counts
        ]
        site.run_and_learn(jobs, repeats=2)
        yield site


def _program(site, name):
    text = PROGRAM.replace("@COUNT@", COUNTS[name])
    return site.write_script(f"{name}.sh", text)


def _options(name, count):
    return [f"-J{name}", *(one.format(n=count) for one in REQUESTS[name])]


@pytest.mark.parametrize(
    ("name", "option", "unit"),
    [
        ("threads", "--cpus-per-task=", "CPUs"),
        ("ranks", "--ntasks=", "CPUs"),
        ("devices", "--gpus-per-node=", "GPUs"),
    ],
)
def test_advice_names_the_option_that_the_runs_differed_in(sized, name, option, unit):
    site = sized
    site.settled()
    reported = site.advise(*_options(name, 1), "-t5", _program(site, name)).stdout
    assert f"#SBATCH {option}" in reported
    assert unit in reported.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "tag"), [("threads", "cpus"), ("ranks", "tasks"), ("devices", "gpus")]
)
def test_a_tagged_job_starts_on_the_size_that_the_policy_names(sized, name, tag):
    site, script = sized, _program(sized, name)
    site.settled()
    options = (*_options(name, 1), "-t5", f"--comment=nimo:{tag}=1-4")
    job, decision = site.decided(*options, script=script)
    assert (decision.unit, decision.action, decision.applied) == (
        "gpus" if name == "devices" else "cpus",
        "set",
        True,
    )
    assert decision.nodes > 1
    job_id = int(job["JobId"])
    site.cluster.wait(job_id, accounted=True)
    # What the program itself counted.
    counted = (site.cluster.layout.work / f"{name}.{job_id}").read_text()
    assert int(counted) == decision.nodes
    run = site.outcome(decision)
    assert run.nodes == decision.nodes  # counted as the decision is
    assert abs(run.elapsed_s / decision.predicted_s - 1) < 0.5


def test_without_a_tag_a_job_keeps_its_size(sized):
    site = sized
    site.settled()
    job, decision = site.decided(
        "-Jthreads", "-N1", "-c2", "-t5", "--hold", script=_program(site, "threads")
    )
    assert (decision.action, decision.reason, decision.unit) == ("keep", "fixed_cpus", "cpus")
    assert job["CPUs/Task"] == "2"
    site.empty_queue()


#: Work that is shared by CPUs, and how much of it there is, in milliseconds, in a file.
GROWING = f"""\
#!/bin/bash
{BEGAN}
{SLEEP_UNTIL}
sleep_until $((1000 + $(cat work) / SLURM_CPUS_PER_TASK))
"""
WORK_MS = 16_000
SIZE = 4


@pytest.fixture(scope="module")
def growing(sized):
    """The site with a history of the growing program on four sizes."""
    sized.set_number("work", WORK_MS)
    script = sized.write_script("growing.sh", GROWING)
    sized.run_and_learn(((limited(n), script) for n in HISTORY["threads"]), repeats=3)
    return sized, script


def limited(cpus=SIZE, minutes=10):
    tag = "--comment=nimo:time=set,cpus=4-8"
    return ("-Jgrowing", "-N1", f"-c{cpus}", f"-t{minutes}", tag)


def advice(site, script):
    """What nimo-advise says of the program now."""
    done = site.advise("--json", *limited(), script, check=False)
    assert done.stdout, done.stderr
    return msgspec.json.decode(done.stdout, type=Advice)


@pytest.mark.long
def test_what_a_limit_cut_short_is_not_predicted_to_be_shorter(growing):
    site, script = growing
    site.settled()
    before = advice(site, script)
    assert before.nodes is not None
    # The problem has grown: a limit that its runs so far did not need ends the job.
    site.set_number("work", 4_000_000)
    job, decision = site.decided(*limited(minutes=1), script=script)
    job_id = int(job["JobId"])
    site.cluster.wait(job_id, accounted=True)
    run = site.outcome(decision)
    assert (run.job_id, run.state) == (job_id, JobState.TIMEOUT)
    assert run.elapsed_s >= 60 > before.rows[0].high_s
    site.learn()
    site.run_nimod("enforce")
    site.settled()
    # The run would have taken longer still, and longer than that on fewer CPUs.
    after = advice(site, script)
    shown = {row.nodes: row for row in after.rows if row.nodes <= run.nodes}
    assert shown
    longest = 0.99 * run.elapsed_s  # run times are rounded
    assert min(row.high_s for row in shown.values()) >= longest
    limits = [row.limit_s for row in shown.values() if row.limit_s is not None]
    assert min(limits, default=run.elapsed_s) >= run.elapsed_s
    job, decision = site.decided(*limited(), "--hold", script=script)
    assert (decision.given_limit_s or 600) >= run.elapsed_s
    if decision.nodes == run.nodes:
        assert decision.high_s >= longest
    site.empty_queue()
