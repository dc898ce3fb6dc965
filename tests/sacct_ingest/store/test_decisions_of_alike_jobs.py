"""Decisions and runs that several jobs could be: which belongs to which."""

import pytest

from sacct_ingest.records import KeyLevel, ShownJob
from tests.sacct_ingest.records import SUBMIT_S, decision, run, runs_with
from tests.sacct_ingest.store.joined_decisions import outcomes


def test_clusters_number_their_jobs_alike(store):
    for at, cluster in enumerate(("pine", "elm")):
        decision_id = f"{at:012x}"
        store.decisions.add([decision(decision_id=decision_id, cluster=cluster)])
        note = f"NIMO1:{decision_id}:n=4,m=enforce"
        store.runs.add([run(job_id=17, cluster=cluster, admin_comment=note)])
    shown = ShownJob(user="ada", name="wrf", work_dir="/home/ada", submit_s=SUBMIT_S)
    for cluster in ("pine", "elm"):
        assert [one.cluster for one in store.decisions.about_when(shown, cluster=cluster)] == [
            cluster
        ]
    store.decisions.join_outcomes()
    for cluster in ("pine", "elm"):
        assert store.decisions.of_job(17, cluster=cluster)[0].cluster == cluster
    assert store.decisions.of_job(17, cluster="oak") is None


@pytest.mark.parametrize("order", [(2, 4, 8), (8, 2, 4), (4, 8, 2)])
@pytest.mark.parametrize("undecided", [None, 2, 4, 8])
def test_runs_of_one_second_get_the_decisions_about_their_requests(store, order, undecided):
    """Whatever order they were decided in, and where nimod did not see one of them."""
    for at, nodes in enumerate(order):
        if nodes != undecided:
            asked = {"min_nodes": nodes, "max_nodes": nodes, "limit_s": 3600}
            made = decision(decision_id=f"{nodes:012x}", at_s=SUBMIT_S + at / 10, **asked)
            store.decisions.add([made])
    store.runs.add([run(job_id=nodes, nodes=nodes) for nodes in (2, 4, 8)])
    store.decisions.join_outcomes()
    decided = {2, 4, 8} - {undecided}
    assert outcomes(store) == {f"{nodes:012x}": nodes for nodes in decided}


def test_a_job_that_was_changed_gets_what_its_neighbours_leave(store):
    for nodes in (2, 4):
        asked = {"min_nodes": nodes, "max_nodes": nodes, "limit_s": 3600}
        store.decisions.add([decision(decision_id=f"{nodes:012x}", **asked)])
    store.runs.add([run(job_id=1, nodes=4), run(job_id=2, nodes=2, limit_s=60)])
    store.decisions.join_outcomes()
    assert outcomes(store) == {f"{2:012x}": 2, f"{4:012x}": 1}


def test_a_job_whose_limit_was_changed_keeps_its_decision_beside_ranges_that_wait(store):
    """Jobs that the accounting does not have yet asked for ranges which its count lies in."""
    for at, (low, high) in enumerate([(2, 8), (2, 8), (3, 3), (1, 8)]):
        asked = {"min_nodes": low, "max_nodes": high, "limit_s": 3600}
        made = decision(decision_id=f"{at:012x}", at_s=SUBMIT_S + at / 10, **asked)
        store.decisions.add([made])
    store.runs.add([run(job_id=8, nodes=3, limit_s=60)])
    store.decisions.join_outcomes()
    linked = {name: job for name, job in outcomes(store).items() if job is not None}
    assert linked == {f"{2:012x}": 8}


@pytest.mark.parametrize(
    "given",
    [
        [(0.95, 0), (1.99, 1), (2.89, 2), (2.97, 3), (4.07, 4)],
        [(0.95, 0), (1.99, 2), (2.89, 2), (2.97, 4), (4.07, 5)],
        # nimod was busy.
        [(1.05, 0), (2.10, 1), (3.99, 2), (4.01, 3), (5.50, 4)],
    ],
    ids=["at once", "slurmctld later", "nimod later"],
)
def test_jobs_that_are_alike_get_their_decisions_in_their_order(store, given):
    """slurmctld gives a job its submit time after it has asked, in whole seconds."""
    runs = [run(job_id=n, submit_s=SUBMIT_S + after) for n, (_, after) in enumerate(given)]
    store.runs.add(runs)
    rows = [
        decision(decision_id=f"{n:012x}", at_s=SUBMIT_S + at, inputs=f"1Kdat={n}")
        for n, (at, _) in enumerate(given)
    ]
    store.decisions.add(rows)
    store.decisions.join_outcomes()
    stored = runs_with(store, KeyLevel.USER, "ada")
    assert {row.job_id: row.inputs for row in stored} == {n: f"1Kdat={n}" for n in range(5)}
