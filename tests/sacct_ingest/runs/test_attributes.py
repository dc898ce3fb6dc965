"""Attributes of a request are those that its run has in the accounting."""

from dataclasses import replace

import pytest

from predictor.tables.run_facts import attributes_of_run
from sacct_ingest.runs.attributes import attributes, describe
from sacct_ingest.scripts.signature import identity_of_request
from slurm_plugin.decision.context import attributes_of
from slurm_plugin.protocol.request_messages import Job
from tests.predictor.tables.test_parts import row

DIR = "/scratch/ann"
RUN = replace(
    row(1, 2, 100.0),
    account="hpc",
    req_mem_bytes=2 * 4096 * 2**20,
    submit_line="sbatch -N 2 --mem=4G run.sh KPAR=9 --input /scratch/ann/a.dat -v 4x4 5x5",
    work_dir=DIR,
)
JOB = Job(
    user_name="ann",
    name="solve",
    account="hpc",
    time_limit=60,
    min_nodes=2,
    max_nodes=2,
    min_mem_per_node=4096,
    work_dir=DIR,
    argv=["/home/ann/run.sh", "KPAR=9", "--input", "a.dat", "-v", "4x4", "5x5"],
    script="#!/bin/sh\nsrun vasp\n",
)


def test_a_request_has_the_attributes_of_its_run():
    script = identity_of_request(
        user="ann", name="solve", comment="", script=JOB.script, argv=JOB.argv, work_dir=DIR
    ).script
    asked = attributes_of(JOB, None, script, JOB.account)
    assert asked == attributes_of_run(replace(RUN, script=script))
    assert asked["KPAR"] == "9"
    assert asked["--input"] == "a.dat"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("time limit", {"limit_s": 7200}),
        ("memory", {"req_mem_bytes": 2**33 * 3}),
        ("account", {"account": "other"}),
        ("working directory", {"work_dir": "/elsewhere"}),
        ("KPAR", {"submit_line": "sbatch run.sh KPAR=1"}),
        ("script", {"script": "other"}),
    ],
)
def test_what_differs_shows(name, change):
    other = replace(RUN, **change)  # type: ignore[arg-type]
    assert attributes_of_run(other).get(name) != attributes_of_run(RUN).get(name)


def test_no_number_of_nodes_is_an_attribute():
    more = replace(RUN, nodes=4, req_mem_bytes=4 * 4096 * 2**20, submit_line=RUN.submit_line)
    assert attributes_of_run(more) == attributes_of_run(RUN)


def test_nothing_has_no_attributes():
    assert attributes(()) == {}


def test_long_names_and_values_are_cut_in_words():
    assert len(describe({"in": "x" * 500})) < 60
    assert len(describe({"x" * 500: "in"})) < 60
