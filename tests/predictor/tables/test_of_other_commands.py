"""Jobs of a name say of a new command no more than other commands of that name do."""

import random
from dataclasses import replace
from math import exp, log

import pytest

from predictor.tables.build import IdentityRuns
from predictor.tables.of_other_commands import command_interval
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from tests.predictor.rows import row

#: Names in a test of coverage; least and largest spread between the commands of one (log); how
#: many commands it has, runs of each, and their noise.
_NAMES = 200
_APART = (0.1, 1.5)
_COMMANDS = (2, 3, 5, 10)
_RUNS = 6
_NOISE = 0.05


def runs_of(rng, apart, commands, level=600.0):
    """Runs of several commands, each again and again; no number tells what they take."""
    times = [level * rng.lognormvariate(0, apart) for _ in range(commands)]
    rows = []
    for number in range(commands * _RUNS):
        command = number // _RUNS
        elapsed_s = round(times[command] * rng.lognormvariate(0, _NOISE), 1)
        rows.append(replace(row(2, elapsed_s), line=f"command-{command}"))
    return rows


@pytest.mark.parametrize("commands", _COMMANDS)
def test_nine_in_ten_new_commands_are_inside(commands):
    rng = random.Random(commands)
    inside = 0
    for _ in range(_NAMES):
        apart = exp(rng.uniform(log(_APART[0]), log(_APART[1])))
        low_s, high_s = command_interval(runs_of(rng, apart, commands), 0.9)
        new_s = 600 * rng.lognormvariate(0, apart) * rng.lognormvariate(0, _NOISE)
        inside += low_s <= new_s <= high_s
    assert inside >= 0.88 * _NAMES


def test_a_guess_by_name_reaches_as_far_as_commands_differ():
    """The last runs repeat one command, so they are no measure of another one."""
    rows = []
    for number in range(24):
        command = number // 8
        run = row(2, (100.0, 400.0, 200.0)[command] + number % 3)
        rows.append(replace(run, line=f"command-{command}", end_s=1000 * (number + 1)))
    made = tables_of(IdentityRuns(KeyLevel.NAME, "ann/solve", rows, 9e9), TableSettings())
    table = made[0].table
    low_s, high_s = command_interval(rows, table.confidence)
    assert low_s < 100
    assert high_s > 400
    assert table.low_s[0] == pytest.approx(low_s, rel=1e-3)
    assert table.high_s[0] == pytest.approx(high_s, rel=1e-3)
    assert table.low_s[0] < table.median_s[0] < table.high_s[0]


def test_where_no_command_is_known_nothing_changes():
    rows = [replace(row(2, 100.0 * exp(0.01 * number)), line="") for number in range(9)]
    assert command_interval(rows, 0.9) is None
    made = tables_of(IdentityRuns(KeyLevel.NAME, "ann/solve", rows, 9e9), TableSettings())
    assert made[0].table.high_s[0] < 300


def trainings(counts):
    """Runs of several commands of one name on one node, with other numbers of GPUs."""
    rows = []
    for number, gpus in enumerate(counts * 3):
        run = replace(row(1, 100 + 4000 / max(gpus, 1)), cpus=8 * max(gpus, 1), gpus=gpus or None)
        rows.append(replace(run, line=f"command-{number % 3}", end_s=9000 * (number + 1)))
    return rows


def table_of_name(rows):
    return tables_of(IdentityRuns(KeyLevel.NAME, "ann/solve", rows, 9e9), TableSettings())[0].table


def test_a_name_whose_commands_differ_in_gpus_is_counted_in_gpus():
    table = table_of_name(trainings((1, 2, 4, 8)))
    assert (table.unit, table.layout.gpus) == (Unit.GPUS, None)


def test_a_name_some_of_whose_commands_have_no_gpus_is_counted_in_nodes():
    assert table_of_name(trainings((0, 1, 2, 4, 8))).unit is Unit.NODES
