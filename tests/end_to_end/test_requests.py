"""Requests of every shape come through right, or unchanged with the reason."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.site import Site


@pytest.mark.parametrize(
    ("options", "reason", "field", "value"),
    [
        (("-N", "4"), "fixed_count", "NumNodes", "4-4"),
        (("-N", "1-8", "-n", "8"), "fixed_tasks", "NumTasks", "8"),
        (("-N", "1-8", "--array=0-1"), "array", "ArrayTaskId", "0-1"),
        (("-N", "1-8", "-x", "n8"), "excluded_nodes", "ExcNodeList", "n8"),
        (("-N", "1-2", "-w", "n1"), "node_list", "ReqNodeList", "n1"),
    ],
)
def test_kept_with_the_reason(
    enforcing: Site, options: tuple[str, ...], reason: str, field: str, value: str
) -> None:
    job, decision = enforcing.decided("-t", "5", "--hold", *options)
    assert (decision.action, decision.reason) == ("keep", reason)
    assert not decision.applied
    assert job[field] == value


def test_no_range_means_not_opted_in(enforcing: Site) -> None:
    job, decision = enforcing.decided("-t", "5", "--hold")
    assert (decision.action, decision.reason) == ("keep", "not_opted_in")
    assert job["NumNodes"].split("-")[0] == "1"


def test_an_unknown_application_is_kept(enforcing: Site) -> None:
    script = enforcing.write_script("unknown.sh", "#!/bin/sh\n#SBATCH -J never-seen\nhostname\n")
    job, decision = enforcing.decided("-N", "1-3", "--hold", "-t", "5", script=script)
    # The user's other jobs are no curve.
    assert (decision.action, decision.reason) == ("keep", "no_curve")
    assert job["NumNodes"] == "1-3"


def test_ntasks_per_node_with_a_range_keeps_tasks_and_nodes_in_step(enforcing: Site) -> None:
    job, decision = enforcing.decided("-N", "1-8", "-t", "5", "--ntasks-per-node=2", "--hold")
    assert decision.applied, decision.reason
    assert decision.nodes
    assert job["NumNodes"].split("-")[0] == str(decision.nodes)
    assert job["NumCPUs"] == str(2 * decision.nodes)


def test_both_parts_of_a_het_job_are_kept(enforcing: Site) -> None:
    since = time.time()
    job_id = enforcing.cluster.sbatch(
        *("-t", "5", "--hold", "-N", "1-2", ":", "-N", "1-3"), enforcing.script
    )
    decision = enforcing.last_decision(since_s=since)
    assert (decision.action, decision.reason) == ("keep", "het")
    shown = enforcing.cluster.run("scontrol", "show", "job", str(job_id)).stdout
    assert "NumNodes=1-2" in shown
    assert "NumNodes=1-3" in shown


def test_salloc_and_srun_run(enforcing: Site) -> None:
    env = {"SLURM_EXIT_ERROR": "7"}
    done = enforcing.cluster.run("srun", "-N", "1-2", "-t", "5", "hostname", env=env)
    assert done.returncode == 0
    done = enforcing.cluster.run("salloc", "-N", "1-2", "-t", "5", "srun", "hostname")
    assert done.returncode == 0


def test_scontrol_update_is_left_alone(enforcing: Site) -> None:
    job, _ = enforcing.decided("-N", "1-8", "-t", "5", "--hold")
    enforcing.cluster.run("scontrol", "update", f"jobid={job['JobId']}", "numnodes=2-3")
    enforcing.cluster.run("scontrol", "update", f"jobid={job['JobId']}", "timelimit=4")
    changed = enforcing.cluster.job(int(job["JobId"]))
    assert changed["NumNodes"] == "2-3"
    assert changed["TimeLimit"] == "00:04:00"


def test_the_users_own_comment_survives_the_passing_on_of_the_deadline(enforcing: Site) -> None:
    job, decision = enforcing.decided(
        "-N", "1-8", "-t", "5", "--deadline=now+1hour", "--comment=my own, words"
    )
    assert job["Comment"] == "my own, words"
    assert decision.deadline_s == pytest.approx(time.time() + 3600, abs=120)
