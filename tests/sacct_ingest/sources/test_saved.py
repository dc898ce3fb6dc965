"""Saved files: format and compression are detected from their content."""

import bz2
import gzip
import io
import json
import lzma
import sys
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import FormatError
from sacct_ingest.sources.opened import decoded, lines_of
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.saved import SavedSacct
from tests.sacct_ingest.sources.json_jobs import TEXT, new_job
from tests.sacct_ingest.sources.test_swf_and_states import LINE, NOTES

FILES = {"text": TEXT, "json": json.dumps({"jobs": [new_job()]}), "swf": f"{NOTES}{LINE}\n"}
PACKED = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: pytest.importorskip("backports.zstd").compress(data),
}


def read(path, tally=None, **options):
    return list(SavedSacct(path, **options).read(0, 0, tally or Tally()))


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("form", FILES)
def test_formats_and_compression_are_recognised_by_the_content(tmp_path, form, packed):
    path = tmp_path / "no-ending"
    path.write_bytes(PACKED[packed](FILES[form].encode()))
    (run,) = read(path)
    assert run.cpus in (4, 8)


@pytest.mark.parametrize("packed", ["gzip", "bzip2", "xz", "zstd"])
def test_a_compressed_file_that_breaks_off(tmp_path, packed):
    path = tmp_path / "jobs"
    rows = "".join(f"{i}|c|FAILED|{i}\n" for i in range(20_000))
    whole = PACKED[packed](f"JobID|Cluster|State|Submit\n{rows}".encode())
    path.write_bytes(whole[: len(whole) // 2])
    runs = []
    with pytest.raises(FormatError, match="jobs: "):
        runs.extend(read(path))


@pytest.mark.parametrize(
    "data", [Random(1).randbytes(3000), bytes(range(97, 123)) * 999], ids=["noise", "text"]
)
@pytest.mark.parametrize("packed", ["gzip", "bzip2", "xz", "zstd"])
def test_a_damaged_file(tmp_path, packed, data):
    path = tmp_path / "jobs"
    whole = bytearray(PACKED[packed](data))
    whole[20:60] = b"x" * 40
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="jobs: "):
        read(path, cluster="c")


@pytest.mark.slow
@pytest.mark.parametrize("form", FILES)
def test_a_very_long_line_or_job_is_set_aside_in_bounded_memory(tmp_path, form):
    """A line of 400 MB took 1.3 GB, and in a log of SWF it was a job."""
    path, size = tmp_path / "jobs", 150_000_000
    before, after = {
        "text": (TEXT, TEXT.partition("\n")[2]),
        "json": ('{"jobs": [{"job_id": 1, "comment": "', f'"}}, {json.dumps(new_job())}]}}'),
        "swf": (FILES["swf"], f"\n{LINE}\n"),
    }[form]
    with path.open("w") as file:
        file.write(before)
        for _ in range(size // 500_000):
            file.write("1 " * 250_000)
        file.write(after if form == "json" else f"\n{after}")
    tally = Tally()
    tracemalloc.start()
    runs = read(path, tally)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(runs), tally.refused) == (1 if form == "json" else 2, 1)
    (reject,) = tally.rejects
    number = {"text": "line 4", "json": "job 1", "swf": f"line {FILES['swf'].count(chr(10)) + 1}"}
    assert reject.reason.startswith(f"{number[form]}: a {'job' if form == 'json' else 'line'} of ")
    assert len(reject.text) == 1000
    assert peak < size


def test_standard_input(monkeypatch):
    packed = io.BufferedReader(io.BytesIO(gzip.compress(TEXT.encode())))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(packed))
    (run,) = read(Path("-"))
    assert run.user == "ann"


def test_a_mark_of_windows_is_no_part_of_the_first_column(tmp_path):
    for form, text in FILES.items():
        path = tmp_path / form
        path.write_text(text, encoding="utf-8-sig")
        assert len(read(path)) == 1


@pytest.mark.parametrize("form", FILES)
def test_a_file_of_windows_own_encoding_is_refused_with_how_to_read_it(tmp_path, form):
    path = tmp_path / "jobs"
    path.write_text(FILES[form], encoding="utf-16")
    with pytest.raises(FormatError, match=r"jobs: it is UTF-16.*iconv"):
        read(path)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", "ü".encode(), b"\xc3", b"\x85", b"\x1f"])))
def test_lines_end_at_newlines_alone_whatever_they_are_made_of(parts):
    data = b"".join(parts)
    lines = list(lines_of(io.BufferedReader(io.BytesIO(data)), Tally()))
    assert lines == list(decoded(io.BytesIO(data)))


def test_lines_of_windows(tmp_path):
    path = tmp_path / "jobs"
    header, *rows = TEXT.splitlines()
    path.write_bytes("".join(f"{line}\r\n" for line in (header, *rows)).encode())
    (run,) = read(path)
    path.write_text(TEXT)
    assert read(path) == [run]
    path.write_bytes("".join(f"{line}\r\n" for line in rows).encode())
    assert list(SavedSacct(path, fields=header.split("|")).read(0, 0, Tally())) == [run]


@pytest.mark.parametrize(
    ("form", "where"), [("text", "line 3: "), ("json", "job 2: "), ("swf", "line 4: ")]
)
def test_what_is_refused_says_where_in_the_file_it_is(tmp_path, form, where):
    bad = {
        "text": "JobID|Cluster|State|Submit\n1|c|FAILED|1700000005\n2|c|FAILED|soon\n",
        "json": json.dumps({"jobs": [new_job(), new_job(state=None)]}),
        "swf": f"; Computer: oak\n; Note: x\n{LINE}\n7 soon\n",
    }
    path = tmp_path / "jobs"
    path.write_text(bad[form])
    tally = Tally()
    assert len(read(path, tally)) == 1
    assert tally.rejects[0].reason.startswith(where)


def test_the_format_may_be_forced(tmp_path):
    path = tmp_path / "jobs"
    path.write_text(FILES["json"])
    with pytest.raises(FormatError, match="first line"):
        read(path, format="text")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FormatError, match="No such file"):
        read(tmp_path / "missing")


def test_bytes_that_are_no_utf8_cost_nothing(tmp_path):
    path = tmp_path / "jobs"
    path.write_bytes(b"JobID|Cluster|State|Submit|JobName\n1|c|FAILED|1700000005|na\xefve\xff\n")
    assert read(path)[0].name == "na\ufffdve\ufffd"


#: Columns of a file that names them otherwise, or not at all.
FOREIGN = (
    "job_id,wallclock_req,nodes_req,submit_time,state,wallclock_used\n"
    "9,172800.0,10.0,2019-01-01 08:55:55,TIMEOUT,172812.0\n"
)


def test_columns_may_be_named(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(FOREIGN)
    tally = Tally()
    source = SavedSacct(
        path, "c", ("JobID", "Timelimit", "NNodes", "Submit", "State", "Elapsed"), delimiter=","
    )
    (run,) = source.read(0, 0, tally)
    assert (run.job_id, run.limit_s, run.nodes, run.elapsed_s) == (9, 172800, 10, 172812)
    assert [reject.text for reject in tally.rejects] == [FOREIGN.splitlines()[0]]
