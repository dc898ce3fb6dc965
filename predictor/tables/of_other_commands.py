"""What jobs of one name say of a command of that name which never ran.

Its log run time is a mean of the name, plus an offset of the command, plus noise of a run: the
random effects of Gelman et al., *Bayesian Data Analysis*, section 5.4.  Runs that repeat a few
commands tell the noise, not what another command takes.  So an interval reaches at least as far as
commands differ, by Student's t.  Of few commands that is not known, so their variance is combined
with a prior, a scaled inverse chi-squared distribution (section 2.6).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log, sqrt
from statistics import fmean, median

from scipy.special import stdtrit

from predictor.checks import need_share
from predictor.prediction_table import AtLimit, PredictionTable
from predictor.table import round_time
from sacct_ingest.store.rows import RunRow

#: Standard deviation of log run time between commands before there are several, a factor of two,
#: and for how many commands that counts.
_APART = 0.7
_COMMANDS = 2.0


def of_other_commands(table: PredictionTable, rows: Sequence[RunRow]) -> PredictionTable:
    """Table of a job name whose intervals hold for commands that never ran.

    The same one where no run has a command: there all that is known of a job is its name.

    rows: runs with a run time.
    """
    ends = command_interval(rows, table.confidence)
    if ends is None:
        return table
    at_limits = []
    for at_limit in table.at_limits:
        low_s, high_s = _widened(at_limit, ends)
        at_limits.append(replace(at_limit, low_s=low_s, high_s=high_s))
    low_s, high_s = _widened(table, ends)
    return replace(table, low_s=low_s, high_s=high_s, at_limits=tuple(at_limits))


def command_interval(rows: Sequence[RunRow], confidence: float) -> tuple[float, float] | None:
    """Give the ends of the interval of a new command's run time in seconds; None without commands.

    confidence: share of new commands inside.

    Raises ValueError: ``confidence`` is no share.
    """
    need_share("confidence", confidence)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.line and row.state.finished and row.elapsed_s > 0:
            times[row.line].append(log(row.elapsed_s))
    if not times:
        return None
    commands = [median(logs) for logs in times.values()]
    middle = fmean(commands)
    squares = sum((command - middle) ** 2 for command in commands)
    freedom = _COMMANDS + len(commands) - 1
    variance = (_COMMANDS * _APART**2 + squares) / freedom
    reach = float(stdtrit(freedom, (1 + confidence) / 2))
    half = reach * sqrt(variance * (1 + 1 / len(commands)))
    return exp(middle - half), exp(middle + half)


def _widened(
    table: PredictionTable | AtLimit, ends: tuple[float, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Give the ends of each row, no nearer than those of a new command."""
    low_s, high_s = map(round_time, ends)
    lows = tuple(min(row_s, low_s) for row_s in table.low_s)
    highs = tuple(max(row_s, high_s) for row_s in table.high_s)
    return lows, highs
