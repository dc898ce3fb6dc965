"""The past of a queue, from runs whose past is plain."""

import pytest

from predictor.waits.history import queue_past
from predictor.waits.workload import QueuePast, decode, encode
from tests.slurm_plugin.reports.rows import run as run_row


def runs(count, **fields):
    return [
        run_row(job_id=n, submit_s=1_000 * n, start_s=1_000 * n + 10, **fields)
        for n in range(count)
    ]


def test_users_use_shares_of_their_limits():
    often = runs(30, user="eve", limit_s=1_000, elapsed_s=100.0)
    others = [
        *runs(30, user="bob", limit_s=1_000, elapsed_s=1_000.0),
        *runs(3, user="amy", limit_s=1_000, elapsed_s=1_000.0),
    ]
    shares = queue_past([*often, *others]).shares
    assert shares.users["eve"] == pytest.approx([-2.3026] * 40, abs=1e-4)
    assert set(shares.users) == {"eve", "bob"}
    assert shares.site[0] == pytest.approx(-2.3026, abs=1e-4)
    assert shares.site[-1] == 0.0


def test_jobs_come_at_the_rate_of_the_past():
    past = queue_past(runs(101, nodes=4, cpus=32, limit_s=600, elapsed_s=60.0))
    one = past.arrivals["batch"]
    assert one.per_s == pytest.approx(1 / 1_000, rel=0.02)
    assert (one.shapes[0].nodes, one.shapes[0].cpus, one.shapes[0].run_s) == (4, 32, 60.0)
    assert one.ahead == 0.0
    # One of them runs at a time.
    assert one.node_demand.within(3_600.0, 1.0) == 4
    assert one.cpu_demand.within(3_600.0, 1.0) == 32
    assert decode(encode(past), QueuePast) == past


def test_who_passes_smaller_jobs_went_ahead_of_them():
    small = run_row(job_id=0, submit_s=0, start_s=99_999, nodes=1, limit_s=60)
    large = [r for r in runs(40, nodes=8, limit_s=600) if r.submit_s > 0]
    assert queue_past([small, *large]).arrivals["batch"].ahead == pytest.approx(39 / 40)
    # What is smaller than those that wait may pass them by backfilling alone.
    waiting = run_row(job_id=0, submit_s=0, start_s=99_999, nodes=16, limit_s=6_000)
    assert queue_past([waiting, *large]).arrivals["batch"].ahead == 0.0


def test_few_runs_say_nothing():
    past = queue_past(runs(3))
    assert (past.arrivals, past.shares.site, past.shares.users) == ({}, (), {})
    with pytest.raises(ValueError, match="nimo fit"):
        decode("[]", QueuePast)
