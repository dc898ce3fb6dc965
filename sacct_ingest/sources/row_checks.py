"""What the values of a row have to be to each other: it shows units that no single value shows."""

from collections.abc import Sequence
from typing import Final

from sacct_ingest.records import Fault, JobState
from sacct_ingest.sources.column_plan import Columns, Unknown
from sacct_ingest.text import slurm_text

#: States of jobs that ran: one without a run time says nothing.
_RAN: Final = frozenset({JobState.COMPLETED, JobState.TIMEOUT})
#: Seconds by which a run time may differ from end less start: both are rounded.
_ROUNDED_S: Final = 2
#: Clocks go back in autumn by so much; a text without an offset does not say in which hour it is.
_CLOCK_CHANGES_S: Final = (3600, 1800)
#: Units in which other tools count, in seconds, and run times from which on it is no coincidence.
_LARGER_UNITS: Final = (("minutes", 60), ("hours", 3600), ("days", 86400))
_NO_COINCIDENCE: Final = 10
#: Seconds by which a run may outlast its limit: what sites grant (OverTimeLimit, minutes), 30 s
#: from the first signal to the last (KillWait), and slurmctld looks at limits twice a minute.
GRACE_S: Final = 600
_CPU_TIMES: Final = (
    ("TotalCPU", "cpu_s"),
    ("UserCPU", "user_cpu_s"),
    ("SystemCPU", "system_cpu_s"),
)
#: CPUs of a node, more than any has: jobs may use more than they were given.
_MOST_CPUS: Final = 2048
_LEAST_S: Final = 60.0


def fill_elapsed(columns: Columns, count: int) -> None:
    """Fill in run times that the accounting does not say, from start and end.

    Raises ValueError: a job that ran has no run time.
    """
    nothing: Sequence[None] = [None] * count
    given = columns.get("elapsed_s") or nothing
    if None not in given:
        return
    starts, ends, states = (columns.get(name) or nothing for name in ("start_s", "end_s", "state"))
    columns["elapsed_s"] = [
        _between(*times) if elapsed_s is None else elapsed_s
        for elapsed_s, *times in zip(given, starts, ends, states, strict=True)
    ]


def _between(start: int | None, end: int | None, state: JobState | None) -> float:
    if start is not None and end is not None:
        # Not below zero where a clock was set back.
        return float(max(end - start, 0))
    if state in _RAN or (start is not None and state is not None and state.ended):
        raise ValueError("Elapsed: no run time, and no Start and End that would say it")
    return 0.0


def check_times(columns: Columns) -> None:
    """Check that each run ends its run time after its start, or later where it was suspended.

    Ends of the hour that local time has twice in autumn are moved behind the start.

    Raises ValueError: a run time is longer than from start to end, or in another unit.
    """
    if not {"start_s", "end_s"} <= columns.keys():
        return
    rows = zip(columns["start_s"], columns["end_s"], columns["elapsed_s"], strict=True)
    # Slurm makes the run time of both (as_mysql_jobacct_process.c), less the time suspended.
    differing = [
        (at, start, end, elapsed_s)
        for at, (start, end, elapsed_s) in enumerate(rows)
        if start and end and end - start != elapsed_s
    ]
    if differing:
        ends = list(columns["end_s"])
        for at, start, end, elapsed_s in differing:
            ends[at] = _end(start, end, elapsed_s)
        columns["end_s"] = ends


def _end(start: int, end: int, elapsed_s: float) -> int:
    """Give the end of a run whose run time is not the time from start to end."""
    span_s = end - start
    for change_s in _CLOCK_CHANGES_S:
        if abs(span_s + change_s - elapsed_s) <= 1:
            return start + round(elapsed_s)
    # A clock that was set back leaves the end before the start.
    if span_s >= 0 and elapsed_s > span_s + _ROUNDED_S:
        raise ValueError(f"Elapsed: {elapsed_s:g} s, but End is {span_s} s after Start")
    for unit, unit_s in _LARGER_UNITS:
        exact = elapsed_s >= _NO_COINCIDENCE or not elapsed_s.is_integer()
        if exact and abs(elapsed_s * unit_s - span_s) <= unit_s / 2 + 1:
            raise ValueError(f"Elapsed: {elapsed_s:g} are {unit}: End is {span_s} s after Start")
    return end


def check_limits(columns: Columns, unknown: list[Unknown]) -> None:
    """Take limits that are shorter than the run for unknown: they are in another unit."""
    if "limit_s" not in columns:
        return
    rows = zip(columns["limit_s"], columns["elapsed_s"], strict=True)
    exceeded = [
        at
        for at, (limit_s, elapsed_s) in enumerate(rows)
        if limit_s is not None and elapsed_s > limit_s + GRACE_S
    ]
    if exceeded:
        limits = list(columns["limit_s"])
        for at in exceeded:
            shown = f"{limits[at]} s, and the run took {columns['elapsed_s'][at]:.0f} s"
            unknown.append(Unknown(at, "Timelimit", Fault.CONTRADICTED, shown))
            limits[at] = None
        columns["limit_s"] = limits


def check_cpu_times(columns: Columns, unknown: list[Unknown]) -> None:
    """Take CPU times for unknown that no node can have: a counter of 32 bits that overflowed."""
    for column, field in _CPU_TIMES:
        _check_cpu_time(columns, column, field, unknown)


def _check_cpu_time(columns: Columns, column: str, field: str, unknown: list[Unknown]) -> None:
    times = columns.get(field)
    if times is None:
        return
    large = [at for at, cpu_s in enumerate(times) if cpu_s and cpu_s > _MOST_CPUS * _LEAST_S]
    nodes = columns.get("nodes") or [1] * len(times)
    overflowed = [
        at
        for at in large
        if times[at] > _MOST_CPUS * (nodes[at] or 1) * (columns["elapsed_s"][at] + _LEAST_S)
    ]
    if overflowed:
        columns[field] = values = list(times)
        for at in overflowed:
            unknown.append(Unknown(at, column, Fault.OVERFLOWED, f"{values[at]:.0f} s"))
            values[at] = None


def check_sums(columns: Columns, field: str, column: str, unknown: list[Unknown]) -> None:
    """Take sums that no database holds for unknown."""
    if max(filter(None, columns[field]), default=0) <= slurm_text.MAX_INTEGER:
        return
    values = list(columns[field])
    for at, value in enumerate(values):
        if value is not None and value > slurm_text.MAX_INTEGER:
            unknown.append(Unknown(at, column, Fault.OVERFLOWED, str(value)))
            values[at] = None
    columns[field] = values
