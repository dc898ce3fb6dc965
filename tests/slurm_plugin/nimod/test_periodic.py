"""Work in the background."""

import threading

from slurm_plugin.nimod.periodic import Periodic

LONG_S = 1000.0


def test_the_work_is_done_at_once_and_when_woken():
    done = threading.Semaphore(0)
    periodic = Periodic("test", done.release, pause_s=lambda: LONG_S)
    periodic.start()
    assert done.acquire(timeout=5)
    assert periodic.tried(5)
    periodic.wake()
    assert done.acquire(timeout=5)
    assert periodic.stop(5)
    assert not done.acquire(blocking=False)


def test_it_may_be_done_a_last_time():
    calls = []
    periodic = Periodic("test", lambda: calls.append(1), pause_s=lambda: LONG_S)
    periodic.start()
    periodic.tried(5)
    assert periodic.stop(5, once_more=True)
    assert len(calls) == 2


def test_an_error_does_not_end_it(caplog):
    turns = iter([1, 0, 0])
    done = threading.Semaphore(0)

    def work():
        done.release()
        1 / (1 - next(turns))

    periodic = Periodic("test", work, pause_s=lambda: 0.001)
    periodic.start()
    assert all(done.acquire(timeout=5) for _ in range(2))
    periodic.stop(5)
    assert "trying again" in caplog.text


def test_work_that_hangs_does_not_keep_the_process():
    forever = threading.Event()
    periodic = Periodic("test", lambda: forever.wait() and None, pause_s=lambda: LONG_S)
    periodic.start()
    assert not periodic.stop(0.05)
    forever.set()
