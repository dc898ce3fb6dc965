"""A job that runs on one count again and again, whose level moves once: how soon it is followed.

Each history has its own noise and shift; a shift of 1 is none.  The row of each of the ten runs
after it is read off the table of the runs before: error and interval score of log run time.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import _bench
from history_accuracy import stored

from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import RunRow

#: Runs before the shift, and those after it that are predicted.
BEFORE, AFTER = (6, 12, 24, 48), 10
NOISES, SHIFTS = (0.02, 0.05, 0.15), (1.0, 1.25, 1.6, 2.5)
_NODES, _USUAL_S, _APART_S = 4, 2000.0, 20_000


@dataclass(frozen=True, slots=True)
class After:
    """What was said of one run after a shift."""

    number: int  #: runs since the shift
    error: float  #: of log run time
    score: float  #: of the interval of log run time at 90 %


def main() -> None:
    """Walk the histories, and print."""
    parser = _bench.options(__doc__)
    parser.add_argument("--draws", type=int, default=1, metavar="N", help="histories of each kind")
    arguments = parser.parse_args()
    like = replace(stored(None)[0], nodes=_NODES, limit_s=86_400)
    table = []
    for shift in SHIFTS[1:3] if arguments.quick else SHIFTS:
        said = [
            one
            for noise in NOISES
            for before in BEFORE
            for draw in range(arguments.draws)
            for one in walk(like, before, shift, noise, draw)
        ]
        row: dict[str, float] = {"shift": shift}
        for first, last in ((2, 4), (5, 7), (8, 10)):
            errors = [abs(one.error) for one in said if first <= one.number <= last]
            row[f"error of runs {first} to {last}, %"] = 100 * math.expm1(median(errors))
        table.append({**row, "interval score": fmean(one.score for one in said)})
    _bench.table(table, title="Runs after a shift of level")
    _bench.write(arguments.json, shifts=table)


def walk(like: RunRow, before: int, shift: float, noise: float, draw: int) -> Iterator[After]:
    """Predict the runs after a shift, up or down, each from those before it."""
    rng = random.Random(f"{shift} {noise} {before} {draw}")
    moved = shift if rng.random() < 0.5 else 1 / shift
    runs: list[RunRow] = []
    for number in range(before + AFTER):
        level_s = _USUAL_S * (moved if number >= before else 1.0)
        time_s = level_s * math.exp(rng.gauss(0, noise))
        if number > before:
            yield _said(runs, number - before + 1, math.log(time_s))
        end_s = round(1_000_000 + _APART_S * number)
        start_s = round(end_s - time_s)
        run = replace(like, run_id=number + 1, elapsed_s=time_s, submit_s=start_s - 10)
        runs.append(replace(run, start_s=start_s, end_s=end_s))


def _said(runs: Sequence[RunRow], number: int, log_s: float) -> After:
    whole = IdentityRuns(KeyLevel.LINE, "x", runs, runs[-1].end_s or 0.0)
    table = tables_of(whole, TableSettings())[0].table
    assert table is not None
    row = at(table, _NODES)
    low, high = math.log(row.low_s), math.log(row.high_s)
    outside = max(low - log_s, log_s - high, 0.0)
    return After(number, log_s - math.log(row.time_s), high - low + 20 * outside)


if __name__ == "__main__":
    main()
