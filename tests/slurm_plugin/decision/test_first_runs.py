"""Whose jobs a guess is made of, and that no submission asks for one."""

import msgspec
import pytest

from predictor.neighbours import AskedJob, Neighbours, PastJob, PastJobs
from slurm_plugin.config.setting_types import FirstRuns
from slurm_plugin.config.settings import Config, Sharing
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from tests.slurm_plugin.decision.test_eligibility_and_budget import site
from tests.slurm_plugin.made import NOW, job


def past(*users):
    asked = AskedJob(4, limit_s=7200.0, partition="batch")
    jobs = [PastJob(user, NOW - 900, NOW - 300, 600.0, asked) for user in users for _ in range(4)]
    return Neighbours(msgspec.json.encode(PastJobs(jobs)).decode())


def service(neighbours, first_runs=FirstRuns.SITE):
    made = DecisionService(Config(sharing=Sharing(first_runs=first_runs)), new_id=lambda: "0" * 12)
    made.tables, made.cluster = PredictionLookup(neighbours=neighbours), site()
    return made


@pytest.mark.parametrize(
    ("users", "allowed", "private", "text"),
    [
        (("bob", "zoe", "kim"), FirstRuns.SITE, False, "based on jobs of 3 other users,"),
        (("bob", "zoe", "kim"), FirstRuns.SITE, True, "no finished run"),
        (("bob", "zoe", "kim"), FirstRuns.OWN, False, "no finished run"),
        (("alice", "bob", "zoe", "kim"), FirstRuns.OWN, False, "based on 4 of your other jobs,"),
        (("alice", "bob", "zoe", "kim"), FirstRuns.SITE, True, "based on 4 of your other jobs,"),
        (
            *(("alice", "bob", "zoe", "kim"), FirstRuns.SITE, False),
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
