"""An advice as text for the user who is about to submit.  Imports nothing heavy."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.advice_messages import Advice, LayoutRow, PartitionRow, Row
from slurm_plugin.reports.advice_answer import answer, answered, chance_text, lines_to_paste
from slurm_plugin.text import formatting as fmt
from slurm_plugin.text import table_columns as cols

DIRECTIVE = "#SBATCH "
#: Share of waits and ends inside their intervals, as in :mod:`predictor.waits.estimate`.
WAITS = "90 %"
#: Rows of the table, without ``--all``.
_SHOWN = 5
_JUMP_S = 600.0  #: by which a wait on fewer nodes is longer, to be worth a line


def render(
    advice: Advice,
    *,
    now_s: float,
    every: bool = False,
    verbose: bool = False,
    width: int = cols.WIDTH,
    options: cols.TableOptions | None = None,
) -> Iterator[str]:
    """Give the parts of an advice as text: the answer with what to paste, then the tables.

    advice: Nimod's answer.
    now_s: time from which the ends of the runs are counted, seconds since the epoch.
    every: all node counts instead of those around the answer.
    verbose: also how the application was recognised, all sentences, and how waits came true.
    width: columns of the terminal: less important columns are left out to fit into it.
    options: columns, order and titles of the table that the user asks for.
    Raises NoColumn: the options name a column that there is not.
    """
    yield fmt.wrapped(answer(advice, every_sentence=verbose, width=width), width)
    rows = advice.rows if every else _around(advice)
    plain = options in {None, cols.TableOptions()} and not (every or verbose)
    if advice.guess and len(rows) == 1 and plain and not (advice.partitions or advice.layouts):
        return  # the one sentence of a guess has it all
    table = cols.Table(_columns(advice, now_s), rows).text(options, width=width)
    hidden = len(advice.rows) - len(rows)
    less = f"{len(rows)} of {len(advice.rows)} counts are shown; --all shows all." if hidden else ""
    name = fmt.printable(advice.application)
    whose = f"{name}, {fmt.count(advice.runs, 'run')}." if name and advice.runs else ""
    priced = (options is None or not options.form or "front" in options.form) and any(
        row.cost or row.kwh for row in advice.rows
    )
    front = "*: no other count ends as soon for as little." if priced else ""
    about = f"in partition {fmt.printable(advice.partition)}, " if advice.partition else ""
    about += f"on nodes of the type {fmt.printable(advice.node_type)}:"
    more = (_title(advice), _held(advice), _expected(advice, now_s), _long_waits(advice, rows))
    parts = (
        _partitions(advice, now_s, width, every=every),
        fmt.wrapped(about, width) if advice.node_type else "",
        table if rows else "",
        fmt.wrapped("  ".join(filter(None, (whose, less, front))), width),
        _layouts(advice, width),
        *(fmt.wrapped(part, width) for part in more if verbose),
    )
    if shown := _joined(parts):
        yield f"\n{shown}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def scripts_table(advice: Advice, *, now_s: float) -> cols.Table:
    """All node counts, times in seconds, columns in the order that scripts are used to."""
    columns = {column.name: column for column in _columns(advice, now_s)}
    ordered = {name: columns[name] for name in Row.__dataclass_fields__} | columns
    return cols.Table(list(ordered.values()), advice.rows)


def render_starts(advice: Advice, *, now_s: float) -> str:
    """Write Slurm's own start estimates, as wait + run = finish; empty without any."""
    rows = [row for row in advice.rows if row.slurm_wait_s is not None]
    columns = [
        _MARKED,
        cols.Column("nodes", advice.unit.plural),
        cols.Column("slurm_wait_s", "wait", as_text=cols.SECONDS),
        cols.Column("time_s", "+ run time", as_text=cols.SECONDS),
        cols.Column(
            "ends", "= ends", lambda row: fmt.short_clock(now_s + row.slurm_wait_s + row.time_s)
        ),
    ]
    title = "Starts as Slurm estimates them now (sbatch --test-only)"
    return f"{title}\n\n{cols.Table(columns, rows).text()}" if rows else ""


def _around(advice: Advice) -> list[Row]:
    """Pick the node counts to show: those nearest to the answer, and the one asked for.

    Of counts that were run, powers of two, the first and the last, the recommended one, and the
    one where a run would make the prediction surer.
    """
    rows = advice.rows
    row = answered(advice)
    ends = {rows[0].nodes, rows[-1].nodes} if rows else set()
    worth = [
        one
        for one in rows
        if one.observed
        or one is row
        or one.nodes.bit_count() == 1
        or one.nodes in (*ends, advice.asked, advice.observe)
    ]
    centre = worth.index(row) if row else 0
    first = max(min(centre - _SHOWN // 2, len(worth) - _SHOWN), 0)
    near = worth[first : first + _SHOWN]
    places = {one.nodes: place for place, one in enumerate(worth)}
    asked = [one for one in worth if one.nodes == advice.asked and one not in near]
    for one in asked:
        at = places[one.nodes]
        others = [other for other in near if other is not row]
        near.remove(max(others, key=lambda other: abs(places[other.nodes] - at)))
    return sorted([*near, *asked], key=lambda one: one.nodes)


def _title(advice: Advice) -> str:
    name = fmt.printable(advice.application) or "this job"
    if not advice.runs:
        where = " on this type of node" if advice.node_type else ""
        return f"{name}: no finished run{where} yet"
    level = fmt.RECOGNISED.get(advice.key_level, advice.key_level)
    how = f", recognised by {level}" if level else ""
    return f"{name}: {fmt.count(advice.runs, 'run')} in the store{how}"


def _partitions(advice: Advice, now_s: float, width: int, *, every: bool) -> str:
    """Partitions and kinds of nodes side by side, each on the node count that is best there."""
    text = fmt.wrapped(advice.place_text, width)
    if not advice.partitions:
        return text
    rows = sorted(advice.partitions, key=_end_there_s)
    if not every:
        kept = [row for row in rows if row.recommended or row.own] + rows
        rows = sorted(list({id(row): row for row in kept}.values())[:_SHOWN], key=_end_there_s)
    hidden = len(advice.partitions) - len(rows)
    less = f"{len(rows)} of {len(advice.partitions)} places are shown; --all shows all."
    table = replace(places_table(advice, now_s=now_s), rows=rows)
    return _joined((text, table.text(width=width), less if hidden else ""))


def _end_there_s(row: PartitionRow) -> float:
    return inf if row.time_s is None else (row.wait_s or 0.0) + row.time_s


def places_table(advice: Advice, *, now_s: float) -> cols.Table:
    """Partitions and kinds of nodes, each on the node count that is best there."""

    def ends(row: PartitionRow) -> float | None:
        if row.nodes is None or row.wait_s is None:
            return None
        return now_s + row.wait_s + (row.time_s or 0.0)

    def interval_s(row: PartitionRow) -> tuple[float | None, ...]:
        return tuple(end and now_s + end for end in (row.end_low_s, row.end_high_s))

    def ending(row: PartitionRow) -> str:
        low_s, high_s = interval_s(row)
        return fmt.clock_between(now_s, ends(row), low_s, high_s)

    def between(row: PartitionRow) -> str:
        low_s, high_s = interval_s(row)
        return fmt.interval(low_s, high_s, fmt.short_clock)

    def there(name: str, worth: int) -> int:
        given = any(getattr(row, name) not in (None, "") for row in advice.partitions)
        return worth if given else cols.ON_REQUEST

    hours = f"{advice.unit.word}-hours"
    cost = fmt.printable(advice.currency) or "cost"
    typed = there("node_type", 4)
    title = f"ends ({WAITS})" if there("end_high_s", 1) else "ends"
    clusters = {row.cluster for row in advice.partitions}
    columns = [
        _MARKED,
        cols.text_column(
            "cluster", "cluster", worth=cols.ALWAYS if len(clusters) > 1 else cols.ON_REQUEST
        ),
        cols.text_column("partition", "partition", as_text=cols.or_dash),
        cols.text_column("constraint", "constraint", worth=there("constraint", 8)),
        cols.text_column("gpu_type", "GPUs", worth=there("gpu_type", 8)),
        cols.Column("own", "", as_text=_if("asked"), left=True, worth=1),
        cols.Column("nodes", advice.unit.plural),
        cols.Column("time_s", "run time", as_text=cols.SECONDS),
        *_interval(advice, 2),
        cols.Column("wait_s", "wait", as_text=cols.SECONDS, worth=5),
        cols.Column("end_at_s", title, ends, cols.MOMENT, show=ending),
        cols.Column("end_interval", f"{WAITS} end", between, worth=cols.ON_REQUEST, derived=True),
        _seconds("end_low_s", "ends in at least"),
        _seconds("end_high_s", "ends in at most"),
        cols.Column("node_hours", hours, as_text=cols.AMOUNT, worth=3),
        cols.Column("cost", cost, as_text=cols.AMOUNT, worth=there("cost", 7)),
        cols.Column("kwh", "kWh", as_text=cols.AMOUNT, worth=there("kwh", 6)),
        cols.Column("runs", "runs there", worth=3),
        cols.Column("verdict", "verdict", left=True, worth=7),
        cols.text_column("node_type", "node type", worth=typed),
    ]
    return cols.Table(columns, advice.partitions)


def _layouts(advice: Advice, width: int) -> str:
    """Layouts side by side, on the size that is recommended or asked for."""
    if not advice.layouts:
        return ""
    size = advice.unit.counted(advice.layouts[0].size)
    return f"Laid out otherwise, on {size}\n\n{layouts_table(advice).text(width=width)}"


def layouts_table(advice: Advice) -> cols.Table:
    """Layouts of the size that is recommended or asked for."""
    columns = [
        cols.Column("own", "", as_text=_if("this job"), left=True, worth=2),
        cols.Column("layout", "layout", left=True, worth=3),
        cols.Column("time_s", "run time", as_text=cols.SECONDS),
        *_interval(advice, 4),
        cols.Column("size_hours", f"{advice.unit.word}-hours", as_text=cols.AMOUNT),
        cols.Column("verdict", "verdict", left=True, worth=5),
        cols.Column("options", "options", left=True),
    ]
    return cols.Table(columns, advice.layouts)


def _interval(advice: Advice, worth: int) -> list[cols.Column]:
    """Columns of the interval of run times: one for people, its ends for scripts."""
    title = f"{fmt.percent(advice.confidence)} of runs take"

    def interval(row: Row | LayoutRow | PartitionRow) -> str:
        if isinstance(row, Row) and row.unbounded:
            return f"over {duration_text(row.low_s)}"
        return duration_range(row.low_s, row.high_s)

    return [
        cols.Column("interval", title, interval, worth=worth, derived=True),
        _seconds("low_s", "at least"),
        _seconds("high_s", "at most"),
    ]


def _run_time(row: Row) -> str:
    return f"{'over ' if row.unbounded else ''}{duration_text(row.time_s)}"


def _if(word: str, other: str = "") -> Callable[[bool], str]:
    return lambda value: word if value else other


_MARKED: Final = cols.Column(
    "recommended", "", as_text=_if(cols.MARK), left=True, meaning="1: this count is recommended"
)


def _seconds(name: str, title: str, worth: int = cols.ON_REQUEST) -> cols.Column:
    return cols.Column(name, title, as_text=cols.SECONDS, worth=worth)


def _limit(name: str, title: str, worth: int = cols.ON_REQUEST) -> cols.Column:
    """Column of time limits, as they are pasted."""
    return cols.Column(name, title, as_text=cols.LIMIT, worth=worth)


def _limit_text(row: Row) -> str:
    """Write the limit to ask for, or that the job's own one does."""
    if row.limit_s is None:
        return "as asked" if row.keeps_limit else "-"
    return cols.LIMIT(row.limit_s)


def _columns(advice: Advice, now_s: float) -> list[cols.Column]:
    """Columns of the table of node counts; those without anything to say only on request."""

    def ends(row: Row) -> str:
        end_s = row.end_s
        if end_s is None and row.wait_s is not None:
            end_s = row.wait_s + row.time_s
        text = fmt.short_clock(None if end_s is None else now_s + end_s)
        return f"by {text}" if row.wait_bound else text

    def wait(row: Row) -> str:
        return f"{'<' if row.wait_bound else ''}{duration_text(row.wait_s)}"

    def waiting(row: Row) -> str:
        return duration_range(row.wait_low_s, row.wait_high_s)

    def ending(row: Row) -> str:
        low_s, high_s = (end and now_s + end for end in (row.end_low_s, row.end_high_s))
        return fmt.interval(low_s, high_s, fmt.short_clock)

    def if_any(worth: int, *, there: bool) -> int:
        return worth if there else cols.ON_REQUEST

    def amount(name: str, title: str, write: Callable[[float], str] = fmt.hours) -> cols.Column:
        there = any(getattr(row, name) is not None for row in advice.rows)
        return cols.Column(name, title, as_text=write, worth=if_any(4, there=there))

    def energy(row: Row) -> str:
        return fmt.interval(row.kwh_low, row.kwh_high, fmt.hours)

    derived = partial(cols.Column, derived=True)
    waits, spread, chances = (
        any(getattr(row, name) is not None for row in advice.rows)
        for name in ("wait_s", "wait_high_s", "chance")
    )
    curve = not advice.guess
    dated = bool(advice.deadline_s)
    costs = any(row.cost or row.kwh for row in advice.rows)
    return [
        _MARKED,
        cols.Column("nodes", advice.unit.plural),
        cols.Column("time_s", "run time", as_text=cols.SECONDS, show=_run_time, worth=cols.ALWAYS),
        *_interval(advice, 5),
        cols.Column(
            "speedup",
            "speedup",
            as_text=lambda one: f"{one:.1f}" if one else "-",
            worth=if_any(2, there=curve),
        ),
        cols.Column("efficiency", "efficiency", as_text=cols.SHARE, worth=if_any(2, there=curve)),
        cols.Column("node_hours", f"{advice.unit.word}-hours", as_text=cols.AMOUNT, worth=4),
        amount("kwh", "kWh"),
        cols.Column("kwh_low", "kWh at least", as_text=cols.AMOUNT, worth=cols.ON_REQUEST),
        cols.Column("kwh_high", "kWh at most", as_text=cols.AMOUNT, worth=cols.ON_REQUEST),
        derived("kwh_interval", "kWh between", energy, worth=cols.ON_REQUEST),
        amount("cost", fmt.printable(advice.currency) or "cost"),
        amount("co2_g", "g CO2e", "{:.0f}".format),
        cols.Column(
            "front",
            "",
            as_text=_if("*"),
            left=True,
            worth=if_any(8, there=costs),
            meaning="1: no other count ends as soon for as little",
        ),
        cols.Column(
            "wait_s", "wait", as_text=cols.SECONDS, show=wait, worth=if_any(7, there=waits)
        ),
        _seconds("slurm_wait_s", "Slurm's wait"),
        _seconds("wait_low_s", "waits at least"),
        _seconds("wait_high_s", "waits at most"),
        derived("wait_interval", f"{WAITS} of waits", waiting, worth=if_any(3, there=spread)),
        derived("ends", "ends", ends, worth=if_any(6, there=waits)),
        _seconds("end_s", "ends in"),
        _seconds("end_low_s", "ends in at least"),
        _seconds("end_high_s", "ends in at most"),
        derived("end_interval", f"{WAITS} end", ending, worth=if_any(1, there=spread)),
        cols.Column(
            "chance",
            "chance",
            as_text=cols.Quantity(cols.SHARE.unit, chance_text),
            worth=if_any(8, there=chances),
            meaning="of the deadline to be made",
        ),
        cols.Column(
            "no_later",
            "no later",
            as_text=cols.Quantity(cols.SHARE.unit, chance_text),
            worth=cols.ON_REQUEST,
            meaning="chance to end no later than on the count asked for",
        ),
        _seconds("later_s", "later by"),
        cols.Column(
            *("meets_deadline", "deadline"),
            as_text=_if("made", "missed"),
            worth=if_any(8, there=dated),
        ),
        cols.Column(
            "limit_s",
            "limit",
            as_text=cols.LIMIT,
            show=_limit_text,
            worth=if_any(5, there=any(row.limit_s for row in advice.rows)),
            meaning="time limit to ask for; as asked: the present one is long enough",
        ),
        _limit("time_min_s", "time-min"),
        cols.Column(
            "keeps_limit",
            "keeps limit",
            as_text=cols.YES,
            worth=cols.ON_REQUEST,
            meaning="1: the limit that is asked for does, and no better one is known",
        ),
        cols.Column(
            "observed",
            "",
            as_text=_if("observed"),
            worth=2,
            left=True,
            meaning="1: the application was run on it",
        ),
        cols.Column(
            "wait_bound",
            "bound",
            as_text=_if("at most"),
            worth=cols.ON_REQUEST,
            left=True,
            meaning="1: the wait is an upper bound",
        ),
        cols.Column(
            "unbounded",
            "",
            as_text=_if("no upper end"),
            worth=cols.ON_REQUEST,
            left=True,
            meaning="1: runs were cut off, so that the run time has no upper end",
        ),
    ]


def options_of(advice: Advice) -> str:
    """Give the options of sbatch that an advice names for size, memory and time; empty: none."""
    return " ".join(line.removeprefix(DIRECTIVE) for line in lines_to_paste(advice))


def for_command(advice: Advice, typed: Iterable[str]) -> Advice:
    """Give the advice with lines that count beside a command line.

    A job of ``--wrap`` has no script to paste into, and options of the command line outrank those
    of the script.

    typed: long names of the options on the command line.
    """
    names = set(typed)
    if "wrap" in names and advice.begin_directive:
        begin = advice.begin_directive.removeprefix(DIRECTIVE)
        advice = replace(advice, begin_directive=begin)
    words = options_of(advice)
    if not words:
        return advice
    if "wrap" in names:
        if not advice.directive:
            return replace(advice, memory_directive="", time_directive=words)
        return replace(advice, directive=words, memory_directive="", time_directive="")
    advised = (word.partition("=")[0].removeprefix("--") for word in words.split())
    outranking = [f"--{name}" for name in advised if name in names]
    if not outranking:
        return advice
    verb, what = ("outranks", "it") if len(outranking) == 1 else ("outrank", "them")
    which = f"{' and '.join(outranking)} of the command line"
    note = f"{which} {verb} the script: change or drop {what}."
    return replace(advice, script_text="\n".join(filter(None, (advice.script_text, note))))


def _expected(advice: Advice, now_s: float) -> str:
    """Say when the recommended count starts and ends, as intervals."""
    row = next((one for one in advice.rows if one.recommended), None)
    if row is None or row.end_low_s is None or row.end_high_s is None:
        return ""
    waits = duration_range(row.wait_low_s or 0.0, row.wait_high_s or 0.0)
    ends = fmt.interval(now_s + row.end_low_s, now_s + row.end_high_s, fmt.short_clock)
    return f"90 % interval: wait {waits}, end {ends}."


def _long_waits(advice: Advice, shown: Sequence[Row]) -> str:
    """Name the counts that wait longer than a larger one of the table: too long for a gap."""
    rows = [row for row in advice.rows if row.wait_s is not None]
    found = []
    for row in rows:
        more = [one for one in shown if one.nodes > row.nodes and one.wait_s is not None]
        soonest = min(more, key=lambda one: one.wait_s or 0.0, default=row)
        if (row.wait_s or 0.0) - (soonest.wait_s or 0.0) >= _JUMP_S:
            found.append((row.nodes, soonest.nodes))
    if not found:
        return ""
    few = found[0][0]
    many = found[-1][0]
    which = advice.unit.counted(many) if few == many else f"{few} to {many} {advice.unit.plural}"
    return (
        f"On {which} the wait is longer than on {found[-1][1]}: the time limit does not fit before "
        "the next large job."
    )


def _held(advice: Advice) -> str:
    """Say how often waits like the recommended one came true here."""
    held = advice.waits
    if held is None:
        return ""
    from slurm_plugin.protocol.status_messages import SHARE  # noqa: PLC0415 - for -v only

    return (
        f"Of {fmt.count(held.jobs, 'job')} with a wait like this one, {fmt.percent(SHARE)} "
        f"started within {duration_text(held.within_s)} of the predicted time."
    )
