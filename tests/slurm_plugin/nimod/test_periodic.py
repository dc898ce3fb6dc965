"""Work in the background."""

import threading

from slurm_plugin.nimod.loop import Periodic
from tests.processes import LONGEST_WAIT_S

LONG_S = 1000.0


def test_the_work_is_done_at_once_and_when_woken():
    done = threading.Semaphore(0)
    periodic = Periodic("test", done.release, pause_s=lambda: LONG_S)
    periodic.start()
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert periodic.tried(LONGEST_WAIT_S)
    periodic.wake()
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert periodic.stop(LONGEST_WAIT_S)
    assert not done.acquire(blocking=False)


def test_it_may_be_done_a_last_time():
    calls = []
    periodic = Periodic("test", lambda: calls.append(1), pause_s=lambda: LONG_S)
    periodic.start()
    periodic.tried(LONGEST_WAIT_S)
    assert periodic.stop(LONGEST_WAIT_S, once_more=True)
    assert len(calls) == 2


def test_an_error_does_not_end_it(caplog):
    turns = iter([1, 0, 0])
    done = threading.Semaphore(0)

    def work():
        done.release()
        1 / (1 - next(turns))

    periodic = Periodic("test", work, pause_s=lambda: 0.001)
    periodic.start()
    assert all(done.acquire(timeout=LONGEST_WAIT_S) for _ in range(2))
    periodic.stop(LONGEST_WAIT_S)
    assert "trying again" in caplog.text


def test_work_that_hangs_does_not_keep_the_process():
    begun, forever = threading.Event(), threading.Event()

    def hang():
        begun.set()
        forever.wait()

    periodic = Periodic("test", hang, pause_s=lambda: LONG_S)
    periodic.start()
    assert begun.wait(LONGEST_WAIT_S)
    assert not periodic.stop(0.05)
    forever.set()
