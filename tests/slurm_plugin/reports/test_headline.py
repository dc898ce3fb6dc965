"""What a report says first."""

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.reports.headline import headline
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise


def summed(*pairs):
    return headline(summarise(pairs, confidence=0.9))


def test_changed_jobs_are_compared_with_what_was_asked_for():
    wide = {"request_low_s": 1700.0, "request_high_s": 1900.0, "request_wait_s": 0.0}
    made = summed(*((decision(**wide), run(start_s=int(AT_S))) for _ in range(20)))
    assert made.benefit == (
        "The 20 jobs whose node count NIMO changed ended 13 min sooner (12 min to 15 min) each, at "
        "+11 % node-hours; none ended a minute or more later than as asked, none stopped by a "
        "limit."
    )
    assert made.verdict == "it helps"
    assert made.trust == "100 % of 20 runs ended inside the 90 % interval."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "ran 13 min shorter"),
        ({"request_predicted_s": 500.0}, "ran 8.3 min longer"),
        ({"request_predicted_s": 500.0}, "1 ended a minute or more later"),
        ({"request_low_s": 900.0, "request_high_s": 3600.0}, "(not sure: 1.7 min longer to"),
    ],
)
def test_the_sign_is_in_words(given, words):
    made = summed((decision(**given), run(start_s=None)))
    assert words in made.benefit
    assert "not counted is what they waited" in made.benefit


def test_while_observing_it_says_what_would_have_changed():
    left = {"mode": "observe", "applied": False}
    made = summed((decision(**left), run(nodes=2, elapsed_s=1800.0)), (decision(), None))
    assert made.benefit.startswith("NIMO would have changed 1 of 1 job that ended: ")
    assert "0.11 node-hours more" in made.benefit
    assert "0.22 hours of running less" in made.benefit
    assert "policy.mode" not in made.benefit
    assert made.tasks[-1].text.startswith("set policy.mode: enforce")


def test_what_completed_counts_would_give_is_counted_apart():
    left = {"applied": False, "reason": "proven", "requested_nodes": 8, "wait_s": 120.0}
    known = {"request_predicted_s": 900.0, "request_wait_s": 600.0}
    ran = run(nodes=8, elapsed_s=900.0, start_s=int(AT_S) + 600)
    made = summed(*((decision(**left, **known), ran) for _ in range(20)))
    assert "NIMO would have changed" not in made.benefit
    assert made.benefit.endswith(
        "opt_in.proven: on would give 20 jobs of one count another one: 17.8 node-hours less, "
        "2.7 hours of waiting less."
    )


def test_the_worst_application_is_named_and_harm_comes_first():
    good = [(decision(label="wrf"), run()) for _ in range(5)]
    bad = [(decision(label="melt\x1b"), run(elapsed_s=2000.0)) for _ in range(5)]
    cut = (decision(given_limit_s=900), run(state=JobState.TIMEOUT))
    made = summed(*good, *bad, cut)
    assert made.trust.endswith("the worst is melt  with 0 %.")
    assert made.tasks[0].text == "see why 1 job that NIMO changed met a limit"
    assert len(made.lines()) == 3


def test_without_an_outcome_there_is_nothing_to_boast_of():
    made = summed((decision(), None))
    assert "no job finished" in made.benefit
    assert made.verdict == "none yet"
    assert made.lines()[2] == "There is nothing to do."
