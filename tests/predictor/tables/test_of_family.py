"""Rows of runs whose sizes differ: what all say, and the last ones where run times drift."""

import math
import random

import numpy as np

from predictor.application.surface import for_sizes
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from tests.predictor.rows import submitted
from tests.predictor.tables.test_parts import row

SIZES = (500, 5000, 1000, 4000, 2000, 3000, 1500)


def row_of(count, *, seed, noise, slower=lambda number: 1.0):
    """Row of 2,500 steps on two nodes, over what they take, after ``count`` runs of other sizes."""
    rng, given = random.Random(seed), []
    for number in range(count):
        steps = rng.choice(SIZES)
        elapsed_s = (200 + 6 * steps) * slower(number) * math.exp(rng.gauss(0, noise))
        one = row(9000 * number, 2, round(elapsed_s))
        given.append(submitted(one, f"sbatch md.sh --steps {steps}", line=f"l{steps}"))
    runs = IdentityRuns(KeyLevel.NAME, "ann/solve", given, 9e9)
    whole = tables_of(runs, TableSettings())[0].table
    return at(for_sizes(whole, {"--steps": 2500.0}), 2).time_s / (200 + 6 * 2500)


def test_without_drift_all_runs_say_the_level_not_the_last_ones():
    rows = [row_of(14, seed=seed, noise=0.15) for seed in range(24)]
    assert np.abs(np.log(rows)).mean() < 0.06  # of 14 runs with errors of 0.15


def test_where_run_times_moved_the_last_runs_say_the_level():
    rows = [
        row_of(36, seed=seed, noise=0.03, slower=lambda number: 1.5 if number > 23 else 1.0)
        for seed in range(6)
    ]
    assert np.all(np.abs(np.log(rows) - math.log(1.5)) < 0.12)


def test_counts_between_drifting_ones_that_never_ran_go_along():
    rng, given = random.Random(3), []
    for number in range(120):
        steps, nodes = rng.choice(SIZES), (2, 4, 8)[number % 3]
        moved = 2.0 if number >= 90 else 1.0
        elapsed_s = (20 + 0.6 * steps / nodes) * moved * math.exp(rng.gauss(0, 0.02))
        one = row(9000 * number, nodes, round(elapsed_s))
        given.append(submitted(one, f"sbatch -N {nodes} md.sh --steps {steps}", line=f"l{steps}"))
    runs = IdentityRuns(KeyLevel.NAME, "ann/solve", given, 9e9)
    whole = tables_of(runs, TableSettings())[0].table
    rows = [at(whole, n).time_s for n in (2, 3, 4, 6, 8)]
    assert rows == sorted(rows, reverse=True)
