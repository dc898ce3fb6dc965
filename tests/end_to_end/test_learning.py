"""An application that never ran: from nothing to the best count, on a real Slurm."""

import json
import time

import pytest

from tests.end_to_end.site import BEGAN, SLEEP_UNTIL

#: Sixteen seconds of work, dealt out to the nodes, and one second for each node: the least policy
#: cost, T(n) (1 + 16 n/8), is that of one node, then two.
NEWCOMER = f"""\
#!/bin/bash
#SBATCH --job-name=newcomer --exclusive
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  sleep_until $((16000 / SLURM_NTASKS + 1000 * SLURM_NTASKS))'
"""
COSTS = {n: (16 / n + n) * (1 + 2 * n) for n in range(1, 9)}
#: As long on two nodes with little work as on eight with four times as much: which it is, no
#: submission says.
TWO_SIZES = f"""\
#!/bin/bash
#SBATCH --job-name=two-sizes --exclusive
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  sleep_until $((SLURM_NTASKS > 2 ? 32000 / SLURM_NTASKS : 8000 / SLURM_NTASKS))'
"""
#: Submissions that are left alone, and why.
LEFT_ALONE = {6: "opted_out", 8: "observe"}


def submitted(site, script, *options, since_s):
    """Submit a job, let it run, and learn from it: what sbatch and scontrol say; the decision."""
    site.settled()
    done = site.cluster.run("sbatch", "-N", "1-8", "-t", "5", *options, script)
    decision = site.decision(since_s=since_s, name="newcomer")
    job_id = int(done.stdout.split()[-1])
    comment = site.cluster.job(job_id).get("AdminComment", "")
    site.cluster.wait(job_id, accounted=True)
    site.learn()
    return done.stderr, comment, decision


@pytest.mark.long
@pytest.mark.timeout(1200)  # twelve jobs, one after the other
def test_an_application_that_never_ran_is_learnt_in_three_counts(enforcing):
    site, script = enforcing, enforcing.write_script("newcomer.sh", NEWCOMER)
    made = []
    lines = []
    comments = []
    for number in range(12):
        why = LEFT_ALONE.get(number)
        site.read_settings("observe" if why == "observe" else "enforce")
        options = ("--comment=nimo:off",) if why == "opted_out" else ()
        since_s = made[-1].at_s + 1e-6 if made else 0.0
        line, comment, decision = submitted(site, script, *options, since_s=since_s)
        lines.append(line)
        comments.append(comment)
        made.append(decision)
    first, *tries = made[:3]
    shown = [(one.reason, one.nodes) for one in made]
    assert (first.reason, first.applied) == ("name_only", False), shown
    assert {one.reason for one in tries} == {"learning"}, shown
    assert len({8, *(one.nodes for one in tries)}) == 3, shown
    assert "of 1-8 to learn how it scales (2 of 3)" in lines[1]
    assert "(3 of 3)" in lines[2]
    assert (made[6].reason, made[6].applied) == ("opted_out", False)
    assert (made[8].mode, made[8].applied) == ("observe", False)
    later = [one for number, one in enumerate(made) if number > 2 and number not in LEFT_ALONE]
    assert {one.reason for one in later} <= {"learning", "cheapest", "best_already"}, shown
    assert [one.reason for one in made].count("learning") <= 5, shown
    assert max(COSTS[one.nodes or 8] for one in later) <= 1.1 * min(COSTS.values()), shown
    # Which runs were tries is in the job's comment, in the report, and in "nimo why".
    tried = [one.reason == "learning" for one in made]
    assert ["learning" in one for one in comments] == tried
    report = json.loads(site.nimod.run("report", "--json", "--app", tries[0].label).stdout)
    assert report["promises"]["tries"] == sum(tried)
    assert report["promises"]["applications"] == 1
    assert report["promises"]["try_hours"]["nodes"] > 0
    listed = [one["nodes"] for one in reversed(report["jobs"]) if one["reason"] == "learning"]
    assert listed == [one.nodes for one in made if one.reason == "learning"]
    run = site.outcome(tries[0])
    why = " ".join(site.nimod.run("why", str(run.job_id)).stdout.split())
    assert "to learn how the application scales" in why


@pytest.mark.timeout(600)
def test_neither_small_problems_nor_another_users_runs_move_a_job(enforcing):
    site, script = enforcing, enforcing.write_script("two-sizes.sh", TWO_SIZES)
    jobs = [((f"-N{nodes}", "-t5"), script) for nodes in (2, 8)]
    site.run_and_learn(jobs, repeats=3)
    site.settled()
    told = json.loads(site.advise("--json", "-N2-8", "-t5", str(script), check=False).stdout)
    times = {one["nodes"]: one["time_s"] for one in told["rows"]}
    assert times[2] > 1.3 * times[8], times
    # What one user ran moves no job of another one, who has the same script.
    since_s = time.time()
    site.submit("-N2-8", "-t5", script=script)
    site.cluster.sbatch("-N2-8", "-t5", script, user="nobody")
    own, other = sorted(site.made(since_s), key=lambda one: one.user == "nobody")
    assert (own.reason, own.applied) in {("learning", True), ("cheapest", True)}
    assert (other.user, other.applied) == ("nobody", False)
