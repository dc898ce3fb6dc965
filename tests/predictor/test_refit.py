import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, product

import msgspec
import pytest
from msgspec.structs import replace as replace_run
from threadpoolctl import threadpool_info

from predictor.refit import refit
from predictor.stored_table import decode, head
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs import attributes, reading
from sacct_ingest.scripts import engines, job_script, signature
from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import OUTLOOK, QUEUE
from sacct_ingest.store.rows import RetentionTimes
from sacct_ingest.text import tag
from tests.predictor.rows import applications, job, of_another_release, outdate
from tests.sacct_ingest.records import decision


@pytest.fixture
def store():
    with Store.open("sqlite://") as opened:
        yield opened


def tables(store, level):
    return {row.key: decode(row.payload) for row in store.fits.all() if row.level is level}


def test_every_application_gets_its_table(store):
    store.runs.add(applications(3))
    summary = refit(store, now_s=5.0)
    assert (summary.curves, summary.reliable) == (3, 3)
    assert summary.histories == 3 + 1  # three job names, one user
    curves = tables(store, KeyLevel.LINE)
    assert sorted(t.label for t in curves.values()) == ["ann/solve0", "ann/solve1", "ann/solve2"]
    for row in store.fits.all():
        table = decode(row.payload)
        assert (row.level, row.key, row.label) == (table.level, table.key, table.label)
        assert (row.verdict, row.model, row.fitted_s) == (table.verdict, table.model, 5.0)


def test_a_whole_refit_leaves_the_same_tables_and_a_new_version(store):
    store.runs.add(applications(2))
    refit(store, now_s=5.0)
    before, version = store.fits.all(), store.fits.version()
    assert refit(store, now_s=5.0).fitted == 0
    assert (store.fits.all(), store.fits.version()) == (before, version)
    refit(store, now_s=5.0, whole=True)
    assert store.fits.all() == before
    assert store.fits.version() > version


def test_tables_of_another_release_are_made_anew_where_no_run_is_new(store):
    store.runs.add(applications(2))
    settle(store)
    before = store.fits.all()
    outdate(store)
    assert store.fits.count_without(head()) == len(before)
    assert not any(table.nodes for level in KeyLevel for table in tables(store, level).values())
    assert refit(store, now_s=5.0).fitted == len(before)
    assert store.fits.count_without(head()) == 0
    assert [(row.level, row.key) for row in store.fits.all()] == [
        (row.level, row.key) for row in before
    ]


def test_a_single_table_of_another_release_is_made_anew(store):
    """As an older release left it that shares the store."""
    store.runs.add(applications(2))
    settle(store)
    row = store.fits.all()[0]
    aged = replace(row, payload=of_another_release(row.payload))
    store.fits.replace([aged], keep_others=True)
    assert store.fits.count_without(head()) == 1
    refit(store, now_s=5.0)
    assert store.fits.count_without(head()) == 0


@pytest.mark.parametrize(
    ("size", "named", "proposed"),
    [
        (0, "", 1),  # the widest run is all that is known of the cluster
        (16, "", 8),
        (6, "n[1-16]", 6),
        (4, "", 1),
        (0, "n[1-4]", 1),
    ],
)
def test_a_run_that_would_help_most_fits_the_cluster(store, size, named, proposed):
    counts = enumerate((2, 4, 2, 4), start=1)
    store.runs.add(job(number, n, 600 / n, node_list=named) for number, n in counts)
    places = [{"nodes": n} for n in range(1, size + 1)]
    left = msgspec.json.encode({"partitions": places}).decode()
    store.records.put(RecordRow(level=OUTLOOK, key="pine", payload=left))
    refit(store, now_s=5.0)
    (table,) = tables(store, KeyLevel.LINE).values()
    assert [one.observe for one in table.problems if one.name == "no_curve"] == [proposed]
    assert table.in_cluster == (size or 4)


def settle(store):
    """Refit until all tables rest on one record of the site."""
    while refit(store, now_s=5.0).fitted:
        pass


def busy_site(store):
    """Two users with many applications, fitted until their tables rest on one record."""
    runs = list(applications(5))
    store.runs.add(runs)
    store.runs.add(
        replace_run(
            run, user="bob", job_id=run.job_id + 100_000, submit_line=f"{run.submit_line} b"
        )
        for run in runs
    )
    settle(store)


def test_tables_after_news_are_those_of_a_whole_refit(tmp_path):
    """But for others of the same user with few runs: these lean on what it ran by their own fit."""
    with Store.open(str(tmp_path / "one.db")) as one:
        busy_site(one)
        one.runs.add([job(500_000, 4, 120.0, name="solve3", submit_line="sbatch -N 4 solve3.sh")])
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    with Store.open(str(tmp_path / "one.db")) as one, Store.open(str(tmp_path / "two.db")) as two:
        assert refit(one, now_s=5.0).fitted == len({"line", "name", "user"})
        refit(two, now_s=5.0, whole=True)
        pairs = list(zip(one.fits.all(), two.fits.all(), strict=True))
    assert all((a.level, a.key) == (b.level, b.key) for a, b in pairs)
    others = [a.label for a, b in pairs if a != b]
    assert all(name.startswith("ann/") and not name.endswith("solve3") for name in others)


@pytest.mark.parametrize(
    ("change", "fitted"),
    [
        (lambda store, runs: store.runs.add([replace_run(runs[0], elapsed_s=1.0)]), 3),
        (lambda store, runs: decide(store, runs[0]), 4),
        (lambda store, _: store.prune(RetentionTimes(runs=2**40)), 0),
        (lambda *_: None, 0),
    ],
    ids=["changed", "decided", "pruned", "nothing"],
)
def test_what_becomes_of_stored_runs_is_fitted(store, change, fitted):
    runs = list(applications(3))
    failed = replace_run(runs[0], job_id=9_999, name="fails", state=JobState.FAILED)
    store.runs.add([*runs, replace_run(failed, submit_line="sbatch fails.sh")])
    settle(store)
    change(store, runs)
    # Of what was pruned only the one that failed goes, with all that it is known by.
    assert refit(store, now_s=5.0).fitted == (fitted or 3 * (store.runs.count() < len(runs) + 1))
    assert refit(store, now_s=5.0).fitted == 0


def decide(store, run):
    """Join a decision that gives a run a tag."""
    about = {"user": run.user, "name": run.name, "work_dir": run.work_dir, "uid": run.uid}
    row = decision(decision_id="d" * 12, at_s=run.submit_s, cluster=run.cluster, **about)
    store.decisions.add([replace(row, tag="ann/other", script="", line="")])
    assert store.decisions.join_outcomes() == 1


def test_other_settings_are_for_all_and_a_stopped_refit_goes_on(store, monkeypatch):
    monkeypatch.setattr("predictor.refit.batches.BATCH", 4)
    monkeypatch.setattr("predictor.refit.from_store.WRITTEN", 4)
    store.runs.add(applications(4))
    settle(store)
    every = 2 * 4 + 1

    def stop(_):
        if store.fits.version() > before:
            raise KeyboardInterrupt

    before = store.fits.version()
    other = TableSettings(confidence=0.8)
    with pytest.raises(KeyboardInterrupt):
        refit(store, now_s=6.0, settings=other, progress=stop)
    assert refit(store, now_s=6.0, settings=other).fitted == every - 4
    assert {row.fitted_s for row in store.fits.all()} == {6.0}


def test_a_table_keeps_the_command_of_its_newest_run(store):
    store.runs.add(applications(2))
    refit(store, now_s=5.0)
    commands = {one.label: one.command for one in tables(store, KeyLevel.LINE).values()}
    assert commands == {"ann/solve0": "solve0.sh", "ann/solve1": "solve1.sh"}


def test_tables_of_applications_that_are_gone_go(store):
    store.runs.add(applications(1))
    refit(store, now_s=1.0)
    stale = replace(store.fits.all()[0], key="gone")
    store.fits.replace([stale], keep_others=True)
    refit(store, now_s=2.0, whole=True)
    assert "gone" not in {row.key for row in store.fits.all()}


@pytest.mark.slow
def test_the_number_of_workers_and_their_pool_change_nothing(store, monkeypatch):
    monkeypatch.setattr("predictor.refit.batches.BATCH", 4)
    monkeypatch.setattr("predictor.refit.fitting.ALONE", 4)
    store.runs.add(applications(4))
    settle(store)
    alone = refit(store, now_s=5.0, workers=1, whole=True)
    before = store.fits.all()
    together = refit(store, now_s=5.0, workers=2, whole=True)
    assert store.fits.all() == before
    assert replace(together, seconds=0) == replace(alone, seconds=0)
    with ThreadPoolExecutor(2) as pool:
        refit(store, now_s=5.0, workers=2, pool=pool, whole=True)
    assert store.fits.all() == before


@pytest.mark.parametrize(("count", "start"), [(3, False), (4, True)])
def test_processes_start_where_there_is_much_to_fit(store, monkeypatch, count, start):
    store.runs.add(applications(count))  # tables: two of each, and the user's
    begun = []
    monkeypatch.setattr("predictor.refit.fitting.ALONE", 8)
    monkeypatch.setattr(
        "predictor.refit.fitting.ProcessPoolExecutor",
        lambda workers, **_: begun.append(workers) or ThreadPoolExecutor(workers),
    )
    refit(store, now_s=5.0, workers=2)
    assert bool(begun) is start


def test_fits_leave_the_other_cores_alone(store, monkeypatch):
    store.runs.add(applications(1))
    observed = set()
    monkeypatch.setattr(
        "predictor.tables.parts.tabulate",
        lambda *_, **__: observed.update(
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ),
    )
    refit(store, now_s=5.0)
    assert observed == {1}


def test_progress_counts_all_identities(store):
    store.runs.add(applications(3))
    observed = []
    refit(store, now_s=5.0, progress=observed.append)
    identities = sum(len(list(store.runs.by_key(level))) for level in KeyLevel)
    assert sum(observed) == identities


def test_the_interval_of_a_history_holds_what_its_runs_did(store):
    times = [100, 100, *[100, 130] * 40]
    runs = (job(9 * i, 4, t, submit_line=f"sbatch x{i}.sh") for i, t in enumerate(times))
    store.runs.add(runs)
    refit(store, now_s=5.0)
    (table,) = tables(store, KeyLevel.NAME).values()
    assert table.model == "history"
    assert table.verdict is Verdict.DOUBTFUL
    assert 75 < table.low_s[0] <= 100
    assert 130 <= table.high_s[0] < 180


def test_of_a_long_history_the_recent_runs_are_enough(store):
    old = (job(i, 2, 500) for i in range(30))
    new = (job(i, 4, 100) for i in range(30, 60))
    store.runs.add([*old, *new])
    refit(store, now_s=5.0, settings=TableSettings(recent=20))
    (table,) = tables(store, KeyLevel.USER).values()
    assert (table.nodes, table.runs) == ((4,), 20)


def test_the_past_of_a_queue_is_made_anew_after_an_hour_or_with_a_twentieth_more_runs(store):
    pasts, first = [], 1
    # Runs that are there, and when.
    for runs, now_s in ((39, 0.0), (40, 10.0), (41, 20.0), (42, 3619.0), (43, 3620.0)):
        store.runs.add(job(number, 4, 5.0 * number) for number in range(first, runs + 1))
        refit(store, now_s=now_s)
        pasts.append(store.records.of_level(QUEUE)["pine"])
        first = runs + 1
    assert [one == other for one, other in pairwise(pasts)] == [True, False, True, False]


def test_an_empty_store_leaves_no_tables(store):
    summary = refit(store, now_s=5.0)
    assert (summary.curves, summary.histories) == (0, 0)
    assert store.fits.all() == []


def test_a_refit_parses_nothing(store, monkeypatch):
    """Texts are read when a run is stored: a refit takes what was made of them."""
    tagged = {"comment": "nimo:app=wrf,size=3G", "work_dir": "/scratch/3f/9a2bc07d1e55/run"}
    more = []
    # Enough runs for a model of their sizes.
    for i, (n, steps) in enumerate(product((1, 2, 4, 8), (5, 10, 20, 40))):
        line = f"sbatch -N {n} --export=ALL,STEPS={steps} wrf.sh --dt 0.{n}"
        more.append(job(90_000 + i, n, 900 * steps / n, submit_line=line, **tagged))
    store.runs.add([*applications(2), *more])

    def refused(*texts, **_):
        raise AssertionError(f"a refit parsed {texts}")

    for module, name in (
        (job_script, "parse_command_line"),
        (job_script, "split_submit_line"),
        (job_script, "parse_script"),
        (signature, "parsed_line"),
        (signature, "words_of_command_line"),
        (engines, "_cut"),
        (engines, "engine_job"),
        (attributes, "said_by"),
        (attributes, "number_of"),
        (reading, "_resolved"),
        (tag, "parse_tag"),
        (tag, "study_of"),
    ):
        monkeypatch.setattr(module, name, refused)
    assert refit(store, now_s=5.0).fitted > 0
    (table,) = tables(store, KeyLevel.TAG).values()
    assert table.work_dirs
    assert [term.name for term in table.sizes] == ["STEPS"]


def of_users(count_by_user):
    """So many applications of each user, two runs of each."""
    rows = []
    for user, count in count_by_user.items():
        for number in range(count):
            for repeat in range(2):
                name = f"{user}-{number}"
                rows.append(
                    job(
                        len(rows) + 1,
                        1,
                        60 + number + repeat,
                        user=user,
                        name=name,
                        submit_line=f"sbatch -N1 {name}.sh",
                        comment=f"nimo:app={name}",
                    )
                )
    return rows


@pytest.mark.parametrize(
    ("counts", "turn"), [({"aeve": 16, "zoe": 2}, 5), ({"a": 3, "b": 1, "c": 9, "d": 2}, 2)]
)
def test_users_take_turns_however_many_applications_one_has(store, monkeypatch, counts, turn):
    """Nobody waits for more than one turn of each, and in the end all are fitted."""
    monkeypatch.setattr("predictor.refit.user_turns.TURN", turn)
    monkeypatch.setattr("predictor.refit.batches.BATCH", 1)
    monkeypatch.setattr("predictor.refit.from_store.WRITTEN", 1)
    monkeypatch.setattr("predictor.refit.user_turns._TURN_OF_ALL", 3 * turn)
    order = []
    done = store.changes.done
    monkeypatch.setattr(
        store.changes, "done", lambda fitted: (order.extend(fitted), done(fitted))[1]
    )
    store.runs.add(of_users(counts))
    owners = {}
    for level in KeyLevel:
        keys = [key for page in marked(store, level) for key, _ in page]
        owners |= {(level, key): user for key, user in store.runs.owners(level, keys).items()}
    summary = refit(store, now_s=5.0)
    assert summary.fitted == len(order) == len(owners) == len(set(order))
    assert summary.waiting == {}
    users = [owners[level, key] for level, key, _ in order]
    of_each = {user: users.count(user) for user in counts}
    for user, number in of_each.items():
        last = len(users) - users[::-1].index(user)
        turns = -(-number // turn)
        fair = sum(min(of_each[other], (turns + 1) * turn) for other in counts)
        assert last <= fair, (user, last, fair)


def marked(store, level):
    store.changes.collect()
    return list(store.changes.pages(level, 1000))


class NoTime:
    """A time limit that only the named users have not reached; it records the time of each fit."""

    def __init__(self, *users):
        self.users, self.seconds = users, dict.fromkeys(("eve", "zoe", "bob"), 0.0)

    def took(self, user, seconds):
        self.seconds[user] += seconds

    def may_go_on(self, user):
        return user in self.users


def test_who_has_used_up_the_time_waits_and_others_go_on(store, monkeypatch):
    monkeypatch.setattr("predictor.refit.user_turns.TURN", 4)
    store.runs.add(of_users({"eve": 10, "zoe": 10, "bob": 1}))
    limit = NoTime("zoe")
    assert set(refit(store, now_s=5.0, time_limit=limit).waiting) == {"eve"}
    assert limit.seconds["zoe"] > limit.seconds["eve"] > 0.0


def test_a_refit_without_time_left_fits_the_first_of_each_user_and_goes_on_later(
    store, monkeypatch
):
    monkeypatch.setattr("predictor.refit.user_turns.TURN", 8)
    store.runs.add(of_users({"eve": 10, "zoe": 2}))
    expected = Store.open("sqlite://")
    with expected:
        expected.runs.add(of_users({"eve": 10, "zoe": 2}))
        refit(expected, now_s=5.0)
        all_tables = {(row.level, row.key) for row in expected.fits.all()}
    first = refit(store, now_s=5.0, time_limit=NoTime())
    assert set(first.waiting) == {"eve"}
    assert first.fitted + first.waiting["eve"] == len(all_tables)
    fitted = {(row.level, row.key) for row in store.fits.all()}
    assert {key for level, key in all_tables if "zoe" in key} <= {key for _, key in fitted}
    while refit(store, now_s=5.0, time_limit=NoTime()).waiting:
        pass
    assert {(row.level, row.key) for row in store.fits.all()} == all_tables


@pytest.mark.parametrize("cpus", [1, 2])
def test_tables_say_themselves_whether_all_runs_had_one_cpu(store, cpus):
    """Those of sizes and parts, too, which have no layout of their own."""
    sizes = [100 * 2 ** (number % 5) for number in range(40)]
    store.runs.add(
        job(
            number + 1,
            1,
            float(sizes[number]),
            cpus=cpus if number == 39 else 1,
            submit_line=f"sbatch solve.sh {sizes[number]}",
        )
        for number in range(40)
    )
    refit(store, now_s=5.0)
    made = [table for level in KeyLevel for table in tables(store, level).values()]
    assert any(table.sizes or table.parts for table in made)
    names = [table for table in made if table.level == KeyLevel.NAME]
    assert {table.one_cpu for table in names if not table.key.partition("\0")[2]} == {cpus == 1}
