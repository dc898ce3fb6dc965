"""Columns that are read at once hold what each of their values is by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.sources.number_columns import NumberColumn

TEXTS = st.one_of(
    st.integers(-5, 200).map(str),
    st.sampled_from(["", " 7", "007", "1,2", "1.0", "1e1", "٣", "[", "]", "null", "9" * 5000]),
)


@given(st.lists(TEXTS, max_size=8))
def test_numbers_are_those_of_each_text(texts):
    plain = all(
        text.isascii() and text.isdecimal() and str(int(text[:9])) == text for text in texts
    )
    between = plain and all(int(text) <= 99 for text in texts)
    expected = list(map(int, texts)) if between else None
    assert NumberColumn(int, 0, 99).read(texts) == expected


@pytest.mark.parametrize(("kind", "expected"), [(int, [0, 12]), (float, [0.0, 12.0])])
def test_numbers_have_their_kind(kind, expected):
    numbers = NumberColumn(kind, 0, 99).read(["0", "12"])
    assert numbers == expected
    assert {type(number) for number in numbers} == {kind}
