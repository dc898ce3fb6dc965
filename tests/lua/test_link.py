"""The connection to nimod: kept, dropped, made anew, left alone for a while."""

import pytest

KEEP = {"v": 1}


def test_connection_stays_open_between_jobs(hooks):
    hooks.answer(KEEP)
    for _ in range(3):
        hooks.submit()
    assert (hooks.peer.connections, hooks.peer.closed, len(hooks.asked())) == (1, 0, 3)


def test_restarted_nimod_is_asked_again_in_the_same_job(hooks):
    hooks.answer(KEEP)
    hooks.submit()
    hooks.peer.problem = "closed"
    hooks.answer("")
    outcome = hooks.submit()
    assert hooks.peer.connections == 2
    assert "closed" in outcome.log[0]


def test_fresh_connection_is_not_tried_twice(hooks):
    hooks.peer.problem = "closed"
    hooks.submit()
    assert hooks.peer.connections == 1


def test_time_out_is_within_the_limit_and_drops_the_connection(hooks):
    before = hooks.peer.now
    outcome = hooks.submit()
    assert round((hooks.peer.now - before) * 1000, 6) == 20
    assert (hooks.peer.connections, hooks.peer.closed) == (1, 1)
    assert "timeout" in outcome.log[0]


def test_dripping_answer_does_not_stretch_the_limit(hooks):
    hooks.answer("{")
    before = hooks.peer.now
    hooks.submit()
    assert round((hooks.peer.now - before) * 1000, 6) == 20


def test_time_spent_on_sending_counts(hooks):
    hooks.answer(KEEP)
    hooks.peer.send_s = 0.05
    assert hooks.submit().log == ["nimo: jobs pass unchanged: timeout"]


def test_endless_answer_is_not_collected(hooks):
    hooks.answer("x" * 200_000)
    assert hooks.submit().log == ["nimo: jobs pass unchanged: answer too long"]


def test_after_three_time_outs_nobody_is_asked_for_a_while(hooks):
    for _ in range(3):
        hooks.submit()
    before = hooks.peer.now
    for _ in range(5):
        outcome = hooks.submit()
        assert (outcome.code, outcome.log) == (0, [])
    assert hooks.peer.now == before
    assert len(hooks.asked()) == 3


def test_rests_begin_short_and_double_up_to_the_setting(hooks):
    """Three late answers buy a quarter of a second of silence, not 30 s."""
    for _ in range(3):
        hooks.submit()
    for asked, rest_s in enumerate((0.25, 0.5, 1, 2, 4, 8, 16, 30, 30), start=3):
        hooks.peer.now += rest_s - 0.05
        hooks.submit()
        assert len(hooks.asked()) == asked
        hooks.peer.now += 0.1
        hooks.submit()
        assert len(hooks.asked()) == asked + 1


def test_an_answer_in_time_ends_the_doubling(hooks):
    for reply in ["", "", "", "", KEEP, "", "", ""]:
        hooks.answer(reply)
        hooks.submit()
        hooks.peer.now += 1.1
    hooks.answer(KEEP)
    hooks.submit()
    assert len(hooks.asked()) == 9


def test_the_log_says_for_how_long_nobody_is_asked(hooks):
    hooks.submit()
    hooks.peer.now += 31
    hooks.submit()
    hooks.peer.now += 31
    assert "not asking for 0.25 s" in hooks.submit().log[0]


def test_an_answer_ends_the_count(hooks):
    for reply in ["", "", KEEP, "", "", KEEP, "", ""]:
        hooks.answer(reply)
        hooks.submit()
    assert len(hooks.asked()) == 8


def test_absent_nimod_is_asked_at_every_job(hooks):
    hooks.peer.connect_problem = "connection refused"
    for _ in range(10):
        assert hooks.submit().code == 0
    hooks.peer.connect_problem = None
    hooks.answer(KEEP)
    hooks.submit()
    assert len(hooks.asked()) == 1


def test_complaints_are_counted_instead_of_repeated(hooks):
    hooks.peer.connect_problem = "connection refused"
    assert sum(len(hooks.submit().log) for _ in range(100)) == 1
    hooks.peer.now += 31
    assert hooks.submit().log[0].endswith("connection refused (and 99 more since the last message)")


def test_limits_are_settings(runtime):
    hooks = runtime("timeout_ms = 5\nbreaker_failures = 1\nbreaker_s = 2").load()
    before = hooks.peer.now
    hooks.submit()
    hooks.submit()
    assert round((hooks.peer.now - before) * 1000, 6) == 5
    hooks.peer.now += 2.1
    hooks.submit()
    assert len(hooks.asked()) == 2


QUIET = {"v": 1, "quiet": True}


def test_an_open_connection_says_that_a_question_is_about_to_come(hooks):
    hooks.answer(KEEP)
    for _ in range(3):
        hooks.submit()
        hooks.peer.now += 1
    assert (hooks.peer.awake, len(hooks.asked())) == (2, 3)
    hooks.submit()
    hooks.submit()  # of those that come one after the other the first only
    assert (hooks.peer.awake, len(hooks.asked())) == (3, 5)


def test_where_no_job_is_changed_nimod_is_notified_and_not_waited_for(hooks):
    hooks.answer(QUIET)
    hooks.submit()
    hooks.answer("")  # to wait for an answer would be a time-out
    before = hooks.peer.now
    outcomes = [hooks.submit(name=f"job{number}") for number in range(10)]
    assert hooks.peer.now == before
    assert [outcome.log for outcome in outcomes] == [[]] * 10
    assert [outcome.writes for outcome in outcomes] == [[]] * 10
    first, *reported = hooks.asked()
    assert "one_way" not in first
    assert [(ask["one_way"], ask["job"]["name"]) for ask in reported] == [
        (True, f"job{number}") for number in range(10)
    ]
    assert (hooks.peer.connections, hooks.peer.awake) == (1, 0)


@pytest.mark.parametrize("taken", [0, 100])
def test_who_cannot_be_notified_is_asked_anew(hooks, taken):
    hooks.answer(QUIET)
    hooks.submit()
    hooks.peer.takes = taken  # nimod hung up, or takes nothing any more
    hooks.answer({"v": 1, "admin_comment": "seen"})
    assert hooks.submit(name="later").job["admin_comment"] == "seen"
    assert (hooks.peer.connections, hooks.peer.closed) == (2, 1)
    assert "one_way" not in hooks.asked()[-1]
    hooks.submit()
    assert "one_way" not in hooks.asked()[-1]
