"""Fair-share as a history shows it: a site whose scheduler goes by it, and one that does not."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest

from predictor.waits.backtest import PastJob, PastWait, fair_shares, walk
from predictor.waits.correction import corrected_forward, correction_of
from predictor.waits.estimate import class_of
from predictor.waits.features import FAIR_SHARE, FEATURES, OF_ACCOUNT, QueueLoad, Submitter
from predictor.waits.history import learn_waits
from predictor.waits.simulation import QueuedJob, QueueState, run_forward
from predictor.waits.workload import FairShares, RecentUse

WEEK_S = 7 * 86_400.0


def test_who_used_less_than_others_has_the_higher_factor():
    use = RecentUse()
    use.add("ann", 30.0, 0.0)
    use.add("bob", 10.0, 0.0)
    assert use.factor("bob", 0.0) == 2 ** -(0.25 * 2)
    assert use.factor("ann", 0.0) == 2 ** -(0.75 * 2)
    assert use.factor("eve", 0.0) == 1.0
    assert RecentUse().factor("ann", 5.0) == 1.0


def test_use_halves_each_week_in_whatever_order_it_comes():
    use = RecentUse()
    use.add("ann", 4.0, 0.0)
    use.add("bob", 2.0, WEEK_S)
    assert use.factor("ann", WEEK_S) == pytest.approx(use.factor("bob", WEEK_S))
    assert use.factors(WEEK_S) == {n: use.factor(n, WEEK_S) for n in ("ann", "bob")}


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_an_amount_that_is_none_is_refused(amount):
    with pytest.raises(ValueError, match="amount that was used"):
        RecentUse().add("ann", amount, 0.0)


def job(user, submit_s, run_s, *, account="", units=1):
    return PastJob(
        user=user,
        partition="batch",
        units=units,
        limit_s=2 * run_s,
        submit_s=submit_s,
        start_s=submit_s,
        run_s=run_s,
        account=account,
    )


def test_only_what_had_ended_counts_at_a_submission():
    jobs = [
        job("ann", 0.0, 100.0, account="physics", units=9),
        job("bob", 0.0, 100.0, account="chemistry"),
        job("ann", 50.0, 10.0),
        job("ann", 200.0, 10.0, account="physics"),
    ]
    factors, last = fair_shares(jobs)
    assert factors[2] == (1.0, 1.0)
    user, account = factors[3]
    assert user < 0.5 and account < 0.5
    assert last.users["bob"] > last.users["ann"]
    assert last.of("bob", "chemistry") == (last.users["bob"], last.accounts["chemistry"])
    assert last.of("new", "new") == (1.0, 1.0)


def test_typical_factors_are_those_in_the_middle():
    shares = FairShares(users={"a": 0.1, "b": 0.4, "c": 0.9}, accounts={"x": 0.2})
    assert shares.typical() == (0.4, 0.2)
    assert shares.of("a", "") == (0.1, 0.2)
    assert FairShares().typical() == (1.0, 1.0)


#: Jobs of one processor and about so long, on so many processors.
PROCESSORS, RUN_S = 8, 4 * 3_600.0


def scheduled(order: Callable[[RecentUse, PastJob, float], float]) -> list[PastJob]:
    """Let a scheduler start a crowd of jobs in an order of its own, smallest first."""
    rng, use = random.Random(7), RecentUse()
    now_s, coming = 0.0, list[PastJob]()
    while len(coming) < 1_500:
        now_s += rng.expovariate(0.85 / 8.5 * PROCESSORS / RUN_S)
        user, count = f"u{rng.randrange(12)}", rng.choice((1, 2, 4, 8, 16, 20))
        coming += [job(user, round(now_s), RUN_S * rng.uniform(0.8, 1.2)) for _ in range(count)]
    coming.reverse()
    waiting, running, done = list[PastJob](), list[PastJob](), list[PastJob]()
    now_s = 0.0
    while coming or waiting:
        while coming and coming[-1].submit_s <= now_s:
            waiting.append(coming.pop())
        while waiting and len(running) < PROCESSORS:
            first = min(waiting, key=lambda one: order(use, one, now_s))
            waiting.remove(first)
            running.append(replace(first, start_s=now_s))
            done.append(running[-1])
        events = [one.end_s for one in running]
        if coming:
            events.append(coming[-1].submit_s)
        now_s = min(events)
        for one in [one for one in running if one.end_s <= now_s]:
            running.remove(one)
            use.add(one.user, one.run_s, one.end_s)
    return done


def asked(jobs: list[PastJob]) -> list[PastWait]:
    factors, _ = fair_shares(jobs)
    with_factors = [replace(one, fair_share=f) for one, f in zip(jobs, factors, strict=True)]
    return list(walk(with_factors, step=2))


def by_fair_share(use: RecentUse, one: PastJob, now_s: float) -> float:
    return -use.factor(one.user, now_s)


def by_submission(_: RecentUse, one: PastJob, __: float) -> float:
    return one.submit_s


def test_where_the_scheduler_goes_by_fair_share_that_is_learned():
    pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    waits = asked(scheduled(by_fair_share))
    learned = learn_waits(waits)
    assert set(FAIR_SHARE) <= set(correction_of(learned.correction).features)
    blind = [_without(one, FAIR_SHARE) for one in waits]
    assert learned.corrected_error < 0.93 * learn_waits(blind).corrected_error

    queued = QueuedJob(units=1, limit_s=8 * 3_600.0, owner="u5")
    state = QueueState(units=PROCESSORS, running=[queued] * PROCESSORS, waiting=[queued] * 40)
    shares = FairShares(users={"u0": 0.02, "u11": 0.98, "u5": 0.5})
    forward = run_forward(state)
    made = corrected_forward(
        correction_of(learned.correction), state, forward, at_s=1_000_000.0, fair_shares=shares
    )
    # Also of those who have nothing in the queue, a light user starts before a heavy one.
    assert made.factors["u11"] < made.factors["u0"]


def _without(one: PastWait, names: tuple[str, ...]) -> PastWait:
    features = (
        0.0 if name in names else value for name, value in zip(FEATURES, one.features, strict=True)
    )
    return PastWait(one.asked_s, one.actual_s, one.draws_s, one.of, tuple(features))


def test_where_it_goes_by_submission_neither_accounts_nor_fair_share_are_taken_in():
    pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    learned = learn_waits(asked(scheduled(by_submission)))
    fit = correction_of(learned.correction) if learned.correction else None
    assert fit is None or set(fit.features).isdisjoint((*OF_ACCOUNT, *FAIR_SHARE))


def test_waits_grow_with_what_the_account_has_where_sites_limit_accounts():
    pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    rng, waits = random.Random(5), []
    for number in range(700):
        much = rng.random() < 0.5
        account = "physics" if much else "chemistry"
        running = QueuedJob(units=80, limit_s=7_200.0, owner="bob", account=account)
        load = QueueLoad.of(QueueState(units=100, running=[running]), ())
        at_s, draws = 500.0 * number, (500.0, 600.0, 700.0)
        mine = Submitter("ann", "physics")
        (row,) = load.rows([draws], [0.1], [3_600.0], -1, at_s, [mine])
        of = class_of(600.0, partition="batch", share=0.1, at_s=at_s, waiting=0)
        actual_s = (20_000 if much else 200) * rng.lognormvariate(0, 0.3)
        waits.append(PastWait(at_s, actual_s, draws, of, tuple(row.tolist())))
    learned = learn_waits(waits)
    assert set(OF_ACCOUNT) <= set(correction_of(learned.correction).features)
    assert learned.corrected_error < 0.5 * learned.error
    assert fmean(one.inside for one in learned.errors[-200:]) > 0.8
