"""The scheduler of the replay, against a plain one that looks at every job at every moment."""

import lzma
import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.waits.backtest import PastJob, PastWait, fair_shares, walk
from predictor.waits.correction import corrected_forward, correction_of
from predictor.waits.easy import Engine, JobShape, Order, Wait
from predictor.waits.error_record import class_of
from predictor.waits.features import FAIR_SHARE, FEATURES, OF_ACCOUNT, QueueLoad, Submitter
from predictor.waits.history import learn_waits
from predictor.waits.simulation import QueuedJob, QueueState, run_forward
from predictor.waits.workload import FairShares, RecentUse

NODES = 8
SHARED = Path(__file__).parents[5] / "shared"
KTH = SHARED / "data" / "traces" / "KTH-SP2-1996-2.1-cln.swf.xz"


def plain_easy(submits, shapes, order):
    """EASY as its definition says it, with nothing remembered from one moment to the next."""
    starts = {}
    queue = []
    moments = sorted(set(map(float, submits)))
    while moments:
        now = moments.pop(0)
        queue += [j for j, t in enumerate(submits) if t == now]
        for job in _startable(now, queue, starts, shapes, order):
            queue.remove(job)
            end = now + min(shapes[job].run_s, shapes[job].limit_s)
            moments = sorted({*moments, end})
    return [starts[j] for j in range(len(submits))]


def _startable(now, queue, starts, shapes, order):
    def running():
        return [j for j, t in starts.items() if t + min(shapes[j].run_s, shapes[j].limit_s) > now]

    def free(at):
        used = [j for j in running() if starts[j] + shapes[j].limit_s > at]
        return NODES - sum(shapes[j].nodes for j in used)

    left = list(queue)
    while left and shapes[left[0]].nodes <= free(now):
        starts[left[0]] = now
        yield left.pop(0)
    if not left:
        return
    head = shapes[left[0]].nodes
    shadow = min(t for j in running() if free(t := starts[j] + shapes[j].limit_s) >= head)
    extra = free(shadow) - head
    rest = left[1:]
    if order is Order.SHORTEST:
        rest.sort(key=lambda j: shapes[j].limit_s)
    for job in rest:
        shape = shapes[job]
        in_time = now + shape.limit_s <= shadow
        if shape.nodes <= free(now) and (in_time or shape.nodes <= extra):
            extra -= 0 if in_time else shape.nodes
            starts[job] = now
            yield job


jobs = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, NODES), st.integers(1, 30), st.integers(1, 40)),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("order", Order)
@given(jobs=jobs)
def test_schedules_as_easy_is_defined(order, jobs):
    jobs = sorted(jobs, key=lambda job: job[0])
    submits, shapes = [job[0] for job in jobs], [JobShape(*job[1:]) for job in jobs]
    made = Engine(NODES, order).run(submits, lambda job, now_s: shapes[job])
    assert made.start_s.tolist() == plain_easy(submits, shapes, order)


@given(jobs=jobs)
def test_never_more_nodes_than_there_are(jobs):
    jobs = sorted(jobs, key=lambda job: job[0])
    shapes = [JobShape(*job[1:]) for job in jobs]
    made = Engine(NODES).run([job[0] for job in jobs], lambda job, now_s: shapes[job])
    for moment in made.start_s:
        running = (made.start_s <= moment) & (moment < made.end_s)
        assert made.nodes[running].sum() <= NODES


def test_a_job_ends_at_its_limit():
    made = Engine(1).run([0.0, 0.0], lambda job, now_s: JobShape(1, 10.0, 25.0))
    assert made.end_s.tolist() == [10.0, 20.0]


def test_a_long_queue_keeps_its_order():
    count = 500
    made = Engine(1).run([0.0] * count, lambda job, now_s: JobShape(1, 10.0, 5.0))
    assert made.start_s.tolist() == [5.0 * job for job in range(count)]


@pytest.mark.parametrize(("depth", "passes"), [(2, False), (3, True), (100, True)])
def test_jobs_behind_those_that_are_looked_at_do_not_pass(depth, passes):
    large, small = JobShape(4, 50.0, 50.0), JobShape(1, 8.0, 8.0)
    shapes = [JobShape(3, 10.0, 10.0), large, large, small]
    made = Engine(4, depth=depth).run([0.0] * 4, lambda job, now_s: shapes[job])
    assert made.start_s.tolist() == [0.0, 10.0, 60.0, 0.0 if passes else 110.0]


def test_what_is_looked_at_moves_on_as_jobs_leave():
    shapes = [JobShape(1, 10.0 + n % 7, 5.0 + n % 5) for n in range(300)]
    all_of_them = Engine(5).run([0.0] * 300, lambda job, now_s: shapes[job]).start_s
    few = Engine(5, depth=3).run([0.0] * 300, lambda job, now_s: shapes[job]).start_s
    assert few.tolist() == all_of_them.tolist()


def test_what_is_asked_sees_the_cluster_at_that_moment():
    observed = {}
    engine = Engine(4)

    def shape_of(job, now_s):
        observed[job] = engine.free, len(engine.waiting), engine.releases(), engine.waiting
        return JobShape(3, 10.0, 7.0)

    engine.run([0.0, 1.0, 2.0], shape_of)
    assert observed[0] == (4, 0, [], [])
    assert observed[1] == (1, 0, [(10.0, 3)], [])
    assert observed[2] == (1, 1, [(10.0, 3)], [JobShape(3, 10.0, 7.0)])


def test_a_job_that_fits_nowhere_is_an_error():
    with pytest.raises(ValueError, match="job 0 wants 5 of 4 nodes"):
        Engine(4).run([0.0], lambda job, now_s: JobShape(5, 1.0, 1.0))


needs_log = pytest.mark.skipif(
    not KTH.exists(), reason="needs the KTH-SP2 log of the Parallel Workloads Archive"
)


class Log(NamedTuple):
    """Jobs with a run time and nodes, of 100 nodes."""

    submit_s: np.ndarray
    nodes: np.ndarray
    run_s: np.ndarray
    asked_s: np.ndarray

    def replayed(self, order, limit_s):
        rows = zip(self.nodes.tolist(), limit_s.tolist(), self.run_s.tolist(), strict=True)
        shapes = [JobShape(*row) for row in rows]
        return Engine(100, order).run(self.submit_s.tolist(), lambda job, now_s: shapes[job])


@pytest.fixture(scope="module")
def kth():
    with lzma.open(KTH, "rt") as log:
        rows = np.loadtxt(log, comments=";")
    rows = rows[(rows[:, 3] > 0) & (np.maximum(rows[:, 4], rows[:, 7]) > 0)]
    submit_s, run_s, given_nodes, expected, asked_s = rows[:, (1, 3, 4, 7, 8)].T
    return Log(submit_s, np.where(expected > 0, expected, given_nodes).astype(int), run_s, asked_s)


@needs_log
@pytest.mark.parametrize(
    ("order", "clairvoyant", "slowdown"),
    [(Order.SUBMITTED, False, 92.6), (Order.SHORTEST, False, 69.4), (Order.SHORTEST, True, 49.85)],
)
def test_published_bounded_slowdowns(kth, order, clairvoyant, slowdown):
    """Tsafrir, Etsion, Feitelson 2007, on KTH-SP2; jobs without run time or nodes left out."""
    limit_s = np.minimum(kth.run_s, kth.asked_s) if clairvoyant else np.maximum(kth.asked_s, 1.0)
    made = kth.replayed(order, limit_s)
    response_s = made.end_s - kth.submit_s
    result = np.maximum(response_s / np.maximum(kth.run_s, 10.0), 1.0).mean()
    assert result == pytest.approx(slowdown, abs=0.2)


def test_a_job_that_outlasts_its_plan_runs_on_and_is_planned_with_half_of_what_is_left():
    # The first is planned with 10 s, runs 30 and may run 100; the second waits for all nodes.
    shapes = [
        JobShape(6, 10.0, 30.0, 100.0),
        JobShape(8, 5.0, 5.0),
        JobShape(2, 8.0, 8.0),  # fits before 10
        JobShape(2, 40.0, 7.0),  # at 12 s the first is planned until 12 + 88 / 2
        JobShape(2, 45.0, 7.0),  # longer than that
    ]
    submits = [0.0, 1.0, 2.0, 12.0, 12.0]
    made = Engine(NODES).run(submits, lambda job, _: shapes[job])
    assert made.start_s.tolist() == [0.0, 30.0, 2.0, 12.0, 35.0]
    assert made.end_s[0] == 30.0


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


def scheduled(order):
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


def asked(jobs):
    factors, _ = fair_shares(jobs)
    with_factors = [replace(one, fair_share=f) for one, f in zip(jobs, factors, strict=True)]
    return list(walk(with_factors, step=2))


def by_fair_share(use, one, now_s):
    return -use.factor(one.user, now_s)


def by_submission(_, one, __):
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


def _without(one, names):
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


def test_a_job_comes_into_the_queue_once_others_have_ended_or_started():
    shapes = [JobShape(1, 10, 10), JobShape(1, 5, 5), JobShape(1, 5, 5), JobShape(2, 5, 5)]
    waits = {1: [Wait(0)], 2: [Wait(1, starts=True)], 3: [Wait(0), Wait(1)]}
    ran = Engine(2).run([0.0, 0.0, 0.0, 12.0], lambda job, _: shapes[job], waits=waits)
    assert ran.start_s.tolist() == [0.0, 10.0, 10.0, 15.0]


def test_a_job_that_waits_for_one_that_never_starts_never_starts():
    shapes = [JobShape(1, 5, 5), JobShape(1, 5, 5)]
    waits = {0: [Wait(1)], 1: [Wait(0)]}
    ran = Engine(2).run([0.0, 0.0], lambda job, _: shapes[job], waits=waits)
    assert ran.start_s.tolist() == [math.inf, math.inf]
