"""Slurm's JSON: the shapes of all releases, and what may happen to a file."""

import contextlib
import gc
import io
import json
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobState
from sacct_ingest.sources import slurm_json
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.sources.slurm_json import read_json
from tests.sacct_ingest.sources.json_jobs import (
    TEXT,
    UNLIMITED,
    live_job,
    middle_job,
    new_job,
    number,
    old_job,
)

#: Fields that 22.05's JSON does not have, though its text does.
NOT_IN_OLD = {"submit_line": "not in data_parser 0.0.38"}
#: Fields that slurmctld does not have.
NOT_LIVE = {
    "req_cpus": "not in this job",
    "cpu_s": "gathered by slurmdbd",
    "mem_bytes": "gathered by slurmdbd",
    "disk_read_bytes": "gathered by slurmdbd",
    "disk_write_bytes": "gathered by slurmdbd",
    "steps": "gathered by slurmdbd",
    "submit_line": "not told by data_parser 0.0.41",
    "uid": "no JSON of slurmdbd has it",
}


def document(*jobs, **more):
    return json.dumps({"meta": {"plugin": {}}, "jobs": list(jobs), "errors": [], **more}, indent=1)


def read(text, tally=None, **options):
    return list(read_json(io.StringIO(text), tally or Tally(), **options))


def one(job):
    tally = Tally()
    (run,) = read(document(job), tally)
    assert tally.rejects == []
    return run


def facts(run, without=()):
    return {k: v for k, v in msgspec.structs.asdict(run).items() if k not in without}


@pytest.fixture(scope="module")
def from_text():
    (run,) = read_text(TEXT.splitlines(keepends=True), Tally())
    return run


@pytest.mark.parametrize(
    ("job", "without"),
    [(new_job, ()), (old_job, NOT_IN_OLD), (middle_job, ()), (live_job, NOT_LIVE)],
)
def test_json_says_what_the_text_says_but_for_a_few_columns(from_text, job, without):
    assert facts(one(job()), without) == facts(from_text, without)


def changed(job, path, value):
    at = job
    *parents, last = path.split(".")
    for key in parents:
        at = at[key]
    at[last] = value
    return job


@pytest.mark.parametrize(
    ("path", "value", "field", "expected"),
    [
        ("time.start", 4294967294, "start_s", None),
        ("time.start", 0, "start_s", None),
        ("time.end", 0, "end_s", None),
        ("time.limit", UNLIMITED, "limit_s", None),
        ("time.limit", {"set": True, "infinite": True, "number": 0}, "limit_s", None),
        ("time.limit", 4294967295, "limit_s", None),
        ("state.current", ["PENDING", "REQUEUED"], "state", JobState.REQUEUED),
        ("state.current", ["PENDING", "RESIZING"], "state", JobState.RESIZING),
        ("state.current", ["COMPLETED", "COMPLETING"], "state", JobState.COMPLETED),
        ("state.current", ["STAGE_OUT"], "state", JobState.UNKNOWN),
        ("array", {"job_id": 6, "task_id": number(3)}, "array_task_id", 3),
        ("array", {"job_id": 6, "task_id": 0}, "array_task_id", 0),
        ("het", {"job_id": 7, "job_offset": number(1)}, "het_offset", 1),
        ("het", {"job_id": 7, "job_offset": 4294967294}, "het_offset", None),
        ("reservation.name", 0, "reservation", ""),
        ("reservation.name", "maintenance", "reservation", "maintenance"),
        ("user", None, "user", "ann"),
        ("name", "<script>alert(1)</script>", "name", "<script>alert(1)</script>"),
        ("name", "a|b\nc\x1f\u202eשלום", "name", "a|b\nc\x1f\u202eשלום"),
        ("name", "half a\ud800 character", "name", "half a\ufffd character"),
        ("reservation.name", "\udfff", "reservation", "\ufffd"),
        ("steps", None, "steps", ()),
        ("time.elapsed", None, "elapsed_s", 60),
    ],
)
def test_values_and_what_stands_for_none(path, value, field, expected):
    assert getattr(one(changed(new_job(), path, value)), field) == expected


def test_who_cancelled():
    job = new_job(kill_request_user="root", state={"current": ["CANCELLED"]})
    assert (one(job).state, one(job).cancelled_by) == (JobState.CANCELLED, "root")


def test_exit_codes_of_the_first_json_are_not_believed():
    """It says 0 whatever the code was; a signal it knows."""
    failed = old_job(state={"current": "FAILED"})
    assert one(failed).exit_code is None
    code = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 11}}
    run = one(failed | {"exit_code": code})
    assert (run.exit_code, run.exit_signal) == (0, 11)
    code = {"return_code": number(3), "signal": {"id": number(None)}}
    assert one(new_job(state={"current": ["FAILED"]}, exit_code=code)).exit_code == 3


def test_a_running_job_of_slurmctld_has_no_end_yet():
    """What it gives as its end is when its limit will be reached."""
    run = one(live_job(job_state="RUNNING"))
    assert (run.end_s, run.elapsed_s) == (None, 0)
    assert one(live_job(job_state=["PENDING"])).start_s is None


def test_exit_status_of_the_first_slurmctld_json():
    run = one(live_job(exit_code=3 << 8))
    assert (run.exit_code, run.exit_signal) == (3, 0)


@pytest.mark.parametrize(
    "wrap",
    [
        json.dumps,
        lambda jobs: json.dumps({"jobs": jobs}),
        lambda jobs: "\n".join(json.dumps(job) for job in jobs),
        lambda jobs: json.dumps({"jobs": jobs[:1]}) + "\n" + json.dumps({"jobs": jobs[1:]}),
        lambda jobs: json.dumps({"last_update": number(5), "jobs": jobs, "warnings": ["x"]}),
    ],
    ids=["list", "document", "lines", "two documents", "slurmrestd"],
)
def test_lists_documents_and_lines(wrap):
    assert [run.job_id for run in read(wrap([new_job(1), new_job(2)]))] == [1, 2]


@pytest.mark.parametrize(
    "broken",
    [
        '{"job_id": 5, "name": "a "quote" in it", "time": {"submission": 5}}',
        '{"job_id": 5, "time": {"submission": 5,, "flags": []}}',
        '{"job_id": 5, "name": bare}',
        "5",
        "null",
        '"job"',
        "{}",
        '{"job_id": 5, "time": 7}',
        '{"job_id": {}, "time": {"submission": 5}}',
        '{"job_id": 5, "cluster": "oak", "time": {"submission": {}}}',
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_broken_job_costs_only_itself(broken, place):
    good = [json.dumps(new_job(1), indent=1), json.dumps(new_job(2))]
    jobs = [*good[:place], broken, *good[place:]]
    tally = Tally()
    gc.disable()  # else objects of other tests may be finalised where the stack is full
    try:
        runs = read('{"jobs": [' + ",\n".join(jobs) + '], "errors": []}', tally)
    finally:
        gc.enable()
    assert [run.job_id for run in runs] == [1, 2]
    assert tally.refused == 1


# Behind the end of a list inside a job, which looks like that of the list of jobs.
@example(document(new_job(1), new_job(2), new_job(3)).index("]\n      }") + len("]\n      }"))
@given(st.integers(0, 10**6))
def test_a_file_that_breaks_off_is_an_error_after_what_was_whole(place):
    text = document(*(new_job(i) for i in range(1, 4)))
    cut = text[: place % (len(text) - 1)]
    runs = []
    if not cut.strip():
        return
    with pytest.raises(FormatError):
        read_into(runs, cut)
    whole = cut.count('"working_directory": "/home/ann"')
    assert len(runs) <= whole + 1
    assert runs == read(document(*(new_job(i) for i in range(1, 4))))[: len(runs)]


def read_into(runs, text):
    runs.extend(read_json(io.StringIO(text), Tally()))


def test_an_error_that_slurm_noted_is_reported_after_the_jobs():
    errors = [{"description": "Unable to query JobId=5", "error_number": 2017}]
    runs = []
    with pytest.raises(FormatError, match="Unable to query JobId=5"):
        read_into(runs, document(new_job(), errors=errors))
    assert len(runs) == 1


@pytest.mark.parametrize("text", ["{", "[", '{"jobs"', '{"a": 1}', "5", "nonsense", '{"jobs": [{}'])
def test_what_is_not_slurms_json(text):
    with pytest.raises(FormatError):
        read(text)


def test_a_job_without_a_cluster_takes_the_one_that_is_given():
    job = new_job(cluster="")
    assert read(document(job), cluster="pine")[0].cluster == "pine"
    tally = Tally()
    assert read(document(job), tally) == []
    assert "-M" in tally.rejects[0].reason


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_pieces_of_any_size_make_the_same(monkeypatch, chunk):
    monkeypatch.setattr(slurm_json, "CHUNK", chunk)
    assert read(document(old_job(1), new_job(2))) == [one(old_job(1)), one(new_job(2))]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file():
    class Endless(io.TextIOBase):
        """Many jobs, made when they are read."""

        def __init__(self, count):
            job = json.dumps(new_job())
            self._pieces = iter(['{"jobs": [', *[job + ","] * (count - 1), job, "]}"])

        def read(self, size=-1, /):
            return next(self._pieces, "")

    count = 1500
    tracemalloc.start()
    assert sum(1 for _ in read_json(Endless(count), Tally())) == count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(json.dumps(new_job())) * count / 2


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS = [
    *("job_id", "time", "time.submission", "time.limit", "time.total", "state", "state.current"),
    *("array", "array.task_id", "het", "exit_code", "steps", "tres", "tres.allocated", "name"),
    *("comment", "cluster", "association", "nodes", "required", "reservation", "tres.requested"),
]


@given(st.sampled_from(PATHS), ANYTHING)
def test_no_value_is_too_odd(path, value):
    tally = Tally()
    runs = read(document(changed(new_job(1), path, value), new_job(2)), tally)
    assert runs[-1].job_id == 2
    assert len(runs) + tally.refused >= 2


@given(st.text())
def test_no_text_is_too_odd(text):
    try:
        read(text, cluster="c")
    except FormatError as error:
        assert str(error)


def test_the_text_of_a_refused_job_can_be_retained_whatever_it_holds():
    tally = Tally()
    job = new_job(job_id=None, name="half a\ud800 character")
    assert list(read_json(io.StringIO(json.dumps({"jobs": [job]})), tally)) == []
    (reject,) = tally.rejects
    assert "half a\ufffd character" in reject.text


@pytest.mark.parametrize("make", [old_job, new_job])
def test_gpus_of_all_types(make):
    job = make()
    assert one(job).gpus is None
    job["tres"]["allocated"] += [
        {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 4},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 4},
    ]
    assert (one(job).gpus, one(job).gpu_types) == (4, "a100=4")
    assert (one(job).req_gpus, one(job).req_gpu_types) == (None, "")
    job["tres"]["requested"] += [{"type": "gres", "name": "gpu:a100", "id": 1002, "count": 2}]
    assert (one(job).req_gpus, one(job).req_gpu_types) == (2, "a100=2")


@pytest.mark.parametrize("make", [old_job, new_job])
def test_cpus_that_were_asked_for(make):
    job = make()
    job["required"] = {**job.get("required", {}), "CPUs": 3}
    assert one(job).req_cpus == 3


def test_sizes_that_slurmctld_was_asked_for():
    run = one(live_job(tres_req_str="cpu=3,node=1,gres/gpu:a100=2"))
    assert (run.req_cpus, run.req_gpus, run.req_gpu_types) == (3, 2, "a100=2")


def test_gpus_of_slurmctld():
    assert one(live_job(tres_alloc_str="cpu=4,node=2,gres/gpu=4")).gpus == 4


def slowly(text):
    """Read with Python's decoder alone."""

    def refuse(kind, text):
        raise ValueError("not this one")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_json, "decode_like", refuse)
        return outcome(text)


def outcome(text):
    tally = Tally()
    runs = []
    with contextlib.suppress(FormatError):
        runs.extend(read_json(io.StringIO(text), tally, cluster="pine"))
    return runs, [(one.reason, one.text) for one in tally.rejects]


@pytest.mark.parametrize("layout", [{"indent": 4}, {"indent": None}, {"separators": (",", ":")}])
@pytest.mark.parametrize("odd", ["plain", "}, {", '"},\n{"job_id":', "a\x01b", "\ud800", "名前 😀"])
def test_jobs_alike_are_read_as_pythons_decoder_reads_each(layout, odd):
    jobs = [new_job(job_id, comment={"job": odd}) for job_id in range(1, 9)]
    # Another order of keys, and no job at all.
    jobs[3] = dict(reversed(jobs[3].items()))
    text = json.dumps({"jobs": [*jobs[:6], {"job_id": None}, *jobs[6:]]}, **layout)
    raw = text.replace("\\u0001", "\x01")
    assert outcome(raw) == slowly(raw)
    assert len(outcome(raw)[0]) == 8


def test_most_jobs_are_decoded_without_pythons_decoder(monkeypatch):
    text = document(*map(new_job, range(1, 101)))
    places = []

    class Counting(json.JSONDecoder):
        def raw_decode(self, text, at=0):
            places.append(at)
            return super().raw_decode(text, at)

    monkeypatch.setattr(slurm_json.json, "JSONDecoder", Counting)
    assert len(read(text)) == 100
    assert 0 < len(places) < 20


@given(st.sampled_from(PATHS), ANYTHING)
def test_odd_jobs_alike_are_read_as_pythons_decoder_reads_each(path, value):
    odd = [changed(new_job(job_id), path, value) for job_id in (2, 3)]
    text = json.dumps({"jobs": [new_job(1), *odd, new_job(4)]})
    assert outcome(text) == slowly(text)


@pytest.mark.parametrize("first", [new_job, live_job])
def test_both_kinds_of_jobs_in_one_list(first):
    jobs = [first(job_id=1), live_job(job_id=2), new_job(3), live_job(job_id=4), new_job(5)]
    text = json.dumps({"jobs": jobs})
    assert outcome(text) == slowly(text)
    assert [run.job_id for run in outcome(text)[0]] == [1, 2, 3, 4, 5]


@given(st.data())
def test_a_damaged_list_is_read_as_pythons_decoder_reads_it(data):
    text = json.dumps({"jobs": list(map(new_job, range(1, 5)))}, separators=(",", ":"))
    at = data.draw(st.integers(0, len(text)))
    length, put = data.draw(st.integers(0, 3)), data.draw(st.text('{}[]",:1a', max_size=3))
    damaged = text[:at] + put + text[at + length :]
    assert outcome(damaged) == slowly(damaged)
