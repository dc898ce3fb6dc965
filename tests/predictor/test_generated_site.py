"""A generated site through store and refit: what its tables say of the next runs, over seeds.

Applications are as in :mod:`tests.predictor.level.test_backtest`; here each is several users' jobs
in one store, and what counts is the table that a submission would find.
"""

import random
from dataclasses import dataclass
from functools import cache, partial

import pytest

from predictor.refit import refit
from predictor.stored_table import decode
from predictor.table import at, verdict_at
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.predictor.level.test_backtest import (
    COUNTS,
    alternating,
    changing,
    heavy,
    hung,
    inputs,
    steady,
)
from tests.predictor.rows import job

pytestmark = pytest.mark.slow
SEEDS = range(4)
RUNS = 40
#: Next runs on each node count: with one, a share of 85 % inside would be a matter of luck.
DRAWN = 10


def larger(rng, nodes, number):
    """The same script with another user's input, which takes seven times as long."""
    return 7 * steady(rng, nodes, number)


#: Who runs what; ann and bob have one script and other inputs.
GOOD = {("ann", "solve"): steady, ("bob", "solve"): larger, ("eve", "hangs"): hung}
BAD = {
    ("cyd", "mixture"): inputs,
    ("dan", "turns"): alternating,
    ("fay", "drifts"): changing,
    ("guy", "tails"): heavy,
}


@dataclass(frozen=True)
class Next:
    """One more run of an application, with what the site's tables said of it."""

    application: tuple[str, str]
    verdict: Verdict
    inside: bool
    ratio: float  #: actual over predicted run time


def runs_of(seed):
    """Give the runs of the site, those of an application one after the other."""
    number = 0
    for (user, name), times in (GOOD | BAD).items():
        rng, at_s = random.Random(f"{name} {user} {seed}"), 1_790_000_000
        for i in range(RUNS):
            number += 1
            nodes = rng.choice(COUNTS)
            elapsed = round(times(rng, nodes, i), 3)
            line = f"sbatch -N {nodes} {name}.sh"
            end = at_s + round(elapsed)
            times_s = {"submit_s": at_s, "start_s": at_s, "end_s": end}
            yield job(number, nodes, elapsed, user=user, name=name, submit_line=line, **times_s)
            at_s = end + 60


@cache
def next_runs(seed):
    """Fit the site twice, as what the first fit adds counts from the second on, and ask it."""
    with Store.open("sqlite://") as store:
        store.runs.add(runs_of(seed))
        refit(store, now_s=5.0)
        refit(store, now_s=6.0)
        rows = [decode(row.payload) for row in store.fits.all() if row.level is KeyLevel.LINE]
    tables = {(table.owner, table.label.rpartition("/")[2]): table for table in rows}
    assert set(tables) == set(GOOD | BAD)
    made = []
    for application, times in (GOOD | BAD).items():
        rng = random.Random(f"next {application} {seed}")
        ask = partial(_next, application, tables[application])
        for i, nodes in enumerate(COUNTS * DRAWN):
            made.append(ask(nodes, times(rng, nodes, RUNS + i)))
    return tuple(made)


def _next(application, table, nodes, actual_s):
    said = at(table, nodes)
    inside = said.low_s <= actual_s <= said.high_s
    return Next(application, verdict_at(table, nodes), inside, actual_s / said.time_s)


def all_next():
    return [one for seed in SEEDS for one in next_runs(seed)]


@pytest.mark.parametrize("application", GOOD)
def test_a_good_application_is_reliable_and_is_what_it_says(application):
    own = [one for one in all_next() if one.application == application]
    reliable = [one for one in own if one.verdict is Verdict.RELIABLE]
    assert len(reliable) >= 0.8 * len(own)
    good = [one for one in reliable if 0.8 <= one.ratio <= 1.2]
    assert len(good) >= 0.9 * len(reliable)
    assert sum(one.inside for one in reliable) >= 0.85 * len(reliable)


@pytest.mark.parametrize("application", BAD)
def test_a_bad_application_is_never_reliable(application):
    own = [one for one in all_next() if one.application == application]
    assert own
    assert all(one.verdict is not Verdict.RELIABLE for one in own)


def test_the_intervals_of_the_tables_hold_nine_in_ten():
    """Each application's own hold most: a wide one does not make up for a narrow one."""
    every = all_next()
    assert 0.85 <= sum(one.inside for one in every) / len(every) <= 0.99
    for application in GOOD | BAD:
        own = [one for one in every if one.application == application]
        assert sum(one.inside for one in own) >= 0.7 * len(own), application
