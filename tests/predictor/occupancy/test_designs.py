"""Designs over attributes, held against the paper's table 3 and against algebra."""

from itertools import islice

import numpy as np
import pytest

from predictor.occupancy.active.design import binary_search, effects, plackett_burman, signs
from predictor.occupancy.active.settings import (
    Error,
    FunctionForm,
    LearnerSettings,
    OccupancyPart,
    RefinementOrder,
    Selection,
)
from predictor.occupancy.active.space import MOST_CANDIDATES, Space

#: Rows 1, 2, 3, 15 and 16 of table 3 of the paper (VLDB 2006, appendix A), N = 7.
TABLE_3 = {
    1: [1, 1, 1, -1, 1, -1, -1],
    2: [-1, 1, 1, 1, -1, 1, -1],
    3: [-1, -1, 1, 1, 1, -1, 1],
    15: [-1, -1, 1, -1, 1, 1, -1],
    16: [1, 1, 1, 1, 1, 1, 1],
}


def test_table_3_of_the_paper():
    design = signs(7)
    assert design.shape == (16, 7)
    for row, expected in TABLE_3.items():
        assert design[row - 1].tolist() == expected


@pytest.mark.parametrize("count", range(1, 50))
def test_columns_are_orthogonal_and_the_fold_is_the_opposite(count):
    design = signs(count)
    half = len(design) // 2
    assert (design.T @ design == len(design) * np.eye(count, dtype=int)).all()
    assert (design.sum(axis=0) == 0).all()
    assert (design[half:] == -design[:half]).all()
    assert half % 4 == 0
    assert half > count
    # The first half alone is orthogonal, too: that is what makes it Plackett and Burman's.
    own = design[:half]
    assert (own.T @ own == half * np.eye(count, dtype=int)).all()


def test_sizes_are_the_next_that_a_construction_gives():
    sizes = [len(signs(count)) // 2 for count in (1, 3, 4, 7, 8, 11, 12, 15, 16, 19, 23, 24, 27)]
    assert sizes == [4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 32, 32]
    with pytest.raises(ValueError, match="at least one factor"):
        signs(0)
    with pytest.raises(ValueError, match="whole ones"):
        signs(1.5)  # type: ignore[arg-type]


def test_a_design_falls_on_assignments_that_can_be_had_once_each():
    space = Space.full({"a": (1.0, 2.0, 5.0), "b": (3.0, 4.0)}, {"a": True, "b": True})
    assert plackett_burman(space) == [
        {"a": 5.0, "b": 4.0},
        {"a": 1.0, "b": 4.0},
        {"a": 5.0, "b": 3.0},
        {"a": 1.0, "b": 3.0},
    ]
    part = Space(({"a": 1.0, "b": 3.0}, {"a": 5.0, "b": 4.0}), {"a": True, "b": True})
    assert {tuple(one.values()) for one in plackett_burman(part)} == {(1.0, 3.0), (5.0, 4.0)}


def test_an_effect_is_the_mean_above_less_the_mean_below_the_middle():
    space = Space.full({"a": (1.0, 2.0, 5.0), "b": (3.0, 4.0)}, {"a": True, "b": True})
    runs = [({"a": a, "b": b}, 10 * a - b) for a in (1.0, 3.0, 5.0) for b in (3.0, 4.0)]
    result = effects(space, runs)
    assert result["a"] == pytest.approx(50 - 20)
    assert result["b"] == pytest.approx(1.0)
    assert effects(space, runs[:2])["a"] == 0.0


def test_binary_search_takes_ends_middle_quarters_eighths():
    assert list(binary_search([2.0])) == [2.0]
    assert list(binary_search([9.0, 1.0])) == [1.0, 9.0]
    assert list(binary_search([1.0, 3.0, 9.0])) == [1.0, 9.0, 3.0]
    sixteen = [float(n) for n in range(17)]
    first = list(islice(binary_search(sixteen), 9))
    assert first == [0, 16, 8, 4, 12, 2, 6, 10, 14]
    # A tie of two levels goes to the lower one, and crowded levels come last, in order.
    assert list(binary_search([0.0, 4.0, 6.0, 10.0]))[2] == 4.0
    crowded = [1.0, 1.0001, 1.0002, 5.0]
    assert list(binary_search(crowded)) == [1.0, 5.0, 1.0002, 1.0001]


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_spaces_have_finite_attributes_above_zero(bad):
    with pytest.raises(ValueError, match=r"attribute a of an assignment is .*: it must be"):
        Space(({"a": 1.0}, {"a": bad}), {"a": True})


def test_spaces_that_cannot_be_learned_on_are_refused():
    for candidates, better in (((), {"a": True}), (({"a": 1.0},), {})):
        with pytest.raises(ValueError, match="no assignment, or no attribute"):
            Space(candidates, better)
    with pytest.raises(ValueError, match=r"the assignment \(2.0,\) is given twice"):
        Space(({"a": 1.0}, {"a": 2.0}, {"a": 2.0, "b": 1.0}), {"a": True})
    with pytest.raises(ValueError, match="attribute b of an assignment is None"):
        Space(({"a": 1.0, "b": 2.0}, {"a": 2.0}), {"a": True, "b": True})


def test_twenty_four_attributes_have_a_design_but_no_full_space():
    names = [f"a{n}" for n in range(24)]
    with pytest.raises(ValueError, match="16777216 assignments are more than 100000"):
        Space.full(dict.fromkeys(names, (1.0, 2.0)), dict.fromkeys(names, True))
    levels = {"a": tuple(map(float, range(1, MOST_CANDIDATES + 1)))}
    assert len(Space.full(levels, {"a": True}).candidates) == MOST_CANDIDATES


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *(({"target": bad}, "target is") for bad in (-1.0, float("nan"), float("inf"))),
        *(({"improvement": bad}, "improvement is") for bad in (-1.0, float("nan"))),
        *(({name: 0}, f"{name} is 0") for name in ("fewest", "in_a_row", "test_runs")),
        ({"parts": ()}, "parts"),
        ({"parts": (OccupancyPart.DISK, OccupancyPart.DISK)}, "parts"),
        ({"attributes": {OccupancyPart.DISK: ()}}, "attributes of disk"),
        ({"attributes": {OccupancyPart.DISK: ("a", "a")}}, "attributes of disk"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(given, why):
    with pytest.raises(ValueError, match=why):
        LearnerSettings(**given)


def test_the_smallest_settings_are_taken():
    made = LearnerSettings(target=0.0, improvement=0.0, fewest=1, in_a_row=1, test_runs=1)
    assert (made.form, made.selection) == (FunctionForm.CHOSEN, Selection.INFORMATIVE)
    assert (made.order, made.error) == (RefinementOrder.RELEVANCE, Error.AHEAD)
