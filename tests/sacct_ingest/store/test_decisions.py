"""Decisions: stored, selected, and joined with the runs that came of them."""

from dataclasses import replace

import msgspec
import pytest
import sqlalchemy as sa

from sacct_ingest.records import JobState, KeyLevel, ShownJob
from sacct_ingest.store import DecisionSelection, RunRow
from tests.sacct_ingest.records import SUBMIT_S, decision, run, runs_with, step
from tests.sacct_ingest.store.joined_decisions import NOTE, outcomes


def test_decisions_come_back(store):
    given = decision(
        mode="enforce",
        key_level="line",
        key="k",
        min_nodes=1,
        deadline_s=SUBMIT_S + 0.5,
        nodes=4,
        applied=True,
        predicted_s=312.25,
        message="名前",
    )
    store.decisions.add([given])
    store.decisions.add([given])
    assert list(store.decisions.with_outcomes()) == [(given, None)]


def test_decisions_are_given_in_order_and_since_a_time(store):
    rows = [decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + i) for i in (3, 1, 2)]
    store.decisions.add(rows)
    assert [row.at_s - SUBMIT_S for row, _ in store.decisions.with_outcomes()] == [1, 2, 3]
    late = DecisionSelection(since_s=SUBMIT_S + 2)
    assert [row.at_s - SUBMIT_S for row, _ in store.decisions.with_outcomes(late)] == [2, 3]


@pytest.mark.parametrize(
    ("chosen", "result"),
    [
        (DecisionSelection(user="ada"), "0"),
        (DecisionSelection(account="bio"), "1"),
        (DecisionSelection(label="nothing"), ""),
        (DecisionSelection(partition="long", cluster="pine"), "12"),
        (DecisionSelection(cluster="elm"), ""),
        (DecisionSelection(until_s=SUBMIT_S + 2), "01"),
        (DecisionSelection(only_user="cyd"), "2"),
        (DecisionSelection(only_user="cyd", only_accounts=("bio",)), "12"),
        (DecisionSelection(only_user="cyd", user="ada"), ""),
    ],
)
def test_decisions_are_selected(store, chosen, result):
    given = (("ada", "hpc", "batch"), ("bob", "bio", "long"), ("cyd", "hpc", "long"))
    store.decisions.add(
        [
            decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + i, user=u, account=a, partition=p)
            for i, (u, a, p) in enumerate(given)
        ]
    )
    rows = [row for row, _ in store.decisions.with_outcomes(chosen)]
    assert "".join(row.decision_id[-1] for row in rows) == result


def test_the_note_in_the_job_tells_its_decision(store):
    # Renamed, moved and submitted long after: only the note is left.
    store.decisions.add([decision()])
    store.runs.add([run(admin_comment=NOTE, name="x", work_dir="/", submit_s=SUBMIT_S + 900)])
    assert store.decisions.join_outcomes() == 1
    assert store.decisions.join_outcomes() == 0
    (_, outcome), *_ = store.decisions.with_outcomes()
    assert isinstance(outcome, RunRow)
    assert outcome.submit_s == SUBMIT_S + 900


def test_without_a_note_submitter_job_and_time_tell(store):
    store.decisions.add([decision()])
    store.runs.add([run(job_id=1, submit_s=SUBMIT_S + 2), run(job_id=2, submit_s=SUBMIT_S + 60)])
    assert store.decisions.join_outcomes() == 1
    assert outcomes(store) == {"0123456789ab": 1}


def test_nothing_else_is_taken_for_the_job(store):
    others = [
        {"cluster": "oak"},
        {"uid": 1002},
        {"name": "other"},
        {"work_dir": "/home/ada/2"},
        {"submit_s": SUBMIT_S - 30},
        {"submit_s": SUBMIT_S + 30},
        {"admin_comment": "NIMO1:ffffffffffff:n=4"},
    ]
    store.decisions.add([decision(), decision(decision_id="f" * 12, user="zoe", uid=7)])
    store.runs.add([run(job_id=i, **other) for i, other in enumerate(others)])
    store.decisions.join_outcomes()
    assert outcomes(store)["0123456789ab"] is None
    assert outcomes(store)["ffffffffffff"] == 6


def test_where_the_accounting_has_no_uid_the_user_tells(store):
    store.decisions.add([decision(), decision(decision_id="f" * 12, at_s=SUBMIT_S + 500)])
    store.runs.add([run(uid=None), run(uid=None, user="bob", submit_s=SUBMIT_S + 500)])
    store.decisions.join_outcomes()
    assert outcomes(store) == {"0123456789ab": 17, "f" * 12: None}


def test_each_run_belongs_to_one_decision(store):
    """A loop that submits the same job twice a second."""
    store.decisions.add(
        [decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + i / 2) for i in range(6)]
    )
    store.runs.add([run(job_id=i, submit_s=SUBMIT_S + i // 2) for i in range(6)])
    assert store.decisions.join_outcomes() == 6
    assert outcomes(store) == {f"{i:012x}": i for i in range(6)}
    store.decisions.add([decision(decision_id="f" * 12)])
    assert store.decisions.join_outcomes() == 0


def test_two_starts_of_a_job_belong_to_one_of_two_decisions(store):
    """Of two jobs alike the first was requeued at once; the second is not read yet."""
    store.decisions.add([decision(), decision(decision_id="f" * 12, at_s=SUBMIT_S + 2)])
    short = {"start_s": SUBMIT_S, "end_s": SUBMIT_S + 1, "elapsed_s": 1.0}
    later = {"start_s": SUBMIT_S + 3, "end_s": SUBMIT_S + 63, "elapsed_s": 60.0}
    starts = [run(state=JobState.REQUEUED, **short), run(submit_s=SUBMIT_S + 2, **later)]
    store.runs.add(starts)
    assert store.decisions.join_outcomes() == 1
    store.runs.add([run(job_id=18, submit_s=SUBMIT_S + 2)])
    store.decisions.join_outcomes()
    assert outcomes(store) == {"0123456789ab": 17, "f" * 12: 18}


def test_refused_submissions_have_no_run(store):
    store.decisions.add([decision(action="refuse")])
    store.runs.add([run()])
    assert store.decisions.join_outcomes() == 0


def test_the_last_run_of_a_requeued_job_is_its_outcome(store):
    store.decisions.add([decision()])
    store.runs.add([run(state=JobState.PREEMPTED, admin_comment=NOTE)])
    assert store.decisions.join_outcomes() == 1
    again = run(submit_s=SUBMIT_S + 300, admin_comment=NOTE)
    requeued = run(submit_s=SUBMIT_S + 200, state=JobState.REQUEUED, admin_comment=NOTE)
    store.runs.add([requeued, again])  # the decision goes to what stands for the job now
    assert store.decisions.join_outcomes() == 0
    (_, outcome), *_ = store.decisions.with_outcomes()
    assert outcome.submit_s == SUBMIT_S + 300


def test_a_start_that_turns_out_to_be_requeued_is_no_outcome_any_more(store):
    store.decisions.add([decision()])
    starts = [run(submit_s=SUBMIT_S + at_s, admin_comment=NOTE) for at_s in (0, 300)]
    store.runs.add(starts)
    store.decisions.join_outcomes()
    store.runs.add([msgspec.structs.replace(starts[1], state=JobState.REQUEUED)])
    assert store.decisions.join_outcomes() == 1
    (_, outcome), *_ = store.decisions.with_outcomes()
    assert outcome.submit_s == SUBMIT_S


@pytest.mark.parametrize(("notes", "first"), [("ba", 2), ("b", None)])
def test_a_run_whose_note_changes_goes_to_another_decision(store, notes, first):
    store.decisions.add([decision(decision_id=one * 12, at_s=SUBMIT_S - 600) for one in "ab"])
    for given in ("ab", notes):
        texts = enumerate((f"NIMO1:{one * 12}:n=4" for one in given), 1)
        store.runs.add(run(job_id=i, admin_comment=text) for i, text in texts)
        assert store.decisions.join_outcomes() == len(given)
    assert outcomes(store) == {"a" * 12: first, "b" * 12: 1}


@pytest.mark.parametrize("old", [20, 200])
def test_what_was_joined_before_is_not_read_again(store, monkeypatch, old):
    def add(numbers):
        rows = [(f"{i:012x}", SUBMIT_S + 60 * i) for i in numbers]
        store.decisions.add([decision(decision_id=one, at_s=at_s) for one, at_s in rows])
        notes = [(f"NIMO1:{one}:n=4", at_s) for one, at_s in rows]
        store.runs.add([run(admin_comment=note, submit_s=at_s) for note, at_s in notes])

    read = []
    execute = sa.Connection.execute

    def counted(connection, *given):
        result = execute(connection, *given)
        if not result.returns_rows:
            return result
        frozen = result.freeze()
        read.append(len(frozen.data))
        return frozen()

    add(range(old))
    assert store.decisions.join_outcomes() == old
    add(range(old, old + 3))
    monkeypatch.setattr(sa.Connection, "execute", counted)
    assert store.decisions.join_outcomes() == 3
    assert 3 <= sum(read) < 40


def test_a_run_gets_the_keys_of_the_request_and_keeps_them(store):
    store.decisions.add([decision(tag="ada/wrf", script="5c41", line="11e0")])
    store.runs.add([run(admin_comment=NOTE, comment="nimo:app=melt")])
    store.decisions.join_outcomes()
    # The accounting says more about the same run later.
    store.runs.add([run(admin_comment=NOTE, comment="nimo:app=melt", steps=(step(),))])
    row = runs_with(store, KeyLevel.USER, "ada")[0]
    assert (row.tag, row.script, row.line) == ("ada/wrf", "5c41", "11e0")
    assert [key for key, _ in store.runs.by_key(KeyLevel.SCRIPT)] == ["5c41"]


def tasks(*numbers, **given):
    """Tasks of one array whose comment was changed after the submission."""
    return [
        run(job_id=17 + n, array_job_id=17, array_task_id=n, comment="nimo:app=melt", **given)
        for n in numbers
    ]


@pytest.mark.parametrize("note", [NOTE, ""])
def test_all_tasks_of_an_array_have_the_tag_of_its_submission(store, note):
    store.decisions.add([decision(tag="ada/wrf", script="5c41")])
    store.runs.add(tasks(0, 1, admin_comment=note))
    store.decisions.join_outcomes()
    # Later tasks end later: sacct tells of them when the first is linked already.
    store.runs.add(tasks(1, 2, admin_comment=note))
    store.decisions.join_outcomes()
    rows = runs_with(store, KeyLevel.USER, "ada")
    assert [(row.tag, row.script) for row in rows] == [("ada/wrf", "5c41")] * 3


@pytest.mark.parametrize("other", [{"array_job_id": 18}, {"submit_s": SUBMIT_S + 60}])
def test_another_array_keeps_its_own_tag(store, other):
    store.decisions.add([decision(tag="ada/wrf")])
    store.runs.add([*tasks(0), msgspec.structs.replace(*tasks(9), **other)])
    store.decisions.join_outcomes()
    rows = {row.job_id: row.tag for row in runs_with(store, KeyLevel.USER, "ada")}
    assert rows == {17: "ada/wrf", 26: "ada/melt"}


def test_a_decision_that_arrives_after_its_run_is_joined_too(store):
    store.runs.add([run(admin_comment=NOTE)])
    assert store.decisions.join_outcomes() == 0
    store.decisions.add([decision()])
    assert store.decisions.join_outcomes() == 1


def test_many_decisions(sqlite_store):
    rows = [decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + 20 * i + 0.5) for i in range(1300)]
    sqlite_store.decisions.add(rows)
    sqlite_store.runs.add([run(job_id=i, submit_s=SUBMIT_S + 20 * i) for i in range(1300)])
    assert sqlite_store.decisions.join_outcomes() == 1300
    assert outcomes(sqlite_store) == {f"{i:012x}": i for i in range(1300)}


def test_jobs_that_outlasted_their_plan(store):
    rows = ((4, 120), (1, 60), (2, None), (3, 59))
    store.runs.add(run(job_id=i, submit_s=SUBMIT_S + i, elapsed_s=60.0) for i, _ in rows)
    store.decisions.add(
        [
            decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + i, soft_s=soft_s, partition="batch")
            for i, soft_s in rows
        ]
    )
    store.decisions.join_outcomes()
    given = store.decisions.outlasted(0.0, 9)
    assert given == [("batch", False), ("batch", True), ("batch", False)]
    assert store.decisions.outlasted(0.0, 2) == given[1:]
    assert store.decisions.outlasted(SUBMIT_S + 4, 9) == given[2:]


def test_predicted_and_actual_waits(store):
    rows = [
        ("0", {}, {}),
        ("1", {"wait_s": None}, {}),
        ("2", {"wait_s": 60.0}, {"start_s": SUBMIT_S + 200 + 90}),
        ("3", {"nodes": 8}, {}),
        ("4", {}, {"eligible_s": SUBMIT_S + 400 + 3600}),
        ("5", {}, {"start_s": None}),
    ]
    for number, (name, said, was) in enumerate(rows):
        at_s = SUBMIT_S + 100 * number
        given = {"decision_id": name * 12, "at_s": at_s, "nodes": 4, "wait_s": 0.0, "name": name}
        done = {"job_id": 10 + number, "submit_s": at_s, "start_s": at_s + 3, "eligible_s": at_s}
        store.decisions.add([decision(**given | said)])
        store.runs.add([run(name=name, nodes=4, **done | was)])
    assert store.decisions.join_outcomes() == len(rows)
    assert store.decisions.waits(0.0, 10) == [(60.0, 90.0), (0.0, 3.0)]
    assert store.decisions.waits(SUBMIT_S + 1, 10) == [(60.0, 90.0)]
    assert store.decisions.waits(0.0, 1) == [(60.0, 90.0)]


def test_the_newest_are_given_page_by_page(store):
    rows = [decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + i // 3) for i in range(10)]
    store.decisions.add(rows)
    observed = []
    before = None
    while page := store.decisions.newest(DecisionSelection(), most=4, before=before):
        observed += [one.decision_id for one, _ in page]
        before = page[-1][0].at_s, page[-1][0].decision_id
    assert observed == [row.decision_id for row in reversed(rows)]


def test_a_page_holds_what_is_selected(store):
    store.decisions.add(
        [
            decision(decision_id="a" * 12, user="ada", reason="array", key_level="line", key="k"),
            decision(decision_id="b" * 12, user="bob", reason="array", key_level="line", key="k"),
            decision(decision_id="c" * 12, user="ada", reason="cheapest", mode="enforce"),
        ]
    )

    def result(**expected):
        page = store.decisions.newest(DecisionSelection(**expected), most=9)
        return "".join(sorted(one.decision_id[0] for one, _ in page))

    assert result(reason="array") == "ab"
    assert result(key_level="line", key="k", only_user="ada") == "a"
    assert result(mode="enforce") == "c"


def test_decisions_are_found_before_their_runs_are_read(store):
    made = decision(user="ada")
    others = {"name": "mom", "user": "bob", "work_dir": "/home/ada/2", "at_s": SUBMIT_S + 60.0}
    rows = [
        replace(made, decision_id=f"{i:012x}", **{name: value})
        for i, (name, value) in enumerate(others.items())
    ]
    refused = replace(made, decision_id="f" * 12, action="refuse", applied=True)
    # In the other modes nothing is refused.
    passed = replace(refused, decision_id="e" * 12, applied=False)
    store.decisions.add([made, *rows, refused, passed])
    shown = ShownJob(user=made.user, name=made.name, work_dir=made.work_dir, submit_s=SUBMIT_S)
    assert store.decisions.about_when(shown) == [made, passed]
    store.runs.add([run(admin_comment=f"NIMO1:{made.decision_id}:n=4,m=enforce")])
    store.decisions.join_outcomes()
    assert store.decisions.about_when(shown) == [passed]


def test_sizes_of_nobody_knows_which_job_are_kept_for_none(store):
    store.runs.add([run(job_id=n, submit_s=SUBMIT_S + n) for n in range(2)])
    made = [
        decision(decision_id=f"{n:012x}", at_s=SUBMIT_S + n + 0.5, inputs=f"1Kdat={n}")
        for n in range(3)
    ]
    store.decisions.add(made)
    store.decisions.join_outcomes()
    assert {row.inputs for row in runs_with(store, KeyLevel.USER, "ada")} <= {None, ""}


def test_runs_and_all_tasks_of_an_array_get_the_words_of_their_script(store):
    tasks = [run(job_id=9 + n, array_job_id=9, array_task_id=n) for n in range(2)]
    store.runs.add([*tasks, run(job_id=30, submit_s=SUBMIT_S + 500)])
    bag = "0" * 62 + "a1"
    store.decisions.add([
        decision(decision_id="a" * 12, at_s=SUBMIT_S, script_bag=bag),
        decision(decision_id="b" * 12, at_s=SUBMIT_S + 500),
    ])  # fmt: skip
    store.decisions.join_outcomes()
    stored = runs_with(store, KeyLevel.USER, "ada")
    assert {row.job_id: row.script_bag for row in stored} == {9: bag, 10: bag, 30: ""}
