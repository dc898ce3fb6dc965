"""Who waits most: by partition, account and user, beside the weeks before."""

from math import ceil
from random import Random

import pytest

from slurm_plugin.evaluation.group_waits import FEWEST, KINDS, MOST, WEEKS
from slurm_plugin.evaluation.outcomes import anonymous
from slurm_plugin.reports.sheets import find, sheets_of
from slurm_plugin.reports.terminal import render
from slurm_plugin.reports.wait_tables import trend, wait_line
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise

WEEK_S = 7 * 86_400


def pair(number, wait_s, *, weeks_ago=0, late_s=0, partition="batch", **who):
    """A decision and its run, which waited so long."""
    at_s = AT_S - weeks_ago * WEEK_S
    submit_s = int(at_s)
    return (
        decision(decision_id=f"{number:012x}", at_s=at_s, **who),
        run(
            job_id=number,
            submit_s=submit_s,
            eligible_s=submit_s + late_s,
            start_s=submit_s + wait_s,
            partition=partition,
        ),
    )


def report_of(pairs):
    """Sum up decisions in the order in which they were made."""
    return summarise(sorted(pairs, key=lambda one: one[0].at_s), confidence=0.9)


def waits_of(*pairs):
    return {(row.kind, row.who): row for row in report_of(pairs).group_waits}


def test_those_who_wait_longest_come_first():
    jobs = [pair(n, 100 * n, user="ada", account="physics") for n in range(10)]
    jobs += [pair(n, 900 * n, user="bob", account="bio", partition="gpu") for n in range(10, 20)]
    rows = list(waits_of(*jobs).values())
    assert [(row.kind, row.who) for row in rows] == [
        *(("partition", "gpu"), ("partition", "batch")),
        *(("account", "bio"), ("account", "physics")),
        *(("user", "bob"), ("user", "ada")),
    ]
    ada = rows[-1]
    assert (ada.jobs, ada.median_s, ada.most_s, ada.before_most_s) == (10, 400, 800, None)


def test_the_four_weeks_before_stand_beside_the_last_four_and_no_others():
    jobs = [
        pair(100 * week + n, 1000 + 1000 * (week // WEEKS), weeks_ago=week)
        for week in range(3 * WEEKS)
        for n in range(FEWEST)
    ]
    row = waits_of(*jobs)["user", "ada"]
    assert (row.jobs, row.most_s, row.before_most_s) == (WEEKS * FEWEST, 1000, 2000)
    assert trend(row) == "17 min shorter"
    assert wait_line(row) == (
        "user ada: 9 in 10 of 20 jobs wait at most 17 min (33 min before), half at most 17 min"
    )


def test_few_jobs_are_no_group_and_no_weeks_before():
    few = [pair(n, 500, user="bob", account="", partition="") for n in range(FEWEST - 1)]
    before = [pair(50 + n, 500, weeks_ago=5) for n in range(FEWEST - 1)]
    enough = [pair(90 + n, 500) for n in range(FEWEST)]
    rows = waits_of(*few, *before, *enough)
    assert [*rows] == [("partition", "batch"), ("account", "physics"), ("user", "ada")]
    assert {row.before_most_s for row in rows.values()} == {None}
    assert {trend(row) for row in rows.values()} == {None}


def test_who_waits_for_something_else_than_nodes_is_not_counted():
    jobs = [pair(n, 500) for n in range(FEWEST)]
    jobs += [pair(50 + n, 90_000, late_s=80_000) for n in range(FEWEST)]
    assert waits_of(*jobs)["user", "ada"].jobs == FEWEST


@pytest.mark.parametrize("seed", range(20))
def test_rounded_waits_are_near_those_of_all_jobs(seed):
    rng = Random(seed)
    waits = [round(rng.lognormvariate(rng.uniform(3, 8), 2)) for _ in range(rng.randrange(20, 400))]
    jobs = [
        pair(n, wait_s, user=rng.choice("ab"), account=rng.choice("xy"), partition=rng.choice("pq"))
        for n, wait_s in enumerate(waits)
    ]
    rows = waits_of(*jobs)
    for kind in KINDS:
        assert sum(row.jobs for row in rows.values() if row.kind == kind) == len(jobs)
    for name in "ab":
        own = sorted(one.start_s - one.submit_s for asked, one in jobs if asked.user == name)
        if len(own) < FEWEST:
            continue
        row = rows["user", name]
        for share, wait_s in ((0.5, row.median_s), (MOST, row.most_s)):
            assert wait_s == pytest.approx(own[ceil(share * len(own)) - 1], rel=0.006)


@pytest.mark.parametrize(
    ("before_s", "text"),
    [(1000, "as before"), (950, "as before"), (500, "8.3 min longer"), (9100, "2.2 h shorter")],
)
def test_a_change_is_said_where_there_is_any(before_s, text):
    jobs = [pair(n, 1000) for n in range(FEWEST)]
    jobs += [pair(50 + n, before_s, weeks_ago=5) for n in range(FEWEST)]
    assert trend(waits_of(*jobs)["account", "physics"]) == text


def test_tables_give_each_figure_once_for_all_forms():
    jobs = [pair(n, 600 * n, weeks_ago=n // 7) for n in range(14)]
    jobs += [pair(50 + n, 4000, weeks_ago=5) for n in range(FEWEST)]
    report = report_of(jobs)
    table = find(sheets_of(report, {}), "account_waits")
    assert table.text(width=80).splitlines() == [
        "account  jobs  median wait  9 in 10 within         change  median, before",
        "physics    14          1 h             2 h  53 min longer           1.1 h",
    ]
    assert table.csv().splitlines() == [
        "who,jobs,median_s,most_s,before_median_s,before_most_s",
        "physics,14,3600,7200,4000,4000",
    ]
    assert table.parsable().splitlines()[0] == (
        "account|jobs|median wait|9 in 10 within|median, before|9 in 10, before"
    )


def test_the_report_names_those_who_wait_longest():
    jobs = [pair(n, 900 * n, user=f"user{n % 5}", account="bio") for n in range(50)]
    jobs += [pair(50 + n, 30, account="physics", partition="fast") for n in range(9)]
    lines = "\n".join(render(report_of(jobs), {})).splitlines()
    begin = lines.index("Longest waits for nodes, last four weeks")
    assert lines[begin : begin + 6] == [
        "Longest waits for nodes, last four weeks",
        "  partition batch: 9 in 10 of 50 jobs wait at most 11 h, half at most 6 h",
        "  account bio: 9 in 10 of 50 jobs wait at most 11 h, half at most 6 h",
        "  user user4: 9 in 10 of 10 jobs wait at most 11 h, half at most 6 h",
        "  user user3: 9 in 10 of 10 jobs wait at most 11 h, half at most 5.8 h",
        "  user user2: 9 in 10 of 10 jobs wait at most 10 h, half at most 5.5 h",
    ]


def test_names_of_users_and_accounts_are_replaced_and_partitions_stay():
    jobs = [pair(n, 600) for n in range(FEWEST)]
    rows = anonymous(report_of(jobs)).group_waits
    assert [row.who for row in rows] == ["batch", "account-1", "user-1"]
