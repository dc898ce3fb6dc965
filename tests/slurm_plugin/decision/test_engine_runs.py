"""Two runs of a Snakemake workflow make three applications, and a third one gets advice."""

import random
from uuid import UUID

import pytest

from predictor.refit import refit
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.decision.lookup import PredictionLookup
from tests.engine_jobs import job_of, run_of, submissions
from tests.sacct_ingest.records import SUBMIT_S
from tests.slurm_plugin.decision.submitting import advisor

TIMES = {"align": 500.0, "count": 300.0, "plot": 60.0}
FLOW = [one for one in submissions() if one["engine"] == "snakemake"]


def third(one):
    """Give the submission of a run that is not in the history."""
    name = job_of(one).name
    argv = [word.replace(name, str(UUID(int=7))).replace("tmp.", "tmp.z") for word in one["argv"]]
    return job_of({**one, "argv": argv})


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    rng = random.Random(1)
    runs = []
    for number, one in enumerate(FLOW):
        retried = any(
            o["run"] == one["run"] and o["attempt"] > one["attempt"] and
            (o["process"], o["sample"]) == (one["process"], one["sample"]) for o in FLOW
        )  # fmt: skip
        elapsed_s = TIMES[one["process"]] * rng.lognormvariate(0, 0.02)
        times = {"submit_s": SUBMIT_S + 2000 * number, "start_s": SUBMIT_S + 2000 * number}
        state = JobState.OUT_OF_MEMORY if retried else JobState.COMPLETED
        end_s = times["start_s"] + round(elapsed_s)
        runs.append(
            run_of(one, job_id=number, state=state, elapsed_s=elapsed_s, end_s=end_s, **times)
        )
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('engines')}/nimo.db") as store:
        store.runs.add(runs)
        refit(store, now_s=2e9)
        made = advisor()
        made.tables = PredictionLookup(
            (row.level, row.key, row.payload) for row in store.fits.all()
        )
        completed = {
            key: sum(row.state is JobState.COMPLETED for row in rows)
            for key, rows in store.runs.by_key(KeyLevel.TAG)
        }
    return made, completed


def test_each_rule_is_an_application(service):
    assert service[1] == {f"ada/snakemake:{rule}": 8 for rule in TIMES}


@pytest.mark.parametrize("rule", TIMES)
def test_jobs_of_a_third_run_are_advised_by_their_rule(service, rule):
    for one in FLOW:
        if one["process"] == rule:
            advice = service[0].advise(third(one), now_s=2e9)
            assert (advice.key_level, advice.runs) == ("tag", 8)
            own = next(row for row in advice.rows if row.nodes == 1)
            assert own.low_s < TIMES[rule] < own.high_s
            assert own.time_s == pytest.approx(TIMES[rule], rel=0.1)
