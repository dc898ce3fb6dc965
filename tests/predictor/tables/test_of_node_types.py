"""One application on several types of nodes: told for the type where it has not run, or rarely."""

import numpy as np
import pytest

from predictor.job_table import for_type
from predictor.refit import refit
from predictor.stored_table import decode
from predictor.table import at, verdict_at
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel, NodeProfile
from sacct_ingest.store import Store
from tests.predictor.rows import job

SPEED = {"amber": 1000.0, "birch": 1500.0, "cedar": 2600.0, "dale": 700.0}


def computing(nodes, speed):
    """WRF's kind: overheads and a part that the CPU's speed divides (aprof, equation 4)."""
    return (30 + 900 / nodes) * (0.2 + 800 / speed)


def waiting(nodes, speed):
    """A fifth computes; the disk does not care for the CPU."""
    return (20 + 800 / nodes) * (0.8 + 0.2 * 1000 / speed)


def profile(kind, **given):
    return [
        NodeProfile(
            cluster="pine", node=f"{kind}{i}", node_type=kind, at_s=1.0,
            cpu_events_per_s=SPEED[kind], **given,
        )
        for i in range(1, 4)
    ]  # fmt: skip


def history(true_s, counts, *, used=None, repeats=2):
    rng = np.random.default_rng(5)
    number = 0
    for kind, nodes in counts.items():
        for n in nodes * repeats:
            number += 1
            elapsed = round(true_s(n, SPEED[kind]) * rng.lognormal(0, 0.01))
            cpu_s = None if used is None else used * 4 * n * elapsed
            yield job(
                number, n, elapsed, node_list=f"{kind}[1-{n}]", comment="nimo:app=wrf", cpu_s=cpu_s
            )


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "nimo.db")) as store:
        for kind in SPEED:
            store.profiles.add(profile(kind))
        yield store


def table_of(store, runs):
    store.runs.add(runs)
    refit(store, now_s=1.8e9)
    (row,) = store.fits.find([(KeyLevel.TAG, "ann/wrf")])
    return decode(row.payload)


def of(table, kind):
    return next(one for one in table.by_type if one.node_type == kind)


ALL = (1, 2, 4, 8, 16)


@pytest.mark.slow
def test_a_new_type_is_distinguished_from_the_others_and_relied_on(store):
    table = table_of(store, history(computing, {"amber": ALL, "birch": ALL, "cedar": ALL}))
    dale = for_type(table, "dale")
    for n in (1, 4, 16):
        assert at(dale, n).time_s == pytest.approx(computing(n, SPEED["dale"]), rel=0.1)
    assert "aprof" in dale.model
    assert verdict_at(dale, 4) is Verdict.RELIABLE
    (problem, *_) = of(table, "dale").problems
    assert problem.name == "unseen_node_type"
    assert problem.observe in ALL


def test_one_type_observed_says_little_of_others(store):
    table = table_of(store, history(computing, {"amber": ALL}, used=0.8))
    assert (table.node_type, table.verdict) == ("amber", Verdict.RELIABLE)
    for kind in ("birch", "cedar", "dale"):
        one = for_type(table, kind)
        assert Verdict.RELIABLE not in one.verdicts
        assert "occupancy" in one.model
        # ObservedRatios from 0.8 of the time computing, the truth is within what is told.
        assert at(one, 4).low_s < computing(4, SPEED[kind]) < at(one, 4).high_s


def test_an_application_that_waits_gains_little_from_a_fast_cpu(store):
    table = table_of(store, history(waiting, {"amber": ALL}, used=0.2))
    cedar = for_type(table, "cedar")
    assert at(cedar, 4).time_s == pytest.approx(waiting(4, SPEED["cedar"]), rel=0.05)


@pytest.mark.slow
def test_few_runs_on_a_type_make_it_sure(store):
    counts = {"amber": ALL, "cedar": (4,)}
    table = table_of(store, history(computing, counts, used=0.9))
    cedar = for_type(table, "cedar")
    assert (table.runs, cedar.runs) == (10, 2)
    assert of(table, "cedar").problems[0].name == "few_on_node_type"
    assert at(cedar, 4).time_s == pytest.approx(computing(4, SPEED["cedar"]), rel=0.03)
    assert at(cedar, 8).time_s == pytest.approx(computing(8, SPEED["cedar"]), rel=0.1)
    assert verdict_at(cedar, 4) is Verdict.RELIABLE
    near, far = at(cedar, 4), at(cedar, 16)
    assert near.curve_sd < far.curve_sd


@pytest.mark.slow
def test_a_type_that_scales_otherwise_gets_its_own_curve(store):
    def torn(nodes, speed):
        return 900 / nodes if speed == SPEED["amber"] else 300 / nodes**0.2 + 20 * nodes

    table = table_of(store, history(torn, {"amber": ALL, "cedar": ALL}))
    cedar = for_type(table, "cedar")
    assert cedar.model == "averaged"
    assert at(cedar, 8).time_s == pytest.approx(torn(8, SPEED["cedar"]), rel=0.1)


def test_counts_on_two_types_make_one_curve_together(store):
    counts = {"amber": (1, 4), "cedar": (2, 8)}
    table = table_of(store, history(computing, counts, used=0.9))
    assert table.model == "averaged"
    assert table.verdict is Verdict.DOUBTFUL
    assert at(table, 2).time_s == pytest.approx(computing(2, SPEED["amber"]), rel=0.35)


def test_without_profiles_or_with_one_type_nothing_changes(tmp_path):
    runs = list(history(computing, {"amber": ALL}))
    with Store.open(str(tmp_path / "bare.db")) as bare, Store.open("sqlite://") as single:
        single.profiles.add(profile("amber"))
        assert table_of(bare, iter(runs)) == table_of(single, iter(runs))


def test_tables_of_other_types_are_small_and_look_ups_go_by_type(store):
    table = table_of(store, history(computing, {"amber": ALL, "birch": (2,)}))
    assert len(of(table, "dale").nodes) < len(table.nodes) / 2
    assert for_type(table, "amber") is table
    assert for_type(table, "") is table
    assert for_type(table, "unknown") is table
    assert [tail.share for tail in of(table, "dale").tails] == [t.share for t in table.tails]
