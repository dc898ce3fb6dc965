"""Values that are kept: made once, made anew beside, never given when they are too old."""

import threading
from collections.abc import Callable

from slurm_plugin.web.data import RefreshingCache

WAIT_S = 60.0


class Maker:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.made = threading.Semaphore(0)
        self.fails = False

    def __call__(self, key: str) -> str:
        self.calls.append(key)
        self.made.release()
        if self.fails:
            raise ValueError(key)
        return f"{key}{len(self.calls)}"


def clock() -> tuple[list[float], Callable[[], float]]:
    now = [0.0]
    return now, lambda: now[0]


def test_a_value_is_made_once_and_again_when_it_is_old():
    make, (now, read) = Maker(), clock()
    remaining = RefreshingCache(make, keep_s=10.0, clock=read)
    assert [remaining.get("a"), remaining.get("a"), remaining.get("b")] == ["a1", "a1", "b2"]
    now[0] = 11.0
    assert remaining.get("a") == "a3"


def test_an_old_value_is_given_while_a_new_one_is_made():
    make, (now, read) = Maker(), clock()
    remaining = RefreshingCache(make, keep_s=10.0, serve_s=100.0, clock=read)
    assert remaining.get("a") == "a1"
    assert make.made.acquire(timeout=WAIT_S)
    now[0] = 50.0
    assert remaining.get("a") == "a1"
    assert make.made.acquire(timeout=WAIT_S)
    end = threading.Event()
    while remaining.get("a") == "a1":
        assert not end.wait(0.01)
    assert remaining.get("a") == "a2"
    now[0] = 500.0
    assert remaining.get("a") == "a3"


def test_what_cannot_be_made_anew_stays_and_is_an_error_later():
    make, (now, read) = Maker(), clock()
    remaining = RefreshingCache(make, keep_s=10.0, serve_s=100.0, clock=read)
    remaining.get("a")
    make.fails, now[0] = True, 50.0
    assert remaining.get("a") == "a1"
    now[0] = 500.0
    try:
        remaining.get("a")
    except ValueError as error:
        assert str(error) == "a"
    else:
        raise AssertionError("an old value was given")


def test_only_so_many_keys_are_remembered():
    make = Maker()
    remaining = RefreshingCache(make, keep_s=1e9, most=2)
    for key in "abca":
        remaining.get(key)
    assert make.calls == ["a", "b", "c", "a"]


def test_many_who_ask_at_once_wait_for_one_value():
    make = Maker()
    remaining = RefreshingCache(make, keep_s=1e9)
    threads = [threading.Thread(target=remaining.get, args=("a",)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(WAIT_S)
    assert make.calls == ["a"]
