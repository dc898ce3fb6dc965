"""Requests beside the shapes of docs/requests.md, which have tests of their own."""

import time

import pytest


def test_an_unknown_application_stays_unchanged(enforcing):
    script = enforcing.write_script("unknown.sh", "#!/bin/sh\n#SBATCH -J never-seen\nhostname\n")
    job, decision = enforcing.decided("-N", "1-3", "--hold", "-t", "5", script=script)
    # The user's other jobs are no curve, and may have taken longer than those before them.
    assert decision.action == "keep"
    assert decision.reason in ("name_only", "out_of_band")
    assert job["NumNodes"] == "1-3"


def test_the_users_own_comment_survives_the_passing_on_of_the_deadline(enforcing):
    job, decision = enforcing.decided(
        "-N", "1-8", "-t", "5", "--deadline=now+1hour", "--comment=my own, words"
    )
    assert job["Comment"] == "my own, words"
    assert decision.deadline_s == pytest.approx(time.time() + 3600, abs=120)
