"""What nimod retains of estimated waits stays small: in memory and in the store."""

from predictor.waits.error_record import MOST_ENTRIES, WaitClass, WaitError
from predictor.waits.workload import decode, encode
from sacct_ingest.store import Store
from sacct_ingest.store.fits import WAITS
from sacct_ingest.store.rows import RecordRow
from slurm_plugin.wait_forecasts.queued_starts import AwaitedStarts, ExpectedWait
from tests.slurm_plugin.wait_forecasts.outlooks_of_queues import attached, full, outlooks, visible
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, pending, running

OF = WaitClass(waits=True, partition="batch")


def recorded(count):
    return [WaitError(NOW - count + n, OF, 0.1, 600.0, 700.0, inside=True) for n in range(count)]


def test_the_newest_starts_stay_and_the_oldest_go():
    made = outlooks()
    made.corrections.restore(encode(recorded(MOST_ENTRIES)))
    attached(made, full())
    quick = running(10, "n2", submit_s=NOW + 1, start_s=NOW + 2)
    attached(made, visible(quick), NOW + 80)
    saved = decode(made.corrections.unsaved(now_s=NOW + 80), list[WaitError])
    assert len(saved) == len(made.corrections.record) == MOST_ENTRIES
    assert [saved[0].at_s, saved[-1].at_s] == [NOW - MOST_ENTRIES + 1, NOW + 1]


def test_a_cluster_has_one_row_in_the_store_however_often_it_is_saved():
    with Store.open("sqlite://") as store:
        for count in (5, 9):
            payload = encode(recorded(count))
            store.records.put(RecordRow(level=WAITS, key="pine", payload=payload))
        (payload,) = store.records.of_level(WAITS).values()
    assert len(decode(payload, list[WaitError])) == 9


def test_jobs_that_never_start_are_no_longer_awaited():
    asked = []

    def expected(job):
        asked.append(job.job_id)
        return ExpectedWait(
            job.submit_s, (60.0,), OF, outlooks().corrections.record.estimate([60.0], OF)
        )

    awaited = AwaitedStarts()
    job = pending(9, submit_s=NOW)
    assert awaited.compare([], expected) == []
    assert awaited.compare([job], expected) == []
    assert awaited.compare([], expected) == []  # it was cancelled
    again = running(9, "n1", submit_s=NOW, start_s=NOW + 60)
    assert awaited.compare([again], expected)[0].actual_s == 60.0
    assert asked == [9, 9]
