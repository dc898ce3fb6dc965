"""Intervals of starts, as users read them."""

from slurm_plugin.reports.pending_text import EditRow, PendingAnswer, edited_start, start_text

_HOUR = 3600.0


def test_a_start_whose_interval_reads_as_one_moment_is_one_moment():
    one = PendingAnswer(job_id=28, start_s=_HOUR, low_s=_HOUR + 2, high_s=_HOUR + 9)
    said = start_text(one)
    assert said.startswith("It starts about ")
    assert "nine in ten" not in said


def test_a_start_between_two_moments_has_both():
    one = PendingAnswer(job_id=28, start_s=_HOUR, low_s=_HOUR, high_s=2 * _HOUR)
    assert "(nine in ten of such jobs between " in start_text(one)


def test_a_gain_whose_interval_reads_as_the_gain_stands_once():
    own = {"argv": [], "what": "shorter", "start_s": 0.0, "chance": 0.98, "gain_s": 1.7 * _HOUR}
    one = EditRow(**own, gain_low_s=1.69 * _HOUR, gain_high_s=1.71 * _HOUR)
    assert edited_start(one, 0.0) == "it starts at once, about 1.7 h sooner, 98 % certain"
    wide = EditRow(**own, gain_low_s=_HOUR, gain_high_s=2 * _HOUR)
    assert "about 1.7 h sooner (1 to 2 h), " in edited_start(wide, 0.0)


def test_a_start_behind_a_job_that_has_to_end_well_says_so():
    one = PendingAnswer(job_id=28, start_s=_HOUR, condition="if job 12 ends well")
    assert start_text(one).endswith(", if job 12 ends well.")
