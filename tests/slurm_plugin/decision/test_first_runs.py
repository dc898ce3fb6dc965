"""Whose jobs a guess is made of, and that no submission asks for one."""

import msgspec
import pytest

from predictor.neighbours import AskedJob, Neighbours, PastJob, PastJobs
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Config, Sharing
from slurm_plugin.decision.job_keys import queued_job
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.test_eligibility_and_budget import site
from tests.slurm_plugin.made import NOW, cluster, job, partition


def past(*users):
    asked = AskedJob(4, limit_s=7200.0, partition="batch")
    jobs = [PastJob(user, NOW - 900, NOW - 300, 600.0, asked) for user in users for _ in range(4)]
    return Neighbours(msgspec.json.encode(PastJobs(jobs)).decode())


def service(neighbours, first_runs=Whose.SITE):
    made = DecisionService(Config(sharing=Sharing(first_runs=first_runs)), new_id=lambda: "0" * 12)
    made.tables, made.cluster = PredictionLookup(neighbours=neighbours), site()
    return made


@pytest.mark.parametrize(
    ("users", "allowed", "private", "text"),
    [
        (("bob", "zoe", "kim"), Whose.SITE, False, "based on jobs of 3 other users,"),
        (("bob", "zoe", "kim"), Whose.SITE, True, "no finished run"),
        (("bob", "zoe", "kim"), Whose.OWN, False, "no finished run"),
        (("alice", "bob", "zoe", "kim"), Whose.OWN, False, "based on 4 of your other jobs,"),
        (("alice", "bob", "zoe", "kim"), Whose.SITE, True, "based on 4 of your other jobs,"),
        (
            *(("alice", "bob", "zoe", "kim"), Whose.SITE, False),
            "based on 4 of your other jobs and jobs of 3 other users,",
        ),
    ],
)
def test_others_jobs_count_where_the_site_allows_it_and_hides_no_jobs(
    users, allowed, private, text
):
    advice = service(past(*users), allowed).advise(job(), now_s=NOW, private=private)
    assert text in advice.verdict_text
    assert (advice.nodes, advice.directive, advice.time_directive) == (None, "", "")


@pytest.mark.parametrize(
    ("free", "asked", "nodes"),
    [
        (32, {"min_nodes": 1, "max_nodes": 8}, 8),
        (5, {"min_nodes": 1, "max_nodes": 8}, 5),  # as many as are free
        (32, {"min_nodes": 1, "max_nodes": 500}, 32),  # no more than there are
        (32, {"min_nodes": 3, "max_nodes": 3}, 3),
    ],
)
def test_a_range_is_guessed_on_the_count_that_slurm_would_give(free, asked, nodes):
    made = service(past("alice"))
    made.cluster = cluster(partition(profile([(NOW, free)])))
    advice = made.advise(job(**asked), now_s=NOW)
    assert ([row.nodes for row in advice.rows], advice.asked) == ([nodes], nodes)


def test_a_submission_asks_for_no_guess():
    class Forbidden(Neighbours):
        def table(self, *args, **options):
            raise AssertionError

    made = service(Forbidden())
    answer, _ = made.submit(job(), via="job_submit", now_s=NOW)
    assert answer.action == "keep"
    made.prepare(job(), now_s=NOW)


def test_past_jobs_stay_with_tables_that_are_switched_off_or_renewed():
    neighbours = past("alice")
    tables = PredictionLookup(neighbours=neighbours)
    assert tables.with_off([]).neighbours is neighbours
    newer = past("bob")
    made = tables.renewed([], version=2, off=[], node_types={}, neighbours=newer, some=True)
    assert made.neighbours is newer


def test_a_job_in_the_queue_is_compared_as_it_was_when_it_was_submitted():
    asked = job(
        name="run_17", argv=["/home/alice/solve.sh", "in.dat", "-n", "3"], work_dir="/home/alice",
        min_nodes=2, max_nodes=2, num_tasks=8, time_limit=60, tres_per_node="gres/gpu:2",
        script="",
    )  # fmt: skip
    queued = RawJob(
        state="PENDING", name="run_17", command="/home/alice/solve.sh in.dat -n 3", nodes=2,
        work_dir="/home/alice", limit_s=3600.0, tres={"cpu": 8.0, "gres/gpu": 4.0},
        partitions=("batch", "long"),
    )  # fmt: skip
    assert queued_job(queued) == SubmittedJob.of(asked, None).beside_others("batch")
    assert len(queued_job(queued).words) > 2
