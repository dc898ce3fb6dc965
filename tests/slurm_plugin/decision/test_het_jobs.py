"""Heterogeneous jobs: advice by the runs of the same components, and never another count."""

from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import Component, KeyLevel
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.cli.advice_requests import ADVICE, UNKNOWN, exit_status
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.het_jobs import joined_components
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job
from slurm_plugin.stored_advice.usual_job import usual_job
from tests.predictor.rows import row
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, idle, partition

SCRIPT = "#!/bin/sh\nsrun ./solve\n"
TAG = "--comment=nimo:app=solve"
#: Time limit that the runs and the request ask for, minutes.
LIMIT = 120


def ran(*components, runs=10):
    """Runs of a job of these components, each of nodes and CPUs, of ten minutes."""
    parts = tuple(Component(nodes, cpus, req_cpus=cpus) for nodes, cpus in components)
    nodes = sum(one.nodes for one in parts)
    made = []
    for number in range(runs):
        run = replace(row(nodes, 600.0 + number), components=parts, limit_s=60 * LIMIT)
        end_s = int(NOW) - 5000 * (runs - number)
        ids = {"run_id": number, "job_id": number, "submit_s": end_s - 700, "end_s": end_s}
        made.append(replace(run, **ids, user="alice", name="solve", start_s=end_s - 610))
    return made


def tables(*components, runs=10):
    """Tables of such runs."""
    made = ran(*components, runs=runs)
    identity = IdentityRuns(KeyLevel.TAG, "alice/solve", made, NOW)
    found = tables_of(identity, TableSettings())
    return [replace(one.table, owner="alice") for one in found if one.table is not None]


def asked(*words):
    line = parse_command_line(["sbatch", TAG, *words, "solve.sh"])
    return make_job(job_fields(line, SCRIPT, Submitter("alice", 1000, "/work"), now_s=NOW))


ALIKE = ("-N1", "-t", str(LIMIT), ":", "-N2", "-t", str(LIMIT))


def test_ten_runs_give_a_run_time_a_limit_and_an_end_but_no_count():
    made = advisor(tables=tables((1, 1), (2, 2)))
    advice = made.advise(asked(*ALIKE), now_s=NOW)
    assert [one.nodes for one in advice.rows] == [3]
    assert 590 < advice.rows[0].time_s < 620
    assert advice.rows[0].wait_s is not None
    assert (advice.directive, advice.memory_directive) == ("", "")
    assert advice.time_directive.startswith("#SBATCH --time=")
    assert "each component" in advice.time_text
    assert (advice.nodes, advice.asked, advice.components) == (None, 3, [1, 2])
    assert exit_status(advice) == ADVICE


@pytest.mark.parametrize(
    "words",
    [
        ("-N1", ":", "-N3"),
        ("-N1", ":", "-N2", ":", "-N1"),
        ("-N1", ":", "-N2", "--gpus-per-node=1"),
        ("-N1", ":", "-N2", "--ntasks-per-node=2"),
        ("-N3",),
    ],
)
def test_runs_of_other_components_do_not_apply(words):
    made = advisor(tables=tables((1, 1), (2, 2)))
    advice = made.advise(asked("-t", str(LIMIT), *words), now_s=NOW)
    assert (advice.verdict, advice.time_directive) == ("refused", "")
    assert exit_status(advice) == UNKNOWN


@pytest.mark.parametrize("seed", range(20))
def test_components_stay_as_they_are_whatever_the_runs_and_the_site_say(seed):
    """Also where slurmctld shows one component alone, as it does to the hook."""
    rng = Random(seed)
    parts = [(n, n) for n in rng.choices((1, 2, 3), k=rng.choice((2, 3)))]
    made = advisor(tables=tables(*parts, runs=rng.choice((1, 4, 12))))
    words = [word for nodes, _ in parts for word in (":", f"-N{nodes}", "-t", str(LIMIT))]
    whole = asked(*words[1:], *(("--comment=nimo:app=solve,time=set",) if seed % 2 else ()))
    first = structs.replace(whole, components=())
    assert made.advise(whole, now_s=NOW).directive == ""
    for request in (whole, first):
        answer, record = submit(made, request)
        assert (answer.action, answer.set, record.reason) == ("keep", None, Reason.HET)


def test_the_hook_records_the_run_time_of_the_whole_job():
    made = advisor(tables=tables((1, 1), (2, 2)))
    alone = structs.replace(asked(*ALIKE), components=())
    _, record = submit(made, alone)
    assert (record.nodes, record.verdict) == (3, "reliable")
    second = structs.replace(alone, het_job_offset=1, min_nodes=2, max_nodes=2)
    _, record = submit(made, second)
    assert record.verdict == "refused"


def test_the_usual_job_of_such_runs_has_their_components():
    """Pages advise on it."""
    (table,) = tables((1, 4), (2, 2))
    usual = usual_job(table, ran((1, 4), (2, 2)))
    made = make_job(usual.fields())
    asked_for = [(one.min_nodes, one.ntasks_per_node) for one in (made, *made.components)]
    assert asked_for == [(1, 4), (2, None)]
    assert usual.words.startswith("--nodes=1 --ntasks-per-node=4 --time=02:00:00")
    assert " : --nodes=2 --time=02:00:00" in usual.words
    advice = advisor(tables=[table]).advise(structs.replace(made, comment=TAG[10:]), now_s=NOW)
    assert [row.nodes for row in advice.rows] == [3]


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_has_one_record_for_each_job_and_no_node_less(seed):
    rng = Random(seed)
    jobs = []
    for first in range(0, 60, 3):
        state, where = rng.choice(("PENDING", "RUNNING")), ("batch",)
        for offset in range(rng.choice((1, 2, 3))):
            places = where if rng.random() < 0.9 else ("other",)
            job = RawJob(
                state=state, job_id=first + offset, partitions=places, nodes=rng.randint(1, 9)
            )
            jobs.append(
                replace(job, het_id=first, tres={"cpu": float(job.nodes)}) if first else job
            )
    rng.shuffle(jobs)
    joined = joined_components(jobs)
    assert sum(one.nodes for one in joined) == sum(one.nodes for one in jobs)
    cpus = [sum(one.tres.get("cpu", 0) for one in each) for each in (joined, jobs)]
    assert cpus[0] == cpus[1]
    waiting = [
        (one.het_id, one.partitions) for one in joined if one.state == "PENDING" and one.het_id
    ]
    first = {one.job_id: one.partitions for one in jobs}
    beside = [het for het, places in waiting if places == first[het]]
    assert len(beside) == len(set(beside))
    for one in joined:
        assert one.size == (
            sum(j.nodes for j in jobs if j.het_id == one.het_id) if one.het_id else one.nodes
        )


def test_a_partition_that_lost_its_nodes_leaves_the_run_time():
    made = advisor(tables=tables((1, 1), (2, 2)), look=cluster(partition(idle(0), nodes=0)))
    advice = made.advise(asked(*ALIKE), now_s=NOW)
    assert [option.nodes for option in advice.rows] == [3]
    answer, _ = submit(made, asked(*ALIKE))
    assert (answer.action, answer.set) == ("keep", None)
