"""Sums are written with what each run added, on each of the databases."""

from dataclasses import replace

from sacct_ingest.records import JobState, KeyLevel, StandingRow
from sacct_ingest.store.rows import Contribution
from tests.sacct_ingest.records import SUBMIT_S, decision, run

ONE = Contribution(
    cluster="pine", submit_s=SUBMIT_S, job_id=17, digest="d", tag="wrf", line="l", basis="b",
    node_type="big", nodes=2, tasks_node=4.0, time_s=100.0, figures='{"cpu":1000.0}',
)  # fmt: skip


def fold(text, form, added, removed):
    total = float(text or 0) + sum(one.time_s for one in added) - sum(r.time_s for r in removed)
    return str(total) if form == "time" and total else ""


def of(store, level):
    return store.sums.of_level(level)


def test_what_a_run_added_is_added_once_and_taken_out(store):
    forms = ("time", "none")
    two = replace(ONE, job_id=18, time_s=50.0, tag="")
    assert store.sums.take([ONE, two], forms, fold) == 2
    assert store.sums.take([ONE, two], forms, fold) == 0
    assert [row.payload for row in of(store, KeyLevel.LINE)["l"]] == ["150.0"]
    assert store.sums.take([replace(ONE, time_s=70.0)], forms, fold) == 1
    assert [row.payload for row in of(store, KeyLevel.LINE)["l"]] == ["120.0"]
    assert store.sums.take([replace(ONE, time_s=1.0)], forms, fold, fresh=False) == 0
    # To another node type, with all that it added.
    assert store.sums.take([replace(ONE, node_type="small")], forms, fold) == 1
    result = {row.node_type: row.payload for row in of(store, KeyLevel.LINE)["l"]}
    assert result == {"big": "50.0", "small": "100.0"}
    assert [row.form for row in of(store, KeyLevel.TAG)["wrf"]] == ["time"]
    assert of(store, KeyLevel.SCRIPT) == {}
    assert [len(part) for part in store.sums.contributions()] == [2]


def test_runs_that_the_sums_do_not_know_are_detected(store):
    store.runs.add([run(node_list="n1"), run(job_id=18, state=JobState.FAILED)])
    ((result,),) = store.sums.unknown(["b"])
    assert (result.job_id, result.node_list) == (17, "n1")
    recorded = replace(
        ONE, digest=result.digest, tag=result.tag, script=result.script, line=result.line
    )
    store.sums.take([recorded], ("time",), fold)
    assert list(store.sums.unknown(["b"])) == []
    assert len(list(store.sums.unknown(["another"]))) == 1
    rows = [row for _, rows in store.runs.by_key(KeyLevel.USER) for row in rows]
    assert [(row.job_id, row.node_type) for row in rows] == [(17, "big"), (18, "")]
    assert store.sums.partition_types() == [("pine", "", "big")]
    store.runs.add([run(node_list="n1", elapsed_s=101.0)])
    assert len(list(store.sums.unknown(["b"]))) == 1


ROW = StandingRow(
    level=KeyLevel.TAG,
    key="wrf",
    label="wrf",
    off=True,
    ratio=3.25,
    runs=6,
    low=0.5,
    high=1.5,
    since_s=1.5,
    judged_s=2.5,
)


def test_standings_come_back_and_the_last_one_counts(store):
    before = store.standings.version()
    store.standings.put([ROW, replace(ROW, level=KeyLevel.LINE, off=False)])
    assert store.standings.off() == [("tag", "wrf")]
    store.standings.put([replace(ROW, off=False)])
    assert store.standings.off() == []
    assert [row.off for row in store.standings.all()] == [False, False]
    assert store.standings.version() == before + 2


def test_outcomes_of_an_identity_newest_first(store):
    for i in range(4):
        name = f"job{i}"
        one = decision(
            decision_id=f"{i:012x}", at_s=SUBMIT_S + i, name=name,
            key_level="line", key="k" if i < 3 else "other",
        )  # fmt: skip
        store.decisions.add([one])
        store.runs.add([run(job_id=i + 1, submit_s=SUBMIT_S + i, name=name, end_s=SUBMIT_S + i)])
    assert store.decisions.join_outcomes() == 4
    named = [(level, key) for key in ("other", *map(str, range(20)), "k") for level in KeyLevel]
    found = [pair for part in store.decisions.last_outcomes(named, 2) for pair in part.items()]
    job_ids = [(level, key, [run.job_id for _, run in pairs]) for (level, key), pairs in found]
    assert job_ids == [(KeyLevel.LINE, "other", [4]), (KeyLevel.LINE, "k", [3, 2])]
    assert store.decisions.touched_keys(SUBMIT_S + 3) == [(KeyLevel.LINE, "other")]
    assert store.decisions.touched_keys(0) == [(KeyLevel.LINE, "k"), (KeyLevel.LINE, "other")]


def test_decisions_from_long_before_are_not_looked_at(store):
    ended_s = SUBMIT_S + 91 * 86_400
    note = "NIMO1:00000000000a:n=4"
    key = {"key_level": "line", "key": "k"}
    store.decisions.add([decision(decision_id="00000000000a", at_s=SUBMIT_S, **key)])
    store.runs.add([run(submit_s=SUBMIT_S, end_s=ended_s, admin_comment=note)])
    assert store.decisions.join_outcomes() == 1
    assert store.decisions.touched_keys(ended_s - 2 * 86_400) != []
    assert store.decisions.touched_keys(ended_s) == []
