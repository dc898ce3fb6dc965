"""Compressed lists of nodes and array tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.hostlist import count_indexes, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,12]", ("n08", "n09", "n10", "n12")),
        ("n[1,3],gpu1,x[5-6]-ib", ("n1", "n3", "gpu1", "x5-ib", "x6-ib")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
    ],
)
def test_lists_as_slurm_writes_them(text, names):
    assert expand(text) == names


@given(st.integers(0, 500), st.integers(0, 30), st.integers(1, 5))
def test_a_range_has_all_its_names_at_their_width(low, span, width):
    names = expand(f"n[{low:0{width}}-{low + span:0{width}}]")
    assert names == tuple(f"n{number:0{width}}" for number in range(low, low + span + 1))


@pytest.mark.parametrize(
    ("text", "count"), [("7", 1), ("0-9", 10), ("1-9,20%2", 10), ("1-9:2", 5), ("0,4-5%1", 3)]
)
def test_array_tasks_are_counted(text, count):
    assert count_indexes(text) == count
