"""Waits by what is known of the jobs before: predicted run times, and whole nodes."""

from math import inf

from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.slurm import snapshot
from slurm_plugin.slurm.node_pool import NodeShare
from tests.slurm_plugin.slurm.test_snapshot import HOUR, NOW, node, pending, running, view

CPU = NodeShare(whole=False)
WHOLE = NodeShare()


def note(nodes=1, high_s=24, verdict="reliable"):
    return "JS1:x " + build(
        Note(
            decision_id="0" * 12, nodes=nodes, low=1, high=8, time_s=20, low_s=18, high_s=high_s,
            verdict=verdict, mode="enforce", reason="fixed_count",
        )
    )  # fmt: skip


def start(observed, nodes=1, duration_s=HOUR, share=WHOLE):
    free, _ = observed.partitions["batch"].pool.fitting(share)
    return free.earliest_start(nodes, duration_s) - NOW


def busy(comment, **fields):
    """Two nodes, each with a job of an hour that began ten seconds ago."""
    given = {"start_s": NOW - 10, "admin_comment": comment, **fields}
    jobs = [running(name, NOW - 10 + HOUR, **given) for name in ("n1", "n2")]
    return [node("n1", "ALLOCATED", 4), node("n2", "ALLOCATED", 4)], jobs


def test_a_job_ends_by_its_reliable_prediction():
    observed = view(*busy(note()))
    assert start(observed) == 14.0
    assert observed.shown == {"0" * 12}


def test_a_job_is_taken_to_its_limit_where_no_more_is_available():
    for comment in ("", "JS1:x", note(verdict="doubtful"), note(nodes=2)):
        assert start(view(*busy(comment))) == HOUR - 10


def test_a_job_that_lasts_longer_than_predicted_is_taken_to_its_limit():
    assert start(view(*busy(note(), start_s=NOW - 30))) == HOUR - 10


def test_a_limit_that_ends_sooner_holds():
    nodes, jobs = busy(note(high_s=7200))
    assert start(view(nodes, jobs)) == HOUR - 10


def test_planned_jobs_move_ahead_with_those_before_them():
    nodes, jobs = busy(note())
    later = NOW - 10 + HOUR
    for comment, wait in ((note(), 14.0 + 24), ("", 14.0 + HOUR)):
        queue = [
            pending(1, start_s=later, end_s=later + HOUR, alone=True, admin_comment=comment)
            for _ in range(2)
        ]
        assert start(view(nodes, [*jobs, *queue])) == wait


def test_plans_stand_where_no_run_time_is_available():
    nodes, jobs = busy("")
    plan = pending(2, start_s=NOW + 2 * HOUR, end_s=NOW + 3 * HOUR, alone=True)
    assert start(view(nodes, [*jobs, plan]), duration_s=HOUR) == HOUR - 10
    assert start(view(nodes, [*jobs, plan]), duration_s=2 * HOUR) == 3 * HOUR


def test_a_queued_exclusive_job_takes_whole_nodes():
    """It asks for one CPU on each node and gets them all."""
    plan = {"start_s": NOW + 60, "end_s": NOW + 60 + 3 * HOUR, "tres": {"cpu": 2.0}}
    nodes = [node("n1"), node("n2")]
    assert start(view(nodes, [pending(2, alone=True, **plan)])) == 60 + 3 * HOUR
    assert start(view(nodes, [pending(2, **plan)]), share=CPU) == 0.0


def test_a_queued_job_with_all_memory_takes_whole_nodes():
    job = pending(2, tres={"cpu": 2.0, "mem": 4000.0})
    assert snapshot.whole_nodes(job, 2, (4, 2000)) == 2
    assert snapshot.whole_nodes(job, 2, (4, 0)) == 1
    assert snapshot.whole_nodes(pending(3), 3, (4, 2000)) == 3
    assert snapshot.expected_run_time_s(pending(1)) is None
    assert snapshot.expected_end_s(running("n1", inf), NOW) == inf
