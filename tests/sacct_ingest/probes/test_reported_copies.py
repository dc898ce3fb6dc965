"""Copies that jobs report: what an ingest stores of them, and whose."""

import pytest
from msgspec.structs import replace

from sacct_ingest.ingest.into_store import IngestSettings, ingest
from sacct_ingest.probes.reported_copies import of_run, reported
from sacct_ingest.records import JobState, Probe, Resource
from sacct_ingest.store import Store
from tests.sacct_ingest.ingest.test_into_store import Accounting
from tests.sacct_ingest.records import run

BEGAN_S = 1_795_000_000
REPORT = f"nimo:off copied=2000000/{BEGAN_S}.0/{BEGAN_S + 4}.0/3.00/2/io%3A1/%2Ft/%2Ft"
MOVED = Probe(resource=Resource.TRANSFER, source="io:1", target="/t", at_s=BEGAN_S,
              value=500_000.0, size_bytes=2_000_000, took_s=4.0)  # fmt: skip
#: Two CPUs for three processes and this one.
LOADED = Probe(resource=Resource.CPU, source="/t", at_s=BEGAN_S, value=0.5)
COPY = run(
    job_id=7,
    user="ana",
    state=JobState.COMPLETED,
    start_s=BEGAN_S - 1,
    end_s=BEGAN_S + 5,
    comment=REPORT,
)


def test_a_report_is_one_transfer_and_the_load_at_the_end_where_it_ran():
    assert reported(REPORT) == [MOVED, LOADED]
    assert reported(REPORT.removesuffix("%2Ft")) == [MOVED]


@pytest.mark.parametrize(
    "comment",
    ["", "nimo:off", REPORT[:-20], REPORT.replace("2000000", ""), REPORT.replace("2000000", "0"),
     REPORT.replace("2000000", "9" * 400), REPORT.replace("3.00", ""), REPORT.replace("/2/", "/0/"),
     REPORT.replace(f"{BEGAN_S + 4}", f"{BEGAN_S - 4}"),
     REPORT.replace(f"{BEGAN_S + 4}", "9" * 400),
     "nimo:off copied=9/17950.%N/17951.%N/1.0/2/s/t/t"],
)  # fmt: skip
def test_what_is_no_whole_report_of_a_copy_says_nothing(comment):
    assert not reported(comment)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [MOVED, LOADED]),
        ({"start_s": BEGAN_S, "end_s": BEGAN_S + 4}, [MOVED, LOADED]),
        ({"state": JobState.FAILED}, []),
        ({"start_s": BEGAN_S + 2}, []),
        ({"end_s": BEGAN_S + 2}, []),
        ({"start_s": None}, []),
        ({"end_s": None}, []),
    ],
)
def test_a_report_counts_where_the_job_completed_and_ran_at_that_time(changed, expected):
    assert of_run(replace(COPY, **changed)) == expected


@pytest.mark.parametrize(("whose", "stored"), [("", 0), ("bob", 0), ("ana", 2), (None, 2)])
def test_an_ingest_stores_the_reports_of_the_chosen_user_once(tmp_path, whose, stored):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db", create=True) as store:
        for _ in range(2):
            settings = IngestSettings(copies_of=whose)
            ingest(store, Accounting([COPY]), now_s=BEGAN_S + 60, settings=settings)
        assert len(list(store.probes.since(0.0))) == stored
