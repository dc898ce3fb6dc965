"""Savings, waits and promises by week, and an application's runs beside their predictions."""

import re
import time
from html import unescape

import pytest

from sacct_ingest.store import DecisionSelection, Store
from slurm_plugin.evaluation.weeks import number_of
from tests.slurm_plugin.reports.rows import decision
from tests.slurm_plugin.web.conftest import add_weeks, own

WEEKS = 6


@pytest.fixture
def history(store_path):
    """Two jobs a week of ada's; each takes and waits longer from week to week."""
    add_weeks(
        store_path,
        weeks=WEEKS,
        each=2,
        elapsed_s=lambda number: 900 + 50 * number,
        wait_s=lambda number: 60 * (number // 2),
    )
    return store_path


def weeks_of_decisions(path):
    with Store.open(str(path)) as store:
        pairs = store.decisions.newest(DecisionSelection(), most=1000)
        return len({number_of(pair[0].at_s) for pair in pairs})


def titles(text):
    return [unescape(one) for one in re.findall("<figcaption[^>]*>(.*?)</figcaption>", text)]


def said(text, title):
    figure = re.search(f"<figcaption[^>]*>{title}</figcaption>.*?</figure>", text, re.DOTALL)[0]
    return [unescape(one) for one in re.findall("<circle.*?<title>(.*?)</title>", figure)]


def test_each_week_says_what_was_saved_waited_and_kept(ask, history):
    text = ask("/savings").text
    assert titles(text) == [
        *("Node-hours saved by week", "Time saved by week"),
        *("Mean wait by week", "Promises kept by week"),
    ]
    saved = said(text, "Node-hours saved by week")
    assert len(saved) in (WEEKS, WEEKS + 1)
    assert all(re.match(r"Week of \d\d-\d\d: −?[\d.]+ node-hours saved \(", one) for one in saved)
    assert saved[1].endswith("2 changed jobs")
    waits = said(text, "Mean wait by week")
    assert len({*waits}) == len(waits)
    kept = said(text, "Promises kept by week")
    assert "100 % of 2 runs inside their 90 % interval" in kept[1]
    # The demo's decisions of today may be of a week of their own, without a changed job.
    assert len(re.findall("<tr>", text)) == weeks_of_decisions(history) + 1


def test_what_was_saved_in_all_stands_at_the_top(ask, history):
    text = unescape(ask("/savings").text)
    top = re.search('<dl class="key">(.*?)</dl>', text, re.DOTALL)[1]
    names = re.findall("<dt>(.*?)</dt>", top)
    assert names[0] == "Node-hours"
    assert names[1] in ("Hours of waiting and running", "Hours of running")
    assert names[2:] == ["Mean wait", "Promises kept"]
    # No sign is to be read: less and more are words, and every interval says that it is one.
    number = r"[\d.,]+( fewer| more)?"
    assert re.search(rf"<dd>{number}<small>likely {number} to {number}; 12 changed jobs<", top)
    assert re.search(r"<dd>[\d.]+ min<small>last 4 weeks, all jobs; [\d.]+ (min|s) before<", top)
    note = "of 12 runs took as long as promised; 90 % should"
    assert f"<dd>75 %<small>{note}</small>" in top
    assert "<dl" not in ask("/savings", "eve", own("eve")).text


@pytest.fixture
def queues(history):
    """Jobs of bob's beside ada's; they wait longer, on other nodes."""
    add_weeks(
        history,
        weeks=10,
        each=3,
        elapsed_s=lambda _: 900,
        wait_s=lambda _: 18_000,
        start=500,
        user="bob",
        account="bio",
        partition="gpu",
    )
    return history


def test_who_waits_most_stands_in_tables_and_at_the_top(ask, queues):
    text = unescape(ask("/savings").text)
    part = re.search('<div class="beside" id="waits">(.*?)<h2>', text, re.DOTALL)[1]
    found = re.findall("<tr>(.*?)</tr>", part, re.DOTALL)
    rows = [re.sub("<[^>]*>", "", row).split() for row in found]
    jobs = rows[1][1]  # how many are of the last four weeks depends on the day
    title = "jobs median wait 9 in 10 within change"
    longest = f"{jobs} 5 h 5 h as before"
    assert [" ".join(rows[place]) for place in (0, 3, 6)] == [
        *(f"partition {title}", f"account {title}", f"user {title}")
    ]
    assert [" ".join(rows[place]) for place in (1, 4, 7)] == [
        *(f"gpu {longest}", f"bio {longest}", f"bob {longest}")
    ]
    assert [rows[place][0] for place in (2, 5, 8)] == ["batch", "physics", "ada"]
    top = re.search('<dl class="key">(.*?)</dl>', text, re.DOTALL)[1]
    note = f"account; 9 of 10 of its {jobs} jobs wait at most 5 h"
    assert f"<dt>Waits longest</dt><dd>bio<small>{note}</small></dd>" in top
    for of in ("partition=gpu", "account=bio", "user=bob"):
        assert f'href="/decisions?{of}"' in part
        decisions = ask(f"/decisions?{of}").text
        assert 'href="/decisions?user=bob"' in decisions
        assert 'href="/decisions?user=ada"' not in decisions
    assert 'href="/decisions?account=bio"' in ask("/report?days=90").text
    assert ask("/table.csv?name=user_waits&days=90").text.splitlines()[1].startswith(f"bob,{jobs},")


def test_users_see_no_waits_of_others(ask, queues):
    text = ask("/savings", "ada", own("ada")).text
    assert "gpu" not in text
    assert "bob" not in text
    # A coordinator compares the users of an account.
    text = ask("/savings", "ada", own("ada", "bio")).text
    assert 'href="/decisions?user=bob"' in text


def test_a_user_sees_the_savings_of_own_jobs_only(ask, history):
    assert "Node-hours saved" in ask("/savings", "ada", own("ada")).text
    text = ask("/savings", "eve", own("eve")).text
    assert titles(text) == []
    assert "No week yet" in text
    assert "Not all jobs are counted here" in text


def test_sums_of_a_week_that_is_not_over_are_said_to_be_so(ask, store_path):
    assert "The last week is not over" not in ask("/savings").text
    add_weeks(store_path, weeks=2, each=40, elapsed_s=lambda _: 900, wait_s=lambda _: 60)
    text = ask("/savings").text
    with Store.open(str(store_path)) as store:
        newest = store.decisions.newest(DecisionSelection(), most=1)[0][0]
    lasts = number_of(newest.at_s) == number_of(time.time())
    assert text.count("The last week is not over.") == 2 * lasts
    weeks = re.findall('data-key="([^"]+)"><title>Week', text)
    assert "The last week is not over" not in ask(f"/savings?weeks={weeks[0]}..{weeks[0]}").text


def test_all_weeks_are_there_when_asked_for(ask, history):
    with Store.open(str(history)) as store:
        old_s = time.time() - 300 * 86_400
        store.decisions.add([decision(decision_id="e" * 12, at_s=old_s, key="a1")])
    assert ask("/savings?days=all").text.count("<tr>") == ask("/savings").text.count("<tr>") + 1
    assert ask("/savings?days=12").status_code == 400


def test_an_applications_runs_stand_beside_what_was_predicted(ask, history):
    text = ask("/application?level=line&key=a1").text
    runs = said(text, "Its runs beside their predictions")
    assert len(runs) == 2 * WEEKS
    assert re.match(
        r"Job 910000, \d\d-\d\d \d\d:\d\d: 15 min on 4 nodes; 17 min predicted, 13 to 22 min",
        runs[0],
    )
    assert 'class="band"' in text


def test_a_part_of_the_weeks_is_drawn_where_the_address_asks_for_it(ask, history):
    text = ask("/savings").text
    weeks = re.findall('data-key="([^"]+)"><title>Week', text)[: WEEKS - 1]
    part = ask(f"/savings?days=all&weeks={weeks[1]}..{weeks[3]}").text
    assert re.findall('data-key="([^"]+)"><title>Week', part)[:4] == [*weeks[1:4], weeks[1]]
    assert f"Shown: {weeks[1]} to {weeks[3]}" in part
    assert '<a href="/savings?days=all">Show all</a>' in part
    assert ask("/savings?weeks=4..7").status_code == 400
    assert ask("/savings?weeks=2026-01-01..x").status_code == 400


def test_a_part_of_a_curve_and_of_its_runs_is_drawn(ask, history):
    address = "/application?level=line&key=a1"
    text = ask(address).text
    runs = re.findall('data-key="([^"]+)"><title>Job', text)
    part = ask(f"{address}&zoom=4..9&runs={runs[2]}..{runs[5]}").text
    assert re.findall('data-key="([^"]+)"><title>Job', part) == runs[2:6]
    counts = re.findall(r'data-key="(\d+)"><title>', part)
    assert (counts[0], counts[-1]) == ("4", "9")
    assert part.count("Show all") == 2
    # Where nothing ran the nearest count that did is drawn, too.
    counts = re.findall(r'data-key="(\d+)"><title>', ask(f"{address}&zoom=20..30").text)
    assert (counts[0], counts[-1]) == ("16", "30")
    assert ask(f"{address}&zoom=2026-01-01..2026-02-02").status_code == 400
