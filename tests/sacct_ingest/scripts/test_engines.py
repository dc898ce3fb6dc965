"""What workflow engines submit is recognised by process or rule, before and after the run."""

import pytest

from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.runs.attributes import MEMORY, SAMPLE, TIME_LIMIT, WORKFLOW, attributes
from sacct_ingest.scripts.engines import ENGINES, engine_job
from sacct_ingest.scripts.signature import (
    identity_of_line,
    identity_of_request,
    words_of_line,
    words_of_request,
)
from slurm_plugin.protocol.request_messages import Job
from tests.engine_jobs import job_of, run_of, submissions

NAMES = [engine.name for engine in ENGINES]


def asked(job: Job, user: str = "ada") -> Identity:
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
