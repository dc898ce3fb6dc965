"""Whatever one value is: the run stays with it unknown and counted, or is set aside."""

import csv
import io
import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.records import Fault, OddValue
from sacct_ingest.sources.columns import COLUMNS, REQUIRED_VALUES
from sacct_ingest.sources.pyslurm_jobs import PySlurmJobs
from sacct_ingest.sources.row_checks import GRACE_S
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.sources.slurm_json import read_json
from sacct_ingest.sources.swf import read_swf
from sacct_ingest.store.packed_runs import pack_runs
from tests.sacct_ingest.records import SUBMIT_S
from tests.sacct_ingest.sources.json_jobs import live_job, new_job, old_job
from tests.sacct_ingest.sources.test_pyslurm_jobs import JOB as PYSLURM_JOB
from tests.sacct_ingest.sources.test_pyslurm_jobs import STEP as PYSLURM_STEP
from tests.sacct_ingest.sources.test_pyslurm_jobs import FakeModule
from tests.sacct_ingest.sources.test_swf_and_states import LINE, NOTES

ROW = {
    **dict.fromkeys((column.name for column in COLUMNS), ""),
    "JobIDRaw": "7",
    "JobID": "7",
    "Cluster": "oak",
    "User": "ann",
    "State": "COMPLETED",
    "Submit": "1700000000",
    "Eligible": "1700000000",
    "Start": "1700000010",
    "End": "1700000070",
    "TimelimitRaw": "5",
    "Timelimit": "00:05:00",
    "NNodes": "2",
    "AllocNodes": "2",
    "NCPUS": "8",
    "AllocCPUS": "8",
    "ElapsedRaw": "60",
    "Elapsed": "00:01:00",
}
STEP = ROW | {"JobIDRaw": "7.0", "JobID": "7.0", "User": "", "TimelimitRaw": "", "Timelimit": ""}
#: What is met in accounting, and what no accounting ever had.
GARBAGE = (
    st.sampled_from(
        (
            *("16?", "?", "8?", "213503982334-14:25:51", "18446744073709551615", "-1", "-1:00"),
            *("9" * 30, "9" * 400, "1e400", "nan", "inf", "NaN", "INVALID", "Unknown", "None"),
            *("90.0", "1.5", "0", "20240501", "1714521600000", "5/1/2024 12:00", "1-02:03:04"),
            *("cpu=?", "gres/gpu=x", "gres/gpu:a100=?,fs/disk=?", "ic/ofed=-1", "fs/lustre=9" * 9),
        )
    )
    | st.text(st.characters(codec="utf-8", exclude_characters='|\n\r"'), max_size=12)
    | st.integers().map(str)
    | st.floats().map(str)
)


def text_of(*rows):
    return "".join("|".join(row) + "\n" for row in (ROW, *(row.values() for row in rows)))


def from_text(*rows):
    tally = Tally(unit="line")
    runs = list(read_text(io.StringIO(text_of(*rows), newline="\n"), tally))
    # Whatever was read can be stored.
    assert sum(map(len, pack_runs(runs))) == len(runs)
    return runs, tally


@settings(max_examples=1500)
@example("TotalCPU", "213503982334-14:25:51", "job")
@example("MaxRSS", "16?", "step")
@example("ReqMem", "8?", "job")
@example("JobIDRaw", "-9223372036854775809", "job")
@given(st.sampled_from(list(ROW)), GARBAGE, st.sampled_from(["job", "step"]))
def test_one_value_of_a_table_costs_itself_or_is_required(column, value, kind):
    before, after = ROW | {"JobIDRaw": "5", "JobID": "5"}, ROW | {"JobIDRaw": "9", "JobID": "9"}
    odd_job = ROW | {column: value} if kind == "job" else ROW
    odd_step = STEP | {column: value} if kind == "step" else STEP
    runs, tally = from_text(before, odd_job, odd_step, after)
    ids = [run.job_id for run in runs]
    assert {5, 9} <= set(ids)
    assert min(ids) >= 0
    if column not in REQUIRED_VALUES:
        assert (ids, [len(run.steps) for run in runs]) == ([5, 7, 9], [0, 1, 0])
        assert tally.refused == 0
        columns = {found.column.removesuffix("Raw") for found in tally.odd}
        assert columns <= {column.removesuffix("Raw")}
        assert set(tally.odd.values()) <= {1}
    elif tally.refused:
        assert column.removesuffix("Raw") in {"JobID", "Cluster"} or any(
            name in tally.rejects[0].reason for name in (column.removesuffix("Raw"), "Elapsed")
        )
        assert tally.rejects[0].reason.startswith("line ")
    assert tally.refused + len(runs) + sum(len(run.steps) for run in runs) == tally.rows == 4


PATHS = [
    *("user", "account", "partition", "qos", "exit_code", "time.eligible", "time.limit", "nodes"),
    *("time.total", "time.total.seconds", "allocation_nodes", "tres", "tres.allocated", "name"),
    *("tres.requested", "required", "required.CPUs", "constraints", "reservation", "submit_line"),
    *("working_directory", "comment", "comment.job", "kill_request_user", "association"),
]
REQUIRED_PATHS = ["job_id", "cluster", "time.submission", "time.start", "time.end", "state.current"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | GARBAGE
ANYTHING = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(), SCALARS, max_size=2)


@settings(max_examples=600)
@given(
    st.sampled_from([*PATHS, *REQUIRED_PATHS, "steps"]),
    ANYTHING,
    st.sampled_from([old_job, new_job]),
)
def test_one_value_of_json_costs_itself_or_is_required(path, value, make):
    job = make(7)
    *parents, last = path.split(".")
    place = job
    for key in parents:
        place = place.get(key) if isinstance(place.get(key), dict) else place.setdefault(key, {})
    place[last] = value
    tally = Tally(unit="job")
    text = json.dumps({"jobs": [make(5), job, make(9)]})
    runs = list(read_json(io.StringIO(text), tally))
    ids = [run.job_id for run in runs]
    assert {5, 9} <= set(ids)
    if path in PATHS:
        assert ids == [5, 7, 9]
        assert tally.refused == 0
    assert sum(map(len, pack_runs(runs))) == len(runs)


@settings(max_examples=300)
@given(st.sampled_from(sorted(live_job())), ANYTHING)
def test_one_value_of_slurmctlds_json_costs_itself_or_is_required(name, value):
    tally = Tally()
    text = json.dumps({"jobs": [live_job(5), live_job(7) | {name: value}, live_job(9)]})
    ids = [run.job_id for run in read_json(io.StringIO(text), tally)]
    assert {5, 9} <= set(ids)
    required = ("job_id", "cluster", "job_state", "submit_time", "start_time", "end_time")
    assert name.startswith((*required, "array_", "het_")) or ids == [5, 7, 9]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*PYSLURM_JOB, *(f"step.{name}" for name in PYSLURM_STEP)]),
    SCALARS | st.just([1, None]),
)
def test_one_value_of_pyslurm_costs_itself_or_is_required(name, value):
    job, step = dict(PYSLURM_JOB), dict(PYSLURM_STEP)
    (step if name.startswith("step.") else job)[name.removeprefix("step.")] = value
    if name != "steps":
        job["steps"] = {0: SimpleNamespace(**step)}
    tally = Tally()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyslurm", FakeModule(PYSLURM_JOB | {"id": 5}, job | {"id": 9}))
        ids = [run.job_id for run in PySlurmJobs().read(1, 2, tally)]
    assert ids[0] == 5
    required = ("id", "array_", "het", "cluster", "state", "submit_time", "start_time", "end_time")
    assert ids == [5, 9] or name.startswith((*required, "elapsed_time", "steps"))


@settings(max_examples=400)
@given(st.integers(0, 17), GARBAGE.filter(lambda text: len(text.split()) == 1 and text[0] != ";"))
@example(0, "3.1")
def test_one_value_of_a_log_costs_itself_or_is_required(field, value):
    values = LINE.split()
    values[field] = value
    tally = Tally(unit="line")
    lines = [*NOTES.splitlines(), LINE, " ".join(values), LINE]
    runs = list(read_swf((f"{line}\n" for line in lines), tally))
    # A job number with a point is that of a step.
    assert len(runs) + tally.read["step"] + tally.refused == tally.rows == 3
    # Job, submit time, wait, run time and status are required.
    assert len(runs) == 3 or field in {0, 1, 2, 3, 10}
    assert sum(map(len, pack_runs(runs))) == len(runs)


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"TimelimitRaw": "90.0"}, "limit_s", 5400),
        ({"TimelimitRaw": "1.5"}, "limit_s", None),
        ({"TimelimitRaw": "", "Timelimit": ""}, "limit_s", None),
        ({"NNodes": "2.0", "NCPUS": "16.0"}, "cpus", 16),
        ({"NNodes": "2.5"}, "nodes", 0),
        ({"ElapsedRaw": "60.0"}, "elapsed_s", 60),
        ({"ElapsedRaw": ""}, "elapsed_s", 60),
        ({"ElapsedRaw": "INVALID"}, "elapsed_s", 60),
        ({"Submit": "1699999999000"}, "submit_s", 1_699_999_999),
        ({"Submit": "1699999999.0"}, "submit_s", 1_699_999_999),
        ({"Submit": "2023-11-14 22:13:19+00:00"}, "submit_s", 1_699_999_999),
        ({"Eligible": "0"}, "eligible_s", None),
        # Slurm's 0 as another time zone writes it.
        ({"Eligible": "1969-12-31T19:00:00"}, "eligible_s", None),
        # 32 bits of seconds.
        ({"TotalCPU": "49710-06:28:15"}, "cpu_s", None),
        ({"TotalCPU": "08:31:00"}, "cpu_s", 30_660),
        ({"MaxRSS": "16?"}, "mem_bytes", None),
        ({"ReqMem": "nan"}, "req_mem_bytes", None),
        # Suspended for ten minutes.
        ({"End": "1700000670"}, "end_s", 1_700_000_670),
    ],
)
def test_values_of_other_tools(changes, field, expected):
    runs, tally = from_text(ROW | changes)
    assert [getattr(run, field) for run in runs] == [expected], tally.rejects


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Submit": "1700000"}, "Submit: no cluster is so old"),
        ({"Submit": "9999999999999999999999"}, "Submit: too large"),
        ({"Submit": "5/1/2024 12:00"}, "Submit: not a time: '5/1/2024 12:00'; write 2024-"),
        ({"Submit": ""}, "Submit: no submit time"),
        ({"ElapsedRaw": "60000"}, "Elapsed: 60000 s, but End is 60 s after Start"),
        ({"ElapsedRaw": "60", "End": "1700003610"}, "Elapsed: 60 are minutes"),
        ({"ElapsedRaw": "0.5", "End": "1700043210"}, "Elapsed: 0.5 are days"),
        ({"ElapsedRaw": "", "End": ""}, "Elapsed: no run time"),
        ({"ElapsedRaw": "", "Start": ""}, "Elapsed: no run time"),
    ],
)
def test_times_that_cannot_be_are_set_aside(changes, reason):
    runs, tally = from_text(ROW | changes)
    assert runs == []
    assert tally.rejects[0].reason.startswith(f"line 2: {reason}")


@given(st.integers(60, 10**6), st.integers(0, 10**6))
def test_a_limit_is_no_shorter_than_the_run(limit_s, elapsed_s):
    runs, tally = from_text(
        ROW
        | {"TimelimitRaw": str(limit_s // 60), "ElapsedRaw": str(elapsed_s)}
        | {"End": str(1_700_000_010 + elapsed_s)}
    )
    limit_s = limit_s // 60 * 60
    too_short = elapsed_s > limit_s + GRACE_S
    assert [run.limit_s for run in runs] == [None if too_short else limit_s]
    counted = {OddValue("job", "Timelimit", Fault.CONTRADICTED): 1} if too_short else {}
    assert tally.odd == counted


def test_the_end_of_a_run_of_an_autumn_night():
    """Clocks went back behind its start: local time has the hour twice."""
    runs, _ = from_text(ROW | {"ElapsedRaw": "5400", "End": str(1_700_000_010 + 1800)})
    assert [run.end_s for run in runs] == [1_700_000_010 + 5400]


def test_an_unknown_wait_of_a_log_is_no_wait_of_zero():
    values = LINE.split()
    values[2] = "-1"
    (run,) = read_swf([*NOTES.splitlines(keepends=True), " ".join(values)], Tally())
    assert (run.start_s, run.end_s, run.elapsed_s) == (None, None, 60)


TABLES = {
    "quoted": '"JobID","State","Submit","JobName","Elapsed"\n"7","FAILED","1700000000","a,b","5"\n',
    "quoted where need be": 'JobID,State,Submit,JobName,Elapsed\n7,FAILED,1700000000,"a,b",5\n',
    "index": ',JobID,State,Submit,JobName,Elapsed\n0,7,FAILED,1700000000.0,"a,b",5.0\n',
    "tabs": '"JobID"\t"State"\t"Submit"\t"JobName"\t"Elapsed"\n7\tFAILED\t1700000000\ta,b\t5\n',
    "parsable": "JobID|State|Submit|JobName|Elapsed|\n7|FAILED|1700000000|a,b|5|\n",
    "pandas": 'JobID,State,Submit,JobName,Elapsed\n7,FAILED,2023-11-14 22:13:20+00:00,"a,b",'
    "0 days 00:00:05\n",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_other_tools(table):
    tally = Tally()
    (run,) = read_text(io.StringIO(table, newline="\n"), tally, cluster="oak")
    assert (run.job_id, run.name, run.elapsed_s) == (7, "a,b", 5)
    assert run.submit_s == 1_700_000_000


def test_parsable_without_its_header():
    """Each line ends with a delimiter, as ``sacct --parsable --noheader`` prints it."""
    fields = ("JobID", "State", "Submit", "JobName")
    lines = ["7|FAILED|1700000000|a|\n"]
    (run,) = read_text(lines, Tally(), fields=fields, delimiter="|", cluster="c")
    assert run.name == "a"


def test_a_table_of_floats_is_told_how_to_mend_its_ids():
    tally = Tally()
    text = "JobID,State,Submit\n501.0,FAILED,1700000000\n"
    assert list(read_text(io.StringIO(text), tally, cluster="c")) == []
    assert "read JobID as text" in tally.rejects[0].reason


QUOTED = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)


@settings(max_examples=400)
@given(st.lists(st.tuples(QUOTED, QUOTED), max_size=5))
def test_what_csv_quotes_comes_back(names):
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["JobID", "State", "Submit", "JobName", "Comment", "Elapsed"])
    for number, (name, comment) in enumerate(names, 1):
        writer.writerow([number, "FAILED", SUBMIT_S, name, comment, 5])
    lines = io.StringIO(table.getvalue(), newline="\n")
    runs = list(read_text(lines, Tally(), cluster="c"))
    assert [(run.name, run.comment) for run in runs] == names


def test_a_table_as_json_is_told_to_be_csv():
    tally = Tally()
    assert list(read_json(io.StringIO('[{"JobID": "7", "State": "FAILED"}]'), tally)) == []
    assert "write it as CSV" in tally.rejects[0].reason


def test_odd_values_are_counted_in_the_store(sqlite_store, tmp_path):
    path = tmp_path / "jobs.txt"
    rows = [ROW | {"JobID": str(n), "JobIDRaw": str(n), "TotalCPU": "9" * 20} for n in range(1, 4)]
    path.write_text(text_of(*rows, ROW | {"JobID": "9", "JobIDRaw": "9"}))
    summary = ingest(sqlite_store, SavedSacct(path), now_s=SUBMIT_S)
    (unknown,) = summary.unknown
    assert (unknown.column, unknown.fault, unknown.count) == ("TotalCPU", "overflowed", 3)
    assert unknown.example.startswith("line 2: ")
    assert sqlite_store.value_counts.shares() == {("job", "TotalCPU", "overflowed"): 0.75}
    ingest(sqlite_store, SavedSacct(path), now_s=SUBMIT_S)
    assert sqlite_store.value_counts.shares() == {("job", "TotalCPU", "overflowed"): 0.75}
