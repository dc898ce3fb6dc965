"""Answers for a count that no run tells of: what is known comes first, and what is not is named."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.types import Verdict
from slurm_plugin.reports.advice_answer import answer
from slurm_plugin.reports.advice_text import render
from tests.slurm_plugin.decision.submitting import advisor
from tests.slurm_plugin.made import NOW, job, table

ON_SIXTEEN = """\
About 9.2 min on 8 nodes (9 of 10 runs: 8.3 to 10 min); 16 nodes: unknown.

The first run on 16 nodes will tell.

  nodes  run time  90 % of runs take  node-hours  wait         ends     limit
      1       1 h    56 min to 1.1 h         1.0   0 s  09-21 15:15  01:25:00
      2    32 min       29 to 35 min         1.1   0 s  09-21 14:45  00:44:00
      4    17 min       15 to 18 min         1.1   0 s  09-21 14:30  00:23:00
      8   9.2 min      8.3 to 10 min         1.2   0 s  09-21 14:22  00:13:00

solve, 10 runs."""
OF_ONE_CPU = """\
About 1 h on 1 node (9 of 10 runs: 56 min to 1.1 h); starts at once. Ask for:
#SBATCH --nodes=1
#SBATCH --time=01:25:00

This limit rests on 10 runs: the longest ones may need more.
No run shows what 3 nodes would take."""


def advised(low, high, **known):
    return advisor(tables=[table(**known)]).advise(job(min_nodes=low, max_nodes=high), now_s=NOW)


def test_a_range_beyond_all_runs_is_answered_by_the_nearest_count():
    advice = advised(12, 16, nodes=(1, 2, 4, 8), observed=(1, 2, 4, 8))
    assert "\n".join(render(advice, now_s=NOW)) == ON_SIXTEEN


def test_a_program_of_one_cpu_says_that_no_run_had_more():
    advice = advised(3, 3, nodes=(1,), observed=(1,), one_cpu=True)
    assert answer(advice) == OF_ONE_CPU


@settings(max_examples=60, deadline=None)
@given(
    low=st.integers(1, 32),
    more=st.integers(0, 31),
    largest=st.integers(0, 4),
    fewest=st.integers(0, 2),
    verdict=st.sampled_from([Verdict.RELIABLE, Verdict.DOUBTFUL]),
)
def test_each_answer_has_a_run_time(low, more, largest, fewest, verdict):
    counts = tuple(2**power for power in range(min(fewest, largest), largest + 1))
    high = min(low + more, 32)
    advice = advised(low, high, nodes=counts, observed=counts, verdict=verdict)
    first = answer(advice, width=80).split("\n")[0]
    assert re.match(r"(About|Over) [\d.]+ \w+ on \d+ node", first)
    assert len(first) <= 80
    if advice.uncovered:
        assert f"{advice.uncovered} node" in first
        assert advice.uncovered not in [row.nodes for row in advice.rows]


@pytest.mark.parametrize("high", [16, 32])
def test_what_no_run_tells_of_is_data_too(high):
    advice = advised(12, high, nodes=(1, 2, 4, 8), observed=(1, 2, 4, 8))
    assert (advice.uncovered, advice.nearest, advice.asked) == (high, 8, None)
