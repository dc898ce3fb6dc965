"""What the policy makes of deadlines."""

import pytest
from msgspec.structs import replace

from predictor.types import Verdict
from slurm_plugin.config.setting_types import OnMissed, TimeUse
from slurm_plugin.config.settings import Config, Deadline
from slurm_plugin.decision.memory_and_limits import TimeLimits
from slurm_plugin.decision.policy import Action, limits_to_ask
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.choosing import REQUEST, choose, due
from tests.slurm_plugin.made import NOW, amdahl, partition, rules, table


def test_a_job_gets_a_count_that_makes_its_deadline():
    # On 16 nodes T = 325 s.  On n nodes the limit is 360·1.2·T(n)/325, and Slurm starts no job
    # whose limit reaches beyond its deadline a minute later: from 11 nodes on it is 600 s.
    decided = choose(due(660.0, limit_s=360.0))
    assert (decided.chosen.nodes, decided.chosen.limit_s) == (11, 600.0)
    assert (decided.action, decided.deadline_met) == (Action.SET, True)


def test_the_only_count_that_makes_the_deadline_stays_for_its_sake():
    decided = choose(due(420.0, limit_s=360.0))
    assert (decided.chosen.nodes, decided.reason) == (16, Reason.DEADLINE)


def test_the_wait_counts_more_than_once_before_a_deadline():
    later = partition(profile([(NOW, 0), (NOW + 100, 32)]))
    expected = 1.45 * 100 + 1.1 * (100 + 3600 / 16)
    assert choose(due(expected + 1, limit_s=360.0), part=later).deadline_met is True
    unsure = choose(due(expected - 1, limit_s=360.0), part=later)
    assert (unsure.deadline_met, unsure.reason) == (None, Reason.DEADLINE_UNSURE)


def test_a_deadline_goes_before_the_guard():
    # One node is free now; 16 nodes, free later, are out of the guard and the only way.
    steep = table(amdahl(0.0, 3600.0), spread=1.01)
    part = partition(profile([(NOW, 1), (NOW + 3000, 31)]), queue=500)
    decided = choose(due(4610.0, limit_s=300.0), steep, part)
    assert decided.deadline_met is True
    assert decided.chosen.late_s <= 0


def test_no_count_makes_it_the_closest_is_taken():
    decided = choose(due(100.0))
    assert (decided.action, decided.reason) == (Action.SET, Reason.DEADLINE_MISSED)
    assert decided.chosen.nodes == 16
    assert decided.deadline_met is False


def test_no_count_makes_it_and_the_site_refuses():
    strict = rules(Config(deadline=Deadline(missed=OnMissed.REFUSE)))
    assert choose(due(100.0), by=strict).action is Action.REFUSE
    assert choose(due(8000.0), by=strict).action is Action.SET


def test_nobody_is_refused_for_a_wait():
    strict = rules(Config(deadline=Deadline(missed=OnMissed.REFUSE)))
    full = partition(profile([(NOW, 0), (NOW + 3600, 32)]))
    for fixed in (None, Reason.FIXED_COUNT):
        decided = choose(due(1200.0, limit_s=360.0, fixed=fixed), part=full, by=strict)
        assert decided.action is not Action.REFUSE
        assert (decided.deadline_met, decided.reason) == (None, Reason.DEADLINE_UNSURE)


@pytest.mark.parametrize("fixed", [None, Reason.FIXED_COUNT])
def test_a_limit_beyond_the_deadline_is_looked_at_for_every_count(fixed):
    # On 16 nodes at most 357.5 s, but Slurm ends at once what asks for an hour.
    decided = choose(due(600.0, limit_s=3600.0, fixed=fixed))
    assert (decided.reason, decided.deadline_met) == (Reason.DEADLINE_LIMIT, False)
    assert (decided.action, decided.chosen.nodes) == (Action.KEEP, 16)
    assert decided.chosen.fitting_limit_s == 480.0
    assert limits_to_ask(decided.chosen, REQUEST) == TimeLimits(480.0)


@pytest.mark.parametrize("fixed", [None, Reason.FIXED_COUNT])
def test_the_limit_that_would_do_is_set_where_that_is_opted_in(fixed):
    asked = due(600.0, limit_s=3600.0, asked_limit_s=3600.0, time_use=TimeUse.SET, fixed=fixed)
    decided = choose(asked)
    assert decided.deadline_met is True
    chosen = decided.chosen
    assert chosen.limits.limit_s == chosen.limit_s
    assert chosen.prediction.high_s <= chosen.limit_s <= 600.0


def test_no_limit_that_ends_by_the_deadline_is_shorter_than_the_run():
    decided = choose(due(420.0, limit_s=3600.0, low=16))
    assert decided.chosen.fitting_limit_s == 360.0
    assert choose(due(419.0, limit_s=3600.0, low=16)).chosen.fitting_limit_s is None


def test_a_fixed_count_is_checked_too():
    fixed = due(450.0, low=4, high=4, fixed=Reason.FIXED_COUNT)
    decided = choose(fixed)
    assert (decided.action, decided.reason) == (Action.KEEP, Reason.DEADLINE_MISSED)
    strict = rules(Config(deadline=Deadline(missed=OnMissed.REFUSE)))
    assert choose(fixed, by=strict).action is Action.REFUSE
    assert choose(replace(fixed, deadline_s=NOW + 7261), by=strict).reason is Reason.FIXED_COUNT


def test_nobody_is_refused_on_a_doubtful_prediction():
    strict = rules(Config(deadline=Deadline(missed=OnMissed.REFUSE)))
    fixed = due(100.0, low=4, high=4, fixed=Reason.FIXED_COUNT)
    decided = choose(fixed, table(verdict=Verdict.DOUBTFUL), by=strict)
    assert (decided.action, decided.deadline_met) == (Action.KEEP, False)


def test_a_raised_limit_never_reaches_beyond_the_deadline():
    decided = choose(due(659.0, limit_s=590.0), part=partition(queue=50))
    # On 11 nodes (100 + 3600/11) · 1.1 · 1.2 = 564 s: ten minutes would be too long.
    assert (decided.chosen.nodes, decided.chosen.limit_s) == (12, 590.0)
