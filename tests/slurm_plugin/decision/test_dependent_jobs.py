"""Jobs that wait for others: advice and decisions are about the time when these have ended."""

from math import inf

import msgspec
import pytest

from slurm_plugin.slurm.cluster_state import Awaited
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, job
from tests.slurm_plugin.reports.rows import advised

HOUR = 3600.0


def waiting_for(*jobs, begin_s, **fields):
    view = msgspec.structs.replace(cluster(**fields), awaited=lambda *_: Awaited(jobs, begin_s))
    return advisor(look=view)


DEPENDENT = job(dependency="afterok:12:13")


def test_a_dependent_job_starts_after_those_before_it():
    made = waiting_for(12, 13, begin_s=NOW + 3 * HOUR)
    advice = made.advise(DEPENDENT, now_s=NOW)
    assert all(row.wait_s >= 3 * HOUR for row in advice.rows)
    text = advised(advice, now_s=NOW)
    assert "starts in about 3 h" in text.replace("\n", " ")
    assert "It waits for jobs 12 and 13, until about " in text.replace("\n", " ")
    _, row = submit(made, DEPENDENT)
    assert row.wait_s >= 3 * HOUR


def test_ends_that_are_not_known_are_not_made_up():
    made = waiting_for(12, begin_s=inf)
    advice = made.advise(DEPENDENT, now_s=NOW)
    assert [row.wait_s for row in advice.rows] == [None] * len(advice.rows)
    text = advised(advice, now_s=NOW).replace("\n", " ")
    assert "It starts after job 12; when that will be is not known." in text
    assert "starts at once" not in text
    answer, _ = submit(made, DEPENDENT)
    assert answer == submit(advisor())[0]


@pytest.mark.parametrize("dependency", ["", "afterok:12"])
def test_nothing_changes_once_they_have_ended(dependency):
    made = waiting_for(begin_s=-inf)
    advice = made.advise(job(dependency=dependency), now_s=NOW)
    assert advice == advisor().advise(job(), now_s=NOW)


def test_each_view_says_anew_when_they_end():
    """The request is cached; when it may start is not."""
    made = waiting_for(12, begin_s=NOW + HOUR)
    first = made.advise(DEPENDENT, now_s=NOW)
    made.cluster = msgspec.structs.replace(
        made.cluster, awaited=lambda *_: Awaited((12,), NOW + 5 * HOUR)
    )
    second = made.advise(DEPENDENT, now_s=NOW)
    assert second.rows[0].wait_s == first.rows[0].wait_s + 4 * HOUR


@pytest.mark.parametrize(
    ("begin_s", "words"),
    [
        (NOW + HOUR, "Its tasks wait for job 12, the first until about "),
        (-inf, "Its tasks wait for job 12, the last until about "),
    ],
)
def test_of_tasks_behind_tasks_the_first_and_the_last_start_are_said(begin_s, words):
    awaited = Awaited((12,), begin_s, NOW + 9 * HOUR)
    made = advisor(look=msgspec.structs.replace(cluster(), awaited=lambda *_: awaited))
    advice = made.advise(job(dependency="aftercorr:12", array_inx="0-3"), now_s=NOW)
    assert words in advice.awaited_text
    assert min(row.wait_s for row in advice.rows) == pytest.approx(max(begin_s - NOW, 0.0))
    whole = made.advise(job(array_inx="0-3"), now_s=NOW).size_text
    assert "All 4 tasks end in about" in whole
    assert advice.size_text != whole
