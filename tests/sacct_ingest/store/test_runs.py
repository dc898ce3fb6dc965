"""Runs: idempotent to write, grouped by identity to read, the same in all databases."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import create_engine, text

from sacct_ingest.records import CURVE_LEVELS, JobState, KeyLevel
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.store import DecisionSelection, RunRow, Stored, packed_runs
from sacct_ingest.text.admin_comment import decision_id_in
from tests.sacct_ingest.records import SUBMIT_S, run, runs_with, step


def everything(url, table):
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(text(f"select * from {table} order by 1, 2")).mappings()
        result = [dict(row) for row in rows]
    engine.dispose()
    return result


def test_adding_again_changes_nothing(store, store_url):
    runs = [run(job_id=i, steps=(step(), step(step="1"))) for i in range(5)]
    assert store.runs.add(runs) == Stored(new=5)
    before = everything(store_url, "runs"), everything(store_url, "steps")
    assert store.runs.add(runs) == Stored(same=5)
    assert (everything(store_url, "runs"), everything(store_url, "steps")) == before
    assert len(before[1]) == 10


def test_what_has_changed_is_written_with_its_steps(store, store_url):
    store.runs.add([run(steps=(step(), step(step="1")))])
    again = run(elapsed_s=7.5, steps=(step(mem_bytes=5 << 40),))
    assert store.runs.add([again, run(job_id=18)]) == Stored(new=1, changed=1)
    stored = runs_with(store, KeyLevel.NAME, "ada/wrf")
    assert [(row.job_id, row.elapsed_s) for row in stored] == [(17, 7.5), (18, 100.0)]
    assert [row["mem_bytes"] for row in everything(store_url, "steps")] == [5 << 40]


def test_a_run_is_identified_by_cluster_id_and_submit_time(store):
    runs = [run(), run(submit_s=SUBMIT_S + 1), run(cluster="oak"), run(job_id=18)]
    assert store.runs.add(runs) == Stored(new=4)
    assert store.runs.count() == 4


def test_of_a_run_given_twice_the_last_counts(store):
    assert store.runs.add([run(state=JobState.FAILED), run()]) == Stored(new=1)
    assert runs_with(store, KeyLevel.USER, "ada")[0].state is JobState.COMPLETED


def test_all_facts_are_retained(store, store_url):
    given = run(
        array_job_id=16,
        array_task_id=0,
        exit_code=0,
        req_nodes=2,
        tasks=8,
        mem_bytes=2**40,
        cpu_s=0.125,
        comment="nimo:app=wrf,problem=d01",
        name="名前 😀 'quoted' \"x\" \\ %s",
        submit_line="sbatch " + "x" * 100_000,
    )
    store.runs.add([given])
    row = runs_with(store, KeyLevel.TAG, "ada/wrf/d01")[0]
    joined = {
        "node_type", "asked_size", "asked_unit", "asked_low", "asked_high", "asked_limit_s",
        "least_nodes", "try_of",
        "node_watts", "failed_steps", "digest", "earlier", "components", "submission", "inputs",
        "script_bag",
    }  # fmt: skip
    for name in set(RunRow.__slots__) - {"run_id", "tag", "script", "line", *joined}:
        assert getattr(row, name) == getattr(given, name), name
    stored = everything(store_url, "runs")[0]
    assert stored["submit_line"] == given.submit_line
    assert stored["cpu_s"] == 0.125
    assert stored["het_offset"] is None


def test_groups_are_those_of_the_keys(store):
    lines = ["sbatch -N1 a.sh", "sbatch -N2 b.sh", "sbatch -N4 a.sh"]
    store.runs.add(
        [run(job_id=i, submit_line=line, end_s=SUBMIT_S + 100 - i) for i, line in enumerate(lines)]
    )
    groups = {
        len(rows): [row.job_id for row in rows] for _, rows in store.runs.by_key(KeyLevel.LINE)
    }
    assert groups == {1: [1], 2: [2, 0]}
    assert list(store.runs.by_key(KeyLevel.SCRIPT)) == []
    assert [key for key, _ in store.runs.by_key(KeyLevel.NAME)] == ["ada/wrf"]


def test_keys_differ_in_case_and_accents(store):
    names = ["wrf", "WRF", "wrf-é", "wrf-e", "wrf/2"]
    store.runs.add([run(job_id=i, name=name) for i, name in enumerate(names)])
    keys = [key for key, _ in store.runs.by_key(KeyLevel.NAME)]
    assert keys == sorted(f"ada/{name}" for name in names)
    for i, name in enumerate(names):
        assert [row.job_id for row in runs_with(store, KeyLevel.NAME, f"ada/{name}")] == [i]


def test_runs_without_a_key_are_in_no_group(store):
    store.runs.add([run(user="", name="")])
    for level in KeyLevel:
        assert level is KeyLevel.LINE or list(store.runs.by_key(level)) == []


def test_the_newest_run_of_a_group_is_the_last(store):
    store.runs.add([run(job_id=i, end_s=SUBMIT_S + i) for i in (5, 3, 9, 1)])
    assert [row.job_id for row in runs_with(store, KeyLevel.USER, "ada")] == [1, 3, 5, 9]
    assert runs_with(store, KeyLevel.USER, "bob") == []


def test_runs_that_are_packed_together_keep_their_own_steps(store, store_url, monkeypatch):
    def made(job_id, memory):
        steps = (step(step=str(i), mem_bytes=memory + i) for i in range(job_id % 4))
        return run(job_id=job_id, steps=tuple(steps))

    monkeypatch.setattr(packed_runs, "PACKED_TOGETHER", 4)
    store.runs.add([made(2, 20), made(3, 30), made(5, 50)])
    given = [(3, 30), (7, 70), (5, 51), (6, 60), (5, 52), (2, 20), (7, 71), (9, 90)]
    assert store.runs.add(made(*one) for one in given) == Stored(new=3, changed=1, same=2)
    jobs = {row["id"]: row["job_id"] for row in everything(store_url, "runs")}
    stored = [
        (jobs[row["run_id"]], row["position"], row["mem_bytes"])
        for row in everything(store_url, "steps")
    ]
    expected = [(job, i, memory + i) for job, memory in dict(given).items() for i in range(job % 4)]
    assert sorted(stored) == sorted(expected)


def test_many_runs_are_stored_in_several_transactions(sqlite_store):
    assert sqlite_store.runs.add(run(job_id=i) for i in range(4500)) == Stored(new=4500)
    assert [len(rows) for _, rows in sqlite_store.runs.by_key(KeyLevel.USER)] == [4500]


def test_groups_can_be_read_while_somebody_writes(sqlite_store):
    sqlite_store.runs.add(run(job_id=i, user=f"user{i % 7}") for i in range(5000))
    observed = 0
    for _, rows in sqlite_store.runs.by_key(KeyLevel.USER):
        sqlite_store.runs.add([run(job_id=10_000 + observed, user="zoe")])
        observed += len(rows)
    assert observed == 5000


@pytest.mark.parametrize(
    ("comment", "result"),
    [
        ("NIMO1:0123456789ab:n=4", "0123456789ab"),
        ("JS1:abc NIMO1:0123456789ab:n=4 JS1:x", "0123456789ab"),
        ("NIMO1:000000000000:n=1 NIMO1:0123456789ab:n=4", "0123456789ab"),
        ("xNIMO1:0123456789ab:n=4", ""),
        ("NIMO1:0123:n=4", ""),
        ("", ""),
    ],
)
def test_decisions_noted_in_admin_comments(comment, result):
    assert decision_id_in(comment) == result


ODD = st.text(max_size=300)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=40,
    deadline=None,
)
@given(
    st.lists(
        st.builds(
            lambda **given: replace(run(), **given),
            job_id=st.integers(0, 2**40),
            user=ODD,
            name=ODD,
            comment=ODD,
            submit_line=ODD,
            node_list=ODD,
            elapsed_s=st.floats(0, 1e9),
            steps=st.lists(st.builds(step, step=ODD, name=ODD), max_size=2).map(tuple),
        ),
        max_size=4,
        unique_by=lambda run: run.job_id,
    )
)
def test_no_text_is_too_odd_for_any_database(store, runs):
    store.runs.add(runs)
    again = store.runs.add(runs)
    assert (again.new, again.changed) == (0, 0)
    for level in KeyLevel:
        keys = [key for key, _ in store.runs.by_key(level)]
        assert len(set(keys)) == len(keys)


def test_a_run_stays_what_it_was_first_taken_for(store):
    """Whoever changes a job's comment, name or command line later does not move its run."""
    plain = run(comment="nimo:app=wrf")
    store.runs.add([plain])
    before = [[key for key, _ in store.runs.by_key(level)] for level in CURVE_LEVELS]
    changes = {"comment": "nimo:app=melt", "submit_line": "sbatch other.sh"}
    assert store.runs.add([replace(plain, **changes)]).changed == 1
    assert [[key for key, _ in store.runs.by_key(level)] for level in CURVE_LEVELS] == before
    assert before[0] == ["ada/wrf"]


def test_a_run_that_is_requeued_still_ended_for_lack_of_memory(store):
    short = run(job_id=1, state=JobState.OUT_OF_MEMORY)
    failed = run(job_id=2, state=JobState.FAILED)
    store.runs.add([short, failed])
    store.runs.add([replace(one, state=JobState.REQUEUED) for one in (short, failed)])
    states = {one.job_id: one.state for one in runs_with(store, KeyLevel.USER, "ada")}
    assert states == {1: JobState.OUT_OF_MEMORY, 2: JobState.REQUEUED}
    store.runs.add([replace(short, state=JobState.COMPLETED)])
    (first, _) = runs_with(store, KeyLevel.USER, "ada")
    assert first.state is JobState.COMPLETED


def test_a_tag_is_each_users_own(store):
    store.runs.add(
        run(job_id=number, user=user, comment="nimo:app=wrf")
        for number, user in enumerate(("ada", "bob", "ada"))
    )
    result = {key: [row.job_id for row in rows] for key, rows in store.runs.by_key(KeyLevel.TAG)}
    assert result == {"ada/wrf": [0, 2], "bob/wrf": [1]}


def test_shared_tags_have_the_runs_of_those_named(store):
    of = [
        ("ada", "bio", "wrf"),
        ("bob", "hpc", "wrf"),
        ("eve", "bio", "wrf"),
        ("bob", "hpc", "cfd"),
        ("mal", "other", "wrf"),
        ("eve", "bio", "melt"),
    ]
    for number, (user, account, app) in enumerate(of):
        fields = {"user": user, "account": account, "comment": f"nimo:app={app}"}
        store.runs.add([run(job_id=number, end_s=SUBMIT_S - number, **fields)])
    tags = SharedTag(name="lab", application=("wrf", "c*"), users=("bob",), accounts=("bio",))
    result = [(key, [row.job_id for row in rows]) for key, rows in store.runs.shared(tags)]
    assert result == [("@lab/cfd", [3]), ("@lab/wrf", [2, 1, 0])]


def task(index, elapsed_s=100.0, array=40, **given):
    own = {"job_id": array + index, "array_job_id": array, "array_task_id": index}
    times = {"elapsed_s": elapsed_s, "end_s": SUBMIT_S + 10 + int(elapsed_s)}
    return run(**own | times | given)


@pytest.fixture
def filled(store):
    later = {"submit_s": SUBMIT_S + 900, "user": "bob", "account": "physics"}
    store.runs.add(
        [
            run(),  # no array
            task(0, 100.0, cpu_s=400.0, mem_bytes=5),
            task(1, 300.0, cpu_s=None, mem_bytes=9, state=JobState.FAILED),
            task(2, 50.0, state=JobState.REQUEUED),
            task(2, 200.0, submit_s=SUBMIT_S + 60),
            task(3, 0.0, start_s=None, state=JobState.CANCELLED),
            task(0, array=80, **later),
        ]
    )
    return store


def test_tasks_are_summed_up(filled):
    newer, older = filled.runs.newest_arrays(DecisionSelection(), 9)
    assert (newer.array_job_id, newer.user, newer.tasks) == (80, "bob", 1)
    assert (older.array_job_id, older.name, older.tasks, older.completed) == (40, "wrf", 3, 2)
    assert (older.shortest_s, older.mean_s, older.longest_s) == (100.0, 200.0, 300.0)
    assert (older.used_cpus, older.mem_bytes) == (0.5, 9)  # 400 s of eight CPUs for 100 s
    assert newer.used_cpus is None


@pytest.mark.parametrize(
    ("chosen", "arrays"),
    [
        ({"user": "ada"}, [40]),
        ({"since_s": SUBMIT_S + 100.0}, [80]),
        ({"until_s": SUBMIT_S + 100.0}, [40]),
        ({"account": "physics"}, [80]),
        ({"cluster": "oak"}, []),
        ({"only_user": "ada"}, [40]),
        ({"only_user": "ada", "only_accounts": ("physics",)}, [80, 40]),
    ],
)
def test_only_what_is_chosen_or_is_visible(filled, chosen, arrays):
    result = filled.runs.newest_arrays(DecisionSelection(**chosen), 9)
    assert [one.array_job_id for one in result] == arrays


def test_the_newest_come_first_and_are_limited(filled, monkeypatch):
    assert [one.array_job_id for one in filled.runs.newest_arrays(DecisionSelection(), 1)] == [80]
    monkeypatch.setattr("sacct_ingest.store.runs._NEWEST", 1)
    for chosen, arrays in ((DecisionSelection(), [80]), (DecisionSelection(user="ada"), [40])):
        assert [one.array_job_id for one in filled.runs.newest_arrays(chosen, 9)] == arrays
