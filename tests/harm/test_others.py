"""Whatever another user does, an honest job is decided as without, or no later by limits alone.

*Decided as without* means: it gets the count that the same submission gets at the same moment in a
second cluster, in which the other user never was.  *No later by limits alone* means: if every other
job, the hostile user's among them, ran to its time limit, the job would start no later on its count
than as it was asked for, or end no later.  The second is what is left where the other user's jobs
have nodes, or wait for them and may start: these are there, and nobody can be as if they were not.
Where all that the other user has is words, and jobs that can never start, the first must hold.
"""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from predictor.waits.easy import JobShape
from slurm_plugin.slurm.cluster_state import RawJob
from tests.harm.others import (
    BEGIN_S,
    HONEST,
    HOSTILE,
    NODES,
    RUN_TIME,
    World,
    honest_request,
    is_no_later,
    note,
)

HOUR_S, DAY_S = 3600.0, 86_400.0
#: Limits that users ask for, seconds.
LIMITS_S = st.sampled_from((360.0, 1800.0, HOUR_S, 12 * HOUR_S, 7 * DAY_S))
#: Reasons of jobs that never start, and one that looks as if they did.
REASONS = st.sampled_from((
    "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "JobHeldUser", "BeginTime",
    "DependencyNeverSatisfied", "launch failed requeued held", "Priority",
))  # fmt: skip
TAGS = st.sampled_from(("", "nimo:app=cfd", "nimo:app=tiny", "nimo:off", "NIMO1:x"))
COUNTS = st.integers(1, NODES)


def cancel_and_check(engine, number, now_s):
    """Cancel a job: it is gone, and of all others that wait none is lost, or starts and waits."""
    waited = [job for job in engine.waiting_jobs if job != number]
    engine.cancel(number, now_s)
    running = [job for job, _ in engine.running_jobs]
    assert number not in [*engine.waiting_jobs, *running]
    assert engine.waiting_jobs == [job for job in waited if job not in running]


class HostileUser(RuleBasedStateMachine):
    """A random user beside honest ones, and the same cluster without that user."""

    @initialize(forecasts=st.sampled_from((False, False, False, True)))
    def begin(self, forecasts):
        self.now_s = BEGIN_S
        self.there, self.alone = World(forecasts), World(forecasts)
        self.hostile: list[int] = []
        self.had_nodes = False  # whether the hostile user's jobs could start at any time

    # --- time and honest users -----------------------------------------------------------------

    @rule(seconds=st.sampled_from((1.0, 60.0, 600.0, HOUR_S, 8 * HOUR_S)))
    def time_passes(self, seconds):
        self.now_s += seconds
        for world in (self.there, self.alone):
            world.engine.advance(self.now_s)

    @rule(
        nodes=COUNTS,
        limit_s=LIMITS_S,
        share=st.sampled_from((0.05, 0.5, 1.0)),
        predicted=st.booleans(),
    )
    def somebody_else_submits(self, nodes, limit_s, share, predicted):
        """Of one count, and decided before."""
        run_s = share * limit_s
        said = note(nodes, int(0.9 * run_s), int(1.1 * run_s) + 1) if predicted else ""
        for world in (self.there, self.alone):
            shape = JobShape(nodes, limit_s, run_s)
            world.submit(shape, "bob", self.now_s, admin_comment=said)

    @rule(
        low=st.sampled_from((1, 2, 4)),
        high=st.sampled_from((4, 6, 8)),
        minutes=st.sampled_from((35, 60, 600)),
    )
    def an_honest_job_comes(self, low, high, minutes):
        request = honest_request(low, high, minutes)
        counts = []
        for world in (self.there, self.alone):
            count, limit_s, said = world.decide(request, self.now_s)
            assert is_no_later(world, request, count, limit_s, self.now_s)
            nodes = count or self._as_asked(world, low, high, limit_s)
            run_s = RUN_TIME(nodes)
            shape = JobShape(nodes, limit_s, run_s)
            world.submit(shape, HONEST, self.now_s, admin_comment=said)
            counts.append(count)
        if not self.had_nodes:
            assert counts[0] == counts[1]

    def _as_asked(self, world, low, high, limit_s):
        there = world.engine.by_limits(self.now_s)
        start_s = there.earliest_start(low, limit_s, from_s=self.now_s)
        return max(min(high, there.least(start_s, start_s + limit_s)), low)

    # --- the hostile user ----------------------------------------------------------------------

    @rule(nodes=COUNTS, limit_s=LIMITS_S, tasks=st.integers(1, 30), tag=TAGS)
    def floods_with_what_may_start(self, nodes, limit_s, tasks, tag):
        self.had_nodes = True
        for _ in range(tasks):
            shape = JobShape(nodes, limit_s, limit_s)
            self.hostile.append(self.there.submit(shape, HOSTILE, self.now_s, comment=tag))

    @rule(
        nodes=st.integers(1, 99),
        tasks=st.sampled_from((1, 200, 100_000)),
        reason=REASONS,
        tag=TAGS,
        low_s=st.integers(1, 10_000),
    )
    def floods_with_what_never_starts(self, nodes, tasks, reason, tag, low_s):
        never = reason != "Priority"
        self.there.never.append(
            RawJob(
                state="PENDING",
                job_id=10_000 + len(self.there.never),
                jobs=tasks,
                partitions=("batch",),
                nodes=nodes if never else NODES + nodes,
                reason=reason,
                tres={"cpu": float(nodes)},
                alone=True,
                limit_s=HOUR_S,
                priority=10**6,
                user=HOSTILE,
                comment=tag,
                admin_comment=note(nodes, low_s, low_s + 9),
            )
        )

    @precondition(lambda self: self.hostile)
    @rule(
        data=st.data(),
        low_s=st.sampled_from((1, 60, 7200)),
        width_s=st.sampled_from((1, 60, 10**6)),
        tag=TAGS,
    )
    def trains(self, data, low_s, width_s, tag):
        """Runs under a tag teach NIMO what this user likes: the notes of its jobs say so."""
        number = data.draw(st.sampled_from(self.hostile))
        nodes = self.there.engine.shape_of(number).nodes
        said = note(nodes, low_s, low_s + width_s)
        self.there.words[number] = {"admin_comment": said, "comment": tag, "name": tag}

    @precondition(lambda self: self.hostile)
    @rule(data=st.data())
    def cancels(self, data):
        self.cancels_one(data.draw(st.sampled_from(self.hostile)))

    @precondition(lambda self: self.hostile)
    @rule(data=st.data())
    def holds(self, data):
        """A job that is held waits in the queue's list, and takes no node any more."""
        number = data.draw(st.sampled_from(self.hostile))
        if number in self.there.engine.waiting_jobs:
            shape = self.there.engine.shape_of(number)
            self.cancels_one(number)
            self.floods_with_what_never_starts(shape.nodes, 1, "JobHeldUser", "", 60)

    def cancels_one(self, number):
        cancel_and_check(self.there.engine, number, self.now_s)
        self.hostile.remove(number)

    @precondition(lambda self: self.hostile)
    @rule(data=st.data(), nodes=COUNTS, limit_s=LIMITS_S)
    def updates(self, data, nodes, limit_s):
        """A job that waits becomes another one, at the end of the queue."""
        number = data.draw(st.sampled_from(self.hostile))
        if number in self.there.engine.waiting_jobs:
            words = self.there.words[number]
            self.cancels_one(number)
            shape = JobShape(nodes, limit_s, limit_s)
            self.hostile.append(self.there.submit(shape, HOSTILE, self.now_s, **words))

    @invariant()
    def no_node_is_there_twice(self):
        used = sum(self.there.engine.shape_of(n).nodes for n, _ in self.there.engine.running_jobs)
        assert used + self.there.engine.free == NODES


TestHostileUser = HostileUser.TestCase
TestHostileUser.settings = settings(max_examples=300, stateful_step_count=25, deadline=None)


# --- what such searches have found, as small as it gets -----------------------------------------


def honest_count(world, *, low=1, high=8, minutes=50):
    """Decide on an honest job; it has to be no later by limits alone."""
    request = honest_request(low, high, minutes)
    count, limit_s, _ = world.decide(request, BEGIN_S)
    assert is_no_later(world, request, count, limit_s, BEGIN_S)
    return count


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_jobs_may_be_cancelled_in_any_order(order):
    """One of them runs, the others wait, and each that runs makes room for the next."""
    world = World(forecasts=False)
    for _ in order:
        world.submit(JobShape(5, 360.0, 360.0), HOSTILE, BEGIN_S)
    for number in order:
        cancel_and_check(world.engine, number, BEGIN_S)
    assert world.engine.free == NODES


def test_an_array_beyond_its_partitions_limit_moves_nobody():
    alone, there = World(forecasts=False), World(forecasts=False)
    there.never.append(
        RawJob(
            state="PENDING", job_id=1, jobs=200, partitions=("batch",), nodes=1,
            reason="PartitionTimeLimit", tres={"cpu": 1.0}, alone=True, limit_s=8 * DAY_S,
        )
    )  # fmt: skip
    assert honest_count(there) == honest_count(alone) == NODES
    # The same jobs within the limit may start: they are a queue.
    for _ in range(200):
        alone.submit(JobShape(1, DAY_S, DAY_S), HOSTILE, BEGIN_S)
    assert honest_count(alone) < NODES


def test_a_job_too_large_for_its_partition_moves_nobody_whatever_its_reason():
    there = World(forecasts=False)
    there.never.append(
        RawJob(
            state="PENDING", job_id=1, jobs=100_000, partitions=("batch",), nodes=NODES + 1,
            reason="Priority", tres={"cpu": 9.0}, alone=True, limit_s=HOUR_S,
        )
    )  # fmt: skip
    assert honest_count(there) == honest_count(World(forecasts=False))


@pytest.mark.parametrize("forecasts", [False, True])
def test_jobs_of_a_week_that_are_said_to_end_in_minutes_pin_nobody(forecasts):
    """Two nodes are free in six minutes; the others' user has them for a week."""
    world = World(forecasts)
    world.submit(JobShape(2, 360.0, 360.0), "bob", BEGIN_S)
    for nodes in (4, 2):
        said = note(nodes, 180, 300)
        world.submit(JobShape(nodes, 7 * DAY_S, DAY_S), HOSTILE, BEGIN_S, admin_comment=said)
    assert honest_count(world) == 2
