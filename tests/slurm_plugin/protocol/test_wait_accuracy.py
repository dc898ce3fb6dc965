"""How often predicted waits came true."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.protocol.status_messages import AT_ONCE_S, WaitTally, judge
from slurm_plugin.protocol.wait_shares import WaitShares


def test_starts_at_once_and_waits_are_judged_apart():
    reported_now = [(0.0, 3.0)] * 4 + [(30.0, 30.0)] * 4 + [(0.0, 600.0)] * 2
    reported_later = [(3600.0, 3000.0)] * 8 + [(3600.0, 9000.0)] * 2
    result = judge(reported_now + reported_later)
    assert result.at_once == WaitShares(jobs=10, within_s=3.0, later=0.2)
    assert result.waiting == WaitShares(jobs=10, within_s=600.0, later=0.2)
    assert result.like(0.0) == result.at_once
    assert result.like(AT_ONCE_S + 1) == result.waiting
    assert result.like(None) is None


def test_of_few_jobs_nothing_is_said():
    assert judge([(0.0, 0.0)] * 4).at_once is None
    assert judge([(0.0, 0.0)] * 5).at_once is not None


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1e6)), min_size=5, max_size=40))
def test_the_bound_holds_for_its_share_and_no_much_smaller_one_does(pairs):
    held = judge(pairs).at_once
    off = sorted(abs(was - said) for said, was in pairs)
    least = off[-(-len(off) * 4 // 5) - 1]
    assert least <= held.within_s <= 1.0051 * least + 1e-3


def test_memory_does_not_grow_with_jobs():
    tally = WaitTally()
    tracemalloc.start()
    for i in range(2_000):
        tally.add(100.0, 100.0 + 1.01 ** (i % 500))
    before, _ = tracemalloc.get_traced_memory()
    for i in range(20_000):
        tally.add(100.0, 100.0 + 1.01 ** (i % 500))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tally.result().waiting.jobs == 22_000
    assert after - before < 10_000
