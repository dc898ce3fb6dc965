"""Fewest nodes that hold a problem, by the memory that its runs were seen to need."""

from hypothesis import given
from hypothesis import strategies as st

from predictor.types import Memory
from slurm_plugin.decision.memory_and_limits import NEVER, memory_floor
from tests.slurm_plugin.made import table

GIB = 2**30


def floor(gib, *look, margin=1.0):
    recorded = table(memory=tuple(Memory(nodes, need * GIB) for nodes, need in look))
    return memory_floor(recorded, None if gib is None else gib * GIB, margin=margin)


def test_what_is_unknown_excludes_nothing():
    assert floor(None, (4, 64)) == 1
    assert floor(64) == 1


def test_below_the_fewest_observed_each_node_needs_more():
    assert floor(64, (4, 64), (8, 40)) == 4
    assert floor(128, (4, 64), (8, 40)) == 2
    assert floor(100, (4, 64), (8, 40)) == 3


def test_the_margin_counts_where_nothing_was_observed():
    assert floor(128, (4, 64), margin=1.2) == 3
    assert floor(64, (4, 64), margin=1.2) == 4


def test_a_count_whose_need_was_too_large_is_excluded():
    assert floor(50, (2, 100), (4, 64), (8, 40)) == 7  # 8 · 40 / 50
    assert floor(40, (2, 100), (4, 64), (8, 40), margin=1.2) == 8


def test_what_fitted_nowhere_leaves_the_request_alone():
    assert floor(30, (2, 100), (4, 64), (8, 40)) == NEVER


look = st.dictionaries(st.integers(1, 64), st.integers(1, 500), min_size=1, max_size=6)


@given(look, st.integers(1, 500), st.floats(1, 2))
def test_more_memory_never_needs_more_nodes(needs, gib, margin):
    rising = sorted(needs.items())
    assert floor(gib + 1, *rising, margin=margin) <= floor(gib, *rising, margin=margin)


@given(look, st.floats(1, 2))
def test_what_ran_on_all_counts_fits_on_all(needs, margin):
    assert floor(max(needs.values()), *sorted(needs.items()), margin=margin) <= min(needs)
