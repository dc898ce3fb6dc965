"""The main job on a real Slurm: history in, node count out, outcome joined and reported."""

import json
import time

import pytest

from sacct_ingest.text.admin_comment import parse


def test_history_becomes_a_curve(site):
    tables = json.loads(site.nimod.run("predict", "--json", "root/moldable").stdout)
    # Jobs of other tests may have run on other counts since.
    assert {1, 2, 4, 8} <= {p["nodes"] for p in tables[0]["observed"]}
    times = [p["time_s"] for p in tables[0]["observed"]]
    assert times == sorted(times, reverse=True)
    # 24 s and 6 s without what a busy machine adds.
    assert times[0] >= 24
    assert times[0] / times[-1] > 2
    assert tables[0]["verdict"] != "refused"  # reliable, where other work slows no runs


def test_ingesting_again_changes_nothing(site):
    site.nimod.run("ingest")
    (again,) = json.loads(site.nimod.run("ingest", "--json").stdout)
    assert again["read"] > 0
    assert (again["new"], again["changed"], again["refused"]) == (0, 0, 0)


def test_a_node_range_starts_on_the_count_that_the_policy_names(enforcing):
    job, decision = enforcing.decided("-N", "1-8", "-t", "5")
    job_id = int(job["JobId"])
    assert decision.applied, decision.reason
    assert (decision.min_nodes, decision.max_nodes) == (1, 8)
    assert decision.nodes in range(2, 8), decision
    assert enforcing.node_count(job_id) == decision.nodes
    short = parse(job["AdminComment"])
    assert short.decision_id == decision.decision_id
    assert short.nodes == decision.nodes

    enforcing.cluster.wait(job_id, accounted=True)
    assert enforcing.cluster.sacct("-X", "-j", str(job_id), fields=("NNodes",)) == [
        {"NNodes": str(decision.nodes)}
    ]
    run = enforcing.outcome(decision)
    assert run.job_id == job_id
    # Seconds are whole, and a busy machine starts steps late.
    assert decision.low_s - 5 <= run.elapsed_s <= decision.high_s + 15

    report = json.loads(enforcing.nimod.run("report", "--json").stdout)
    application = next(a for a in report["applications"] if a["application"] == decision.label)
    assert application["changed"] >= 1
    assert application["accuracy"]["runs"] >= 1
    assert application["accuracy"]["mape"] < 2


@pytest.mark.long
def test_tasks_follow_the_nodes(enforcing):
    text = enforcing.script.read_text().replace("moldable", "paired")
    script = enforcing.write_script("paired.sh", text)
    layout = "--ntasks-per-node=2"  # runs with one task on each node say nothing of it
    learned = [
        enforcing.submit("-N", str(n), "-t", "5", layout, script=script)
        for n in (1, 2, 4)
        for _ in range(2)
    ]
    enforcing.cluster.wait(*learned, accounted=True)
    # On a busy machine six runs may differ by too much to be acted on: more of them are made.
    for _ in range(4):
        enforcing.learn()
        enforcing.settled()
        job, decision = enforcing.decided("-N", "1-4", "-t", "5", layout, script=script)
        enforcing.cluster.wait(int(job["JobId"]), accounted=True)
        if decision.applied:
            break
    nodes = enforcing.node_count(int(job["JobId"]))
    assert (decision.applied, nodes) == (True, decision.nodes), decision.reason
    steps = enforcing.cluster.sacct("-j", job["JobId"], fields=("JobID", "NTasks"))
    assert {"JobID": f"{job['JobId']}.0", "NTasks": str(2 * nodes)} in steps


def test_without_the_admin_comment_the_outcome_is_still_joined(enforcing):
    since = time.time()
    job_id = enforcing.submit("-N", "1-8", "-t", "5")
    enforcing.cluster.run("scontrol", "update", f"jobid={job_id}", "admincomment=")
    enforcing.cluster.wait(job_id, accounted=True)
    run = enforcing.outcome(enforcing.decision(since_s=since))
    assert run.job_id == job_id


def test_advice_names_the_count_that_the_hook_gives(enforcing):
    asked = ("-N", "1-8", "-t", "5", "--comment=nimo:learn=off")  # whichever jobs came before
    enforcing.settled()
    advice = json.loads(enforcing.advise("--json", *asked, enforcing.script).stdout)
    job, _ = enforcing.decided(*asked)
    assert enforcing.node_count(int(job["JobId"])) == advice["nodes"]
    assert advice["directive"] == f"#SBATCH --nodes={advice['nodes']}"
    rows = {row["nodes"]: row for row in advice["rows"]}
    assert rows[advice["nodes"]]["recommended"]
    assert rows[8]["time_s"] < rows[1]["time_s"]


def test_observe_leaves_the_job_alone_and_records(site):
    site.run_nimod("observe")
    try:
        for _ in range(2):  # of the second one nimod is only told
            job, decision = site.decided("-N", "1-8", "-t", "5")
            assert (decision.mode, decision.applied) == ("observe", False)
            assert decision.nodes is not None
            assert job.get("AdminComment", "") in ("", "(null)")
            # An untouched range starts on as many nodes as are free.
            assert job["NumNodes"].split("-")[-1] == "8"
        site.read_settings("enforce")
        _, decision = site.decided("-N", "1-8", "-t", "5", "--hold")
        assert (decision.mode, decision.applied) == ("enforce", True)
    finally:
        site.empty_queue()
        site.run_nimod("enforce")


def test_advise_tells_the_user_and_leaves_the_job_alone(site):
    # An argument shows that all runs have one problem: without it they leave that open.
    work = (site.script, "--input=box.dat")
    sizes = [n for n in (1, 2, 4, 8) for _ in range(2)]
    learned = [site.cluster.sbatch("-N", str(n), "-t", "5", *work) for n in sizes]
    site.cluster.wait(*learned, accounted=True)
    site.learn()
    site.run_nimod("advise")
    try:
        since = time.time()
        argv = ("-N", "1-8", "-t", "5", "--hold", "--parsable", *work)
        done = site.cluster.run("sbatch", *argv)
        decision = site.decision(since_s=since)
        assert (decision.mode, decision.applied) == ("advise", False)
        assert decision.nodes is not None
        assert f"--nodes={decision.nodes} would be better than" in done.stderr
        assert site.cluster.job(int(done.stdout))["NumNodes"] == "1-8"
    finally:
        site.empty_queue()
        site.run_nimod("enforce")


def test_off_does_not_even_record(site):
    site.run_nimod("off")
    try:
        before = len(site.decisions())
        job_id = site.submit("-N", "1-8", "-t", "5", "--hold")
        assert site.cluster.job(job_id)["NumNodes"] == "1-8"
        site.nimod.stop()  # writes what waits
        assert len(site.decisions()) == before
    finally:
        site.empty_queue()
        site.run_nimod("enforce")
