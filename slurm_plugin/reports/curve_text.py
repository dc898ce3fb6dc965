"""What is known about one application, as text."""

from collections.abc import Iterable, Iterator

from predictor.table import for_type
from predictor.types import PredictionTable, Verdict
from sacct_ingest.records import StandingRow
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


def summary(tables: Iterable[PredictionTable]) -> str:
    """List applications, one a line: the best known first."""
    header = ["application", "by", "runs", "nodes observed", "verdict", "model"]
    return table(header, [_listed(t) for t in _ranked(tables)], left=frozenset({0, 1, 4, 5}))


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
    return formatting.parsable(names, ([*_listed(t), t.key] for t in _ranked(tables)))


def _ranked(tables: Iterable[PredictionTable]) -> list[PredictionTable]:
    order = list(Verdict)
    return sorted(tables, key=lambda t: (order.index(t.verdict), -t.runs, t.label))


def _listed(known: PredictionTable) -> list[str]:
    name = printable(known.label)
    seen = [point.nodes for point in known.observed]
    span = f"{min(seen)}-{max(seen)}" if seen else "-"
    return [name, known.level, str(known.runs), span, known.verdict.value, known.model]


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
