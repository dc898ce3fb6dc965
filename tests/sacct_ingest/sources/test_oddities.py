"""What accounting on real clusters holds, one row each, as sacct prints it."""

import base64
import gzip
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sacct_ingest.records import JobState
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from sacct_ingest.store.packed_runs import pack_runs
from sacct_ingest.text.admin_comment import measured_in

JOB = {
    "JobID": "7",
    "JobIDRaw": "7",
    "Cluster": "oak",
    "User": "ann",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "1700001000",
    "Start": "1700001010",
    "End": "1700001070",
    "Timelimit": "00:05:00",
    "NNodes": "2",
    "NCPUS": "8",
    "NTasks": "",
    "NodeList": "n[1-2]",
    "ReqMem": "4G",
    "TotalCPU": "00:09.002",
    "MaxRSS": "",
    "AdminComment": "",
    "JobName": "solve",
    "Elapsed": "00:01:00",
}


def read(*rows, tally=None):
    lines = ["|".join(JOB) + "\n", *("|".join((JOB | row).values()) + "\n" for row in rows)]
    return list(read_text(lines, tally or Tally()))


GIB = 2**30


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"JobID": "6_3", "JobIDRaw": "29"}, {"job_id": 29, "array_job_id": 6, "array_task_id": 3}),
        ({"JobID": "6_[4-9%2]", "State": "PENDING"}, {"array_job_id": 6, "array_task_id": None}),
        ({"JobID": "7+1", "JobIDRaw": "8"}, {"job_id": 8, "het_job_id": 7, "het_offset": 1}),
        ({"State": "RUNNING", "End": "Unknown"}, {"end_s": None, "state": JobState.RUNNING}),
        ({"State": "CANCELLED by 1000"}, {"state": JobState.CANCELLED, "cancelled_by": "1000"}),
        ({"State": "CANCELLED by 1000", "Start": "None"}, {"start_s": None}),
        ({"TotalCPU": "00:00.204"}, {"cpu_s": 0.204}),
        (
            {"TotalCPU": "7-17:10:15", "Elapsed": "1-02:03:04", "End": "1700099999"},
            {"cpu_s": 666615},
        ),
        ({"Elapsed": "1-02:03:04", "End": "1700099999"}, {"elapsed_s": 93784}),
        ({"Timelimit": "Partition_Limit"}, {"limit_s": None}),
        ({"Timelimit": "UNLIMITED"}, {"limit_s": None}),
        ({"Timelimit": "365-00:00:00"}, {"limit_s": 365 * 86400}),
        ({"ReqMem": "4Gn"}, {"req_mem_bytes": 2 * 4 * GIB}),
        ({"ReqMem": "4Gc"}, {"req_mem_bytes": 8 * 4 * GIB}),
        ({"ReqMem": "4G"}, {"req_mem_bytes": 4 * GIB}),
        ({"ReqMem": "2147486648Mn"}, {"req_mem_bytes": 2 * 2147486648 * 2**20}),
        ({"ReqMem": "18446744073709551616.00M"}, {"req_mem_bytes": None}),
        ({"ReqMem": "0.50T"}, {"req_mem_bytes": GIB // 2 * 1024}),
        ({"NCPUS": "2K"}, {"cpus": 2048}),
        ({"NodeList": "None assigned"}, {"node_list": ""}),
        ({"JobName": "<script>alert(1)</script>"}, {"name": "<script>alert(1)</script>"}),
        ({"JobName": "שלום\u202e-名前-😀"}, {"name": "שלום\u202e-名前-😀"}),
        ({"JobName": "two\nlines"}, {"name": "two\nlines"}),
        ({"JobName": "quo`te's,;\"\\n"}, {"name": "quo`te's,;\"\\n"}),
        ({"JobName": "\x1b[31mred\t\x00"}, {"name": "\x1b[31mred\t\x00"}),
        ({"Submit": "2023-11-14T22:13:20+00:00"}, {"submit_s": 1_700_000_000}),
        ({"ExitCode": "0:9"}, {"exit_code": 0, "exit_signal": 9}),
        ({"ExitCode": ""}, {"exit_code": None}),
        # A clock that was set back while the job ran, and one that jumped ahead.
        ({"End": "1700000900", "Elapsed": "00:00:00"}, {"elapsed_s": 0, "end_s": 1_700_000_900}),
        ({"End": "1700000900", "Elapsed": "00:00:50"}, {"elapsed_s": 50}),
        ({"End": "1700099999", "Elapsed": "00:00:50"}, {"elapsed_s": 50, "end_s": 1_700_099_999}),
    ],
)
def test_one_row(row, expected):
    (run,) = read(row)
    assert {name: getattr(run, name) for name in expected} == expected


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"JobID": HUGE, "JobIDRaw": ""}, "too large"),
        ({"JobIDRaw": HUGE}, "job id"),
        ({"JobID": "6_99999999999", "JobIDRaw": ""}, "too large"),
        ({"JobID": f"6_{HUGE}"}, "too large"),
        ({"Submit": HUGE}, "Submit"),
        ({"End": "0001-01-01T00:00:00"}, "End"),
        ({"Elapsed": HUGE}, "Elapsed"),
        ({"Elapsed": "9" * 400}, "Elapsed"),
        ({"Elapsed": f"{'9' * 400}-00:00:00"}, "Elapsed"),
        ({"Elapsed": "-10"}, "Elapsed"),
        ({"State": "SLEEPING"}, "State"),
        ({"Cluster": ""}, "-M"),
    ],
)
def test_what_no_job_can_be_costs_only_itself(row, column):
    tally = Tally()
    runs = read({"JobName": "before"}, row, {"JobName": "after"}, tally=tally)
    assert [run.name for run in runs] == ["before", "after"]
    (reject,) = tally.rejects
    assert column in reject.reason
    assert sum(map(len, pack_runs(runs))) == len(runs)


@pytest.mark.parametrize(
    "usage", [f"fs/disk={2**63 - 1}", f"fs/lustre={2**60}", f"ic/ofed={2**63 - 1},ic/sysfs=1"]
)
def test_sums_that_no_database_holds_cost_only_themselves(usage):
    header = "JobID|Cluster|State|Submit|TRESUsageInTot"
    rows = [
        "1|c|FAILED|1700000005|",
        f"1.0|c|FAILED|1700000005|{usage}",
        f"1.1|c|FAILED|1700000005|{usage}",
        "2|c|FAILED|1700000005|",
    ]
    tally = Tally()
    runs = list(read_text([f"{line}\n" for line in (header, *rows)], tally))
    assert [(run.job_id, len(run.steps)) for run in runs] == [(1, 2), (2, 0)]
    assert (tally.refused, sum(tally.odd.values())) == (0, 1 if "disk" in usage else 2)
    assert sum(map(len, pack_runs(runs))) == len(runs)


def test_a_clock_that_went_back_makes_no_time_below_zero():
    text = [
        "JobID|Cluster|State|Submit|Start|End\n",
        "7|oak|COMPLETED|1700000050|1700000100|1700000090\n",
    ]
    (run,) = read_text(text, Tally())
    assert run.elapsed_s == 0


def test_requeues_and_reused_ids_are_runs_of_their_own():
    runs = read(
        {"State": "REQUEUED"}, {"Submit": "1700001080"}, {"Submit": "1702000000", "User": "bob"}
    )
    assert len({(run.cluster, run.job_id, run.submit_s) for run in runs}) == 3
    assert runs[0].state.ended


def test_steps_without_their_job_are_refused_and_cost_nothing_else():
    tally = Tally()
    (run,) = read({"JobID": "5.0", "JobIDRaw": "5.0"}, {}, tally=tally)
    assert run.job_id == 7
    assert "step without its job" in tally.rejects[0].reason


def test_a_resized_jobs_earlier_part_is_no_run():
    earlier, rest = read(
        {"State": "RESIZING"}, {"Submit": "1700001070", "Start": "1700001070", "End": "1700001130"}
    )
    assert not earlier.state.ended
    assert rest.state.ended


#: Folder with ``*/sacct-D*.json`` beside ``*/sacct-P-delim-0x1f.txt`` of the same moment.
SAMPLES = os.environ.get("NIMO_SACCT_SAMPLES", "")


#: Two nodes with 12 GiB and 9 GiB in use, GPUs busy for 90, 55 and 4 %.
GPUS = (
    "JS1:H4sIAI7kBmsC/5WQSwrDMAxE7+J1FrYsy1YuE0oTgiE/GmfRBt+9zqelKRSajcBo3ozGs+j6shpFPotOLTP04d"
    "IUbdX2t7vINWrDVjtNLhPTWJXvjQLnDBuJhNkOBd9WCWEpM3EdpmSaoHqYiqPnLKTIERiZLDAlsTq84wYd0lZGAygA"
    "gxY2RktJaK2SFl5M8I1/XILvu53hTWpMTJIOzjRkSu6AzPBVkOhcwT8K/bwf43L4Zzwt31uv6To+Afsw7p2/AQAA"
)
CPUS = (
    "JS1:H4sIAI7kBmsC/6tWystPSS1WsqpWyjMGkSX5JYk58bmpuflFlUpWFqYWlpbGJqaWRjpKpcWpKXAJYyMgMDcxML"
    "HQgWopycxNVbIyMjYx0FFKLigFGmlSW4sqaWYAlEsHyxnUAgANoEhSegAAAA=="
)
NOTE = "NIMO1:0123456789ab:n=4"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"AdminComment": GPUS},
            {"mem_bytes": 12885950464, "gpu_percent": 149, "gpu_mem_bytes": 61 * GIB},
        ),
        ({"AdminComment": f"{NOTE} {GPUS}", "NTasks": "8"}, {"mem_bytes": 12885950464 // 4}),
        ({"AdminComment": f"{CPUS} {NOTE}"}, {"mem_bytes": 3222274048, "gpu_percent": None}),
        ({"AdminComment": CPUS, "MaxRSS": "4G"}, {"mem_bytes": 4 * GIB}),
        ({"AdminComment": "JS1:Short"}, {"mem_bytes": None, "gpu_percent": None}),
    ],
)
def test_memory_and_gpus(row, expected):
    (run,) = read(row)
    assert (
        structs.asdict(run).items() >= (expected | {"admin_comment": row["AdminComment"]}).items()
    )


def payload(text):
    return "JS1:" + base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes":{"n1":{"used_memory":-1}}}',
        '{"nodes":{"n1":{"used_memory":1e400}}}',
        '{"nodes":{"n1":{"gpu_utilization":{"0":"x"}}}}',
        '{"nodes":[]}',
        " " * (40 << 20) + '{"nodes":{}}',  # 40 kB that unpack to 40 MB
    ],
)
def test_what_is_not_a_measurement_is_none(text):
    assert measured_in(payload(text)) is None


def test_what_was_not_measured_everywhere_is_unknown():
    part = '{"nodes":{"n1":{"used_memory":5,"gpu_utilization":{"0":50}},"n2":{}},"gpus":2}'
    found = measured_in(payload(part))
    assert set(structs.astuple(found)) == {None}


@given(st.integers(8, len(GPUS) - 1), st.sampled_from("A/=! é"))
def test_a_damaged_payload_never_fails(at, put):
    measured_in(GPUS[:at])
    measured_in(GPUS[:at] + put + GPUS[at + 1 :])
