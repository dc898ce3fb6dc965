"""An advice as text for the user who is about to submit.  Imports nothing heavy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
WIDTH = 80  #: of a terminal whose width is not known
_FIXED = 9  #: worth of a column that is never left out


def render(
    advice: Advice,
    *,
    now_s: float,
    every: bool = False,
    verbose: bool = False,
    width: int = WIDTH,
    header: bool = True,
) -> str:
    """Write an advice as text: the table, a sentence on how far to trust it, lines to paste.

    Parameters
    ----------
    advice
        Nimod's answer.
    now_s
        Time from which the ends of the runs are counted, seconds since the epoch.
    every
        All node counts instead of a readable selection.
    verbose
        Also how the application was recognised, all problems, and how waits came true.
    width
        Columns of the terminal: less important columns are left out to fit into it.
    header
        Whether the table has its line of titles.
    """
    parts = [_title(advice)] if verbose else []
    parts += [_partitions(advice, now_s, width), _about(advice)]
    if advice.rows:
        parts.append(_table(advice, now_s=now_s, every=every, width=width, titles=header))
    said = [advice.verdict_text, _held(advice)] if verbose else [_verdict(advice)]
    parts += [*said, _deadline(advice), _recommendation(advice)]
    return "\n\n".join(_wrapped(part, width) for part in parts if part)


def _wrapped(text: str, width: int) -> str:
    """Wrap lines of prose; tables fit already, and directives must stay whole."""
    lines = text.splitlines()
    prose = [line for line in lines if len(line) > width and not line.startswith("#SBATCH")]
    if not prose:
        return text
    return "\n".join("\n".join(_fold(line, width)) if line in prose else line for line in lines)


def _fold(line: str, width: int) -> Iterator[str]:
    words, row = line.split(), ""
    for word in words:
        if row and len(row) + 1 + len(word) > width:
            yield row
            row = ""
        row = f"{row} {word}" if row else word
    yield row


def _verdict(advice: Advice) -> str:
    """Say how far to trust the table: one sentence, or two where there is a doubt."""
    first, *more = advice.verdict_text.split(".  ")
    name = printable(advice.application)
    runs = f"{name}, {count(advice.runs, 'run')}: " if name and advice.runs else ""
    sentences = [first]
    if advice.verdict != "reliable":
        sentences += [*more[:1], *(text for text in more[1:] if text.startswith("A run on"))]
    return f"{runs}{'.  '.join(sentences).removesuffix('.')}."


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
    """Pick the node counts to show.

    They are those observed, powers of two, the first and the last, the recommended one, and the
    one where a run would improve the prediction most.
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
        return f"{name}: no finished run{where} yet"
    level = RECOGNISED.get(advice.key_level, advice.key_level)
    how = f", recognised by {level}" if level else ""
    return f"{name}: {count(advice.runs, 'run')} known{how}"


def _partitions(advice: Advice, now_s: float, width: int) -> str:
    """Partitions side by side, each on the node count that is best there."""
    if not advice.partitions:
        return ""
    header = ["", "partition", "nodes", "run time", f"{percent(advice.confidence)} of runs take"]
    header += ["wait", "ends", "runs there", "verdict", "node type"]
    lines = [_in_partition(row, now_s) for row in advice.partitions]
    left = {"partition", "verdict", "node type", ""}
    for dropped in ("", "runs there", header[4], "ends", "verdict"):
        if dropped:
            place = header.index(dropped)
            header = [*header[:place], *header[place + 1 :]]
            lines = [[*line[:place], *line[place + 1 :]] for line in lines]
        made = table(
            header, lines, left=frozenset(i for i, name in enumerate(header) if name in left)
        )
        if max(map(len, made.splitlines())) <= width:
            break
    return made


def _in_partition(row: PartitionRow, now_s: float) -> list[str]:
    cells = [printable(row.partition) or "-", "-", "-", "-", "-", "-"]
    if row.nodes is not None and row.low_s is not None and row.high_s is not None:
        ends_s = None if row.wait_s is None else now_s + row.wait_s + (row.time_s or 0.0)
        cells[1:] = [str(row.nodes), duration(row.time_s)]
        cells += [f"{duration(row.low_s)} to {duration(row.high_s)}"]
        cells += [duration(row.wait_s), short_clock(ends_s)]
    mark = _MARK if row.recommended else ""
    return [mark, *cells, str(row.runs), row.verdict, printable(row.node_type)]


def _about(advice: Advice) -> str:
    """Name the node type and partition that the advice is for."""
    if not advice.node_type:
        return ""
    where = f"in partition {printable(advice.partition)}, " if advice.partition else ""
    return f"{where}on nodes of the type {printable(advice.node_type)}:"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the table; those of the lowest ``worth`` are left out first."""

    title: str
    cell: Callable[[Row], str]
    worth: int
    left: bool = False


def _columns(advice: Advice, now_s: float) -> Iterator[_Column]:
    def ends(row: Row) -> str:
        return short_clock(None if row.wait_s is None else now_s + row.wait_s + row.time_s)

    def made(row: Row) -> str:
        return {True: "made", False: "missed", None: "-"}[row.meets_deadline]

    share = percent(advice.confidence)
    yield _Column("", lambda row: _MARK if row.recommended else "", 9, left=True)
    yield _Column("nodes", lambda row: str(row.nodes), 9)
    yield _Column("run time", lambda row: duration(row.time_s), 9)
    yield _Column(
        f"{share} of runs take", lambda row: f"{duration(row.low_s)} to {duration(row.high_s)}", 5
    )
    if not advice.guess:
        yield _Column("speedup", lambda row: f"{row.speedup:.1f}" if row.speedup else "-", 4)
        yield _Column("efficiency", lambda row: percent(row.efficiency), 1)
    yield _Column("node-hours", lambda row: hours(row.node_hours), 2)
    if any(row.wait_s is not None for row in advice.rows):
        yield _Column("wait", lambda row: duration(row.wait_s), 7)
        yield _Column("ends", ends, 6)
    if advice.deadline_s:
        yield _Column("deadline", made, 8)
    yield _Column("", lambda row: "observed" if row.observed else "", 3, left=True)


def _table(advice: Advice, *, now_s: float, every: bool, width: int, titles: bool) -> str:
    rows = advice.rows if every else readable(advice.rows, observe=advice.observe)
    columns = list(_columns(advice, now_s))
    while True:
        lines = [[column.cell(row) for column in columns] for row in rows]
        left = frozenset(i for i, column in enumerate(columns) if column.left)
        made = table([column.title for column in columns], lines, left=left)
        least = min(columns, key=lambda column: column.worth)
        if least.worth == _FIXED or max(map(len, made.splitlines())) <= width:
            return made if titles else made.partition("\n")[2]
        columns.remove(least)


def _held(advice: Advice) -> str:
    """Say how often waits like the recommended one came true here."""
    held = advice.waits
    if held is None:
        return ""
    return (
        f"Of {count(held.jobs, 'job')} with a wait like this one, {percent(SHARE)} started within "
        f"{duration(held.within_s)} of the predicted time."
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
    elif advice.deadline_text:  # the deadline text gives the numbers
        reason = ""
    return "\n".join(filter(None, (reason, advice.directive, advice.time_directive)))
