"""Applications found, put in order, and seen by whom."""

import threading

import pytest

from predictor.refit import row_of
from predictor.types import Verdict
from slurm_plugin.web.data import ORDERS, Catalogue, CatalogueQuery, entry_of, may_see
from slurm_plugin.web.refreshing_cache import NotReady, RefreshingCache
from tests.slurm_plugin.made import table
from tests.slurm_plugin.web.conftest import ALL, own, tables


def everything(entry):
    return True


@pytest.fixture
def catalogue():
    return Catalogue(entry_of(row_of(one), off=one.key == "b1") for one in tables())


def matches(catalogue, **expected):
    return [one.key for one in catalogue.select(CatalogueQuery(**expected), everything)]


def test_curves_come_first_the_best_recorded_first(catalogue):
    assert matches(catalogue) == ["a1", "bob/ocean/d01", "b2", "b1"]


def test_words_are_matched_in_any_case_and_order(catalogue):
    assert matches(catalogue, text="D01 oce") == ["bob/ocean/d01"]
    assert matches(catalogue, text="wrf", group="all") == ["a1", "ada/wrf"]
    assert matches(catalogue, text="wrf nowhere") == []


@pytest.mark.parametrize(
    ("expected", "keys"),
    [
        ({"group": "histories"}, ["ada/wrf", "bob"]),
        ({"verdict": "doubtful"}, ["b1"]),
        ({"verdict": "off"}, ["b1"]),
        ({"verdict": "refused"}, []),
        ({"order": "runs"}, ["a1", "bob/ocean/d01", "b2", "b1"]),
        ({"order": "runs", "reverse": True}, ["b1", "b2", "bob/ocean/d01", "a1"]),
        ({"order": "application"}, ["a1", "b2", "b1", "bob/ocean/d01"]),
    ],
)
def test_choices_and_orders(catalogue, expected, keys):
    assert matches(catalogue, **expected) == keys


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_can_be_turned_round(catalogue, order):
    there = matches(catalogue, order=order, group="all")
    assert matches(catalogue, order=order, group="all", reverse=True) == there[::-1]


@pytest.mark.parametrize(
    ("visibility", "keys"),
    [
        (ALL, {"a1", "b1", "b2", "bob/ocean/d01", "ada/wrf", "bob"}),
        (own("ada"), {"a1", "ada/wrf"}),
        (own("bob"), {"b1", "b2", "bob", "bob/ocean/d01"}),
        (own("bo"), set()),
    ],
)
def test_users_see_their_own(catalogue, visibility, keys):
    observed = catalogue.select(CatalogueQuery(group="all"), may_see(visibility))
    assert {one.key for one in observed} == keys


def test_what_users_share_is_not_shown_as_anybodys_own():
    one = entry_of(row_of(table(level="tag", key="@ada/wrf", label="@ada/wrf")), off=False)
    assert not may_see(own("ada"))(one)


def test_an_application_without_observations_has_no_range():
    one = entry_of(row_of(table(observed=(), verdict=Verdict.REFUSED)), off=False)
    assert (one.nodes, ORDERS["nodes"][0](one)) == (frozenset(), 0)


def test_an_application_is_listed_once_and_says_what_tells_it_apart():
    made = [
        table(level="line", key="aa", label="ada/wrf", runs=9, command="wrf.sh d01"),
        table(level="script", key="cc", label="ada/wrf", runs=8, command="wrf.sh d01"),
        table(level="line", key="bb", label="ada/wrf", runs=7, command="wrf.sh d02"),
    ]
    pages = Catalogue(entry_of(row_of(one), off=False) for one in made)
    assert matches(pages) == ["aa", "bb"]
    assert len(matches(pages, group="all")) == 3
    entries = pages.select(CatalogueQuery(), everything)
    assert [pages.details(one) for one in entries] == ["wrf.sh d01", "wrf.sh d02"]


WAIT_S = 60.0


class Maker:
    def __init__(self):
        self.calls = []
        self.made = threading.Semaphore(0)
        self.fails = False

    def __call__(self, key):
        self.calls.append(key)
        self.made.release()
        if self.fails:
            raise ValueError(key)
        return f"{key}{len(self.calls)}"


def clock():
    now = [0.0]
    return now, lambda: now[0]


def test_a_value_is_made_once_and_again_when_it_is_old():
    make, (now, read) = Maker(), clock()
    remaining = RefreshingCache(make, keep_s=10.0, clock=read)
    assert [remaining.get("a"), remaining.get("a"), remaining.get("b")] == ["a1", "a1", "b2"]
    now[0] = 11.0
    assert remaining.get("a") == "a3"


def test_what_takes_long_to_make_is_good_for_longer():
    now, read = clock()
    made = []

    def make(key):
        now[0] += 3.0
        made.append(key)
        return len(made)

    remaining = RefreshingCache(make, keep_s=10.0, clock=read)
    assert remaining.get("a") == 1
    now[0] += 59.0
    assert remaining.get("a") == 1
    now[0] += 2.0
    assert remaining.get("a") == 2


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


def test_who_has_no_time_is_told_that_it_takes_longer():
    begin, waits = threading.Event(), []

    def make(key):
        waits.append(key)
        assert begin.wait(WAIT_S)
        return key

    remaining = RefreshingCache(make, keep_s=1e9)
    for _ in range(3):
        with pytest.raises(NotReady):
            remaining.get("a", patience_s=0.0)
    begin.set()
    assert remaining.get("a", patience_s=WAIT_S) == "a"
    assert waits == ["a"]


def test_what_cannot_be_made_is_an_error_for_who_has_no_time_too():
    make = Maker()
    make.fails = True
    with pytest.raises(ValueError, match=r"^a$"):
        RefreshingCache(make, keep_s=1.0).get("a", patience_s=WAIT_S)


def test_what_cannot_be_made_anew_stays_and_is_an_error_later():
    make, (now, read) = Maker(), clock()
    remaining = RefreshingCache(make, keep_s=10.0, serve_s=100.0, clock=read)
    remaining.get("a")
    make.fails, now[0] = True, 50.0
    assert remaining.get("a") == "a1"
    now[0] = 500.0
    with pytest.raises(ValueError, match=r"^a$"):
        remaining.get("a")


class Kept:
    """A shelf, with the age of all that is on it."""

    def __init__(self, values, age_s):
        self.values, self.age_s = dict(values), age_s

    def find(self, key):
        return (self.values[key], self.age_s) if key in self.values else None

    def put(self, key, value):
        self.values[key] = value


def test_what_the_process_before_made_is_given_at_once_while_a_new_one_is_made():
    make, (now, read) = Maker(), clock()
    shelf = Kept({"a": "old"}, 5000.0)
    remaining = RefreshingCache(make, keep_s=10.0, serve_s=1e4, clock=read, shelf=shelf)
    assert remaining.get("a", patience_s=0.0) == "old"
    assert make.made.acquire(timeout=WAIT_S)
    end = threading.Event()
    while remaining.get("a") == "old":
        assert not end.wait(0.01)
    assert remaining.age_s("a") == now[0]
    assert shelf.values == {"a": "a1"}


@pytest.mark.parametrize("is_quick", [True, False])
def test_what_is_soon_made_is_shown_in_place_of_what_another_process_made(is_quick):
    end = threading.Event()

    def make(key):
        assert is_quick or end.wait(WAIT_S)
        return f"new {key}"

    remaining = RefreshingCache(
        make, keep_s=1e4, shelf=Kept({"a": "old"}, 5000.0), first_s=WAIT_S if is_quick else 0.01
    )
    assert remaining.get("a") == ("new a" if is_quick else "old")
    end.set()


def test_the_age_of_what_is_shown_is_known():
    shelf = Kept({"a": "old"}, 5000.0)
    remaining = RefreshingCache(Maker(), keep_s=1e4, clock=lambda: 7.0, shelf=shelf)
    assert remaining.age_s("a") == 0.0
    remaining.get("a")
    assert remaining.age_s("a") == 5000.0


def test_what_is_too_old_to_be_shown_is_made_anew():
    shelf = Kept({"a": "old"}, 5000.0)
    assert RefreshingCache(Maker(), keep_s=10.0, serve_s=100.0, shelf=shelf).get("a") == "a1"


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
