"""What workflow engines submit is recognised by process or rule, before and after the run."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.attributes import attributes, number_of
from sacct_ingest.runs.submission import MEMORY, SAMPLE, TIME_LIMIT, WORKFLOW
from sacct_ingest.scripts.engines import ENGINES, engine_job, name_template, template
from sacct_ingest.scripts.signature import (
    comment_of,
    identity_of_line,
    identity_of_request,
    words_of_line,
    words_of_request,
)
from tests.engine_jobs import job_of, run_of, submissions

NAMES = [engine.name for engine in ENGINES]


def asked(job, user="ada"):
    return identity_of_request(
        user=user,
        name=job.name,
        comment=job.comment,
        script=job.script,
        argv=job.argv,
        work_dir=job.work_dir,
    )


def test_each_engine_has_a_submission_with_its_source():
    assert {one["engine"] for one in submissions() if one["source"]} == set(NAMES)


@pytest.mark.parametrize("one", submissions(), ids=lambda one: one["engine"])
def test_both_sides_recognise_the_process(one):
    job, run = job_of(one), run_of(one)
    words = words_of_request(job.script, job.argv, job.work_dir)
    ran = identity_of_line("ada", run.name, run.comment, run.submit_line, run.work_dir)
    assert asked(job).tag == ran.tag == f"ada/{one['engine']}:{one['process']}"
    assert asked(job).line == ran.line
    assert engine_job(job.name, job.comment, words) == (
        one["engine"],
        *(one[name] for name in ("process", "sample", "workflow", "attempt")),
    )


def test_two_users_of_one_public_workflow_are_two_applications():
    for one in submissions():
        first, second = asked(job_of(one)), asked(job_of(one), "bob")
        assert second.tag.partition("/")[2] == first.tag.partition("/")[2]
        keys = [(first.key(level), second.key(level)) for level in KeyLevel]
        assert all(own != other for own, other in keys if own or other), one


def test_a_script_in_a_hashed_folder_is_one_script():
    scripts = {asked(job_of(one)).script for one in submissions() if one["engine"] == "nextflow"}
    assert len(scripts) == 1


def test_a_retry_that_asks_for_more_is_no_other_problem():
    tries = [
        one for one in submissions() if (one["engine"], one["process"]) == ("snakemake", "count")
    ]
    retry = next(one for one in tries if one["attempt"] == 2)
    values = {}
    for attempt in (1, 2):
        one = next(t for t in tries if t["attempt"] == attempt and t["sample"] == retry["sample"])
        run = run_of(one)
        words = words_of_line(run.submit_line, run.work_dir, run.comment, run.name)
        values[attempt] = attributes(
            words, limit_s=600 * attempt, mem_node_bytes=2.0**30, name=run.name, comment=run.comment
        )
    assert values[1].keys() - values[2].keys() == {TIME_LIMIT, MEMORY}
    assert values[2] == {SAMPLE: retry["sample"], WORKFLOW: "/home/ada/flow/Snakefile"}


def test_a_users_own_tag_goes_before_the_engines_process():
    uuid = "7e65bc26-e9e5-45bf-86dd-e9d079cb576b"
    for comment, tag in (
        ("rule_align_wildcards_a nimo:on", "ada/snakemake:align"),
        ("rule_align_wildcards_a nimo:app=bwa", "ada/bwa"),
    ):
        assert identity_of_line("ada", uuid, comment, "sbatch --wrap=x").tag == tag
        assert engine_job(uuid, comment, ()).sample == "a"


@pytest.mark.parametrize(
    ("name", "comment", "words"),
    [("solve", "rule_of_thumb", ()), ("g16_water", "", ()), ("model.3.x", "", ("run.sh",))],
)
def test_jobs_of_people_are_no_engines(name, comment, words):
    assert engine_job(name, comment, words) is None


@pytest.mark.parametrize(
    ("texts", "made"),
    [
        (["run_2026-05-31.sh", "run_20260531.sh", "run_2026-05-31T12:00:00Z.sh"], "run_*.sh"),
        (["wrf_2026100100", "wrf_2026100112", "wrf_2026-10-01T06"], "wrf_*"),
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
    "text",
    [
        *("wrf4", "1e10 2.5e-3", "deadbeef", "--steps 1500000", "case-12", "2026-13-01", "0.05"),
        *("--lr=0.001", "--lr=.0005", "dt 1.005", "1e-005", "6.02214e23", "--n 1000000000"),
        *("--shift=-007", "gcc-12.2.001", "lr0.001.yaml", "eps_0.0001_a", "0.20240501"),
    ],
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


DIGITS = st.text("0123456789", min_size=1, max_size=6)
QUANTITIES = st.builds(
    lambda sign, whole, part, power: f"{sign}{whole}{part}{power}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 9999).map(str),
    st.just("") | DIGITS.map(lambda digits: f".{digits}"),
    st.just("") | st.builds("{}{:d}".format, st.sampled_from(["e", "E", "e-"]), st.integers(1, 30)),
).filter(lambda text: not text.isdecimal())
PLACES = ("--lr={}", "--lr {}", "tol={}", "{}", "in.dat --dt {} -v", "-x {} -y 2.5")


@settings(max_examples=2000)
@given(QUANTITIES, QUANTITIES, st.sampled_from(PLACES))
def test_commands_that_differ_in_a_quantity_are_one_template_with_two_sizes(first, second, place):
    assume(float(first) != float(second))
    values = []
    for text in (first, second):
        words = ("solve.sh", *place.format(text).split())
        assert template("\0".join(words)) == "\0".join(words)
        values.append(attributes(words))
    assert values[0].keys() == values[1].keys()
    ((name, one, other),) = [
        (name, values[0][name], values[1][name])
        for name in values[0]
        if values[0][name] != values[1][name]
    ]
    assert (one, other) == (first, second)
    for text in (one, other):
        assert number_of(text) == (float(text) if float(text) > 0 else None), name


@given(st.integers(0, 99_999), st.integers(0, 99_999), st.sampled_from(["run_{}", "x-{}.sh"]))
def test_running_numbers_are_counters(first, second, name):
    assert name_template(name.format(first)) == name_template(name.format(second))


@pytest.mark.parametrize(
    ("first", "second", "made"),
    [
        ("sweep_9", "sweep_10", "sweep_*"),
        ("chunk-8.sh", "chunk-123.sh", "chunk-*.sh"),
        ("run_009", "run_010", "run_*"),
        ("snakejob.align.9.sh", "snakejob.align.9.sh", "snakejob.align.9.sh"),
        ("wrf4", "wrf4", "wrf4"),
        ("g16", "g16", "g16"),
        ("tol1e-3", "tol1e-3", "tol1e-3"),
    ],
)
def test_a_running_number_at_the_end_of_a_name_is_a_counter(first, second, made):
    assert name_template(first) == name_template(second) == made


def test_rules_of_the_first_snakemakes():
    """Up to release 7, with --cluster sbatch: by the script's name, whatever the job's is."""
    for name in ("snakejob.align.12.sh", "mine"):
        line = "sbatch -t 30 /wf/.snakemake/tmp.8rty7m_y/snakejob.align.12.sh"
        assert identity_of_line("ada", name, "", line).tag == "ada/snakemake:align"
    assert engine_job("snakejob.call.v2.7.sh", "", ()).process == "call.v2"


WORD = st.from_regex(r"[a-z][a-z0-9_,]{0,8}", fullmatch=True)
FORMS = ("--comment={}", "--comment {}", '--comment="{}"', "--comment='{}'", "--comm={}")


@given(st.lists(WORD, max_size=3), st.booleans(), st.sampled_from(FORMS))
def test_a_comment_that_accounting_does_not_keep_is_in_the_submit_line(words, tagged, form):
    text = " ".join([*words, "nimo:app=wrf,problem=d02"] if tagged else words)
    quoted = "'" in form or '"' in form
    assume(text and (tagged or quoted or len(words) == 1))
    line = f"sbatch -N 2 {form.format(text)} --time=10 run.sh in.dat"
    assert comment_of("", line) == text
    made, known = (identity_of_line("ada", "run.sh", comment, line) for comment in ("", text))
    assert made == known
    assert made.tag == ("ada/wrf/d02" if tagged else "")
    assert made.line == identity_of_line("ada", "run.sh", "", "sbatch run.sh in.dat").line


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("sbatch run.sh --comment=nimo:app=wrf", ""),
        ("sbatch --wrap=sbatch --comment=x y.sh", ""),
        (
            "sbatch --comment nimo:on rule_align_wildcards_a -n 1 --wrap=x",
            "nimo:on rule_align_wildcards_a",
        ),
        ("sbatch --comment", ""),
        ("sbatch --comment= run.sh", ""),
        ("salloc --comment=nimo:app=wrf -N 2", "nimo:app=wrf"),
        ("", ""),
    ],
)
def test_only_the_option_of_the_command_is_its_comment(line, comment):
    assert comment_of("", line) == comment


@given(st.text(max_size=60))
def test_no_line_is_too_odd_to_have_a_comment(text):
    comment_of("", f"sbatch --comment{text}")
    comment_of("", f"sbatch --comment {text}")


@pytest.mark.parametrize("form", ["--comment={}", "--comment {}"])
def test_engines_are_recognised_without_comments_in_the_accounting(form):
    uuid = "7e65bc26-e9e5-45bf-86dd-e9d079cb576b"
    for comment in ("rule_align_wildcards_a", "nimo:on rule_align_wildcards_a"):
        line = f"sbatch --job-name {uuid} {form.format(comment)} -A x --wrap=python -m snakemake"
        assert identity_of_line("ada", uuid, "", line).tag == "ada/snakemake:align"
