"""The word in admin_comment."""

from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.admin_comment import Note, build, parse

counts = st.integers(0, 10**9)
words = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1)
notes = st.builds(
    Note,
    decision_id=st.integers(0, 16**12 - 1).map("{:012x}".format),
    nodes=counts,
    low=counts,
    high=counts,
    time_s=counts,
    low_s=counts,
    high_s=counts,
    verdict=st.sampled_from(["reliable", "doubtful", "refused"]),
    mode=st.sampled_from(["advise", "enforce"]),
    reason=words,
)


@given(notes, st.sampled_from(["", "JS1:H4sIAAAA=="]), st.sampled_from(["", "by hand"]))
def test_a_note_is_recovered_among_other_words(note, before, after):
    assert parse(f"{before} {build(note)} {after}".strip()) == note


@given(notes, notes)
def test_the_last_of_several_counts(first, last):
    assert parse(f"{build(first)} {build(last)}") == last


@given(st.text())
def test_anything_else_is_no_note(text):
    assert parse(text) is None or "NIMO1:" in text


def test_a_damaged_note_is_none():
    assert parse("NIMO1:3f9a0c12b7de:n=4,req=1-8,t=312") is None
    assert parse("xNIMO1:3f9a0c12b7de:n=4,req=1-8,t=1,lo=1,hi=1,v=a,m=b,r=c") is None
