"""Whatever a history is like: a doubt has its reason, and each count a limit or a word on it."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.reports.advice_answer import answer
from tests.predictor.rows import row, submitted
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.made import NOW, job

VISIBLE = "sbatch -N {n} solve.sh --input box.dat"
BARE = "sbatch -N {n} solve.sh"
LIMIT_S = 28_800
#: Run time on n nodes over that on one: the same, a larger problem, the same one.
SHAPES = {"flat": lambda n: 1.0, "grown": lambda n: n**0.4, "scaling": lambda n: 0.1 + 0.9 / n}


@st.composite
def histories(draw):
    """Runs of one command on several counts by turns, some of a problem six times as long."""
    rng = Random(draw(st.integers(0, 9999)))
    counts = draw(st.sampled_from([(4, 8, 12), (1, 2, 4), (2,), (1, 2), (1, 2, 4, 8), (4, 8)]))
    line = draw(st.sampled_from([VISIBLE, BARE]))
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    first_s = draw(st.sampled_from([230, 3000]))
    noise = draw(st.sampled_from([0.01, 0.05, 0.3]))
    mixed = draw(st.sampled_from([0.0, 0.0, 0.3, 0.5]))
    rows = []
    for _ in range(draw(st.sampled_from([2, 3, 5, 10]))):
        for n in counts:
            longer = 6 if rng.random() < mixed else 1
            elapsed_s = max(round(first_s * shape(n) * longer * rng.lognormvariate(0, noise)), 1)
            end_s = 1_000_000 + 50_000 * len(rows)
            one = replace(
                row(n, elapsed_s),
                user="alice",
                run_id=len(rows) + 1,
                limit_s=LIMIT_S,
                submit_s=end_s - elapsed_s - 10,
                start_s=end_s - elapsed_s,
                end_s=end_s,
            )
            rows.append(submitted(one, line.format(n=n)))
    typed = draw(st.sampled_from(counts))
    asked = draw(st.sampled_from([(typed, typed), (1, 16), (min(counts), max(counts))]))
    return rows, asked


def advised(rows, asked):
    low, high = asked
    request = job(min_nodes=low, max_nodes=high, time_limit=LIMIT_S // 60, script="")
    key = identity_of(request).key(KeyLevel.LINE)
    made = tables_of(IdentityRuns(KeyLevel.LINE, key, rows, NOW - 10), TableSettings())
    tables = [replace(one.table, script="") for one in made if one.table is not None]
    return advisor(tables=tables).advise(request, now_s=NOW)


@settings(max_examples=25, deadline=None)
@given(histories())
def test_a_doubt_comes_with_its_reason(history):
    """However much else there is to say of the job."""
    advice = advised(*history)
    text = answer(advice)
    headline = text.split("\n")[0]
    if not advice.rows or not ("doubtful" in headline or "unreliable" in headline):
        return
    reasons = [*advice.problems, advice.reason]
    assert any(one.removesuffix(".") in text for one in reasons if one)


@settings(max_examples=25, deadline=None)
@given(histories())
def test_each_count_has_a_limit_or_keeps_the_one_asked_for(history):
    advice = advised(*history)
    for one in advice.rows:
        assert (one.limit_s is None) == one.keeps_limit, one
