"""The scheduler of the replay, against a plain one that looks at every job at every moment."""

import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.waits.easy import Engine, JobShape, Order, ReplaySchedule

NODES = 8
SHARED = Path(__file__).parents[5] / "shared"
KTH = SHARED / "data" / "traces" / "KTH-SP2-1996-2.1-cln.swf.xz"


def plain_easy(submits: list[int], shapes: list[JobShape], order: Order) -> list[float]:
    """EASY as its definition says it, with nothing remembered from one moment to the next."""
    starts: dict[int, float] = {}
    queue: list[int] = []
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


def test_what_is_asked_sees_the_cluster_at_that_moment():
    observed = {}
    engine = Engine(4)

    def shape_of(job: int, now_s: float) -> JobShape:
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

    def replayed(self, order: Order, limit_s: np.ndarray) -> ReplaySchedule:
        rows = zip(self.nodes.tolist(), limit_s.tolist(), self.run_s.tolist(), strict=True)
        shapes = [JobShape(*row) for row in rows]
        return Engine(100, order).run(self.submit_s.tolist(), lambda job, now_s: shapes[job])


@pytest.fixture(scope="module")
def kth() -> Log:
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
