"""Runs with other tasks on each node say nothing about a job."""

import pytest

from tests.end_to_end.site import BEGAN, SLEEP_UNTIL

#: Sixteen seconds of work, dealt out to the tasks that Slurm gives it.
WIDE = f"""\
#!/bin/bash
#SBATCH --job-name=wide
{BEGAN}
{SLEEP_UNTIL}
sleep_until $((16000 / (SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE)))
"""


@pytest.fixture(scope="module")
def wide(site):
    """The site with a history of four tasks on each of 1, 2 and 4 nodes."""
    script = site.write_script("wide.sh", WIDE)
    counts = ((f"-N{n}", "--ntasks-per-node=4", "-t", "5") for n in (1, 2, 4))
    site.run_and_learn(((one, script) for one in counts), repeats=4)
    return site, script


def test_runs_with_other_tasks_on_each_node_set_no_limit(wide):
    site, script = wide
    advice = site.advise("-N1-8", "--ntasks-per-node=1", "-t5", script, check=False).stdout
    assert "#SBATCH" not in advice
    options = ("-N1-8", "-t", "5", "--comment=nimo:time=set", "--hold")
    job, decision = site.decided(*options, "--ntasks-per-node=1", script=script)
    assert decision.reason == "other_layout"
    assert job["TimeLimit"] == "00:05:00"
    job, decision = site.decided(*options, "--ntasks-per-node=4", script=script)
    assert decision.reason != "other_layout"
    assert decision.verdict != "refused"
    site.empty_queue()


@pytest.mark.parametrize("tasks", [1, 2])
def test_advice_says_what_differs(wide, tasks):
    site, script = wide
    advice = unwrapped(site.advise("-N1", f"-n{tasks}", script, check=False).stdout)
    assert "4 CPUs on each node" in advice
    assert f"this job has {tasks} task" in advice
    own = unwrapped(site.advise("-N1", "-n4", script, check=False).stdout)
    assert "this job has" not in own


def unwrapped(text):
    """Give a text on one line: a terminal's width breaks it anywhere."""
    return " ".join(text.split())
