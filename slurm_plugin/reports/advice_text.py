"""An advice as text for the user who is about to submit.  Imports nothing heavy."""

from collections.abc import Iterator, Sequence

from msgspec.structs import astuple

from slurm_plugin import formatting
from slurm_plugin.evaluation.wait_accuracy import SHARE
from slurm_plugin.formatting import (
    RECOGNISED,
    clock,
    count,
    duration,
    hours,
    percent,
    printable,
    short_clock,
    table,
)
from slurm_plugin.protocol import Advice, PartitionRow, Row

_MARK = "=>"


def render(advice: Advice, *, now_s: float, every: bool = False) -> str:
    """Write an advice as text: what it is about, the table, the verdict, the line to paste.

    Parameters
    ----------
    advice
        Nimod's answer.
    now_s
        Time from which the ends of the runs are counted, seconds since the epoch.
    every
        All node counts instead of a readable selection.
    """
    parts = [_title(advice), _partitions(advice, now_s), _about(advice)]
    if advice.rows:
        parts.append(_table(advice, now_s=now_s, every=every))
    parts += [advice.verdict_text, _held(advice), _deadline(advice), _recommendation(advice)]
    return "\n\n".join(part for part in parts if part)


def parsable(advice: Advice) -> Iterator[str]:
    """Lines of the table, all node counts, with ``|`` between the fields; times in seconds."""
    return formatting.parsable(Row.__struct_fields__, map(astuple, advice.rows))


def render_starts(advice: Advice, *, now_s: float) -> str:
    """Write Slurm's own start estimates, as wait + run = finish; empty without any."""
    rows = [row for row in advice.rows if row.slurm_wait_s is not None]
    lines = [
        [
            _MARK if row.recommended else "",
            str(row.nodes),
            duration(row.slurm_wait_s),
            duration(row.time_s),
            short_clock(now_s + (row.slurm_wait_s or 0.0) + row.time_s),
        ]
        for row in rows
    ]
    header = ["", "nodes", "wait", "+ run time", "= ends"]
    title = "Starts as Slurm estimates them now (sbatch --test-only)"
    return f"{title}\n\n{table(header, lines, left=frozenset({0}))}" if rows else ""


def readable(rows: Sequence[Row], *, observe: int | None = None) -> list[Row]:
    """Pick the node counts that tell the story.

    Those observed, powers of two, the first and the last, the recommended one, and the one where
    a run would teach most.
    """
    ends = {rows[0].nodes, rows[-1].nodes} if rows else set()
    return [
        row
        for row in rows
        if row.observed
        or row.recommended
        or row.nodes.bit_count() == 1
        or row.nodes in ends
        or row.nodes == observe
    ]


def _title(advice: Advice) -> str:
    name = printable(advice.application) or "this job"
    if not advice.runs:
        where = " on this type of node" if advice.node_type else ""
        return f"{name}: no run of it{where} is known"
    known_by = RECOGNISED.get(advice.key_level, advice.key_level)
    how = f", recognised by {known_by}" if known_by else ""
    return f"{name}: {count(advice.runs, 'run')} known{how}"


def _partitions(advice: Advice, now_s: float) -> str:
    """Partitions side by side, each on the node count that is best there."""
    if not advice.partitions:
        return ""
    header = ["", "partition", "nodes", "run time", f"{percent(advice.confidence)} of runs take"]
    header += ["wait", "ends", "runs there", "verdict", "node type"]
    lines = [_in_partition(row, now_s) for row in advice.partitions]
    return table(header, lines, left=frozenset({0, 1, 8, 9}))


def _in_partition(row: PartitionRow, now_s: float) -> list[str]:
    known = [printable(row.partition) or "-", "-", "-", "-", "-", "-"]
    if row.nodes is not None and row.low_s is not None and row.high_s is not None:
        ends_s = None if row.wait_s is None else now_s + row.wait_s + (row.time_s or 0.0)
        known[1:] = [str(row.nodes), duration(row.time_s)]
        known += [f"{duration(row.low_s)} to {duration(row.high_s)}"]
        known += [duration(row.wait_s), short_clock(ends_s)]
    mark = _MARK if row.recommended else ""
    return [mark, *known, str(row.runs), row.verdict, printable(row.node_type)]


def _about(advice: Advice) -> str:
    """Say which nodes the rest is about."""
    if not advice.node_type:
        return ""
    where = f"in partition {printable(advice.partition)}, " if advice.partition else ""
    return f"{where}on nodes of the type {printable(advice.node_type)}:"


def _table(advice: Advice, *, now_s: float, every: bool) -> str:
    rows = advice.rows if every else readable(advice.rows, observe=advice.observe)
    waits = any(row.wait_s is not None for row in rows)
    header = ["", "nodes", "run time", f"{percent(advice.confidence)} of runs take"]
    header += ["speedup", "efficiency", "node-hours"]
    header += ["wait", "ends"] if waits else []
    header += ["deadline"] if advice.deadline_s else []
    lines = [_cells(row, waits, bool(advice.deadline_s), now_s) for row in rows]
    return table([*header, ""], lines, left=frozenset({0, len(header)}))


def _cells(row: Row, waits: bool, deadline: bool, now_s: float) -> list[str]:  # noqa: FBT001
    cells = [
        _MARK if row.recommended else "",
        str(row.nodes),
        duration(row.time_s),
        f"{duration(row.low_s)} to {duration(row.high_s)}",
        "-" if row.speedup is None else f"{row.speedup:.1f}",
        percent(row.efficiency),
        hours(row.node_hours),
    ]
    if waits:
        ends_s = None if row.wait_s is None else now_s + row.wait_s + row.time_s
        cells += [duration(row.wait_s), short_clock(ends_s)]
    if deadline:
        cells.append({True: "made", False: "missed", None: "-"}[row.meets_deadline])
    return [*cells, "observed" if row.observed else ""]


def _held(advice: Advice) -> str:
    """Say how often waits like the recommended one came true here."""
    held = advice.waits
    if held is None:
        return ""
    return (
        f"Waits like this one came true within {duration(held.within_s)} "
        f"for {percent(SHARE)} of {count(held.jobs, 'job')}."
    )


def _deadline(advice: Advice) -> str:
    if advice.deadline_s is None:
        return ""
    if advice.deadline_text:
        return advice.deadline_text
    when = clock(advice.deadline_s)
    if advice.meets_deadline:
        return f"The deadline {when} can be made."
    return f"Whether the deadline {when} can be made is not known."


def _recommendation(advice: Advice) -> str:
    reason = advice.reason
    if not advice.directive:
        reason = reason and f"No recommendation: {reason}"
    elif advice.deadline_text:  # told with its numbers already
        reason = ""
    return "\n".join(filter(None, (reason, advice.directive, advice.time_directive)))
