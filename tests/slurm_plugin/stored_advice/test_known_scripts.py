"""Applications of one script are counted alike whether the scripts of runs are known or not.

A store learns the scripts of runs from nimod's decisions; what a user's own history has comes from
the accounting alone, which has none.
"""

from random import Random

import pytest

from predictor.refit import refit
from predictor.stored_table import decode
from predictor.tables.settings import TableSettings
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.store_access import last_runs
from slurm_plugin.stored_advice.advise import advise_like
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.sacct_ingest.records import decision
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.random_stores import WAYS

SCRIPT = "5c15c15c15c15c15c15c15c1"
#: Histories that are played.
SEEDS = 5
#: Of its runs, in the order of an application's numbers, so many come before its first tag.
UNTAGGED = (0, 0, 0, 2)


def runs_of(random):
    """Runs of applications that one script starts, each on sizes of its own."""
    number = 0
    for k in range(random.randint(2, 4)):
        way, sizes = random.choice(WAYS)
        sizes = random.sample(sizes, random.choice((1, 1, 1, 2)))
        work_s = random.choice((5.0, 60.0, 3000.0))
        at_s = int(NOW) - 10 * 86_400 + 60 * k
        untagged = random.choice(UNTAGGED)
        for turn in range(random.choice((3, 6, 6, 12))):
            number += 1
            asked = way(random.choice(sizes))
            at_s += 7200
            elapsed_s = max(round(work_s * random.choice((1.0, 1.0, 1.2))), 1)
            yield JobRun(
                cluster="pine",
                job_id=number,
                submit_s=at_s,
                start_s=at_s + 1,
                end_s=at_s + 1 + elapsed_s,
                elapsed_s=float(elapsed_s),
                state=JobState.COMPLETED,
                user="ada",
                name=f"{'abcde'[k]}app",
                partition="batch",
                work_dir="/home/ada",
                comment="" if turn < untagged else f"nimo:app={'abcde'[k]}",
                submit_line=f"sbatch {asked.words} -t 60 job.sh",
                limit_s=3600,
                nodes=asked.nodes,
                cpus=asked.cpus,
                req_cpus=asked.cpus,
                tasks=asked.tasks,
                gpus=asked.gpus or None,
                req_gpus=asked.gpus or None,
                node_list=f"n[1-{asked.nodes}]",
            )


def fitted(path, runs, *, known):
    """Make a store of runs.

    known: whether nimod saw their scripts.
    """
    with Store.open(str(path)) as store:
        store.runs.add(runs)
        if known:
            seen = [(run, run.comment.partition("=")[2]) for run in runs]
            store.decisions.add(
                [
                    decision(
                        decision_id=f"{run.job_id:012x}",
                        at_s=run.submit_s + 0.25,
                        name=run.name,
                        work_dir=run.work_dir,
                        script=SCRIPT,
                        tag=f"ada/{app}" if app else "",
                        line=run_line(store, run),
                    )
                    for run, app in seen
                ]
            )
            assert store.decisions.join_outcomes() == len(runs)
        refit(store, now_s=NOW, settings=TableSettings())
    return path


def run_line(store, run):
    """Give the key of a run's submit line."""
    rows = [row for _, own in store.runs.by_key(KeyLevel.NAME) for row in own]
    return next(row.line for row in rows if row.job_id == run.job_id)


def answers(path):
    """Give the count and the run times that nimo-advise predicts for each application's usual job.

    Intervals, and with them limits and verdicts, lean on the record of all that a store knows.
    """
    config = Config(cluster="pine")
    with Store.open(str(path)) as store:
        tables = [decode(row.payload) for row in store.fits.all() if row.level == KeyLevel.TAG]
        said = {}
        for table in tables:
            usual = usual_job(table, last_runs(store, table))
            if usual is None:
                continue
            advice = advise_like(store, usual, config, now_s=NOW)
            rows = [(row.nodes, row.time_s) for row in advice.rows]
            said[table.key] = advice.unit, advice.nodes, advice.directive, rows
        return said


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_store_that_knows_scripts_counts_as_the_accounting_alone(seed, tmp_path):
    runs = list(runs_of(Random(seed)))
    known = fitted(tmp_path / "known.db", runs, known=True)
    alone = fitted(tmp_path / "alone.db", runs, known=False)
    said = answers(alone)
    assert said
    assert answers(known) == said
