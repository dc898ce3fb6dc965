"""How the run time of an application goes by its input files, as an engine's expression has it.

A fixed part and one in proportion to the bytes, neither below zero, by least squares of relative
errors.  It is said where limits by it would have been shorter, for no fewer runs inside: each run
is judged by those before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple

from sacct_ingest.records import JobState, Says
from sacct_ingest.runs.evidence import evidence_of
from sacct_ingest.runs.input_sizes import BYTES
from sacct_ingest.store import RunRow
from slurm_plugin.reports.input_memory import MIB

#: Limits have to be this much shorter on average, and by so many standard errors.
_SHORTER: Final = log(1.1)
_ERRORS: Final = 2.0
#: Gives the limit that covers run times, where nothing is known of inputs.
Cover = Callable[[Sequence[float]], float]


class SizedRun(NamedTuple):
    """A run that completed."""

    input_mib: float
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTime:
    """Time limit of a new run, seconds: a part that is fixed, and one by its input."""

    fixed_s: float
    grown_s: float  #: for an input of one MiB
    least_s: float  #: for the smallest input that was seen
    predictions: int  #: runs that were judged by those before them ...
    inside: int  #: ... and for how many of them it would have been enough

    def limit_s(self, input_mib: float) -> float:
        """Give the limit for an input."""
        return max(self.least_s, self.fixed_s + self.grown_s * input_mib)


def input_time(rows: Sequence[RunRow], fewest: int, cover: Cover) -> InputTime | None:
    """Work out how run time goes by input; None: not surely, or its limit ended a run.

    rows: runs of one application, the newest last; those without sizes of inputs are left out.
    fewest: runs that it rests on, at least.
    """
    if any(evidence_of(row).run_time is Says.AT_LEAST for row in rows):
        return None
    runs = [
        SizedRun(size / MIB, float(row.elapsed_s))
        for row in rows
        if row.state is JobState.COMPLETED and row.elapsed_s > 0
        if (size := row.numbers.get(BYTES))
    ]
    if len(runs) < 2 * fewest:
        return None
    shorter = []
    inside = 0
    before = 0
    for number in range(fewest, len(runs)):
        earlier = runs[:number]
        run = runs[number]
        one_for_all_s = cover([one.time_s for one in earlier])
        limit_s = _fit(earlier, cover).limit_s(run.input_mib)
        shorter.append(log(one_for_all_s / limit_s))
        inside += run.time_s <= limit_s
        before += run.time_s <= one_for_all_s
    error = stdev(shorter) / sqrt(len(shorter))
    if inside < before or fmean(shorter) < max(_SHORTER, _ERRORS * error):
        return None
    made = _fit(runs, cover)
    return InputTime(
        fixed_s=made.fixed_s,
        grown_s=made.grown_s,
        least_s=made.least_s,
        predictions=len(shorter),
        inside=inside,
    )


def _fit(runs: Sequence[SizedRun], cover: Cover) -> InputTime:
    fixed_s, grown_s = _line(runs)
    room = cover([one.time_s / (fixed_s + grown_s * one.input_mib) for one in runs])
    least_mib = min(one.input_mib for one in runs)
    return InputTime(
        fixed_s=room * fixed_s,
        grown_s=room * grown_s,
        least_s=room * (fixed_s + grown_s * least_mib),
        predictions=0,
        inside=0,
    )


def _line(runs: Sequence[SizedRun]) -> tuple[float, float]:
    """Fit times as a fixed part and one by input; the sum of squared relative errors is least."""
    ones = [1 / run.time_s for run in runs]
    sizes = [run.input_mib / run.time_s for run in runs]
    aa = sum(x * x for x in ones)
    bb = sum(x * x for x in sizes)
    ab = sum(x * y for x, y in zip(ones, sizes, strict=True))
    determinant = aa * bb - ab * ab
    if determinant > 1e-9 * aa * bb:
        fixed_s = (sum(ones) * bb - sum(sizes) * ab) / determinant
        grown_s = (sum(sizes) * aa - sum(ones) * ab) / determinant
        if fixed_s >= 0 and grown_s >= 0:
            return fixed_s, grown_s
        if grown_s > 0:
            return 0.0, sum(sizes) / bb
    return sum(ones) / aa, 0.0
