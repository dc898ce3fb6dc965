"""Waste in words and as tables: one line, then by cause, with who can do what about it."""

from math import floor, log10
from typing import Final, NamedTuple

from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.waste import Cause
from slurm_plugin.evaluation.waste_report import (
    FAR,
    LIMIT_MARGIN,
    CauseWaste,
    GroupWaste,
    LimitUse,
    LimitWaits,
    WasteReport,
)
from slurm_plugin.text.formatting import clock, count, interval, percent
from slurm_plugin.text.table_columns import FINE_SHARE, SHARE, Column, Table, text_column

#: A smaller share of the waits is none.
_LEAST_SAVED: Final = 0.005
#: Fewer node-hours are written as none: two seconds.
_LEAST_H: Final = 0.0005


class CauseWords(NamedTuple):
    """A cause in words, and who can do what about it."""

    name: str
    users: str
    admins: str = ""


WORDS: Final = {
    Cause.FAILED: CauseWords(
        "failed again",
        "jobs that fail again and again: 'nimo why JOBID' shows the end of the output; look there "
        "before the next try",
    ),
    Cause.OUT_OF_MEMORY: CauseWords(
        "out of memory",
        "jobs that ran out of memory: 'nimo again JOBID' runs one again with more of it",
    ),
    Cause.TIMEOUT: CauseWords(
        "timeouts",
        "jobs that their limit ended: 'nimo again JOBID' runs one again with a longer one; or "
        "save the state, and go on from there",
    ),
    Cause.STOPPED: CauseWords(
        "stopped by cluster",
        "jobs on nodes that failed, or preempted ones: save the state now and then",
        "drain nodes that fail again; preempt the youngest jobs",
    ),
    Cause.KNEE: CauseWords(
        "beyond the knee",
        "more nodes than speed a job up: 'nimo-advise JOBSCRIPT' names the knee",
        "mode enforce in nimo.yaml, for jobs that say a range of nodes",
    ),
    Cause.GPUS: CauseWords("idle GPUs", "ask for fewer: 'nimo-advise JOBSCRIPT' says how many"),
    Cause.MEMORY: CauseWords(
        "unused memory",
        "unused memory that decided how much of a node a job took: --mem as 'nimo-advise "
        "JOBSCRIPT' says",
        "memory.use: auto in nimo.yaml",
    ),
    Cause.CPUS: CauseWords("idle CPUs", "ask for fewer: 'nimo-advise JOBSCRIPT' says how many"),
    Cause.WHOLE_NODES: CauseWords(
        "whole nodes",
        "more CPUs than the job asked for: put several small jobs into one",
        "a partition whose jobs share nodes (OverSubscribe, ExclusiveUser)",
    ),
}


def rounded(hours: float) -> str:
    """Write node-hours as people say them: two digits, three below a quarter of the next.

    >>> rounded(209_876), rounded(31_234), rounded(1234), rounded(56.7), rounded(0.123), rounded(0)
    ('210,000', '31,000', '1,230', '57', '0.12', '0')
    >>> rounded(0.0049)
    '0.0049'
    """
    if hours < _LEAST_H:
        return "0"
    digits = floor(log10(hours))
    first = hours / 10**digits
    places = (2 if first < 2.5 else 1) - digits
    if digits < 3:
        places = 1 - digits
    value = round(hours, places)
    return f"{value:,.0f}" if places <= 0 else f"{value:.{places}f}"


def title_of(report: WasteReport) -> str:
    """Say it in one line."""
    if not report.starts:
        return f"there is no job{' of yours' if report.own else ''} that ran"
    whose = "your " if report.own else ""
    hours = f"{whose}{rounded(report.node_hours)} node-hours"
    share = report.wasted / report.node_hours
    if report.wasted < 0.005 * report.node_hours or rounded(report.wasted) == "0":
        return f"Hardly any of {hours} bought nothing, as far as the accounting measures it."
    line = f"{percent(share)} of {hours} bought nothing"
    if rounded(report.back) == "0" and rounded(report.back_high) == "0":
        return f"{line}; no record says that any could come back."
    back = rounded(report.back)
    ends = interval(report.back_low, report.back_high, rounded)
    if ends == back:
        return f"{line}: {back} could come back."
    return f"{line}: {back} could come back, {ends}."


def text(report: WasteReport) -> list[str]:
    """Say what stands below the tables: what to do, limits, and what is not known."""
    lines = []
    for row in report.causes:
        if row.node_hours < 0.01 * report.node_hours:
            continue
        words = WORDS[row.cause]
        line = f"{words.name}: {words.users}."
        lines.append(line if report.own or not words.admins else f"{line} Admins: {words.admins}.")
    if report.limits:
        lines.append(_limits_text(report.limits, own=report.own))
    if report.unmeasured > 0.01 * report.node_hours:
        lines.append(
            f"not measured: the accounting has no CPU time of {rounded(report.unmeasured)} "
            "node-hours; what was idle there is not counted."
        )
    return lines


def _limits_text(limits: LimitUse, *, own: bool) -> str:
    """Say how far limits are above the need, and what that costs in waits."""
    times = rounded(limits.ratio)
    line = (
        f"limits: half of the jobs asked for at least {times} times what they took; "
        f"{limits.far} of {count(limits.starts, 'job')} asked for over {FAR:g} times the longest "
        f"run before. That costs waits, not node-hours.{_waits_text(limits.waits)} "
        "'nimo-advise JOBSCRIPT' names a limit"
    )
    return f"{line}." if own else f"{line}; 'nimo replay --limits' shows what shorter ones bring."


def _waits_text(waits: LimitWaits | None) -> str:
    """Say how much shorter waits were where limits are nearer to the need."""
    if waits is None:
        return ""
    if waits.saved < _LEAST_SAVED:
        saved = "would have made no wait shorter"
    else:
        ends = f"{duration_text(waits.shorter_wait_s)} instead of {duration_text(waits.wait_s)}"
        saved = f"would have made waits {percent(waits.saved)} shorter ({ends})"
    starts = count(waits.shorter, "start")
    return (
        f" Limits of {LIMIT_MARGIN:g} times the longest run before, for {starts}, {saved}: the "
        "queue was replayed with them."
    )


def period(report: WasteReport) -> str:
    """Say which jobs: how many, and when the first began and the last one ended."""
    if report.begin_s is None or report.end_s is None:
        return ""
    users = "" if report.own or report.users < 2 else f" of {report.users} users"
    length_s = report.end_s - report.begin_s
    ends = interval(report.begin_s, report.end_s, lambda moment_s: clock(moment_s)[:10])
    jobs = f"{count(report.starts, 'start')} of jobs{users}"
    return f"{jobs}, {ends} ({duration_text(length_s)}); intervals hold 9 in 10"


def _interval() -> Column:
    return Column(
        "interval",
        "9 in 10",
        lambda row: None if row.back_high <= 0 else row,
        show=lambda row: (
            "-" if rounded(row.back_high) == "0" else interval(row.back_low, row.back_high, rounded)
        ),
        order=lambda row: row.back_high,
        derived=True,
        worth=5,
    )


def _hours(name: str, title: str, worth: int = 9) -> Column:
    return Column(name, title, as_text=rounded, worth=worth)


def _ends() -> list[Column]:
    """Give the ends of the interval: only where they are asked for by name, and with ``-P``."""
    return [_hours("back_low", "at least", 0), _hours("back_high", "at most", 0)]


def causes(report: WasteReport) -> Table:
    """Make the table of causes."""

    def share(row: CauseWaste) -> float:
        return row.node_hours / report.node_hours

    columns = [
        text_column(
            "cause",
            "cause",
            show=lambda row: WORDS[row.cause].name,
            value=lambda row: row.cause.value,
        ),
        Column("starts", "starts", worth=4),
        _hours("node_hours", "node-hours"),
        Column("share", "of all", share, FINE_SHARE, worth=6),
        _hours("back", "could come back"),
        _interval(),
        *_ends(),
    ]
    return Table(columns, report.causes)


def groups(report: WasteReport) -> Table:
    """Make the table of users, accounts, applications or partitions."""

    def share(row: GroupWaste) -> float:
        return row.wasted / row.node_hours if row.node_hours else 0.0

    columns = [
        text_column(report.by, report.by, value=lambda row: row.name),
        Column("starts", "starts", worth=3),
        _hours("node_hours", "node-hours"),
        _hours("wasted", "bought nothing"),
        Column("share", "share", share, SHARE, worth=7),
        _hours("back", "could come back"),
        _interval(),
        text_column(
            "cause",
            "most by",
            6,
            value=lambda row: row.cause.value if row.cause else None,
            show=lambda row: WORDS[row.cause].name if row.cause else "-",
        ),
        *_ends(),
    ]
    return Table(columns, report.groups)
