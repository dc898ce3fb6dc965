"""When an array ends: by its tasks, how many run at once, and what is free."""

from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sacct_ingest.runs.layout import Unit
from slurm_plugin.decision.array_end import array_text
from slurm_plugin.slurm.node_pool import profile
from slurm_plugin.slurm.supply import Supply
from tests.slurm_plugin.decision.test_sizes import FREE, TASKS, advice, look, one_node, sized
from tests.slurm_plugin.made import NOW

HOUR = 3600.0


@pytest.mark.parametrize(
    ("array", "supply", "said"),
    [
        ("0-9", None, ""),
        ("0-9%2", None, "All 10 tasks, 2 at once, end in about 5 h."),
        ("1,3,5-9:2%1", None, "All 5 tasks, 1 at once, end in about 5 h."),
        ("0-9", profile([(NOW, 8)]), "All 10 tasks end in about 3 h."),
        ("0-9", profile([(NOW, 4), (NOW + HOUR, 16)]), "All 10 tasks end in about 2 h."),
        ("0-9%50", profile([(NOW, 20)]), "All 10 tasks end in about 1 h."),
        ("0-9", profile([(NOW, 1)]), ""),
        ("7", None, ""),
        ("1-9:0", None, ""),
        ("1-0", None, ""),
    ],
)
def test_the_end_of_an_array(array, supply, said):
    assert array_text(array, 2, HOUR, supply, begin_s=NOW) == said


@pytest.mark.parametrize(("part", "hours"), [(1.0, 4), (0.5, 2), (0.25, 1), (1 / 3, 2)])
def test_tasks_that_take_a_part_of_a_node_run_beside_each_other(part, hours):
    free = profile([(NOW, 4)])
    supply = Supply(
        partition="batch",
        unit=Unit.NODES,
        total=4,
        part=part,
        most=4,
        free=free,
        free_by_limits=free,
    )
    said = array_text("0-15", 1, HOUR, supply.room, begin_s=NOW)
    assert said == f"All 16 tasks end in about {hours} h."


def hours_of(text):
    *_, number, unit = text.removesuffix(".").split()
    return float(number) * {"h": 1, "days": 24}[unit]


@example(tasks=2910, at_once=81, places=7, size=1)
@given(
    tasks=st.integers(2, 20_000),
    at_once=st.integers(1, 5000),
    places=st.integers(1, 64),
    size=st.integers(1, 8),
)
def test_with_so_many_places_it_takes_so_many_rounds(tasks, at_once, places, size):
    supply = profile([(NOW, places * size)])
    text = array_text(f"1-{tasks}%{at_once}", size, 36_000.0, supply, begin_s=NOW)
    hours = hours_of(text)
    # In the text two digits or so; beyond 300 rounds the end goes by the pace.
    assert hours == pytest.approx(10 * ceil(tasks / min(at_once, places)), rel=0.051, abs=0.51)


def test_many_steps_of_what_is_free_are_thinned():
    crowded = profile([(NOW, 8), *((NOW + 9.0 * step, 1) for step in range(5000))])
    said = array_text("0-99999", 1, 50_000.0, crowded, begin_s=NOW)
    hours = hours_of(said)
    # Of 5,008 places all are free after half a day: 20 rounds of 14 h, and what comes before.
    assert 276 <= hours <= 277 + 28 + 12  # said in whole days


def test_of_an_array_what_a_size_is_made_of_is_said_too():
    job = one_node(num_tasks=4, cpus_per_task=2, array_inx="0-99%4")
    said = advice(job, tables=[sized(TASKS)]).size_text
    assert "one task of the array. All 100 tasks, 4 at once, end in about " in said
    assert "tasks with 2 CPUs each have " in said


def test_advice_on_an_array_says_when_it_ends():
    job = one_node(cpus_per_task=4, min_cpus=4, array_inx="0-99%4")
    said = advice(job, where=look(FREE)).size_text
    assert said.startswith("The numbers are those of one task of the array. All 100 tasks, 4 at")
