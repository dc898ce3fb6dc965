"""Logs of the Parallel Workloads Archive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.tables.samples import samples_of
from sacct_ingest.errors import FormatError
from sacct_ingest.ingest.into_store import to_store
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import ENDED_CODES, JobState, KeyLevel
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.swf import looks_like_swf, read_swf
from sacct_ingest.store import Store
from sacct_ingest.store.rows import RetentionTimes
from tests.sacct_ingest.records import SUBMIT_S, run, runs_with

NOTES = """\
; Version: 2.2
; Computer: Oak
; UnixStartTime: 1000000000
; MaxNodes: 10
; MaxProcs: 40
; Queue:  2 long
; Partition:  1 batch
;
"""
# job submit wait run procs cpu mem req_procs req_s req_mem
# state user group program queue partition ...
LINE = "  3  100  20 60  8   50 1024   8   300  2048  1  7  4  12  2  1  -1 -1"


def read(text, tally=None, **options):
    return list(read_swf(text.splitlines(keepends=True), tally or Tally(), **options))


def test_a_line_is_a_run():
    (run,) = read(f"{NOTES}{LINE}\n")
    assert run == JobRun(
        cluster="Oak",
        job_id=3,
        submit_s=1_000_000_100,
        start_s=1_000_000_120,
        end_s=1_000_000_180,
        elapsed_s=60,
        state=JobState.COMPLETED,
        user="user7",
        account="group4",
        name="program12",
        qos="long",
        partition="batch",
        limit_s=300,
        nodes=2,
        req_nodes=2,
        cpus=8,
        req_cpus=8,
        cpu_s=400,
        mem_bytes=2**20,
        req_mem_bytes=8 * 2048 * 1024,
    )


def test_minus_one_is_unknown():
    (run,) = read(f"{NOTES}3 100 20 60 8 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n")
    assert (run.cpu_s, run.mem_bytes, run.limit_s, run.req_mem_bytes) == (None,) * 4
    assert (run.user, run.account, run.name, run.qos, run.partition) == ("",) * 5
    assert (run.req_nodes, run.state) == (2, JobState.COMPLETED)


def test_a_job_that_never_ran():
    (run,) = read(f"{NOTES}3 100 -1 -1 -1 -1 -1 8 300 -1 5 7 4 12 2 1 -1 -1\n")
    assert (run.start_s, run.end_s, run.elapsed_s) == (None, None, 0)
    assert (run.state, run.nodes) == (JobState.CANCELLED, 2)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("0", JobState.FAILED),
        ("1", JobState.COMPLETED),
        ("2", JobState.REQUEUED),
        ("4", JobState.FAILED),
        ("5", JobState.CANCELLED),
        ("-1", JobState.COMPLETED),
    ],
)
def test_states(code, state):
    (run,) = read(f"{NOTES}3 100 20 60 8 -1 -1 8 -1 -1 {code} 7 4 12 2 1 -1 -1\n")
    assert run.state is state


def test_a_log_that_does_not_say_how_many_nodes_counts_processors():
    (run,) = read(f"; MaxProcs: 93312\n{LINE}\n", cluster="curie")
    assert (run.nodes, run.cluster, run.submit_s) == (8, "curie", 100)


def test_a_start_that_is_no_time_is_refused():
    with pytest.raises(FormatError, match="UnixStartTime: soon"):
        read("; Computer: pine\n; UnixStartTime: soon\n1 0 0 9 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n")


def test_a_log_without_a_machine_is_asked_to_name_one():
    with pytest.raises(FormatError, match="-M"):
        read(f"{LINE}\n")


@pytest.mark.parametrize(
    "bad",
    [
        "3 100",
        "x" + LINE.strip(),
        LINE.replace("100", "nan"),
        "1e400 " * 18,
        "3 100 20 60 8 -1 -1 8 -1 -1 9 7 4 12 2 1 -1 -1",
    ],
)
def test_a_bad_line_costs_only_itself(bad):
    tally = Tally()
    runs = read(f"{NOTES}{LINE}\n{bad}\n{LINE}\n", tally)
    assert len(runs) == 2
    assert [reject.text for reject in tally.rejects] == [bad]


def test_is_recognised():
    assert looks_like_swf(b"; Version: 2.2\n")
    assert looks_like_swf(LINE.encode() + b"\n 4")
    assert not looks_like_swf(b"JobID|State|Submit\n")
    assert not looks_like_swf(b"")


@given(st.text())
def test_no_text_is_too_odd(text):
    tally = Tally()
    runs = read(f"{NOTES}{text}\n{LINE}\n", tally)
    assert runs[-1].job_id == 3


def test_what_the_states_mean():
    out_of_time = {state for state in JobState if state.out_of_time}
    cut_short = {state for state in JobState if state.cut_short}
    assert out_of_time == {JobState.TIMEOUT, JobState.DEADLINE}
    assert cut_short - out_of_time == {
        *(JobState.CANCELLED, JobState.PREEMPTED, JobState.REQUEUED, JobState.NODE_FAIL)
    }
    assert {state for state in JobState if state.says_run_time} == cut_short | {JobState.COMPLETED}
    assert not any(state.says_run_time and not state.ended for state in JobState)
    assert {state for state in JobState if state.ended and not state.final} == {JobState.REQUEUED}
    assert {state for state in JobState if state.may_lack_memory} == {
        JobState.FAILED,
        JobState.REQUEUED,
    }
    assert ",".join(sorted(ENDED_CODES)) == "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,RV,TO"


@pytest.mark.parametrize("state", JobState)
def test_prune_leaves_all_that_predictions_are_made_of(state):
    with Store.open("sqlite://") as store:
        store.runs.add([run(state=state, submit_s=SUBMIT_S, end_s=SUBMIT_S + 100)])
        used = samples_of(runs_with(store, KeyLevel.USER, "ada"))
        store.prune(RetentionTimes(runs=SUBMIT_S + 1000))
        assert samples_of(runs_with(store, KeyLevel.USER, "ada")) == used
        assert store.runs.count() == len(used)


@pytest.mark.parametrize("state", JobState)
def test_a_run_is_stored_once_its_row_changes_no_more(state):
    given = run(state=state, end_s=SUBMIT_S + 100)
    assert (to_store(given) is given) is state.ended
