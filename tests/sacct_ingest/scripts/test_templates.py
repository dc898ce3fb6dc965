"""Volatile parts are cut out and other texts stay as they are."""

import pytest

from sacct_ingest.scripts.engines import name_template, template
from sacct_ingest.scripts.signature import identity_of_line, identity_of_request


@pytest.mark.parametrize(
    ("texts", "made"),
    [
        (["run_2026-05-31.sh", "run_20260531.sh", "run_2026-05-31T12:00:00Z.sh"], "run_*.sh"),
        (["x 1790000000", "x 1790000000123", "x 1790000000.25"], "x *"),
        (["/t/tmpab12cd34/a", "/t/tmp.8rty7m_y/a", "/t/tmp.AbCdEf1234/a"], "/t/*/a"),
        (["c3f9a2b-in", "ba12547229de451c81a87e2449e36828-in"], "*-in"),
        (["work/3f/9a2bc07d1e55", "work/0a/b1c2d3e4f5a6"], "work/*"),
        (["/scratch/1234567/in", "/scratch/7654321/in"], "/scratch/*/in"),
        (["case_0017", "case_0018"], "case_*"),
    ],
)
def test_volatile_parts_are_cut_out(texts, made):
    assert {template(text) for text in texts} == {made}


@pytest.mark.parametrize(
    "text", ["wrf4", "1e10 2.5e-3", "deadbeef", "--steps 1500000", "case-12", "2026-13-01", "0.05"]
)
def test_other_texts_stay(text):
    assert template(text) == text


def test_a_name_that_is_all_hash_stays():
    """Public logs hide names so: there it says which application a job is."""
    assert name_template("7eeddc87c4fe8551") == "7eeddc87c4fe8551"
    assert name_template("run-7eeddc87c4fe8551") == "run-*"


def test_keys_of_lines_without_volatile_parts_are_those_of_earlier_releases():
    made = identity_of_line("ada", "wrf", "", "sbatch -N2 wrf.sh d01 --steps 500")
    assert made.line == "4341392d12ddd87aa1744ca5"
    script = "#!/bin/sh\nsrun ./wrf.exe $1\n"
    asked = identity_of_request(
        user="ada", name="wrf", comment="", script=script, argv=["wrf.sh", "d01", "--steps", "500"]
    )
    assert (asked.line, asked.script) == (made.line, "ba09f651a5a7f589a0cbd312")
