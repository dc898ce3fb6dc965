"""Time limits that the policy sets, advises or leaves."""

from math import ceil

import msgspec
import pytest
from msgspec.structs import replace

from predictor.types import Verdict
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision.memory_and_limits import TimeLimits
from slurm_plugin.decision.policy import Action
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.choosing import choose, due, policy, tailed, timed
from tests.slurm_plugin.made import NOW, partition, table


def test_a_generous_limit_is_cut_to_the_high_quantile():
    chosen = choose(timed(), tailed()).chosen
    # T(n) = 100 + 3600/n; 1.2 of slack on both quantiles; whole minutes.
    time_s = 100 + 3600 / chosen.nodes
    assert chosen.limits == TimeLimits(
        60.0 * ceil(time_s * 1.2 * 1.2 / 60), 60.0 * ceil(time_s * 1.1 * 1.2 / 60)
    )
    assert chosen.limit_s == chosen.limits.limit_s


def test_advised_limits_leave_the_limit_alone():
    advised, left = (choose(timed(use), tailed()).chosen for use in (TimeUse.ADVISE, TimeUse.OFF))
    assert advised.limits is not None
    assert left.limits is None
    assert msgspec.structs.replace(advised, limits=None) == left


def test_a_limit_below_the_quantile_stays():
    # On 16 nodes 325 s · 1.2 · 1.2 = 468 s: eight minutes are not shortened, nine are to eight.
    fixed = {"low": 16, "high": 16, "fixed": Reason.FIXED_COUNT}
    assert choose(timed(minutes=8, **fixed), tailed()).chosen.limits is None
    nine = choose(timed(minutes=9, **fixed), tailed())
    assert (nine.action, nine.chosen.limits.limit_s) == (Action.KEEP, 480.0)


def test_a_limit_on_fewer_nodes_is_that_of_the_prediction_or_else_raised():
    by = policy(guard_ratio=100.0)
    crowded = partition(queue=1000)
    roomy, tight = (choose(timed(minutes=m), tailed(), crowded, by).chosen for m in (120, 20))
    assert roomy.nodes == tight.nodes == 1
    assert (roomy.limits.limit_s, roomy.limit_s) == (5340.0, 5340.0)
    assert tight.limits is None
    assert tight.limit_s > 1200.0


def test_a_shorter_limit_lets_more_nodes_start_before_others_need_them():
    # All 32 nodes are free for half an hour, then only one.
    gap = partition(profile([(NOW, 32), (NOW + 1800, -31), (NOW + 90000, 31)]))
    cut, left = (choose(timed(use), tailed(), gap).chosen for use in (TimeUse.SET, TimeUse.ADVISE))
    assert (cut.wait_s, left.wait_s) == (0.0, 0.0)
    assert cut.nodes > left.nodes == 1


def test_an_unchanged_range_is_given_a_limit_that_holds_on_any_of_its_counts():
    remaining = choose(timed(low=4, high=8, fixed=Reason.NOT_OPTED_IN), tailed()).chosen
    assert remaining.limits == TimeLimits(
        60.0 * ceil(1000 * 1.44 / 60), 60.0 * ceil(1000 * 1.32 / 60)
    )


def test_an_unchanged_range_keeps_its_limit_where_one_of_its_counts_needs_it():
    recorded = tailed(lambda nodes: 50_000.0 if nodes == 6 else 100.0)
    remaining = choose(timed(low=4, high=8, fixed=Reason.NOT_OPTED_IN), recorded).chosen
    assert (remaining.nodes, remaining.limit_s, remaining.limits) == (8, 7200.0, None)


def test_without_a_safe_time_min_the_limit_goes_alone():
    with_, without = (choose(timed(with_least=safe), tailed()).chosen for safe in (True, False))
    assert with_.limits.least_s is not None
    assert without.limits == TimeLimits(with_.limits.limit_s)


def test_ones_own_time_min_stays_and_bounds_the_limit():
    own = {"low": 16, "high": 16, "fixed": Reason.FIXED_COUNT}
    assert choose(timed(least_s=300.0, **own), tailed()).chosen.limits == TimeLimits(480.0)
    assert choose(timed(least_s=3600.0, **own), tailed()).chosen.limits == TimeLimits(3600.0)


@pytest.mark.parametrize(
    "recorded",
    [table(), tailed(verdict=Verdict.DOUBTFUL)],
    ids=["no quantiles in the table", "doubtful"],
)
def test_no_limit_without_a_good_prediction(recorded):
    assert choose(timed(), recorded).chosen.limits is None


def test_with_a_deadline_a_shorter_limit_allows_more_counts():
    # Slurm starts nothing whose limit reaches beyond the deadline.
    far = due(1800.0, limit_s=7200.0, asked_limit_s=7200.0)
    chosen = choose(replace(far, time_use=TimeUse.SET), tailed()).chosen
    assert chosen.nodes < 16
    assert chosen.wait_s + chosen.limit_s <= 1800.0
    assert choose(far, tailed()).chosen.nodes == 16
