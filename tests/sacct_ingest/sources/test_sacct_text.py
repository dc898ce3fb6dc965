"""sacct's text: what a real 22.05 printed, and what names may do to it."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobState
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text, split_records
from sacct_ingest.sources.saved import SavedSacct
from slurm_plugin.demo.sandbox import sacct_text

DATA = Path(__file__).parents[2] / "data"


def read(text, tally=None, **options):
    lines = text.splitlines(keepends=True)
    return list(read_text(lines, tally or Tally(), **options))


@pytest.fixture(scope="module")
def real():
    """Runs of a real cluster by their job id, the last start of each."""
    tally = Tally()
    runs = list(SavedSacct(DATA / "sacct-22.05-epoch.txt").read(0, 0, tally))
    assert tally.refused == 0
    assert len(runs) == 25
    return {f"{run.job_id}": run for run in runs}


def test_states_of_a_real_cluster(real):
    assert Counter(run.state for run in real.values()) == {
        JobState.COMPLETED: 14,
        JobState.FAILED: 3,
        JobState.CANCELLED: 3,
        JobState.TIMEOUT: 2,
        JobState.NODE_FAIL: 1,
        JobState.RUNNING: 1,
    }


def test_a_job_takes_from_its_steps_what_it_lacks(real):
    job = real["45"]
    assert [step.step for step in job.steps] == ["batch", "0", "1"]
    assert (job.nodes, job.tasks, job.cpus) == (4, 4, 4)
    assert job.mem_bytes == 12_816_384  # of a task, and of the batch script
    assert job.disk_read_bytes == 78_227 + 27_908
    assert job.cpu_s == pytest.approx(0.060)
    assert job.req_mem_bytes == 8000 * 2**20
    assert job.limit_s == 3600
    assert job.elapsed_s == 3


def test_array_tasks_and_components_have_ids_of_their_own(real):
    assert (real["58"].array_job_id, real["58"].array_task_id) == (42, 2)
    assert (real["42"].array_job_id, real["42"].array_task_id) == (42, 3)
    assert (real["52"].het_job_id, real["52"].het_offset) == (51, 1)
    assert real["43"].array_job_id is None


def test_both_runs_of_a_requeued_job_are_there():
    runs = SavedSacct(DATA / "sacct-22.05-epoch.txt").read(0, 0, Tally())
    assert [run.state for run in runs if run.name == "rq"] == [
        JobState.REQUEUED,
        JobState.COMPLETED,
    ]


def test_odd_names_come_through(real):
    assert real["46"].name == "two\nlines|x\x1fy"
    assert real["46"].comment == "a|b\nc"
    assert real["47"].name == "quo`te's,;"


def test_exit_codes_signals_and_who_cancelled(real):
    assert (real["49"].exit_code, real["50"].exit_signal) == (3, 11)
    assert real["63"].cancelled_by == "65534"


def test_a_job_that_never_started(real):
    held = real["53"]
    assert held.eligible_s is None
    assert held.elapsed_s == 0
    assert held.node_list == ""


def test_default_formats_say_the_same(real):
    """Local times, rounded sizes, '|' between fields: the job whose name holds one is lost.

    So is the one that was held until it was cancelled: sacct shows it with --state only.
    """
    tally = Tally()
    runs = {
        str(run.job_id): run
        for run in SavedSacct(DATA / "sacct-22.05-default.txt").read(0, 0, tally)
    }
    assert set(real) - set(runs) == {"46", "53"}
    assert "lines|x" in "".join(reject.text for reject in tally.rejects)
    assert tally.refused <= 3
    for job_id, run in runs.items():
        exact = real[job_id]
        if run.state is JobState.RUNNING:
            continue
        assert (run.state, run.elapsed_s, run.nodes) == (exact.state, exact.elapsed_s, exact.nodes)
        assert run.limit_s == exact.limit_s
        if exact.mem_bytes:
            assert run.mem_bytes == pytest.approx(exact.mem_bytes, rel=0.01)


MOMENT = 1_700_000_000
NAMES = "JobID|Cluster|JobName|State|Submit|ElapsedRaw"


def test_a_bad_row_is_retained_and_the_rest_goes_on():
    tally = Tally()
    rows = f"{NAMES}\n1|c|a|FAILED|soon|5\n2|c|b|FAILED|1700000050|x\n3|c|c|FAILED|1700000050|5\n"
    assert [run.job_id for run in read(rows, tally)] == [3]
    assert tally.refused == 2
    assert [reject.text for reject in tally.rejects] == [
        "1|c|a|FAILED|soon|5",
        "2|c|b|FAILED|1700000050|x",
    ]
    assert tally.rejects[0].reason.startswith("Submit: ")
    assert tally.rejects[1].reason.startswith("ElapsedRaw: ")


def test_what_is_refused_is_reported_with_its_line():
    """Also below records of several lines, empty lines and a second header."""
    tally = Tally(unit="line")
    rows = [
        "",
        NAMES,
        "1|c|two\nlines|FAILED|1700000050|5",
        "",
        "2|c|a|FAILED|soon|5",
        NAMES,
        "3|c|a|FAILED",
        "4|c|a|FAILED|1700000050|5",
        *["5|c|a|FAILED|1700000050|5"] * 300,
        "6|c|b|FAILED|1700000050|x",
    ]
    read("".join(f"{row}\n" for row in rows), tally)
    assert sorted(reject.reason.split(":")[0] for reject in tally.rejects) == [
        "line 310",
        "line 6",
        "line 8",
    ]


def test_every_row_is_a_run_a_step_or_refused():
    text = (
        f"{NAMES}\n0.0|c|a|FAILED|1700000050|5\n1|c|a|FAILED|soon|5\n1.0|c|a|FAILED|1700000050|5\n"
    )
    text += f"1.1|c|a|FAILED|1700000050|x\n2|c|a|b\n{NAMES}\n3|c|a|FAILED|1700000050|5\n"
    text += "3.0|c|a|FAILED|1700000050|5\n"
    tally = Tally()
    (run,) = read(text, tally)
    assert tally.rows == 7 == 1 + len(run.steps) + tally.refused
    assert "its job could not be read" in {reject.reason for reject in tally.rejects}


def test_a_job_without_a_submit_time_is_refused():
    tally = Tally()
    assert read(f"{NAMES}\n1|c|a|FAILED|Unknown|5\n", tally) == []
    assert "no submit time" in tally.rejects[0].reason


def test_a_record_that_lost_its_end_does_not_take_the_next_one_along():
    tally = Tally()
    rows = f"{NAMES}\n1|c|a|FAILED\n2|c|b|FAILED|1700000050|5\n"
    assert [run.job_id for run in read(rows, tally)] == [2]
    assert [reject.reason for reject in tally.rejects] == ["too few fields"]


def test_a_text_that_breaks_off_is_an_error_after_what_was_whole():
    rows = f"{NAMES}\n1|c|a|FAILED|1700000050|5\n2|c|a|FAILED|1700000050|5\n3|c|b|FAI"
    runs = read_text(rows.splitlines(keepends=True), Tally())
    assert next(runs).job_id == 1
    with pytest.raises(FormatError, match="middle of a record"):
        list(runs)


@pytest.mark.parametrize(
    "last", ["2|c|a|FAILED|1700000050|02:3", "2|c|two\nlines|FAILED|1700000050|02:3"]
)
def test_a_last_line_without_its_end_is_refused(last):
    tally = Tally()
    assert [run.job_id for run in read(f"{NAMES}\n1|c|a|FAILED|1700000050|5\n{last}", tally)] == [1]
    assert (tally.rows, [reject.reason for reject in tally.rejects]) == (
        2,
        ["the text ends inside this line"],
    )


def test_a_column_that_stands_twice_is_refused():
    with pytest.raises(FormatError, match="column State stands there twice"):
        read(f"{NAMES}|State\n1|c|a|FAILED|1700000050|5|FAILED\n")


@pytest.mark.parametrize(("end", "expected"), [(600, 4200), (2000, 2000), (4200, 4200)])
def test_an_end_in_the_hour_that_comes_twice_is_behind_the_start(end, expected):
    text = f"{NAMES}|Start|End\n1|c|a|FAILED|1700000050|1200|{MOMENT + 3000}|{MOMENT + end}\n"
    assert [run.end_s for run in read(text)] == [MOMENT + expected]


def test_headers_of_joined_files_are_skipped():
    part = f"{NAMES}\n1|c|a|FAILED|1700000050|5\n"
    assert len(read(part + part)) == 2


def test_a_file_without_job_ids_is_refused_with_what_to_ask_for():
    with pytest.raises(FormatError, match=r"no column State, Submit.*'JobID.JobName'.*sacct -P"):
        read("JobID|JobName\n")


@pytest.mark.parametrize("text", ["", "\n", "JobID        State\n----- -----\n", "a,b,c\n", "null"])
def test_what_is_no_output_of_sacct_is_refused(text):
    with pytest.raises(FormatError, match="sacct -P"):
        read(text)


def test_the_cluster_is_given_where_the_text_lacks_it():
    text = "JobID|State|Submit\n1|FAILED|1700000050\n"
    assert read(text, cluster="pine")[0].cluster == "pine"
    with pytest.raises(FormatError, match="-M"):
        read(text)


def test_a_row_without_its_cluster_is_of_the_one_that_is_given_or_refused():
    text = "JobID|Cluster|State|Submit\n1||FAILED|1700000050\n2|oak|FAILED|1700000050\n"
    assert [run.cluster for run in read(text, cluster="pine")] == ["pine", "oak"]
    tally = Tally()
    assert [run.job_id for run in read(text, tally)] == [2]
    assert "-M" in tally.rejects[0].reason


def test_texts_without_a_header_are_read_with_their_columns_named():
    runs = read(
        "1;FAILED;1700000050\n", fields=("JobID", "State", "Submit"), delimiter=";", cluster="c"
    )
    assert runs[0].submit_s == 1_700_000_050


def test_raw_ids_alone_will_do():
    text = "State|JobIDRaw|Cluster|Submit\nFAILED|29|c|1700000050\nFAILED|29.batch|c|1700000050\n"
    (run,) = read(text)
    assert (run.job_id, [step.step for step in run.steps]) == (29, ["batch"])


def test_without_raw_ids_array_tasks_do_not_collide():
    ids = ("6_0", "6_1", "6", "7+0", "7+1")
    rows = "".join(f"{name}|c|FAILED|1700000050\n" for name in ids)
    runs = read(f"JobID|Cluster|State|Submit\n{rows}")
    assert len({run.job_id for run in runs}) == 5
    assert [run.job_id for run in runs[2:]] == [6, 7, 8]


def test_disk_totals_are_estimated_from_means_where_there_are_no_others():
    text = "JobID|Cluster|State|Submit|NTasks|AveDiskRead|ElapsedRaw\n"
    job = read(text + "1|c|FAILED|1700000005|||9\n1.0|c|FAILED|1700000005|4|2.00M|9\n")[0]
    assert job.disk_read_bytes == 8 * 2**20
    assert job.disk_write_bytes is None


def test_elapsed_time_is_computed_from_start_and_end_where_need_be():
    text = "JobID|Cluster|State|Submit|Start|End\n1|c|FAILED|1700000005|1700000010|1700000025\n"
    assert read(text)[0].elapsed_s == 15


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="~"), max_size=8)


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=6), st.sampled_from(["~", "~#~"]))
def test_records_survive_newlines_in_all_fields_but_the_last(texts, delimiter):
    """As sacct prints them: a number first, a number last, anything between."""
    records = [[str(i), *text, str(i)] for i, text in enumerate(texts)]
    printed = "".join(delimiter.join(record) + "\n" for record in records)
    lines = [f"{line}\n" for line in printed.split("\n")[:-1]]
    tally = Tally()
    assert [row for _, row in split_records(lines, 4, delimiter, tally)] == records
    assert tally.refused == 0


@given(st.lists(st.text(), max_size=5))
def test_no_text_after_the_header_is_too_odd(lines):
    tally = Tally()
    try:
        runs = read(NAMES + "\n" + "\n".join(lines) + "\n", tally)
    except FormatError:
        return
    assert tally.refused <= tally.rows + len(lines) or not runs


def test_runs_are_the_same_when_printed_again(real):
    run = replace(real["45"], comment="", req_mem_bytes=None)
    again = next(read_text(sacct_text([run]), Tally()))
    assert (again.job_id, again.submit_s, again.nodes) == (run.job_id, run.submit_s, run.nodes)
    assert [step.elapsed_s for step in again.steps] == [step.elapsed_s for step in run.steps]


@pytest.mark.parametrize("delimiter", ["|", ";", ", ", "\x1f", "||"])
@pytest.mark.parametrize("first", ["", "Site1", "SITE_X2"])
def test_the_delimiter_is_what_follows_a_known_column(first, delimiter):
    header, values = ["jobid", "State", "Submit"], ["1", "FAILED", "1700000050"]
    columns = ([first] if first else []) + header
    row = (["of the site"] if first else []) + values
    (job,) = read(f"{delimiter.join(columns)}\n{delimiter.join(row)}\n", cluster="c")
    assert (job.job_id, job.submit_s) == (1, 1_700_000_050)
