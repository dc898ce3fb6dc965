import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.text import formatting


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "00:00:00"), (59.6, "00:01:00"), (86_399.6, "1-00:00:00"), (None, "-")],
)
def test_duration_carries_when_it_rounds(seconds, written):
    assert formatting.duration(seconds) == written


@given(st.integers(0, 10**8))
def test_duration_can_be_read_back(seconds):
    *days, clock = formatting.duration(seconds).split("-")
    hours, minutes, rest = map(int, clock.split(":"))
    assert (int(days[0]) if days else 0) * 86_400 + hours * 3600 + minutes * 60 + rest == seconds
    assert hours < 24
    assert max(minutes, rest) < 60


@given(
    st.lists(
        st.tuples(st.text("ab", max_size=9), st.text("cd", min_size=1, max_size=9)), max_size=6
    )
)
def test_all_lines_of_a_table_put_the_second_column_at_the_same_place(rows):
    lines = formatting.table(["first", "second"], rows, left=frozenset({1})).splitlines()
    start = lines[0].index("second")
    for (first, second), line in zip(rows, lines[1:], strict=True):
        assert line[:start].strip() == first
        assert line[start:] == second
