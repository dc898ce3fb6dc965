"""Columns, order and widths of tables, in the manner of squeue and sacct."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.request_messages import decode_ask
from slurm_plugin.text import formatting, local_time
from slurm_plugin.text.table_columns import ON_REQUEST, Column, NoColumn, Table, TableOptions

ROWS = [{"name": "wrf", "wait_s": 60.0}, {"name": "icon-global", "wait_s": None}]
COLUMNS = [
    Column(name="name", title="name", value=lambda row: row["name"], left=True, cuts=True),
    Column(
        name="wait_s",
        title="wait",
        value=lambda row: row["wait_s"],
        show=lambda row: "-" if row["wait_s"] is None else f"{row['wait_s']:.0f} s",
        worth=3,
    ),
    Column(name="note", title="a note", value=lambda _: "x", worth=ON_REQUEST, derived=True),
]

TABLE = Table(COLUMNS, ROWS)


def shown(**options):
    return TABLE.text(TableOptions(**options)).splitlines()


def test_columns_are_chosen_by_name_without_the_unit():
    lines = [line.split() for line in shown(form="wait,name,note", header=False)]
    assert lines == [["60", "s", "wrf", "x"], ["-", "icon-global", "x"]]
    assert shown(form="WaitS") == ["wait", "60 s", "   -"]
    assert shown(form="wai", header=False) == ["60 s", "   -"]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("name%6", "   wrf"),
        ("name%-6,wait", "wrf     60 s"),
        ("name:.6", "   wrf"),
        ("name:6,wait", "wrf     60 s"),
    ],
)
def test_widths_are_those_of_sacct_and_squeue(form, line):
    assert shown(form=form)[1] == line


def test_what_does_not_fit_its_width_is_cut_with_a_mark():
    assert shown(form="name%6", header=False) == ["   wrf", "icon-+"]


def test_columns_of_little_worth_go_first_then_texts_are_cut():
    assert TABLE.text(width=17).splitlines()[2] == "icon-global     -"
    assert TABLE.text(width=16).splitlines() == ["name", "wrf", "icon-global"]
    assert TABLE.text(width=9).splitlines() == ["name", "wrf", "icon-glo+"]


def test_chosen_columns_stay_whatever_the_width():
    made = TABLE.text(TableOptions(form="name,wait"), width=5)
    assert made.splitlines()[2] == "icon-global     -"


def test_rows_are_sorted_and_those_without_a_value_are_last():
    assert shown(form="name", sort="wait", header=False) == ["wrf", "icon-global"]
    assert shown(form="name", sort="-wait", header=False) == ["wrf", "icon-global"]
    assert shown(form="name", sort="name", header=False) == ["icon-global", "wrf"]
    assert shown(form="name", sort="-name", header=False) == ["wrf", "icon-global"]


def test_raw_values_for_scripts():
    assert TABLE.parsable().split("\n") == ["name|wait", "wrf|60", "icon-global|"]
    options = TableOptions(form="note,wait", sort="name", header=False)
    assert TABLE.parsable(options).split("\n") == ["x|", "x|60"]


@pytest.mark.parametrize(
    "options", [{"form": "nam-e"}, {"form": "x"}, {"sort": "-x"}, {"form": ","}]
)
def test_a_column_that_there_is_not_is_named(options):
    with pytest.raises(NoColumn) as error:
        shown(**options)
    assert error.value.exit_status == 2


def test_ideographs_take_two_columns_of_the_terminal():
    rows = [{"name": "名前の計算機", "wait_s": 5.0}, {"name": "cafe\u0301", "wait_s": 60.0}]
    lines = Table(COLUMNS, rows).text(width=80).splitlines()
    assert lines == ["name          wait", "名前の計算機   5 s", "cafe\u0301          60 s"]
    assert Table(COLUMNS, rows).text(width=10).splitlines() == ["name", "名前の計+", "cafe\u0301"]
    assert Table(COLUMNS, rows).text(TableOptions(form="name%6", header=False)).splitlines() == [
        " 名前+",
        "  cafe\u0301",
    ]


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


def test_a_moment_whose_interval_reads_the_same_stands_alone():
    moment_s = 1_790_000_040.0
    alone = formatting.clock_between(moment_s, moment_s, moment_s + 2, moment_s + 9)
    assert alone == formatting.short_clock(moment_s).split()[1]
    assert "(" in formatting.clock_between(moment_s, moment_s, moment_s, moment_s + 120)


WRITERS = [
    formatting.short_clock,
    formatting.clock,
    formatting.hours,
    formatting.percent,
    duration_text,
    "{:.2f}".format,
]


@given(st.floats(0, 2e9), st.floats(0, 1e5), st.sampled_from(WRITERS))
def test_an_interval_never_has_the_same_text_at_both_ends(low, width, as_text):
    high = low + width
    texts = formatting.interval(low, high, as_text).split(" to ")
    assert len(set(texts)) == len(texts)
    assert [texts[0], texts[-1]] == [as_text(low), as_text(high)]
    behind = formatting.with_interval("value", low, high, as_text)
    assert (behind == "value") is (len(texts) == 1)
    range_texts = duration_range(low, high).split(" to ")
    assert len(set(range_texts)) == len(range_texts)


def test_moments_are_written_in_the_local_time_of_who_reads(monkeypatch):
    """On both sides of each change of clocks, and in one thread only."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    offsets = local_time.utc_offsets(1_796_029_515)
    moments = [at_s + by_s for at_s, _ in offsets for by_s in (-1, 0, 1, 90_000)][1:]
    there = list(map(formatting.clock, moments))
    monkeypatch.undo()
    time.tzset()
    assert [by_s for _, by_s in offsets] == [-18_000, -14_400, -18_000]
    with local_time.local_time_of(offsets):
        assert list(map(formatting.clock, moments)) == there
        assert formatting.short_clock(moments[0]) == there[0][5:16].replace("T", " ")
        with local_time.local_time_of([(0, 0)]):
            assert formatting.clock(0) == "1970-01-01T00:00:00"
        assert formatting.clock(moments[0]) == there[0]
    assert formatting.clock(moments[0]) == time.strftime(
        "%Y-%m-%dT%H:%M:%S", time.localtime(moments[0])
    )


@pytest.mark.parametrize(
    "offsets", ["[[0,86400]]", "[[-1,0]]", '[["x",0]]', "[[0]]", str([[0, 0]] * 65)]
)
def test_a_local_time_that_is_none_is_refused(offsets):
    with pytest.raises(msgspec.ValidationError):
        decode_ask(f'{{"v":1,"op":"advise","utc_offsets":{offsets}}}'.encode())
