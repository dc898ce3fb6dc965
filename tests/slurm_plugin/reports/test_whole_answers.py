"""What `nimo-advise` prints as a whole, over many situations: what every answer has in common."""

import re
from dataclasses import replace
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.types import Verdict
from sacct_ingest.text.durations import duration_text
from slurm_plugin.decision.advice import advice_of
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.submitted_job import submitted
from slurm_plugin.protocol.advice_messages import Advice, PartitionRow, Row
from slurm_plugin.reports.advice_answer import lines_to_paste
from slurm_plugin.reports.advice_text import places_table, render, scripts_table
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.made import NOW, amdahl, history, job, partition, rules, table

WIDTH = 80
FEW = replace(history(), runs=2)
#: By what the runs are.
TABLES = {
    "a curve": table(),
    "a wide curve": table(spread=2.0, verdict=Verdict.DOUBTFUL),
    "runs of days": table(amdahl(2e4, 3e6)),
    "runs of seconds": table(amdahl(2.0, 40.0)),
    "one count": history(),
    "two runs": FEW,
    "one CPU": replace(table(nodes=(1,), observed=(1,)), one_cpu=True),
    "a guess": replace(history(level="user", key="alice"), model="history", nodes=(1,)),
    "nothing": None,
}
QUEUES = {"an empty cluster": partition(), "a full one": partition(profile([(NOW + 7300, 32)]))}
#: By what the job asks for.
REQUESTS = {
    "a range": {"low": 1, "high": 16},
    "one count": {"low": 4, "high": 4, "asked": 4},
    "one node": {"low": 1, "high": 1, "asked": 1},
    "a short limit": {"low": 4, "high": 4, "asked": 4, "asked_limit_s": 60.0, "limit_s": 60.0},
    "a deadline": {"low": 1, "high": 16, "deadline_s": NOW + 9000},
    "a deadline that is missed": {"low": 1, "high": 2, "deadline_s": NOW + 130},
}
#: By what nimod says besides.
TROUBLES = {
    "none": {},
    "failures": {"failure_text": "The last five runs failed after 3 s (exit 2)."},
    "all": {
        "failure_text": "The last five runs failed after 3 s (exit 2).",
        "comment_text": "'nodse' in the comment is no word of NIMO.",
        "script_text": "The script names --nodes twice.",
        "energy_text": "kWh by nameplate",
    },
}
MOST_SENTENCES, MOST_WORDS = 2, 70
#: An interval whose two ends read the same: ``12:30 to 12:30``.
SAME_ENDS = r"(?<![\w.:-])(\d[\d.:-]*(?: \d\d:\d\d| \w+| %)?) (?:to|and) \1(?![\w.:])"
SITUATIONS = list(product(TABLES, QUEUES, REQUESTS, TROUBLES))


def advised(runs, queue, asked, trouble):
    request = Request(**{"limit_s": 7200.0} | REQUESTS[asked])
    request = msgspec.structs.replace(request, **submitted(job()))
    part = QUEUES[queue]
    case = Situation(request, TABLES[runs], part.supply, rules(), NOW, partition=part)
    return replace(advice_of(case), **TROUBLES[trouble])


def printed(advice, width=WIDTH, **how):
    return "\n".join(render(advice, now_s=NOW, width=width, **how))


def said_below(text):
    """Sentences between the lines to paste and the table, each whole."""
    head = text.split("\n\n")[0].splitlines()
    rest = text.split("\n\n")[1:] if any(line.startswith("#SBATCH") for line in head) else []
    return rest[0] if rest and not rest[0].startswith(" ") else ""


@pytest.mark.parametrize("situation", SITUATIONS, ids=" / ".join)
def test_every_answer_begins_with_one_line_and_is_short(situation):
    advice = advised(*situation)
    text = printed(advice)
    lines = text.splitlines()
    if lines_to_paste(advice):
        assert lines[1].startswith("#SBATCH"), text
        assert re.match(r"(About|Over) ", lines[0]), text
    matter = [one for one in (advice.failure_text, advice.limit_text, advice.size_text,
                              advice.comment_text, advice.script_text, advice.submit_text,
                              advice.deadline_text, advice.time_text, advice.awaited_text,
                              advice.job_text)
              if one]  # fmt: skip
    spoken = " ".join(said_below(text).split())
    if len(matter) <= MOST_SENTENCES and not advice.deadline_s:
        assert len(re.findall(r"[.?!](?=\s|$)", spoken)) <= MOST_SENTENCES + text.count(" (The "), (
            text
        )
        assert len(spoken.split()) <= MOST_WORDS, text
    # Nobody reads codes, and nobody counts the seconds of hours.
    assert not re.search(r"(?<![/\w-])[a-z]+_[a-z_]+\b", text), text
    assert not re.search(r"\b\d+ h \d+ (min|s)\b|\b\d+ min \d+ s\b", text), text
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b", text), text
    assert not re.search(SAME_ENDS, text), text
    rows = [line for line in lines if re.match(r"^[◆ ] +\d+ ", line)]
    assert len(rows) <= 5, text
    assert all(len(line) <= WIDTH for line in lines if not line.startswith("#SBATCH")), text


@pytest.mark.parametrize("situation", SITUATIONS[:: len(TROUBLES)], ids=" / ".join)
def test_all_that_matters_is_said_the_failures_first(situation):
    advice = replace(advised(*situation[:3], "all"), verdict_text="All is well.")
    text = " ".join(printed(advice).split())
    places = [
        text.index(advice.failure_text),
        text.index("'nodse' in"),
        text.index("names --nodes"),
    ]
    assert places == sorted(places)
    if lines_to_paste(advice):
        assert places[0] > text.index("#SBATCH")


@given(st.floats(0.0, 1e6), st.floats(0.0, 300.0))
def test_no_column_prints_an_interval_of_one_moment(low_s, width_s):
    high_s = low_s + width_s
    ends = {"end_low_s": low_s, "end_high_s": high_s, "wait_low_s": low_s, "wait_high_s": high_s,
            "kwh_low": low_s, "kwh_high": high_s}  # fmt: skip
    advice = advised("a curve", "a full one", "a range", "none")
    rows = [replace(row, wait_s=low_s, **ends) for row in advice.rows]
    place = PartitionRow(
        partition="main", nodes=4, time_s=60.0, wait_s=low_s, end_low_s=low_s,
        end_high_s=high_s, own=True, recommended=True,
    )  # fmt: skip
    advice = replace(advice, rows=rows, partitions=[place])
    for shown in (scripts_table(advice, now_s=NOW), places_table(advice, now_s=NOW)):
        text = "\n".join("; ".join(cells) for cells in shown.cells())
        assert not re.search(SAME_ENDS, text), text


def test_a_guess_is_one_sentence_without_lines_to_paste():
    based = "Low confidence: based on 12 of your other jobs, not on this application."
    rows = [Row(nodes=1, time_s=3300.0, low_s=780.0, high_s=14_400.0, speedup=None,
                efficiency=None, node_hours=0.92, observed=False)]  # fmt: skip
    guess = Advice(guess=True, verdict="doubtful", verdict_text=based, rows=rows,
                   problems=[based, "Its first runs tell more."], confidence=0.9)  # fmt: skip
    assert printed(guess, width=200) == (
        "About 55 min on 1 node (9 of 10 runs: 13 min to 4 h); low confidence: based on 12 of your "
        "other jobs, not on this application."
    )
    assert "Its first runs tell more." in printed(guess, verbose=True)


@pytest.mark.parametrize("width", [50, 60, 80, 200])
def test_what_the_table_has_too_is_left_out_of_a_line_that_is_too_long(width):
    advice = advised("a curve", "a full one", "a range", "none")
    first, second = printed(advice, width).splitlines()[:2]
    assert first.startswith("About ")
    if width >= 60:
        assert second.startswith("#SBATCH"), first
    if width == 200:
        assert "; starts in about 2 h. Ask for:" in first
    assert duration_text(7300) == "2 h"
