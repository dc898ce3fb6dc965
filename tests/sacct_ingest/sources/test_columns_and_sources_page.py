"""The table of columns."""

from pathlib import Path

import pytest
from msgspec.structs import fields

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, StepRun
from sacct_ingest.sources import column_plan
from sacct_ingest.sources.column_plan import plans
from sacct_ingest.sources.columns import (
    COLUMNS,
    REQUIRED,
    disk_total,
    gpu_types,
    gpus,
    lustre_total,
    names,
    requested_cpus,
    state,
    useful,
)
from sacct_ingest.sources.json_columns import DB_JOB, DB_STEP, LIVE_JOB
from sacct_ingest.sources.pyslurm_jobs import JOB, STEP
from sacct_ingest.sources.saved import FORMATS
from sacct_ingest.sources.swf import COLUMNS as SWF
from slurm_plugin.cli.commands.ingest import LIVE

JOB_FIELDS = {field.name for field in fields(JobRun)}
STEP_FIELDS = {field.name for field in fields(StepRun)}


def test_columns_fill_fields_that_there_are():
    for column in COLUMNS:
        assert column.job in JOB_FIELDS | {""} or column.job.startswith("_"), column
        assert column.step in STEP_FIELDS | {""} or column.step.startswith("_"), column


def test_every_field_is_filled_by_some_column():
    from_id = {"job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset"}
    from_steps = {*("steps", "disk_read_bytes", "disk_write_bytes", "gpu_percent", "gpu_mem_bytes")}
    filled = {column.job for column in COLUMNS} | from_id | from_steps | {"req_mem_bytes"}
    assert filled >= JOB_FIELDS
    assert {column.step for column in COLUMNS} | {"step"} >= STEP_FIELDS


def test_required_columns_are_in_the_table():
    assert set(REQUIRED) <= set(names())


def test_the_last_column_cannot_hold_a_newline():
    assert names()[-2:] == ["ElapsedRaw", "Elapsed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COMPLETED", JobState.COMPLETED),
        ("CANCELLED by 1000", JobState.CANCELLED),
        ("OUT_OF_ME+", JobState.OUT_OF_MEMORY),
        ("CANCELLED+", JobState.CANCELLED),
        ("NODE_FAIL", JobState.NODE_FAIL),
        ("PENDING,REQUEUED", JobState.PENDING),
        ("COMPLETING", JobState.UNKNOWN),
    ],
)
def test_states(text, expected):
    assert state(text) is expected


@pytest.mark.parametrize("text", ["", "SLEEPING", "C+", "+", "completed?"])
def test_what_is_no_state_is_refused_rather_than_waited_for(text):
    with pytest.raises(ValueError, match="not a state"):
        state(text)


def test_the_exact_column_goes_before_the_rounded_one():
    job, _ = plans(["Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw"])
    fields = job.read([["00:00:09", "10", "00:01:00", "2"]])
    assert fields == {"elapsed_s": [10], "limit_s": [120]}


def test_names_of_columns_may_be_spelled_in_any_case():
    job, _ = plans(["jobidraw", "STATE"])
    fields = job.read([["7", "FAILED"]])
    assert fields == {"_raw_id": ("7",), "state": ["FAILED"], "cancelled_by": [""]}


def test_what_a_column_cannot_hold_is_named():
    job, _ = plans(["JobIDRaw", "Submit"])
    with pytest.raises(ValueError, match="not a time"):
        job.read([["8", "1700000000"], ["7", "yesterday"]])
    assert job.culprit(["7", "yesterday"]) == "Submit"


def test_times_stand_between_words():
    job, _ = plans(["Start", "ElapsedRaw"])
    read = job.read([["Unknown", "10"], ["1700000000", ""], ["", "7"]])
    assert read == {"start_s": [None, 1_700_000_000, None], "elapsed_s": [10.0, None, 7.0]}
    assert [type(value) for value in read["elapsed_s"]] == [float, type(None), float]


@pytest.mark.parametrize("other", ["1700000000", "Unknown"])
def test_times_that_no_store_can_hold_are_refused(other):
    job, _ = plans(["JobIDRaw", "Submit"])
    with pytest.raises(ValueError, match="too large"):
        job.read([["8", other], ["7", str(2**63)]])


def test_memory_of_values_is_bounded(monkeypatch):
    monkeypatch.setattr(column_plan, "MOST_CACHED", 3)
    job, _ = plans(["UID", "NNodes"])
    assert job.read([[str(i), "0"] for i in range(10)])["uid"] == list(range(10))


def test_only_useful_columns_are_asked_for():
    offered = {"JobID", "Elapsed", "ElapsedRaw", "Timelimit", "AveDiskRead", "AllocNodes"}
    assert useful(offered) == ["JobID", "Timelimit", "AllocNodes", "AveDiskRead", "ElapsedRaw"]


def test_what_steps_used_is_distinguished_by_resource():
    header = ["TRESUsageInTot", "TRESUsageOutTot", "UserCPU", "SystemCPU", "ConsumedEnergyRaw"]
    _, step = plans(header)
    used = read_one(
        step,
        [
            "cpu=00:00:02,energy=0,fs/disk=4096,fs/lustre=3,gres/gpumem=515M,gres/gpuutil=187,"
            "ic/ofed=70,mem=1,pages=0,vmem=2",
            "energy=0,fs/disk=8192,fs/lustre=0,ic/ofed=80,ic/sysfs=5",
            "00:01.5",
            "00:00.25",
            "",
        ],
    )
    assert used == {
        "disk_read_bytes": 4096,
        "disk_write_bytes": 8192,
        "lustre_read_bytes": 3 << 20,
        "lustre_write_bytes": 0,
        "net_in_bytes": 70,
        "net_out_bytes": 85,
        "user_cpu_s": 1.5,
        "system_cpu_s": 0.25,
        "energy_j": None,
        "gpu_percent": 187.0,
        "gpu_mem_bytes": 515 << 20,
    }
    assert set(read_one(step, ["cpu=1,mem=2", "", "", "", "12"]).values()) == {None, 12}


T, U = "1700000000", "1700000001"


def read_one(plan, record):
    return {field: value for field, (value,) in plan.read([record]).items()}


@pytest.mark.parametrize(
    "column", [[T, U], [T, "", U], [T, "Unknown"], [T, "0"], [T, "1700000000000"], [T, "20240501"]]
)
def test_a_column_of_numbers_reads_as_its_values_one_by_one(column):
    job, _ = plans(["Submit"])
    whole = job.read([[value] for value in column])["submit_s"]
    assert list(whole) == [read_one(job, [value])["submit_s"] for value in column]


def test_resources_whose_names_end_like_others():
    """Found by fuzzing: ``fs/disk=`` may stand inside another name."""
    assert disk_total("cpu=1,xfs/disk=5") is None
    assert lustre_total("cpu=1,xfs/lustre=5") is None
    assert disk_total("cpu=1,fs/disk=5") == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("billing=8,cpu=8,gres/gpu=4,mem=4000M,node=2", 4),
        ("cpu=8,gres/gpu:a100=4,gres/gpu=4,node=2", 4),
        ("cpu=8,gres/gpu:a100=3,gres/gpu:v100=1,node=2", 4),
        ("cpu=8,gres/gpu=0", 0),
        ("cpu=8,mem=4000M,node=2", None),
        ("cpu=8,gres/gpumem=4", None),
        ("gres/gpu=", None),
        ("", None),
    ],
)
def test_gpus_of_all_types(value, expected):
    assert gpus(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("billing=8,cpu=8,gres/gpu=4,mem=4000M,node=2", ""),
        ("cpu=8,gres/gpu:v100=1,gres/gpu:A100=3,gres/gpu=4", "a100=3,v100=1"),
        ("cpu=8,xgres/gpu:a100=3", ""),
        ("gres/gpu:a100=0", ""),
        ("", ""),
    ],
)
def test_gpus_of_each_type(value, expected):
    assert gpu_types(value) == expected


def test_cpus_that_were_asked_for():
    assert [requested_cpus(one) for one in ("cpu=8,mem=4G", "mem=4G", "")] == [8, None, None]


def test_gpus_asked_for_stand_in_where_those_allocated_are_not_offered():
    job, _ = plans(["AllocTRES", "ReqTRES"])
    both = read_one(job, ["gres/gpu:a100=2,gres/gpu=2", "cpu=4,gres/gpu=1"])
    assert (both["gpus"], both["gpu_types"]) == (2, "a100=2")
    assert (both["req_gpus"], both["req_gpu_types"], both["req_cpus"]) == (1, "", 4)
    job, _ = plans(["ReqTRES"])
    assert read_one(job, ["gres/gpu:a100=1"])["gpu_types"] == "a100=1"


PAGE = Path(__file__).parents[3] / "docs" / "sources.md"

SOURCES = {"JSON": DB_JOB | DB_STEP, "slurmctld": LIVE_JOB, "PySlurm": JOB | STEP, "SWF": SWF}


def columns_table():
    """The table of columns as the page has it."""
    lines = ["| column | field | of steps | not in |", "| --- " * 4 + "|"]
    for name in dict.fromkeys(column.name for column in COLUMNS):
        uses = [column for column in COLUMNS if column.name == name]
        jobs = ", ".join(dict.fromkeys(f"`{use.job}`" for use in uses if named(use.job)))
        steps = ", ".join(dict.fromkeys(f"`{use.step}`" for use in uses if named(use.step)))
        lacks = ", ".join(of for of, source in SOURCES.items() if name not in source)
        lines.append(f"| {name} | {jobs} | {steps} | {lacks} |")
    return "\n".join(lines)


def named(field):
    return bool(field) and not field.startswith("_")


def test_the_columns_are_those_of_the_code():
    shown = PAGE.read_text().partition("% begin columns\n")[2].partition("\n% end columns")[0]
    assert shown == columns_table(), f"the page should say:\n{columns_table()}"


def test_every_source_and_format_is_on_the_page():
    page = PAGE.read_text()
    for word in (*(f"--source {name}" for name in LIVE if name != "sacct"), *FORMATS):
        assert word in page, word
