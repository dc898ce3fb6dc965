"""`nimo report` as a whole: whether NIMO helps comes first, in sentences that can be read aloud."""

import re
from statistics import median

import pytest

from sacct_ingest.records import JobState, KeyLevel, StandingRow
from slurm_plugin.protocol.reasons import WORDS
from slurm_plugin.reports.headline import title_of
from slurm_plugin.reports.terminal import render
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise

#: Words of a sentence at most, and of half of them.
LONGEST = 30
TYPICAL = 12

LEFT = {"mode": "observe", "applied": False}
WAITED = {"request_low_s": 1700.0, "request_high_s": 1900.0, "request_wait_s": 0.0}
CUT = run(state=JobState.TIMEOUT)
PAIRS = {
    "helps": [(decision(**WAITED), run(start_s=int(AT_S)))] * 20,
    "costs": [(decision(request_predicted_s=500.0), run(start_s=None))] * 3,
    "unsure": [(decision(request_low_s=900.0, request_high_s=3600.0), run(start_s=None))] * 5,
    "harms": [(decision(given_limit_s=900), CUT), *[(decision(**WAITED), run())] * 6],
    "observes": [(decision(**LEFT), run(nodes=2, elapsed_s=1800.0)), (decision(), None)],
    "had one count": [(decision(applied=False, reason="proven", requested_nodes=8), run(nodes=8))],
    "tries": [(decision(reason="learning", requested_nodes=2), run(elapsed_s=3600.0))],
    "meets deadlines": [(decision(deadline_s=AT_S + 5000), run())] * 2,
    "guesses": [(decision(key_level="user", applied=False, action="keep"), run())] * 6,
    "leaves alone": [(decision(action="keep", applied=False, reason="array"), run())] * 4,
    "is new": [(decision(), None)],
}
_OFF = StandingRow(
    level=KeyLevel.LINE,
    key="ab12",
    label="wrf",
    off=True,
    ratio=1.4,
    low=0.8,
    high=1.25,
    runs=5,
    since_s=AT_S,
    judged_s=AT_S,
)


def printed(pairs, width=80):
    report = summarise(pairs, confidence=0.9, standings=[_OFF])
    return "\n".join([title_of(report), *render(report, WORDS, width=width)])


def sentences(text):
    """Sentences and clauses that end in a semicolon, without names of rows and tables."""
    prose = [
        re.sub(r"^[\w-]+( [\w-]+)*  +", "", line)
        for line in text.splitlines()
        if not re.search(r"\S {2,}\S.* {2,}\S", line)
    ]
    return [part for line in prose for part in re.split(r"[.;:](?=\s|$)", line) if part.strip()]


@pytest.mark.parametrize("name", PAIRS)
def test_sentences_are_short_and_have_no_codes(name):
    text = printed(PAIRS[name], width=1000)
    words = [len(one.split()) for one in sentences(text)]
    assert max(words) <= LONGEST, text
    assert median(words) <= TYPICAL, text
    assert not re.search(r"(?<![/\w.-])[a-z]+_[a-z_]+\b(?!\.)", text), text
    assert not re.search(r"\b\d+ h \d+ (min|s)\b|\bNone\b(?! (ended|used|would))|\bnan\b", text)


HELPS = """\
20 decisions, 2026-09-21, 20 with an outcome
It helps: NIMO changed the node count of 20 jobs. On average each ended 13 min
sooner (12 to 15 min), for 11 % more node-hours. None ended over a minute later
than as asked, and no limit ended any.
100 % of 20 runs ended inside the 90 % interval.
To do: look into wrf, which is switched off: its runs take 1.40 times as long as
predicted.

modes            enforce 20
actions          set 20
accuracy         20 runs compared: 0.0 % off on average (MAPE); the median run
                 took 1.00 times its prediction; 100 % of 20 inside the 90 %
                 interval
intervals        50 %: 100 % of runs inside (derived)
                 90 %: 100 % of runs inside
                 95 %: 100 % of runs inside (derived)
                 0 % took longer than predicted, 0 % longer than the stored
                 interval
started at once  80 % of 20 jobs started within 0 s of the predicted time; none
                 more than a minute late
promises         20 of 20 changed jobs ended as promised
changed jobs     20 jobs ran on another count than asked for
                 22.2 node-hours; as asked about 20.0 (18.9 to 21.1)
                 5.6 h of run time; as asked about 10 h (9.4 to 11 h)
                 0 s of waiting; as asked about 0 s

Applications
application  decisions  changed  finished  compared   MAPE  actual/predicted
wrf                 20       20        20        20  0.0 %              1.00
wrf: switched off since 2026-09-21T14:13:20; the last 5 runs took 1.40 times as
long as predicted (allowed: 0.80 to 1.25)"""


def test_the_answer_comes_first():
    text = printed(PAIRS["helps"])
    assert text == HELPS
