"""Standings come back, and the decisions that they are made of are found."""

from dataclasses import replace

from sacct_ingest.records import KeyLevel, StandingRow
from tests.sacct_ingest.records import SUBMIT_S, decision, run

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
    result = store.decisions.last_outcomes(KeyLevel.LINE, "k", 2)
    assert [(row.decision_id, outcome.job_id) for row, outcome in result] == [
        (f"{2:012x}", 3),
        (f"{1:012x}", 2),
    ]
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
