"""Building blocks of pages: what users wrote stays text, and what is drawn is also said."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from operator import itemgetter
from xml.etree import ElementTree

import pytest

from predictor.types import Point
from sacct_ingest.records import JobState
from sacct_ingest.store import ArrayRow, DecisionSelection, Store
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import anonymous
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.reports import chart, html
from slurm_plugin.reports.curve_chart import curve
from slurm_plugin.reports.headline import headline
from slurm_plugin.reports.page import page
from slurm_plugin.reports.picture import Picture
from slurm_plugin.reports.sheets import sheets_of
from slurm_plugin.reports.terminal import render
from slurm_plugin.text.table_columns import Column, Table, text_column
from tests.sacct_ingest.records import run as stored_run
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise

EVIL = "<script>alert(1)</script>\"'&\x1b[2J\u202efdp"
PAGE = """\
{% extends "page.html.j2" %}
{% import "parts.html.j2" as parts %}
{% block content %}{{ parts.table(one) }}{{ parts.chart(drawn) }}{% endblock %}"""


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def filled(one, drawn):
    template = html.environment().from_string(PAGE)
    return template.render(title=EVIL, one=one, drawn=drawn)


def table(*rows):
    columns = (text_column("who", "who", value=itemgetter(0)), Column("n", "n", itemgetter(1)))
    return Table(columns, rows, "t", EVIL)


def picture():
    nodes = (1, 2, 4, 8)
    return Picture(
        title=EVIL,
        nodes=nodes,
        median_s=(800.0, 420.0, 230.0, 150.0),
        low_s=(700.0, 380.0, 200.0, 100.0),
        high_s=(900.0, 460.0, 270.0, 220.0),
        confidence=0.9,
        observed=(Point(1, 800.0, 3, 0.05), Point(4, 230.0)),
        knee=4,
        observe=8,
        recommended=2,
    )


def test_what_users_wrote_is_text_everywhere():
    drawn = chart.bars(EVIL, [chart.Bar(EVIL, 1.0, EVIL)])
    made = filled(table((EVIL, EVIL)), drawn)
    assert "script" not in [tag for tag, _ in Tags(made).found]
    assert Tags(made).text.count("<script>alert(1)</script>") >= 4
    assert "\x1b" not in made
    assert "\u202e" not in made


def test_a_table_names_its_columns_and_rows_or_says_that_there_are_none():
    tags = Tags(filled(table(("ada", "3")), chart.bars("b", []))).found
    assert [a["scope"] for tag, a in tags if tag == "th"] == ["col", "col", "row"]
    assert "caption" in [tag for tag, _ in tags]
    assert "<p>None.</p>" in filled(table(), chart.bars("b", []))


def test_no_element_needs_what_a_strict_policy_forbids():
    tags = Tags(filled(table(("ada", "3")), curve(picture()))).found
    assert not [a for _, a in tags if "style" in a or any(name.startswith("on") for name in a)]
    assert not [a for _, a in tags if any("//" in (value or "") for value in a.values())]


@pytest.mark.parametrize(
    "drawn",
    [
        chart.bars("b", [chart.Bar("one", 1.0, "1"), chart.Bar("none", 0.0, "0")]),
        chart.columns("c", [chart.Bar(str(i), float(i), str(i)) for i in range(20)], guide=5),
        chart.against_nominal("n", [(0.5, 0.42), (0.9, 1.0)]),
        curve(picture()),
    ],
    ids=["bars", "columns", "against_nominal", "curve"],
)
def test_all_marks_are_inside_the_drawing(drawn):
    made = filled(table(), drawn)
    svg = re.search(r"<svg.*</svg>", made, re.DOTALL)
    root = ElementTree.fromstring(svg[0])
    for one in root.iter():
        x, y = float(one.get("x", one.get("cx", "0"))), float(one.get("y", one.get("cy", "0")))
        assert 0 <= x + float(one.get("width", "0").replace("100%", "0")) <= drawn.width
        assert 0 <= y + float(one.get("height", "0")) <= drawn.height
    assert drawn.description


def test_a_curve_says_what_it_draws():
    said = curve(picture()).description
    assert "1 nodes 13 min" in said
    assert "from 13 min on 1 to 2.5 min on 8 nodes" in said


ARRAY = ArrayRow(
    cluster="pine", array_job_id=40, user="ada", account="physics", name="sweep", submit_s=1,
    tasks=9, completed=8, shortest_s=60.0, mean_s=90.0, longest_s=120.0, cpu_had_s=800.0,
    cpu_used_s=200.0, mem_bytes=3 * 2**29,
)  # fmt: skip


def test_a_table_lists_them_and_hides_names_where_that_is_asked_for():
    report = replace(summarise([], confidence=0.9), arrays=(ARRAY,))
    (sheet,) = [one for one in sheets_of(report, {}) if one.name == "arrays"]
    shown = [field.text(ARRAY) for field in sheet.columns]
    assert shown[:5] == ["40", "ada", "sweep", "9", "8"]
    assert shown[-2:] == ["25 %", "1.5 GiB"]
    some = replace(summarise([(decision(), run())], confidence=0.9), arrays=(ARRAY,))
    assert "sweep" in page(some, {}, now_s=0.0)
    (hidden,) = anonymous(report).arrays
    assert {"ada", "physics", "sweep"}.isdisjoint({hidden.user, hidden.account, hidden.name})


@pytest.mark.parametrize("pairs", [[], [(decision(), run())]])
def test_they_are_there_with_and_without_a_decision(pairs):
    report = replace(summarise(pairs, confidence=0.9), arrays=(ARRAY,))
    text = "\n".join(render(report, {}))
    assert "Job arrays, the newest first\narray" in text
    assert ("Applications" in text) is bool(pairs)
    shown = page(report, {}, now_s=0.0)
    assert 'id="of-job-arrays"' in shown
    assert ('id="of-decisions"' in shown) is bool(pairs)
    assert "<h2" not in page(summarise([], confidence=0.9), {}, now_s=0.0)


def test_a_report_takes_them_out_of_the_store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.runs.add([stored_run(array_job_id=17, array_task_id=0)])
        (one,) = collect(store, DecisionSelection(), config=Config()).arrays
        assert (one.array_job_id, one.tasks) == (17, 1)
        # Reasons and applications are those of decisions.
        assert collect(store, DecisionSelection(reason="off"), config=Config()).arrays == ()
        assert collect(store, DecisionSelection(), config=Config(), application="x").arrays == ()


def summed(*pairs):
    return headline(summarise(pairs, confidence=0.9))


def test_changed_jobs_are_compared_with_what_was_asked_for():
    wide = {"request_low_s": 1700.0, "request_high_s": 1900.0, "request_wait_s": 0.0}
    made = summed(*((decision(**wide), run(start_s=int(AT_S))) for _ in range(20)))
    assert made.benefit == (
        "NIMO changed the node count of 20 jobs. On average each ended 13 min sooner (12 to 15 "
        "min), for 11 % more node-hours. None ended over a minute later than as asked, and no "
        "limit ended any."
    )
    assert made.verdict == "it helps"
    assert made.trust == "100 % of 20 runs ended inside the 90 % interval."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "ran 13 min shorter"),
        ({"request_predicted_s": 500.0}, "ran 8.3 min longer"),
        (
            {"request_predicted_s": 500.0},
            "1 ended over a minute later than as asked; no limit ended",
        ),
        ({"request_low_s": 900.0, "request_high_s": 3600.0}, "(not sure yet: 1.7 min longer to"),
    ],
)
def test_the_sign_is_in_words(given, words):
    made = summed((decision(**given), run(start_s=None)))
    assert words in made.benefit
    assert "Waits are excluded" in made.benefit


def test_while_observing_it_says_what_would_have_changed():
    left = {"mode": "observe", "applied": False}
    made = summed((decision(**left), run(nodes=2, elapsed_s=1800.0)), (decision(), None))
    assert made.benefit.startswith("NIMO would have changed 1 of 1 job that ended: ")
    assert "0.11 more node-hours" in made.benefit
    assert "0.22 fewer hours of running" in made.benefit
    assert made.tasks[-1].text.startswith("set mode: enforce")


def test_what_completed_counts_would_give_is_counted_apart():
    left = {"applied": False, "reason": "proven", "requested_nodes": 8, "wait_s": 120.0}
    known = {"request_predicted_s": 900.0, "request_wait_s": 600.0}
    ran = run(nodes=8, elapsed_s=900.0, start_s=int(AT_S) + 600)
    made = summed(*((decision(**left, **known), ran) for _ in range(20)))
    assert "NIMO would have changed" not in made.benefit
    assert made.benefit.endswith(
        "With opt_in.proven: on, NIMO would also change 20 jobs that ask for one count: 17.8 fewer "
        "node-hours, 2.7 h less waiting."
    )


def test_the_worst_application_is_named_and_harm_comes_first():
    good = [(decision(label="wrf"), run()) for _ in range(5)]
    bad = [(decision(label="melt\x1b"), run(elapsed_s=2000.0)) for _ in range(5)]
    cut = (decision(given_limit_s=900), run(state=JobState.TIMEOUT))
    made = summed(*good, *bad, cut)
    assert made.trust.endswith("the worst is melt  with 0 %.")
    # What the share before it does not count cannot be the worst.
    more = [(decision(label="cfd"), run()) for _ in range(5)]
    guess = {"label": "ada", "key_level": "user", "applied": False, "action": "keep"}
    guesses = [(decision(**guess), run(elapsed_s=2000.0)) for _ in range(5)]
    rest = "ended inside the 90 % interval, and no application did worse."
    assert summed(*good, *more, *guesses).trust == f"100 % of 10 runs {rest}"
    assert "0 % of 5" in summed(*guesses).trust
    assert made.tasks[0].text == "see why a limit ended 1 job that NIMO changed"
    assert len(made.lines()) == 3


def test_without_an_outcome_there_is_nothing_to_boast_of():
    made = summed((decision(), None))
    assert made.lines()[0] == (
        "No benefit yet: NIMO changed the count of no job, and would have changed none."
    )
    assert made.lines()[2] == "There is nothing to do."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ask for --mem=5M (1 h)", 'ask for <span class="whole">--mem=5M</span> (1 h)'),
        ("--a<b", '<span class="whole">--a&lt;b</span>'),
        ("(2026-11-28T09:00:00)", '(<span class="whole">2026-11-28T09:00:00)</span>'),
        ("a--b <i> node-hours", "a--b &lt;i&gt; node-hours"),
        (f"--wrap={'x' * 40}\x1b", f"--wrap={'x' * 40} "),  # wider than a telephone
    ],
)
def test_options_and_dates_are_not_broken_at_their_hyphens(text, shown):
    assert html.unbroken(text) == shown
