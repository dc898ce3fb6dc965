from dataclasses import replace
from itertools import pairwise
from math import exp, inf
from random import Random

import pytest

from predictor.job_table import for_limit
from predictor.level.calibration import BacktestSettings
from predictor.level.experts import MIXED
from predictor.memory import UNBOUNDED, Memory
from predictor.models import base
from predictor.stored_table import decode, encode
from predictor.table import at, covers, quantile
from predictor.tables.build import IdentityRuns, record_of, tabulate
from predictor.tables.of_curve import grid, knee_of, max_useful_of, surprise_factor
from predictor.tables.run_facts import label_of, memory_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from tests.predictor.rows import row

SETTINGS = TableSettings()


def rows_of(*nodes):
    return [row(n, 600 / n + 20) for n in nodes]


def table_of(rows, level=KeyLevel.SCRIPT):
    return tabulate(IdentityRuns(level, "k", rows, 9.0), SETTINGS)


def test_a_curve_becomes_a_table_of_every_node_count_in_reach():
    table = table_of(rows_of(1, 2, 4, 8))
    assert table.nodes == tuple(range(1, 33))
    assert (table.level, table.key, table.label) == ("script", "k", "ann/solve")
    assert (table.verdict, table.runs, table.fitted_s) == (Verdict.RELIABLE, 4, 9.0)
    assert [p.nodes for p in table.observed] == [1, 2, 4, 8]
    assert len(table.verdicts) == len(table.nodes)
    assert table.verdicts[0] is Verdict.RELIABLE
    assert table.verdicts[-1] is not Verdict.RELIABLE
    for n, median, low, high in zip(
        table.nodes[:8], table.median_s, table.low_s, table.high_s, strict=False
    ):
        assert median == pytest.approx(600 / n + 20, rel=0.02)
        assert low < median < high


def test_failed_runs_take_no_part():
    failed = [row(n, 1.0, state) for n in (1, 2) for state in (JobState.FAILED, JobState.CANCELLED)]
    good = table_of(rows_of(1, 2, 4))
    made = table_of(rows_of(1, 2, 4) + failed)
    assert replace(made, endings=good.endings, failures=None) == good


def test_runs_cut_short_are_lower_bounds():
    free = table_of(rows_of(2, 4, 8, 16))
    cut = table_of([*rows_of(2, 4, 8, 16), row(1, 900.0, JobState.TIMEOUT)])
    assert cut.median_s[0] > free.median_s[0]
    assert "cut_short" in {p.name for p in cut.problems}


@pytest.mark.parametrize(("observed", "ask"), [((4,), 8), ((4, 8), 16), ((1, 64), 8)])
def test_too_few_node_counts_are_a_history_that_asks_for_another(observed, ask):
    table = table_of(rows_of(*observed, *observed))
    assert table.model == "history"
    assert tuple(p.nodes for p in table.observed) == observed
    assert table.verdict is Verdict.DOUBTFUL
    counts = zip(table.nodes, table.verdicts, strict=True)
    assert all(verdict is Verdict.REFUSED for n, verdict in counts if n not in observed)
    assert (table.problems[0].name, table.problems[0].observe) == ("no_curve", ask)
    assert (table.knee, table.max_useful) == (None, None)


def test_one_run_says_something_about_an_application_and_nothing_about_a_user():
    single = table_of(rows_of(4))
    assert single.verdict is Verdict.REFUSED
    assert table_of(rows_of(4), KeyLevel.USER) is None


def test_levels_that_do_not_mean_one_problem_never_make_a_curve():
    table = table_of(rows_of(1, 2, 4, 8, 16), KeyLevel.NAME)
    assert (table.model, table.label) == ("history", "k")
    assert table.problems[0].name == "no_identity"


def test_runs_that_never_finished_make_no_table():
    assert table_of([row(4, 60.0, JobState.TIMEOUT)]) is None
    assert table_of([]) is None


def test_a_history_has_columns_for_each_limit_asked_for():
    short = [replace(row(4, 60.0), limit_s=600, end_s=i) for i in range(12)]
    long = [replace(row(4, 900.0), limit_s=3600, end_s=20)]
    table = table_of([*short, *long], KeyLevel.USER)
    assert at(table, 4).time_s == at(for_limit(table, 3600), 4).time_s == 900
    reported = at(for_limit(table, 600), 4)
    assert reported.low_s < reported.time_s == 60 < reported.high_s
    assert for_limit(table, None) is for_limit(table, 0.0) is table
    # Between them the nearest by ratio answers, and no run takes longer than its limit.
    assert at(for_limit(table, 1400), 4).time_s == 60 < at(for_limit(table, 1600), 4).time_s
    assert at(for_limit(table, 45), 4).time_s == 45
    assert decode(encode(table)) == table


def test_the_grid_grows_in_equal_ratios_and_holds_what_was_observed():
    nodes = grid([3, 100, 513], SETTINGS)
    assert nodes[:64] == list(range(1, 65))
    assert {3, 100, 513, 2052} <= set(nodes)
    assert nodes[-1] == 2052
    assert all(b / a < 1.1 for a, b in pairwise(nodes[64:]))
    assert len(nodes) < 120


def test_a_table_reaches_four_times_the_largest_observation():
    table = table_of(rows_of(50, 100, 200))
    assert covers(table, 800)
    assert not covers(table, 801)


def test_a_count_beside_those_that_were_run_has_their_level_and_no_knee_is_made_of_it():
    """Problems of three sizes; the last runs on four nodes were small ones."""
    random = Random(4)
    rows = []
    for i in range(60):
        nodes, size = random.choice((1, 2, 2, 2, 4)), random.choice((0.35, 1.0, 1.9))
        times = {"submit_s": 1000 * i, "start_s": 1000 * i, "end_s": 1000 * i + 10}
        rows.append(replace(row(nodes, 9000 / nodes * size), **times))
    table = table_of(rows)
    assert table.nodes[3:5] == (4, 5)
    assert table.median_s[4] < table.median_s[3] < table.median_s[2]
    assert table.knee is None


def test_knee_and_the_end_of_use():
    nodes = list(range(1, 9))
    falling = [600 / n + 20 for n in nodes]
    assert max_useful_of(nodes, falling) is None
    turning = [60 / n + 2 * n for n in nodes]
    assert max_useful_of(nodes, turning) == 5
    # argmax S²/n of 60/n + 20 is where both halves are equal, at n = 3.
    assert knee_of(nodes, [60 / n + 20 for n in nodes]) == 3
    assert knee_of(nodes, falling) is None


def test_memory_of_a_node_is_that_of_its_tasks():
    rows = [
        replace(row(2, 10), mem_bytes=100, tasks=6),
        replace(row(1, 10), mem_bytes=250, tasks=None),
        row(1, 10),
    ]
    assert max(one.mem_bytes for one in memory_of(rows)) == 300
    assert memory_of(rows[2:]) == ()


def test_a_run_that_ended_for_lack_of_memory_needs_more_than_it_had():
    ended = replace(row(2, 10, JobState.OUT_OF_MEMORY), mem_bytes=300)
    fitted = replace(row(4, 10), mem_bytes=250)
    assert memory_of([ended, fitted]) == (Memory(2, UNBOUNDED), Memory(4, 250))
    assert memory_of([replace(ended, mem_bytes=None)]) == (Memory(2, UNBOUNDED),)
    # Later it had more, and that was enough.
    assert memory_of([ended, replace(row(2, 10), mem_bytes=400)]) == (Memory(2, 400),)


def test_an_application_of_several_users_is_called_by_its_name():
    rows = [row(1, 10), replace(row(1, 10), user="bob")]
    assert label_of(KeyLevel.LINE, "digest", rows) == "solve"
    assert label_of(KeyLevel.TAG, "wrf/conus", rows) == "wrf/conus"


def drifting(*later):
    """Eight runs on each of 1 to 8 nodes, then times doubled on those of ``later``."""
    counts = [*(1, 2, 4, 8) * 8, *later]
    times = [(600 / n + 20) * (1 + 0.01 * (i % 5)) for i, n in enumerate(counts)]
    times = [t * (2 if i >= 32 else 1) for i, t in enumerate(times)]
    return [
        replace(row(n, t), start_s=1000 * i, end_s=round(1000 * i + t))
        for i, (n, t) in enumerate(zip(counts, times, strict=True))
    ]


def test_a_curve_that_leans_on_times_of_another_problem_is_doubtful():
    table = table_of(drifting(*[4, 8] * 4))
    assert table.verdict is Verdict.DOUBTFUL
    assert (table.problems[0].name, table.problems[0].observe) == ("drift", 1)
    assert table.median_s[1] == pytest.approx(2 * 320, rel=0.05)


def test_a_curve_that_was_run_anew_is_trusted_again():
    table = table_of(drifting(*[1, 2, 4, 8] * 4))
    assert table.verdict is Verdict.RELIABLE
    assert "earlier runs are left out" in table.problems[0].text
    assert table.median_s[3] == pytest.approx(2 * 170, rel=0.05)


def test_a_steady_curve_says_nothing_of_drift():
    table = table_of(drifting())
    assert "drift" not in {problem.name for problem in table.problems}


def repeated(*factors, state=JobState.COMPLETED):
    """Runs on 1 to 8 nodes, and then one more on four for each factor."""
    more = [replace(row(4, 170 * f, state), end_s=10_000 + i) for i, f in enumerate(factors)]
    return [*rows_of(1, 2, 4, 8), *more]


def test_time_limits_need_repeated_runs():
    """A limit stops a job that is another problem; repeats alone tell that there is one."""
    few, enough = table_of(repeated(*[1.0] * 8)), table_of(repeated(*[1.0] * 9))
    assert few.tails == ()
    assert [tail.share for tail in enough.tails] == [0.9, 0.99]
    assert few.verdict is enough.verdict is Verdict.RELIABLE


def test_a_quantile_is_no_shorter_than_what_runs_took_that_the_median_leaves_out():
    steady, once = table_of(repeated(*[1.0] * 20)), table_of(repeated(*[1.0] * 19, 1.6))
    four = once.nodes.index(4)
    assert once.median_s[four] == pytest.approx(steady.median_s[four], rel=0.05)
    assert steady.tails[1].time_s[four] < 1.3 * steady.median_s[four]
    assert once.tails[1].time_s[four] >= 1.59 * once.median_s[four]
    # One in twenty is within the tenth that may take longer.
    assert once.tails[0].time_s[four] < 1.3 * once.median_s[four]


def test_a_run_that_was_stopped_leaves_no_high_quantile_among_few():
    reported = table_of(repeated(*[1.0] * 19) + repeated(1.5, state=JobState.TIMEOUT)[-1:])
    assert [tail.share for tail in reported.tails] == [0.9]


def test_runs_cut_short_beyond_what_was_usual_leave_quantiles():
    cut = [inf, *[0.1] * 30]
    assert surprise_factor(cut, 0.9, least=0.9) == pytest.approx(exp(0.1))
    assert surprise_factor(cut, 0.99, least=0.9) == inf


@pytest.mark.parametrize(("since", "cut_s"), [(0, 900.0), (9, 900.0), (10, 0.0)])
def test_a_run_cut_short_counts_until_ten_have_completed(since, cut_s):
    times = [*rows_of(2, 4, 8, 16), row(4, 900.0, JobState.TIMEOUT), *rows_of(*[4] * since)]
    said = table_of([replace(one, end_s=1000 + i) for i, one in enumerate(times)])
    assert [(one.nodes, one.cut_s) for one in said.longest if one.nodes == 4] == [(4, cut_s)]
    assert max(one.time_s for one in said.longest) == 900.0


@pytest.mark.parametrize(
    ("name", "level", "mixed"),
    [
        ("", KeyLevel.USER, True),
        ("job{}", KeyLevel.USER, True),
        ("app", KeyLevel.USER, False),
        ("app", KeyLevel.NAME, True),
    ],
)
def test_a_user_whose_applications_have_names_is_asked_for_new_ones_only(name, level, *, mixed):
    """There one expert predicts; where nothing else recognises jobs all have a say."""
    rows = [
        replace(one, name=name.format(i), submit_s=1000 * i, end_s=1000 * i + 900)
        for i, one in enumerate(rows_of(*[4, 8] * 10))
    ]
    entries = record_of(level, rows, TableSettings()).entries
    assert entries
    assert all((entry.chosen == MIXED) is mixed for entry in entries)


def test_a_model_that_nobody_registered_is_named():
    unknown = TableSettings(backtest=BacktestSettings(model="nix"))
    with pytest.raises(base.UnknownModel, match=r"no model is called nix; there are: .*averaged"):
        tabulate(IdentityRuns(KeyLevel.SCRIPT, "k", [row(n, 9.0) for n in (1, 2, 4)], 9.0), unknown)


def _at(end_s):
    """Times of a run that ends then."""
    return {"submit_s": end_s - 700, "start_s": end_s - 700, "end_s": end_s}


def history_of(count, *, on=4, seed=1, **fields):
    """Runs on one count, of 600 s within a tenth."""
    rng = Random(seed)
    return [
        replace(row(on, 600 * rng.uniform(0.95, 1.05)), **_at(10_000 * (i + 1)), **fields)
        for i in range(count)
    ]


@pytest.mark.parametrize(("runs", "has"), [(9, False), (10, True), (33, True)])
def test_runs_on_one_count_say_what_the_longest_take(runs, has):
    rows = history_of(runs)
    table = table_of(rows)
    assert table.model == "history"
    assert bool(table.tails) is has
    if has:
        assert quantile(table, 4, 0.99) >= at(table, 4).high_s
        assert quantile(table, 4, 0.99) >= max(one.elapsed_s for one in rows)


def test_the_longest_of_a_time_limit_are_as_far_beyond_its_interval():
    short, long = history_of(12, limit_s=3600), history_of(12, limit_s=7200)
    doubled = [replace(one, elapsed_s=2 * one.elapsed_s, **_at(one.end_s + 5000)) for one in long]
    table = table_of(sorted([*short, *doubled], key=lambda one: one.end_s))
    assert table.at_limits
    for limit_s in (3600, 7200):
        own = for_limit(table, limit_s)
        assert quantile(own, 4, 0.99) >= at(own, 4).high_s
    assert quantile(for_limit(table, 3600), 4, 0.99) < quantile(for_limit(table, 7200), 4, 0.99)


def test_a_new_level_at_which_all_runs_were_cut_off_leaves_a_table():
    counts = (1, 4, 9, 16, 25, 36, 49, 64)
    before = [
        replace(row(n, 20.0 + i), **_at(10_000 * round_ + 100 * i))
        for round_ in (1, 2, 3)
        for i, n in enumerate(counts)
    ]
    after = [
        replace(row(n, 70.0, JobState.TIMEOUT), **_at(50_000 + 100 * n), limit_s=60)
        for n in counts[2:]
    ]
    table = table_of([*before, *after])
    assert table.starts
    assert any(one.cut_off for one in table.starts)


def test_users_and_names_say_no_longest_run():
    assert table_of(history_of(33), KeyLevel.NAME).tails == ()
