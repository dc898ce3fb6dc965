"""What is known about one application, as text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from predictor.table import for_type
from predictor.types import PredictionTable, Recorded, Verdict
from sacct_ingest.records import KeyLevel, StandingRow
from slurm_plugin import formatting
from slurm_plugin.formatting import RECOGNISED, clock, count, duration, percent, printable, table

_READ = {
    Verdict.RELIABLE: "reliable",
    Verdict.DOUBTFUL: "doubtful: shown to users, not acted upon",
    Verdict.REFUSED: "refused: not to be used",
}


def render(known: PredictionTable, *, every: bool = False) -> str:
    """Write one application's curve as text: the table, then the verdict and its reasons.

    ``every`` asks for all node counts instead of those observed and powers of two.
    """
    known_by = RECOGNISED[known.level]
    lines = [
        f"{printable(known.label)}: {count(known.runs, 'run')}, recognised by {known_by}",
        f"model: {known.model}",
        "",
        _table(known, every=every),
        "",
        f"verdict: {_READ[known.verdict]}",
        *map(_record_line, known.record),
        *(f"  {problem.name}: {problem.text}" for problem in known.problems),
    ]
    if known.knee is not None:
        lines.append(f"knee (most speedup for its cost, max S²/n): {count(known.knee, 'node')}")
    if known.max_useful is not None:
        lines.append(f"run time stops falling at {count(known.max_useful, 'node')}")
    if known.node_type:
        others = [of_type(known, one.node_type, every=every) for one in known.by_type]
        lines = [f"nodes of the type {printable(known.node_type)}", *lines, *others]
    return "\n".join(lines)


def _record_line(record: Recorded) -> str:
    """Say what became of the last predictions, which the verdict was earned by."""
    where = "node counts that had been run" if record.seen else "new node counts"
    return (
        f"  the last {count(record.predictions, 'prediction')} on {where}: "
        f"median error {percent(record.median_error)}, {record.inside} inside the interval"
    )


def of_type(known: PredictionTable, node_type: str, *, every: bool = False) -> str:
    """Write what is known of one more node type: the table, the verdict, where it comes from."""
    own = for_type(known, node_type)
    lines = [
        "",
        f"nodes of the type {printable(node_type)}: {count(own.runs, 'run')}, model: {own.model}",
        "",
        _table(own, every=every),
        "",
        f"verdict: {_READ[own.verdict]}",
        *(f"  {problem.name}: {printable(problem.text)}" for problem in own.problems[:1]),
    ]
    return "\n".join(lines)


def standing_line(row: StandingRow) -> str:
    """Say whether what came of an application's predictions switched it off, and by how much."""
    what = "switched off" if row.off else "acted upon"
    return (
        f"{printable(row.label)}: {what} since {clock(row.since_s)}: realised over predicted run "
        f"time {row.ratio:.2f} in the last {count(row.runs, 'run')}, the band is "
        f"{row.low:.2f} to {row.high:.2f}"
    )


def parsable(known: PredictionTable) -> list[str]:
    """Lines of the curve with ``|`` between the fields, as ``sacct -P``; times in seconds."""
    seen = {point.nodes for point in known.observed}
    rows = zip(known.nodes, known.median_s, known.low_s, known.high_s, strict=True)
    body = (
        f"{n}|{t:.1f}|{low:.1f}|{high:.1f}|{verdict_at_entry(known, i)}|{int(n in seen)}"
        for i, (n, t, low, high) in enumerate(rows)
    )
    return ["Nodes|MedianS|LowS|HighS|Verdict|Observed", *body]


#: Columns of the list of applications, and whether they are aligned to the left.
LISTED = {
    "application": True,
    "by": True,
    "runs": False,
    "nodes": False,
    "verdict": True,
    "model": True,
    "key": True,
}
_SHORT_KEY = 8


def summary(
    tables: Iterable[PredictionTable],
    *,
    columns: Sequence[str] = (),
    order: str = "",
    header: bool = True,
) -> str:
    """List applications, each once: the best known first.

    An application that is recognised by its script and by its command line has two tables of the
    same runs; the one with more runs is listed.  Where several applications have one name, their
    keys tell them apart.

    Parameters
    ----------
    columns
        Names of `LISTED`; none: all that tell something.
    order
        Column to sort by; a minus before it sorts the other way round.
    """
    shown = _once(_ranked(tables))
    names = Counter(one.label for one in shown)
    same = any(number > 1 for number in names.values())
    chosen = list(columns) or [name for name in LISTED if name != "key" or same]
    rows = [dict(zip(LISTED, _listed(one), strict=True)) for one in _sorted(shown, order)]
    lines = [[row[name] for name in chosen] for row in rows]
    left = frozenset(i for i, name in enumerate(chosen) if LISTED[name])
    made = table(chosen, lines, left=left)
    return made if header else made.partition("\n")[2]


def _once(tables: Sequence[PredictionTable]) -> list[PredictionTable]:
    """Leave out tables of runs that another table of the same name has as well, with more."""
    by_script = {KeyLevel.SCRIPT.value, KeyLevel.LINE.value}
    most: dict[str, PredictionTable] = {}
    for one in tables:
        before = most.get(one.label)
        if one.level in by_script and (before is None or one.runs > before.runs):
            most[one.label] = one

    def again(one: PredictionTable) -> bool:
        other = most.get(one.label, one)
        # Each run has one script and one command line: what fewer runs have, the other has too.
        return one.level in by_script and one.level != other.level and _within(one, other)

    return [one for one in tables if not again(one)]


def _within(one: PredictionTable, other: PredictionTable) -> bool:
    seen = {point.nodes for point in other.observed}
    return one.runs <= other.runs and all(point.nodes in seen for point in one.observed)


def _sorted(tables: Sequence[PredictionTable], order: str) -> list[PredictionTable]:
    by = {
        "application": lambda t: t.label,
        "by": lambda t: t.level,
        "runs": lambda t: t.runs,
        "nodes": lambda t: max((p.nodes for p in t.observed), default=0),
        "verdict": lambda t: list(Verdict).index(t.verdict),
        "model": lambda t: t.model,
        "key": lambda t: t.key,
    }
    name = order.lstrip("+-")
    return sorted(tables, key=by[name], reverse=order.startswith("-")) if name else list(tables)


def shown_counts(known: PredictionTable, *, every: bool) -> list[int]:
    """Choose node counts by index: all, or those observed, powers of two and the ends."""
    seen = {point.nodes for point in known.observed}
    ends = {known.nodes[0], known.nodes[-1]} if known.nodes else set()
    return [
        i
        for i, nodes in enumerate(known.nodes)
        if every or nodes in seen or nodes in ends or nodes.bit_count() == 1
    ]


def verdict_at_entry(known: PredictionTable, index: int) -> str:
    """Name the verdict on one of the table's node counts."""
    return (known.verdicts[index] if known.verdicts else known.verdict).value


def parsable_summary(tables: Iterable[PredictionTable]) -> Iterator[str]:
    """Write the same list with ``|`` between the fields, and the keys."""
    names = ("application", "by", "runs", "nodes_observed", "verdict", "model", "key")
    return formatting.parsable(names, ([*_listed(t)[:-1], t.key] for t in _ranked(tables)))


def _ranked(tables: Iterable[PredictionTable]) -> list[PredictionTable]:
    order = list(Verdict)
    return sorted(tables, key=lambda t: (order.index(t.verdict), -t.runs, t.label))


def _listed(known: PredictionTable) -> list[str]:
    name = printable(known.label)
    seen = [point.nodes for point in known.observed]
    span = f"{min(seen)}-{max(seen)}" if seen else "-"
    return [
        name,
        known.level,
        str(known.runs),
        span,
        known.verdict.value,
        known.model,
        known.key[:_SHORT_KEY],
    ]


def _table(known: PredictionTable, *, every: bool) -> str:
    repeats = {point.nodes: point.repeats for point in known.observed}
    rows = [
        [
            str(known.nodes[i]),
            duration(known.median_s[i]),
            f"{duration(known.low_s[i])} to {duration(known.high_s[i])}",
            verdict_at_entry(known, i),
            str(repeats.get(known.nodes[i], "")),
        ]
        for i in shown_counts(known, every=every)
    ]
    interval = f"{percent(known.confidence)} of runs take"
    header = ["nodes", "run time", interval, "verdict", "runs kept"]
    return table(header, rows, left=frozenset({3}))
