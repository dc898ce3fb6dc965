"""From accounting to submission: a job gets the prediction of the runs with its own arguments."""

import random
from functools import partial
from uuid import UUID

import pytest

from predictor.refit import refit
from predictor.types import Verdict
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.scripts.signature import identity_of_request
from sacct_ingest.store import Store
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.protocol.request_messages import Job
from tests.engine_jobs import job_of, run_of, submissions
from tests.sacct_ingest.records import SUBMIT_S
from tests.slurm_plugin.decision.submitting import advisor

SLOWER = {"9": 1.0, "1": 4.0}
DIR = "/scratch/ada"


def runs(seed):
    """One tag for runs with KPAR=9 and with KPAR=1, which take four times as long."""
    rng, at_s = random.Random(seed), 1_790_000_000
    for number in range(48):
        kpar, nodes = rng.choice("91"), rng.choice((1, 2, 4, 8))
        elapsed_s = (600 / nodes + 40) * SLOWER[kpar] * rng.lognormvariate(0, 0.01)
        yield JobRun(
            cluster="pine",
            job_id=number,
            submit_s=at_s,
            start_s=at_s,
            end_s=at_s + round(elapsed_s),
            elapsed_s=elapsed_s,
            state=JobState.COMPLETED,
            user="ada",
            name="vasp",
            account="hpc",
            comment="nimo:app=vasp",
            submit_line=f"sbatch -N {nodes} vasp.sh KPAR={kpar}",
            work_dir=DIR,
            nodes=nodes,
            cpus=4 * nodes,
            tasks=4 * nodes,
            limit_s=36_000,
        )
        at_s += round(elapsed_s) + 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('split')}/nimo.db") as store:
        store.runs.add(runs(1))
        refit(store, now_s=2e9)
        return PredictionLookup((row.level, row.key, row.payload) for row in store.fits.all())


def predicted(tables, kpar):
    job = Job(
        user_name="ada", name="vasp", comment="nimo:app=vasp", work_dir=DIR, time_limit=600,
        argv=["/home/ada/vasp.sh", f"KPAR={kpar}"], min_nodes=2, max_nodes=2, ntasks_per_node=4,
        num_tasks=8, account="hpc",
    )  # fmt: skip
    identity = identity_of_request(
        user="ada", name="vasp", comment=job.comment, script="", argv=job.argv, work_dir=DIR
    )
    one = SubmittedJob.of(job, None)
    asked = partial(one.attributes, job.account)
    table = tables.find(identity, one.layouts, attributes=asked)
    assert table is not None
    return table


@pytest.mark.parametrize("kpar", SLOWER)
def test_a_job_is_predicted_from_the_runs_with_its_argument(tables, kpar):
    table = predicted(tables, kpar)
    assert table.is_curve
    assert (table.level, f"with KPAR={kpar}" in table.label) == ("tag", True)
    two = table.median_s[table.nodes.index(2)]
    assert two == pytest.approx((600 / 2 + 40) * SLOWER[kpar], rel=0.05)


def test_the_tag_alone_would_mix_them(tables):
    table = predicted(tables, "4")
    assert not table.is_curve
    assert Verdict.RELIABLE not in table.verdicts
    assert "run times differ by KPAR" in table.problems[0].text


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
