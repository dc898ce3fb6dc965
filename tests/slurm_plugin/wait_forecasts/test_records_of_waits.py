"""What came of estimates: recorded, retained, and learned from."""

from dataclasses import replace

import msgspec
import pytest

from predictor.waits.error_record import WaitClass, error_of
from predictor.waits.features import FEATURES
from predictor.waits.regression import Ensemble, QueueWaitFit, Tree
from predictor.waits.workload import PastRecord, QueuePast, encode
from slurm_plugin.slurm.limits import NodeBounds
from slurm_plugin.slurm.node_pool import NodeShare
from tests.slurm_plugin.wait_forecasts.outlooks_of_queues import (
    attached,
    full,
    outlooks,
    visible,
    wait_s,
)
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, pending, running


def test_what_came_of_estimates_is_recorded_and_corrects_the_next():
    made = outlooks()
    attached(made, full())
    waiting = pending(9, submit_s=NOW + 5)
    attached(made, replace(full(), jobs=[*full().jobs, waiting]), NOW + 10)
    assert len(made.corrections.record) == 0
    started = running(9, "n1", submit_s=NOW + 5, start_s=NOW + 65)
    attached(made, visible(started), NOW + 70)
    (error,) = made.corrections.record.errors
    assert (error.actual_s, error.at_s) == (60.0, NOW + 5)
    assert error.estimate_s == pytest.approx(100_000, rel=0.1)
    assert error.score < -3
    # Seen running at once: recorded at once.
    quick = running(10, "n2", submit_s=NOW + 75, start_s=NOW + 76)
    attached(made, visible(started, quick), NOW + 80)
    assert [one.actual_s for one in made.corrections.record.errors] == [60.0, 1.0]


def test_what_was_there_before_or_is_held_is_not_recorded():
    made = outlooks()
    before = pending(8, submit_s=NOW - 5)
    held = pending(9, submit_s=NOW + 5, reason="Dependency")
    attached(made, visible(before))
    attached(made, visible(before, held), NOW + 10)
    runs = [running(n, f"n{n - 8}", submit_s=NOW + 5, start_s=NOW + 20) for n in (8, 9)]
    attached(made, visible(*runs), NOW + 30)
    assert len(made.corrections.record) == 0


def test_the_record_is_retained_now_and_then_and_read_again():
    made = outlooks()
    assert made.corrections.unsaved(now_s=NOW) is None
    test_what_came_of_estimates_is_recorded_and_corrects_the_next()
    attached(made, full())
    quick = running(10, "n2", submit_s=NOW + 1, start_s=NOW + 2)
    attached(made, visible(quick), NOW + 80)
    payload = made.corrections.unsaved(now_s=NOW + 80)
    assert payload and made.corrections.unsaved(now_s=NOW + 9_999) is None
    again = outlooks()
    again.corrections.restore(payload)
    assert len(again.corrections.record) == 1
    again.corrections.restore("{")
    assert len(again.corrections.record) == 1


def past_error(at_s, actual_s, *, corrected=False):
    of = WaitClass(True, "batch")
    made = error_of([1_000.0], of, at_s=at_s, actual_s=actual_s)
    return msgspec.structs.replace(made, corrected=corrected)


def test_the_record_begins_with_what_a_refit_made_of_the_past():
    made = outlooks()
    waits = PastRecord(errors=[past_error(n, 10_000.0) for n in range(60)])
    made.remember(encode(QueuePast(waits=waits)))
    assert len(made.corrections.record) == 60
    assert wait_s(attached(made, full())) > 300_000
    # That is the refit's to store, not nimod's.
    assert made.corrections.unsaved(now_s=NOW) is None
    # From the first error of nimod's own on, its own count.
    made.corrections.restore(encode([past_error(30, 500.0)]))
    assert [one.at_s for one in made.corrections.record.errors] == [*range(30), 30]


def test_errors_of_another_way_to_estimate_are_left_out():
    made = outlooks()
    made.corrections.restore(
        encode([past_error(100, 500.0), past_error(200, 500.0, corrected=True)])
    )
    assert [one.at_s for one in made.corrections.record.errors] == [100]
    waits = PastRecord(errors=[past_error(5, 10.0, corrected=True)], correction="{}")
    made.remember(encode(QueuePast(waits=waits)))
    assert [one.at_s for one in made.corrections.record.errors] == [5, 200]


@pytest.mark.parametrize("correction", ["{}", "another"])
def test_a_correction_that_cannot_be_read_is_left_out(correction, caplog):
    made = outlooks()
    if correction == "another":
        other = msgspec.structs.replace(tenfold(), features=["moon"])
        correction = encode(other)
    waits = PastRecord(errors=[past_error(1, 5.0, corrected=True)], correction=correction)
    made.remember(encode(QueuePast(waits=waits)))
    assert wait_s(attached(made, full())) == pytest.approx(100_000, rel=0.1)
    assert "waits are not corrected" in caplog.text
    assert len(made.corrections.record) == 0


def tenfold():
    """Correction that makes each wait ten times as long."""
    same = Ensemble(0.0, [Tree([-1], [1.0], [0], [0], [False])])
    return QueueWaitFit(
        features=list(FEATURES), level=0.9, jobs=500, median=same, low=same, high=same,
        margin=0.0, estimate=0, allowance_s=60.0,
    )  # fmt: skip


def test_what_a_refit_learned_corrects_waits_without_scikit_learn():
    made = outlooks()
    made.remember(encode(QueuePast(waits=PastRecord(correction=encode(tenfold())))))
    waiting = pending(9, submit_s=NOW - 5)
    cluster = attached(made, replace(full(), jobs=[*full().jobs, waiting]))
    assert wait_s(cluster) == pytest.approx(1_000_000, rel=0.1)
    assert made.queued_starts().starts[9].median_s == pytest.approx(1_000_000, rel=0.1)
    started = running(10, "n1", submit_s=NOW + 5, start_s=NOW + 65)
    attached(made, visible(started), NOW + 70)
    assert [one.corrected for one in made.corrections.record.errors] == [True]


def tenfold_of_those_with_running_jobs():
    running = FEATURES.index("own_running")
    tree = Tree([running, -1, -1], [0.5, 0.0, 1.0], [1, 0, 0], [2, 0, 0], [False] * 3)
    one = Ensemble(0.0, [tree])
    return msgspec.structs.replace(tenfold(), median=one, low=one, high=one)


def test_a_user_waits_for_what_that_user_has_in_the_queue():
    made = outlooks()
    correction = encode(tenfold_of_those_with_running_jobs())
    made.remember(encode(QueuePast(waits=PastRecord(correction=correction))))
    state = full(user="eve", tres={"cpu": 8.0})
    cluster = attached(made, state)

    def wait_of(user):
        part = cluster.partitions["batch"].for_job(
            NodeShare(), NodeBounds(low=1, high=4), user=user
        )
        return part.supply.wait(1, 60.0, now_s=NOW, begin_s=0.0).median_s

    assert wait_of("ann") == pytest.approx(100_000, rel=0.1)
    assert wait_of("eve") == pytest.approx(10 * wait_of("ann"), rel=0.01)
    # What came is compared with what was expected of this user.
    new = [pending(n, user=user, submit_s=NOW + 5) for n, user in ((9, "eve"), (10, "ann"))]
    attached(made, replace(state, jobs=[*state.jobs, *new]), NOW + 10)
    began = [
        running(n, "n1", user=user, submit_s=NOW + 5, start_s=NOW + 65)
        for n, user in ((9, "eve"), (10, "ann"))
    ]
    attached(made, visible(*began), NOW + 70)
    first, second = sorted(one.estimate_s for one in made.corrections.record.errors)
    assert second == pytest.approx(10 * first, rel=0.01)
