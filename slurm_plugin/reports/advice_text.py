"""An advice as text for the user who is about to submit.  Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from slurm_plugin.protocol.advice_messages import Advice, LayoutRow, PartitionRow, Row
from slurm_plugin.text import table_columns
from slurm_plugin.text.formatting import (
    RECOGNISED,
    clock,
    count,
    duration,
    hours,
    percent,
    printable,
    short_clock,
    table,
    time_span,
    wrapped,
)
from slurm_plugin.text.table_columns import ON_REQUEST, WIDTH, OutputColumn, TableOptions

_MARK = "=>"
#: Share of waits and ends inside their intervals, as in :mod:`predictor.waits.estimate`.
WAITS = "90 %"
_SURE = 0.99


def render(
    advice: Advice,
    *,
    now_s: float,
    every: bool = False,
    verbose: bool = False,
    width: int = WIDTH,
    options: TableOptions | None = None,
) -> str:
    """Write an advice as text: predictions, a sentence on how far to trust them, lines to paste.

    advice: Nimod's answer.
    now_s: time from which the ends of the runs are counted, seconds since the epoch.
    every: all node counts instead of a readable selection.
    verbose: also how the application was recognised, all problems, and how waits came true.
    width: columns of the terminal: less important columns are left out to fit into it.
    options: columns, order and titles of the table that the user asks for.
    Raises NoColumn: the options name a column that there is not.
    """
    table = render_predictions(
        advice, now_s=now_s, every=every, verbose=verbose, width=width, options=options
    )
    return _joined((table, render_conclusion(advice, now_s=now_s, verbose=verbose, width=width)))


def render_predictions(
    advice: Advice,
    *,
    now_s: float,
    every: bool = False,
    verbose: bool = False,
    width: int = WIDTH,
    options: TableOptions | None = None,
) -> str:
    """Write the first part of an advice: its tables; parameters and errors as of `render`."""
    table = ""
    if advice.rows:
        rows = advice.rows if every else readable(advice.rows, observe=advice.observe)
        table = table_columns.text(advice_columns(advice, now_s), rows, options, width=width)
    title = wrapped(_title(advice), width) if verbose else ""
    about = wrapped(_about(advice), width)
    layouts = _layouts(advice, width)
    return _joined((title, _partitions(advice, now_s, width), about, table, layouts))


def render_conclusion(
    advice: Advice, *, now_s: float, verbose: bool = False, width: int = WIDTH
) -> str:
    """Write the second part of an advice: trust, and lines to paste; parameters as of `render`."""
    trust = (advice.verdict_text, _held(advice)) if verbose else (_verdict(advice),)
    parts = (*trust, _expected(advice, now_s), _deadline(advice), _recommendation(advice))
    return _joined(wrapped(part, width) for part in parts)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _verdict(advice: Advice) -> str:
    """Say how far to trust the table, and what would help where that gives no recommendation."""
    first, *more = advice.verdict_text.split(".  ")
    name = printable(advice.application)
    runs = f"{name}, {count(advice.runs, 'run')}: " if name and advice.runs else ""
    sentences = [first]
    if advice.verdict != "reliable" or advice.nodes is None:
        sentences += [*more[:1], *(text for text in more[1:] if text.startswith("One run on"))]
    return f"{runs}{'.  '.join(sentences).removesuffix('.')}."


def parsable(advice: Advice, *, now_s: float, options: TableOptions | None) -> Iterator[str]:
    """Lines of the table, all node counts, with ``|`` between the fields; times in seconds.

    Raises NoColumn: the options name a column that there is not.
    """
    columns = {column.name: column for column in advice_columns(advice, now_s)}
    # In the order that scripts are used to; then what only ``-o`` shows.
    ordered = {name: columns[name] for name in Row.__dataclass_fields__} | columns
    return table_columns.parsable(list(ordered.values()), advice.rows, options)


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
    header = ["", advice.unit.plural, "wait", "+ run time", "= ends"]
    title = "Starts as Slurm estimates them now (sbatch --test-only)"
    return f"{title}\n\n{table(header, lines, left=frozenset({0}))}" if rows else ""


def readable(rows: Sequence[Row], *, observe: int | None = None) -> list[Row]:
    """Pick the node counts to show.

    They are those observed, powers of two, the first and the last, the recommended one, and the
    one where a run would narrow the prediction most.
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
    return f"{name}: {count(advice.runs, 'run')} in the store{how}"


def _partitions(advice: Advice, now_s: float, width: int) -> str:
    """Partitions side by side, each on the node count that is best there."""
    if not advice.partitions:
        return ""
    return table_columns.text(_partition_columns(advice, now_s), advice.partitions, width=width)


def _partition_columns(advice: Advice, now_s: float) -> list[OutputColumn]:
    def ends(row: PartitionRow) -> str:
        ended = row.nodes is not None and row.wait_s is not None
        return short_clock(now_s + (row.wait_s or 0.0) + (row.time_s or 0.0) if ended else None)

    def interval(row: PartitionRow) -> str:
        return f"{duration(row.low_s)} to {duration(row.high_s)}" if row.low_s is not None else "-"

    return [
        _column("recommended", "", lambda row: _MARK if row.recommended else "", left=True),
        _words("partition", "partition", lambda row: printable(row.partition) or "-"),
        _column(
            "nodes", advice.unit.plural, lambda row: "-" if row.nodes is None else str(row.nodes)
        ),
        _column("time_s", "run time", lambda row: duration(row.time_s)),
        _derived("interval", f"{percent(advice.confidence)} of runs take", interval, worth=4),
        _column("wait_s", "wait", lambda row: duration(row.wait_s)),
        _derived("ends", "ends", ends, worth=5),
        _column("runs", "runs there", lambda row: str(row.runs), worth=3),
        _column("verdict", "verdict", lambda row: row.verdict, left=True, worth=6),
        _words("node_type", "node type", lambda row: printable(row.node_type)),
    ]


def _layouts(advice: Advice, width: int) -> str:
    """Layouts side by side, on the size that is recommended or asked for."""
    if not advice.layouts:
        return ""
    size = count(advice.layouts[0].size, advice.unit.word)
    columns = [
        _column("own", "", lambda row: "this job" if row.own else "", left=True, worth=2),
        _column("layout", "layout", lambda row: printable(row.layout), left=True, worth=3),
        _column("time_s", "run time", lambda row: duration(row.time_s)),
        _derived("interval", f"{percent(advice.confidence)} of runs take", _interval, worth=4),
        _column("size_hours", f"{advice.unit.word}-hours", lambda row: hours(row.size_hours)),
        _column("verdict", "verdict", lambda row: row.verdict, left=True, worth=5),
        _column("options", "options", lambda row: printable(row.options), left=True),
    ]
    rows = table_columns.text(columns, advice.layouts, width=width)
    return f"Laid out otherwise, on {size}\n\n{rows}"


def _interval(row: LayoutRow) -> str:
    return f"{duration(row.low_s)} to {duration(row.high_s)}"


def _about(advice: Advice) -> str:
    """Name the node type and partition that the advice is for."""
    if not advice.node_type:
        return ""
    where = f"in partition {printable(advice.partition)}, " if advice.partition else ""
    return f"{where}on nodes of the type {printable(advice.node_type)}:"


def advice_columns(advice: Advice, now_s: float) -> list[OutputColumn]:
    """Columns of the table of node counts; those without anything to say only on request."""

    def ends(row: Row) -> str:
        end_s = row.end_s
        if end_s is None and row.wait_s is not None:
            end_s = row.wait_s + row.time_s
        return short_clock(None if end_s is None else now_s + end_s)

    def made(row: Row) -> str:
        return {True: "made", False: "missed", None: "-"}[row.meets_deadline]

    def interval(row: Row) -> str:
        return f"{duration(row.low_s)} to {duration(row.high_s)}"

    def if_any(worth: int, *, there: bool) -> int:
        return worth if there else ON_REQUEST

    def waiting(row: Row) -> str:
        return interval_text(row.wait_low_s, row.wait_high_s, duration)

    def ending(row: Row) -> str:
        low_s, high_s = (end and now_s + end for end in (row.end_low_s, row.end_high_s))
        return interval_text(low_s, high_s, short_clock)

    waits = any(row.wait_s is not None for row in advice.rows)
    spread = any(row.wait_high_s is not None for row in advice.rows)
    curve, share = not advice.guess, percent(advice.confidence)
    return [
        _column("recommended", "", lambda row: _MARK if row.recommended else "", left=True),
        _column("nodes", advice.unit.plural, lambda row: str(row.nodes)),
        _column("time_s", "run time", lambda row: duration(row.time_s)),
        _column("low_s", "at least", lambda row: duration(row.low_s), worth=ON_REQUEST),
        _column("high_s", "at most", lambda row: duration(row.high_s), worth=ON_REQUEST),
        _derived("interval", f"{share} of runs take", interval, worth=5),
        _column("speedup", "speedup", _speedup, worth=if_any(2, there=curve)),
        _column(
            "efficiency",
            "efficiency",
            lambda row: percent(row.efficiency),
            worth=if_any(4, there=curve),
        ),
        _column(
            "node_hours", f"{advice.unit.word}-hours", lambda row: hours(row.node_hours), worth=4
        ),
        _column("wait_s", "wait", lambda row: duration(row.wait_s), worth=if_any(7, there=waits)),
        _column(
            "slurm_wait_s",
            "Slurm's wait",
            lambda row: duration(row.slurm_wait_s),
            worth=ON_REQUEST,
        ),
        _column("wait_low_s", "waits at least", lambda r: duration(r.wait_low_s), worth=ON_REQUEST),
        _column("wait_high_s", "at most", lambda row: duration(row.wait_high_s), worth=ON_REQUEST),
        _derived("wait_interval", f"{WAITS} of waits", waiting, worth=if_any(3, there=spread)),
        _derived("ends", "ends", ends, worth=if_any(6, there=waits)),
        _column("end_s", "ends in", lambda row: duration(row.end_s), worth=ON_REQUEST),
        _column("end_low_s", "at least", lambda row: duration(row.end_low_s), worth=ON_REQUEST),
        _column("end_high_s", "at most", lambda row: duration(row.end_high_s), worth=ON_REQUEST),
        _derived("end_interval", f"{WAITS} end", ending, worth=if_any(1, there=spread)),
        _column(
            "chance",
            "chance",
            lambda row: chance_text(row.chance),
            worth=if_any(8, there=any(row.chance is not None for row in advice.rows)),
        ),
        _column("meets_deadline", "deadline", made, worth=if_any(8, there=bool(advice.deadline_s))),
        _column("observed", "", lambda row: "observed" if row.observed else "", worth=2, left=True),
        _column("limit_s", "limit", lambda row: duration(row.limit_s), worth=ON_REQUEST),
        _column("time_min_s", "time-min", lambda row: duration(row.time_min_s), worth=ON_REQUEST),
    ]


def interval_text(low: float | None, high: float | None, show: Callable[[float], str]) -> str:
    """Write an interval; ``-`` where there is none."""
    return "-" if low is None or high is None else f"{show(low)} to {show(high)}"


def chance_text(chance: float | None) -> str:
    """Write a chance: nothing is sure.

    >>> chance_text(0.9999), chance_text(0.001), chance_text(0.42)
    ('>99 %', '<1 %', '42 %')
    """
    if chance is None:
        return "-"
    return ">99 %" if chance > _SURE else "<1 %" if chance < 1 - _SURE else percent(chance)


def _column(
    name: str,
    title: str,
    show: Callable[..., str],
    *,
    worth: int = table_columns.ALWAYS,
    left: bool = False,
) -> OutputColumn:
    value = attrgetter(name)
    return OutputColumn(name=name, title=title, value=value, show=show, worth=worth, left=left)


def _words(name: str, title: str, show: Callable[..., str]) -> OutputColumn:
    return _column(name, title, show, left=True)._replace(cuts=True)


def _derived(name: str, title: str, show: Callable[..., str], *, worth: int) -> OutputColumn:
    return OutputColumn(name=name, title=title, value=show, show=show, worth=worth, derived=True)


def _speedup(row: Row) -> str:
    return f"{row.speedup:.1f}" if row.speedup else "-"


def _expected(advice: Advice, now_s: float) -> str:
    """Say when the recommended count starts and ends, as intervals."""
    row = next((one for one in advice.rows if one.recommended), None)
    if row is None or row.end_low_s is None or row.end_high_s is None:
        return ""
    waits = interval_text(row.wait_low_s, row.wait_high_s, time_span)
    ends = interval_text(now_s + row.end_low_s, now_s + row.end_high_s, short_clock)
    return f"90 % interval: wait {waits}, end {ends}."


def _held(advice: Advice) -> str:
    """Say how often waits like the recommended one came true here."""
    held = advice.waits
    if held is None:
        return ""
    from slurm_plugin.protocol.wait_accuracy import SHARE  # noqa: PLC0415 - for -v only

    return (
        f"Of {count(held.jobs, 'job')} with a wait like this one, {percent(SHARE)} started within "
        f"{duration(held.within_s)} of the predicted time."
    )


def _deadline(advice: Advice) -> str:
    if advice.deadline_s is None:
        return ""
    if advice.deadline_text:
        return "\n".join(filter(None, (advice.deadline_text, _cheapest(advice))))
    when = clock(advice.deadline_s)
    if advice.meets_deadline:
        return " ".join(filter(None, (f"The deadline {when} can be made.", _cheapest(advice))))
    return f"NIMO cannot tell whether the deadline {when} can be made."


def _cheapest(advice: Advice) -> str:
    """Name the row that makes the deadline for the fewest node-, CPU- or GPU-hours."""
    if advice.cheapest_sure is None:
        return ""
    row = next(row for row in advice.rows if row.nodes == advice.cheapest_sure)
    return (
        f"{count(row.nodes, advice.unit.word)} {'makes' if row.nodes == 1 else 'make'} it with a "
        f"chance of {chance_text(row.chance)} (asked: {percent(advice.sure)}) for the fewest "
        f"{advice.unit.word}-hours."
    )


def _recommendation(advice: Advice) -> str:
    reason = advice.reason
    if not advice.directive:
        reason = reason and f"No recommendation: {reason}"
    elif advice.deadline_text:  # the deadline text gives the numbers
        reason = ""
    directives = (advice.directive, advice.memory_directive, advice.time_directive)
    texts = (reason, advice.size_text, *directives, printable(advice.script_text))
    return "\n".join(filter(None, texts))
