"""aprof's sums in a store: each run once, whatever comes twice, late, changed or from elsewhere."""

import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from predictor.node_types import sums
from predictor.node_types.product_form import ProductForm
from predictor.node_types.recognition import NodeTypes
from predictor.node_types.sums import FORMS, decode
from sacct_ingest.records import JobState, KeyLevel, NodeProfile
from sacct_ingest.store import Store
from tests.predictor.rows import job

SPEED = {"old": 1000.0, "new": 2500.0}


def true_s(nodes, speed):
    return (20 + 400 / nodes) * (0.3 + 1000 / speed)


def profiles(speed=SPEED):
    return [
        NodeProfile(
            cluster="pine", node=f"{kind[0]}{i}", node_type=kind, at_s=1.0, cpu_events_per_s=value
        )
        for kind, value in speed.items()
        for i in range(1, 9)
    ]


def runs(first=1):
    """One run on 1 to 8 nodes of each type, of an application with a tag."""
    made, number = [], first
    for kind, speed in SPEED.items():
        for nodes in (1, 2, 4, 8):
            names = f"{kind[0]}[1-{nodes}]" if nodes > 1 else f"{kind[0]}1"
            elapsed = round(true_s(nodes, speed), 3)
            made.append(job(number, nodes, elapsed, node_list=names, comment="nimo:app=wrf"))
            number += 1
    return made


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "nimo.db")) as store:
        store.profiles.add(profiles())
        yield store


def add(store):
    return sums.add_runs(store, sums.node_types(store))


def all_sums(store):
    return {
        (level.value, key, row.node_type, row.form): decode(row.payload)
        for level in KeyLevel
        for key, rows in store.sums.of_level(level).items()
        for row in rows
    }


def same(one, other):
    first, second = all_sums(one), all_sums(other)
    return first.keys() == second.keys() and all(
        first[key].count == second[key].count
        and np.allclose(first[key].hh, second[key].hh, rtol=1e-9)
        and np.allclose(first[key].hx, second[key].hx, rtol=1e-9)
        for key in first
    )


def other_store(tmp_path):
    made = Store.open(str(tmp_path / "other.db"))
    made.profiles.add(profiles())
    return made


def test_each_run_is_in_the_sums_once(store):
    store.runs.add(runs())
    assert add(store) == 8
    before = all_sums(store)
    # A known node type without its memory's figure has no form with memory.
    assert {key[3] for key in before} == {"nodes", "cpu", "cpu_tasks"}
    assert before["tag", "ann/wrf", "old", "cpu"].count == 4
    store.runs.add(runs())
    assert add(store) == 0
    assert all_sums(store) == before


def test_the_size_of_a_tag_is_the_load(store):
    """Twice the size takes twice as long; one run names none, and is in the other forms alone."""
    plain = runs()
    tagged = [
        msgspec.structs.replace(
            one, elapsed_s=number * one.elapsed_s, comment=f"nimo:app=wrf,size={number}"
        )
        for number, one in enumerate(plain, 1)
    ]
    store.runs.add([*tagged, msgspec.structs.replace(plain[0], job_id=99)])
    assert add(store) == 9
    stored = all_sums(store)
    assert stored["tag", "ann/wrf", "old", "load"].count == 4
    assert stored["tag", "ann/wrf", "old", "cpu"].count == 5
    both = stored["tag", "ann/wrf", "old", "load"].merge(stored["tag", "ann/wrf", "new", "load"])
    assert (both.resources, both.count) == (("nodes", "cpu", "load"), 8)


def with_network():
    """Profiles of nodes whose network was measured, too."""
    return [replace(one, at_s=2.0, net_bandwidth_bytes_per_s=1e9) for one in profiles()]


def test_a_form_that_a_store_has_not_yet_is_filled_from_all_of_its_runs(
    store, tmp_path, monkeypatch
):
    """An older release had no form with the network; all that it took is in the new one, once."""
    store.profiles.add(with_network())
    store.runs.add(runs())
    with monkeypatch.context() as older:
        older.setattr(sums, "FORMS", {k: v for k, v in FORMS.items() if k != "cpu_network"})
        add(store)
    assert not [key for key in all_sums(store) if key[3] == "cpu_network"]
    store.runs.add([msgspec.structs.replace(runs()[0], elapsed_s=500.0), *runs(20)])
    add(store)
    with other_store(tmp_path) as fresh:
        fresh.profiles.add(with_network())
        fresh.runs.add([msgspec.structs.replace(runs()[0], elapsed_s=500.0), *runs()[1:]])
        fresh.runs.add(runs(20))
        add(fresh)
        assert same(store, fresh)
    assert all_sums(store)["tag", "ann/wrf", "old", "cpu_network"].count == 8


def test_the_order_does_not_matter(store, tmp_path):
    store.runs.add(runs())
    add(store)
    with other_store(tmp_path) as other:
        shuffled = runs()
        random.Random(3).shuffle(shuffled)
        for one in shuffled:
            other.runs.add([one])
            add(other)
        assert same(store, other)


def test_a_run_that_changed_is_taken_out_first(store, tmp_path):
    first = msgspec.structs.replace(runs()[0], elapsed_s=9999.0)
    store.runs.add([first, *runs()[1:]])
    add(store)
    store.runs.add(runs())
    assert add(store) == 1
    with other_store(tmp_path) as other:
        other.runs.add(runs())
        add(other)
        assert same(store, other)


def test_a_run_that_turns_out_to_be_the_rest_of_a_resized_job_is_taken_out(store, tmp_path):
    store.runs.add(runs())
    add(store)
    store.runs.add([msgspec.structs.replace(runs()[0], state=JobState.RESIZING)])
    assert add(store) == 1
    assert add(store) == 0
    with other_store(tmp_path) as other:
        other.runs.add(runs()[1:])
        add(other)
        assert same(store, other)


def test_a_run_that_failed_adds_nothing_and_a_kill_leaves_no_half(store, monkeypatch):
    store.runs.add([msgspec.structs.replace(runs()[0], state=JobState.FAILED)])
    assert add(store) == 0
    store.runs.add(runs()[1:])

    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sums, "fold", broken)
        with pytest.raises(KeyboardInterrupt):
            add(store)
    assert all_sums(store) == {}
    assert add(store) == 7


def test_merging_two_hosts_counts_what_both_saw_once(store, tmp_path):
    store.runs.add(runs()[:5])
    add(store)
    with other_store(tmp_path) as other, Store.open("sqlite://") as whole:
        other.runs.add(runs()[3:])
        add(other)
        assert sums.merge(store, other.sums.contributions()) == 3
        assert sums.merge(store, other.sums.contributions()) == 0
        whole.profiles.add(profiles())
        whole.runs.add(runs())
        add(whole)
        assert same(store, whole)
        # What the other host saw is ingested here as well, later.
        store.runs.add(runs())
        add(store)
        assert same(store, whole)


def test_a_new_measurement_of_a_node_type_counts_for_all_its_runs(store):
    store.runs.add(runs())
    add(store)
    faster = {"old": 1000.0, "new": 3000.0}
    store.profiles.add(profiles(faster))
    assert add(store) == 4
    sums = all_sums(store)["tag", "ann/wrf", "new", "cpu"]
    assert sums.count == 4
    assert sums.hh[0][2] == pytest.approx(sums.hh[0][0] / 3000)


def test_a_new_node_type_is_predicted_from_its_profile(store):
    store.runs.add(runs())
    add(store)
    merged = all_sums(store)["tag", "ann/wrf", "old", "cpu"].merge(
        all_sums(store)["tag", "ann/wrf", "new", "cpu"]
    )
    fit = ProductForm().fit(merged)
    assert FORMS["cpu"] == ("nodes", "cpu")
    for nodes in (2, 6):
        result = fit.predict({"nodes": nodes, "cpu": 1600.0})
        assert result.time_s == pytest.approx(true_s(nodes, 1600.0), rel=1e-3)


def test_the_type_of_a_run_is_that_of_its_nodes():
    types = NodeTypes.of(
        profiles(), [("pine", "a", "old"), ("pine", "b", "old"), ("pine", "b", "new")]
    )
    assert types.of_run("pine", "o[1-4]", "") == "old"
    assert types.of_run("pine", "o1,n1", "a") == ""
    assert types.of_run("pine", "o1,unmeasured7", "") == "old"
    assert types.of_run("oak", "o1", "") == ""
    assert types.of_run("pine", "unmeasured7", "a") == "old"
    assert types.of_run("pine", "unmeasured7", "b") == ""
    assert types.of_run("pine", "n[a-b]", "a") == ""
