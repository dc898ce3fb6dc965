"""Reports that begin with stored sums say what reports of all decisions say."""

import base64
import pickle
import zlib
from dataclasses import replace

import msgspec
import pytest

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.store import DecisionSelection, RecordRow, Store
from sacct_ingest.store.changes import SUMS
from slurm_plugin.config.settings import Config, Energy
from slurm_plugin.evaluation.report_data import collect, keep_sums

DAY_S = 86_400
NOW_S = 20_000 * DAY_S + 3600


def made(number):
    """One decision a day and its run, the last of them today."""
    at_s, nodes = NOW_S - (39 - number) * DAY_S, 2 + 2 * (number % 2)
    decision = DecisionRow(
        decision_id=f"{number:012x}", cluster="pine", at_s=float(at_s), mode="enforce",
        action="set", reason="cheapest", user="ada", name=f"app{number % 3}", key_level="line",
        key=f"app{number % 3}", verdict="reliable", requested_nodes=2, nodes=4,
        applied=nodes == 4, predicted_s=1000.0, low_s=900.0, high_s=1100.0,
        request_predicted_s=1800.0, wait_s=60.0, request_wait_s=90.0,
    )  # fmt: skip
    run = JobRun(
        cluster="pine", job_id=number + 1, submit_s=at_s, state=JobState.COMPLETED, user="ada",
        name=f"app{number % 3}", start_s=at_s + 30, end_s=at_s + 1000 + number, nodes=nodes,
        elapsed_s=1000.0 + number, cpus=64 * nodes, cpu_s=2e4, mem_bytes=2**30,
        req_mem_bytes=2**32, admin_comment=f"NIMO1:{number:012x}:n={nodes},req=1-8",
    )  # fmt: skip
    return decision, run


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "nimo.db")) as opened:
        pairs = [made(number) for number in range(40)]
        opened.runs.add(run for _, run in pairs[:35])
        opened.decisions.add([decision for decision, _ in pairs])
        opened.decisions.join_outcomes()
        yield opened


def report(store):
    """Give the report, and how many decisions it read."""
    read = 0
    within = store.decisions.with_outcomes

    def counted(chosen):
        nonlocal read
        for pair in within(chosen):
            read += 1
            yield pair

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.decisions, "with_outcomes", counted)
        return collect(store, DecisionSelection(), config=Config(), least_node_hours=0.0), read


def test_a_report_reads_what_was_decided_since_and_says_the_same(store):
    whole, read = report(store)
    assert (whole.decisions, read) == (40, 40)
    for days_ago in (3, 2, 1, 0):
        keep_sums(store, Config(), now_s=NOW_S - days_ago * DAY_S)
    assert report(store) == (whole, 8)
    assert [int(key) // DAY_S for key in store.records.keys(SUMS)] == [19_990, 19_992, 19_993]
    other = msgspec.structs.replace(Config(), energy=Energy(core_hour=1.0))
    assert sum(row.runs for row in collect(store, DecisionSelection(), config=other).energy) == 35
    assert collect(store, DecisionSelection(user="ada"), config=Config()).decisions == 40


def test_what_changes_takes_later_sums_away(store):
    for days_ago in (3, 0):
        keep_sums(store, Config(), now_s=NOW_S - days_ago * DAY_S)
    assert report(store)[1] == 8
    _, run = made(31)  # decided two days before the end of the last sums
    store.runs.add([msgspec.structs.replace(run, elapsed_s=5000.0, end_s=run.submit_s + 5030)])
    changed, read = report(store)
    assert read == 11
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.records, "keys", lambda level: [])
        assert report(store) == (changed, 40)
    store.decisions.add([replace(made(0)[0], decision_id="f" * 12)])
    assert report(store)[1] == 41


def test_sums_are_not_kept_where_something_changed_meanwhile(store):
    within = store.decisions.with_outcomes

    def disturbed(chosen):
        yield from within(chosen)
        store.decisions.add([replace(made(5)[0], decision_id="f" * 12)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.decisions, "with_outcomes", disturbed)
        keep_sums(store, Config(), now_s=NOW_S)
    assert report(store)[1] == 41


class Hostile:
    def __reduce__(self):
        return eval, ("1/0",)


class OfAnotherModule:
    """Can be loaded, and is no part of sums."""


@pytest.mark.parametrize("kind", [Hostile, OfAnotherModule])
def test_sums_run_no_code(store, kind):
    keep_sums(store, Config(), now_s=NOW_S)
    [key] = store.records.keys(SUMS)
    release, _, _ = store.records.find(SUMS, key).partition(":")
    packed = base64.b64encode(zlib.compress(pickle.dumps(kind()))).decode()
    store.records.put(RecordRow(level=SUMS, key=key, payload=f"{release}:{packed}"))
    assert report(store)[1] == 40
