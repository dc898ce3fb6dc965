"""The most telling table of an application."""

from predictor.types import Verdict
from sacct_ingest.records import Identity
from slurm_plugin.tables import Tables
from tests.slurm_plugin.made import history, table

ALICE = Identity("alice", "solve", script="5c1", line="11e")


def of(level, key, made=None, **fields):
    made = made or table
    return made(level=level, key=key, **fields)


def test_the_most_specific_curve_is_found():
    line, script = of("line", "11e"), of("script", "5c1")
    assert Tables([line, script]).find(ALICE) is script
    assert Tables([line]).find(ALICE) is line


def test_a_curve_goes_before_a_history_of_something_more_specific():
    edited = of("script", "5c1", model="history", verdict=Verdict.DOUBTFUL)
    line = of("line", "11e")
    assert Tables([edited, line]).find(ALICE) is line


def test_a_refused_curve_is_worth_no_more_than_a_history():
    script = of("script", "5c1", model="history")
    assert Tables([script, of("line", "11e", verdict=Verdict.REFUSED)]).find(ALICE) is script


def test_user_and_name_are_better_than_nothing():
    assert Tables([history()]).find(ALICE).key == "alice/solve"


def test_an_empty_key_finds_nothing():
    assert Tables([of("tag", "")]).find(Identity("", "")) is None


def test_dismantled_tables_hold_nothing():
    tables = Tables([history()])
    tables.dismantle()
    assert len(tables) == 0
    assert tables.find(ALICE) is None
