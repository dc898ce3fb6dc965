"""The word in admin_comment."""

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.admin_comment import Note, build, parse
from sacct_ingest.text.hostlist import NodeNames, count_indexes, expand
from sacct_ingest.text.tag import Tag, parse_tag, tag_fault
from slurm_plugin.config.setting_types import Objective, TimeUse

counts = st.integers(0, 10**9)
words = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1)
asked = st.fixed_dictionaries({"asked": counts, "asked_s": counts})
units = st.fixed_dictionaries({}, optional={"unit": st.sampled_from(["cpus", "gpus"])})
notes = st.builds(
    lambda asked, unit, **fields: Note(**fields, **asked, **unit),
    asked=st.just({}) | asked,
    unit=units,
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


@pytest.mark.parametrize(
    ("comment", "tag"),
    [
        ("nimo:app=wrf", Tag("wrf")),
        ("nimo:app=wrf,problem=d02", Tag("wrf", "d02")),
        ("see the wiki; nimo:app=wrf,problem=d02 and so on", Tag("wrf", "d02")),
        ("nimo:off", Tag(off=True)),
        ("nimo:app=wrf,off", Tag("wrf", off=True)),
        ("nimo:colour=red,app=wrf", Tag("wrf")),
        ("nimo:app=a nimo:app=b", Tag("b")),
        ("nimo:", Tag()),
        ("", None),
        ("animo:app=wrf", None),
        ("all about nimo", None),
    ],
)
def test_tags(comment, tag):
    assert parse_tag(comment) == tag


def test_words_of_a_tag_that_are_not_read():
    assert not any(map(tag_fault, ("", "nimo:", "see the wiki", "nimo:learn,size=big nimo:off")))
    for word, kind in (("time", TimeUse), ("objective", Objective)):
        assert not any(tag_fault(f"nimo:{word}={one}") for one in kind)
    for tag in ("time=long", "soft=no", "mem=16G", "learn=yes", "objective=", "cpus=4", "gpus=0-2"):
        assert tag_fault(f"for the paper nimo:on,{tag} x").startswith(f"{tag} in the comment")
    assert tag_fault("nimo:colour=red,app=wrf").endswith("no such word")
    assert len(tag_fault(f"nimo:nodes={'9' * 1000}")) < 150


def test_keys():
    assert Tag("wrf", "d02").key == "wrf/d02"
    assert Tag("wrf").key == "wrf"
    assert Tag(problem="d02").key == ""
    assert len(Tag("a" * 500).key) < 255


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


@pytest.mark.parametrize(
    "text", ["n[1-3", "n1]", "n[1-[2]]", "n[a-b]", "n[1-]", "n[-1]", "[1-2]" * 40, "n[1-65537]"]
)
def test_what_is_no_node_list_is_refused(text):
    with pytest.raises(ValueError, match=r"node list|number of a list|pieces"):
        expand(text)
    assert NodeNames(["other"]).named(text) == frozenset()


@pytest.mark.parametrize("text", ["0-1x", "a", "", "1-2:0", "0-99999999999999999999"])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(ValueError):
        count_indexes(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("n[1-1000000000]", {"n1"}),
        ("n[01-99]", {"n07"}),
        ("n1,gpu1,x", {"n1", "gpu1"}),
        ("r[1-900000000]n[1-2]", {"r1n2"}),
        ("n[1-5],n[3-7],n[2],n[07]", {"n1", "n07"}),
        ("", set()),
    ],
)
def test_a_list_is_compared_with_the_nodes_there_are(text, named):
    assert NodeNames(["n1", "n07", "gpu1", "r1n2"]).named(text) == named


def test_a_list_that_names_nodes_again_and_again_is_looked_at_as_often_as_there_are_nodes():
    nodes = NodeNames(f"n{number}" for number in range(1, 1001))
    ranges = ",".join(f"{low}-999" for low in range(1, 1000))
    named = nodes.named(f"n[{ranges}]")
    assert len(named) == 999
    assert nodes.named(f"n[{ranges}]") is named
    assert nodes.named(",".join(["n[1-2][0-9][0-9]"] * 100)) == frozenset()


def test_a_billion_nodes_take_no_memory():
    """In a process that may have 256 MiB, as a list of a billion names would take a hundred GB."""
    program = """
from sacct_ingest.text.hostlist import NodeNames, count_indexes, expand
texts = ["n[1-1000000000]", "r[1-40000]n[1-40000]", "n[1-1000000000]," * 20_000]
for text in texts:
    assert NodeNames(["gpu1"]).named(text) <= {"gpu1"}
    try:
        expand(text)
    except ValueError:
        continue
    raise SystemExit("expanded")
assert count_indexes("0-999999999999") == 10**12
"""
    limit = 256 * 2**20

    def cap():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=cap, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
