"""The most telling table of an application."""

import pickle
from dataclasses import replace

import pytest

from predictor.prediction_table import Part
from predictor.stored_table import encode
from predictor.types import Verdict
from sacct_ingest.records import Identity
from sacct_ingest.runs.layout import Layout, Unit
from slurm_plugin.decision.context_builder import TextCache
from slurm_plugin.decision.lookup import PackedTables, PredictionLookup
from tests.slurm_plugin.made import history, stored, table

ALICE = Identity("alice", "solve", script="5c1", line="11e")


def of(level, key, made=None, **fields):
    made = made or table
    return made(level=level, key=key, **fields)


def test_the_most_specific_curve_is_taken():
    line, script = of("line", "11e"), of("script", "5c1")
    assert stored(line, script).find(ALICE) == script
    assert stored(line).find(ALICE) == line


def test_a_broader_curve_that_says_the_same_with_more_behind_it_is_taken():
    script, line = of("script", "5c1", observed=(4, 8)), of("line", "11e", observed=(1, 2, 4, 8))
    assert stored(script, line).find(ALICE) == line


def test_a_broader_curve_that_says_something_else_is_not():
    script = of("script", "5c1", observed=(4, 8))
    slower = replace(
        script, observed=tuple(replace(p, time_s=2 * p.time_s) for p in script.observed)
    )
    line = of("line", "11e", observed=(1, 2, 4, 8))
    assert stored(slower, line).find(ALICE) == slower
    doubtful = replace(line, verdict=Verdict.DOUBTFUL)
    assert stored(script, doubtful).find(ALICE) == script
    elsewhere = replace(line, node_type="big")
    assert stored(script, elsewhere).find(ALICE) == script


def test_a_curve_goes_before_a_history_of_something_more_specific():
    edited = of("script", "5c1", model="history", verdict=Verdict.DOUBTFUL)
    line = of("line", "11e")
    assert stored(edited, line).find(ALICE) == line


def test_a_refused_curve_is_worth_no_more_than_a_history():
    script = of("script", "5c1", model="history")
    assert stored(script, of("line", "11e", verdict=Verdict.REFUSED)).find(ALICE) == script


def test_first_runs_of_a_script_do_not_hide_the_history_of_its_command_line():
    script = of("script", "5c1", observed=(4,), model="history", verdict=Verdict.REFUSED)
    line = of("line", "11e", model="history", verdict=Verdict.DOUBTFUL)
    assert stored(script, line).find(ALICE) == line
    slower = replace(
        script, observed=tuple(replace(p, time_s=2 * p.time_s) for p in script.observed)
    )
    assert stored(slower, line).find(ALICE) == slower, "it may be another application now"
    surer = replace(script, verdict=Verdict.DOUBTFUL)
    assert stored(surer, line).find(ALICE) == surer
    assert stored(script, replace(line, verdict=Verdict.REFUSED)).find(ALICE) == script


def test_runs_that_were_tagged_as_another_application_say_nothing_beside_own_ones():
    tagged = Identity("alice", "solve", tag="alice/solve", script="5c1")
    of_tag = of("tag", "alice/solve", history, tagged=("solve",))
    script = of("script", "5c1", tagged=("prepare", "solve"), unit=Unit.CPUS)
    assert stored(of_tag, script).find(tagged) == of_tag
    other_problem = replace(script, tagged=("solve",))
    assert stored(of_tag, other_problem).find(tagged) == other_problem
    assert stored(script).find(tagged) == script, "it is all that is known of a first run"
    assert stored(of_tag, script).find(replace(tagged, tag="")) == script


def test_user_and_name_are_better_than_nothing():
    assert stored(history()).find(ALICE).key == "alice/solve"


def test_an_empty_key_finds_nothing():
    assert stored(of("tag", "")).find(Identity("", "")) is None


def payloads(*made):
    return [(one.level, one.key, encode(one)) for one in made]


def test_renewed_tables_take_the_place_of_the_old_ones_one_by_one():
    gone, name = of("tag", "gone", runs=7), of("name", "alice/solve", runs=4)
    old = stored(of("line", "11e", runs=3), gone, name)
    identity = Identity("alice", "solve", line="11e")

    def new():
        yield from payloads(of("line", "11e", runs=33))
        assert (old.find(identity).runs, old.find(Identity("", "", "gone")).runs) == (33, 7)
        assert len(old) == 3
        yield from payloads(of("name", "alice/solve", runs=44))

    made = old.renewed(new(), version=2, off=[], node_types={})
    assert (len(made), made.version, made.find(identity).runs) == (2, 2, 33)
    assert made.find(Identity("", "", "gone")) is None


def test_where_new_tables_break_off_all_are_still_there_once():
    old = stored(of("line", "11e", runs=3), of("line", "22f", runs=4))

    def breaking_off(runs):
        yield from payloads(of("line", "11e", runs=runs))
        raise OSError

    for runs in (33, 34):
        with pytest.raises(OSError):
            old.renewed(breaking_off(runs), version=2, off=[], node_types={})
        assert len(old) == 2
        assert old.find(Identity("alice", "x", line="11e")).runs == runs
        assert old.find(Identity("alice", "x", line="22f")).runs == 4


def test_a_hundred_tables_are_retained_in_less_than_half_of_their_text():
    made = [table(key=f"k{n}", runs=n) for n in range(100)]
    packed = PackedTables()
    for one in made:
        packed.put(one.level, one.key, encode(one))
    assert len(pickle.dumps(packed)) < 0.5 * sum(len(encode(one)) for one in made)
    assert [packed.table("name", one.key) for one in made] == made


def test_the_tables_are_listed_while_another_thread_renews_them():
    packed = PackedTables()
    for key in ("11e", "22f"):
        packed.put("line", key, encode(of("line", key)))
    listed = []
    for identity in packed.identities():
        listed.append(identity)
        packed.put("line", f"3{len(listed)}", encode(of("line", "3")))
        packed.put(f"level {len(listed)}", "44", encode(of("line", "44")))
    assert listed == [("line", "11e"), ("line", "22f")]


def test_a_damaged_table_is_none_and_that_is_said_once(caplog):
    tables = PredictionLookup(
        [("line", "11e", '{"level": 7}'), ("name", "alice/solve", encode(history()))]
    )
    assert [tables.find(ALICE).key for _ in range(2)] == ["alice/solve"] * 2
    assert len([r for r in caplog.records if "table of 11e cannot be read" in r.message]) == 1


def test_a_table_is_decoded_once_and_when_it_is_asked_for(monkeypatch):
    decoded = []
    monkeypatch.setattr("slurm_plugin.decision.lookup.decode", decoded.append)
    tables = stored(of("line", "11e", runs=77), of("line", "other"))
    assert (len(tables), decoded) == (2, [])
    assert [tables.find(ALICE) for _ in range(2)] == [None, None]
    assert len(decoded) == 1


def test_a_job_finds_the_part_of_its_runs_with_the_same_attributes():
    nine, four = (of("line", f"11e#part={value}") for value in (9, 4))
    parts = (Part(nine.key, values=(("KPAR", "9"),)), Part(four.key, values=(("KPAR", "4"),)))
    whole = of("line", "11e", model="history", parts=parts)
    tables = stored(whole, nine, four)
    for layouts in (None, (Layout(4, 4),)):
        for own, value in ((nine, "9"), (four, "4")):
            assert tables.find(ALICE, layouts, attributes=lambda v=value: {"KPAR": v}) == own
        assert tables.find(ALICE, layouts, attributes=lambda: {"KPAR": "1"}) == whole
    assert tables.find(ALICE) == whole


def test_attributes_are_asked_for_only_where_parts_differ_by_them():
    def attributes():
        raise AssertionError("asked")

    line = of("line", "11e")
    assert stored(line).find(ALICE, attributes=attributes) == line


def test_values_are_there_until_they_come_to_too_much():
    cache = TextCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 6)
    assert (cache.get("a"), cache.get("b")) == (1, 2)
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, None, 3)


def test_what_is_larger_than_the_cache_is_not_cached():
    cache = TextCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 11)
    assert (cache.get("a"), cache.get("b")) == (1, None)
