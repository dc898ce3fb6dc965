"""Sizes of which a part is the same in all runs: random laws of run time, sizes and counts."""

import math
import random
from dataclasses import dataclass

import numpy as np
import pytest

from predictor.application import family
from predictor.application.surface import Slice
from predictor.sample import Sample

COUNTS = (1, 2, 4, 8, 16)
HISTORIES = 24
NOISE = 0.05


@dataclass(frozen=True)
class Law:
    """T = fixed + work · (x - constant)^power · y^other / n^shared."""

    constant: float
    power: float
    fixed_s: float
    other: float
    shared: float

    def time_s(self, count, x, y):
        beyond = max(x - self.constant, 0.0) ** self.power
        return 0.5 + self.fixed_s + beyond * y**self.other / count**self.shared


def histories(counts, others, *, constant, runs=30):
    """Random laws with their runs; sizes are what lies beyond the constant part, spread evenly."""
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        law = Law(
            constant=rng.uniform(300, 3000) if constant else 0.0,
            power=rng.uniform(0.8, 1.3),
            fixed_s=rng.choice((0.0, rng.uniform(5, 60))),
            other=rng.uniform(0.3, 1) if others else 0.0,
            shared=rng.uniform(0.6, 1) if counts else 0.0,
        )
        most = rng.uniform(50, 1000)
        sizes = [law.constant + most * math.exp(rng.uniform(-3, 0)) for _ in range(8)]
        places = [
            (
                rng.choice(COUNTS) if counts else 2,
                rng.choice(sizes),
                rng.choice((1.0, 2.0, 5.0, 10.0)) if others else 1.0,
            )
            for _ in range(runs)
        ]
        given = [
            Sample(n, law.time_s(n, x, y) * math.exp(rng.gauss(0, NOISE)), numbers={"x": x, "y": y})
            for n, x, y in places
        ]
        yield law, given


def error(law, given, counts, others):
    """Mean log error on new sizes within the range run."""
    names = ("x", "y") if others else ("x",)
    columns = {name: np.array([run.numbers[name] for run in given]) for name in names}
    made = family.fit_family(given, columns, [np.ones(len(given))], [])
    sizes = columns["x"]
    new = [sizes.min() + share * np.ptp(sizes) for share in (0.1, 0.3, 0.5, 0.8)]
    errors = []
    for x in new:
        for y in (1.0, 3.0, 10.0) if others else (1.0,):
            at_sizes = Slice(made.surface, (x, y)[: len(names)])
            errors += [
                abs(at_sizes.logs(n)[0] - math.log(law.time_s(n, x, y)))
                for n in (COUNTS if counts else (2,))
            ]
    return float(np.mean(errors))


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_new_sizes_are_predicted_though_most_of_them_is_the_same(counts, others):
    errors = [
        error(law, given, counts, others) for law, given in histories(counts, others, constant=True)
    ]
    assert np.median(errors) < NOISE
    assert np.quantile(errors, 0.9) < 2 * NOISE


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_no_history_is_much_worse_for_it(counts, constant, monkeypatch):
    laws = list(histories(counts, True, constant=constant, runs=14))
    errors = [error(law, given, counts, True) for law, given in laws]
    monkeypatch.setattr(family, "_suspected", lambda data: [])
    ignoring = [error(law, given, counts, True) for law, given in laws]
    assert np.mean(errors) <= np.mean(ignoring) + 0.002
    assert all(one < other + NOISE for one, other in zip(errors, ignoring, strict=True))
