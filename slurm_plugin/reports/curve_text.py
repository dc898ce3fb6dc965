"""The prediction for one application, as text."""

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


def render(prediction: PredictionTable, *, every: bool = False) -> str:
    """Write one application's curve as text: the table, then the verdict and its reasons.

    ``every`` asks for all node counts instead of those observed and powers of two.
    """
    level = RECOGNISED[prediction.level]
    lines = [
        f"{printable(prediction.label)}: {count(prediction.runs, 'run')}, recognised by {level}",
        f"model: {prediction.model}",
        "",
        _table(prediction, every=every),
        "",
        f"verdict: {_READ[prediction.verdict]}",
        *map(_record_line, prediction.record),
        *(f"  {problem.name}: {problem.text}" for problem in prediction.problems),
    ]
    if prediction.knee is not None:
        lines.append(
            f"knee (most speedup for its cost, max S²/n): {count(prediction.knee, 'node')}"
        )
    if prediction.max_useful is not None:
        lines.append(f"run time stops falling at {count(prediction.max_useful, 'node')}")
    if prediction.node_type:
        others = [of_type(prediction, one.node_type, every=every) for one in prediction.by_type]
        lines = [f"nodes of the type {printable(prediction.node_type)}", *lines, *others]
    return "\n".join(lines)


def _record_line(record: Recorded) -> str:
    """Describe how accurate the last predictions were; the verdict rests on them."""
    where = "node counts that had been run" if record.seen else "new node counts"
    return (
        f"  the last {count(record.predictions, 'prediction')} on {where}: "
        f"median error {percent(record.median_error)}, {record.inside} inside the interval"
    )


def of_type(prediction: PredictionTable, node_type: str, *, every: bool = False) -> str:
    """Write the prediction for one more node type: the table, the verdict and its first reason."""
    own = for_type(prediction, node_type)
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
    """Say whether an application is switched off, with its realised over predicted run time."""
    what = "switched off" if row.off else "acted upon"
    return (
        f"{printable(row.label)}: {what} since {clock(row.since_s)}: realised over predicted run "
        f"time {row.ratio:.2f} in the last {count(row.runs, 'run')}, the band is "
        f"{row.low:.2f} to {row.high:.2f}"
    )


def parsable(prediction: PredictionTable) -> list[str]:
    """Lines of the curve with ``|`` between the fields, as ``sacct -P``; times in seconds."""
    observed = {point.nodes for point in prediction.observed}
    rows = zip(
        prediction.nodes, prediction.median_s, prediction.low_s, prediction.high_s, strict=True
    )
    body = (
        f"{n}|{t:.1f}|{low:.1f}|{high:.1f}|{verdict_at_entry(prediction, i)}|{int(n in observed)}"
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
    """List applications, each once: the most reliable first.

    An application that is recognised by its script and by its command line has two tables of the
    same runs; the one with more runs is listed.  Where several applications have one name, the
    list shows their keys.

    Parameters
    ----------
    columns
        Names of `LISTED`; none: all, with keys only where names repeat.
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
    observed = {point.nodes for point in other.observed}
    return one.runs <= other.runs and all(point.nodes in observed for point in one.observed)


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


def shown_counts(prediction: PredictionTable, *, every: bool) -> list[int]:
    """Choose node counts by index: all, or those observed, powers of two and the ends."""
    observed = {point.nodes for point in prediction.observed}
    ends = {prediction.nodes[0], prediction.nodes[-1]} if prediction.nodes else set()
    return [
        i
        for i, nodes in enumerate(prediction.nodes)
        if every or nodes in observed or nodes in ends or nodes.bit_count() == 1
    ]


def verdict_at_entry(prediction: PredictionTable, index: int) -> str:
    """Name the verdict on one of the table's node counts."""
    return (prediction.verdicts[index] if prediction.verdicts else prediction.verdict).value


def parsable_summary(tables: Iterable[PredictionTable]) -> Iterator[str]:
    """Write the same list with ``|`` between the fields, and the keys."""
    names = ("application", "by", "runs", "nodes_observed", "verdict", "model", "key")
    return formatting.parsable(names, ([*_listed(t)[:-1], t.key] for t in _ranked(tables)))


def _ranked(tables: Iterable[PredictionTable]) -> list[PredictionTable]:
    order = list(Verdict)
    return sorted(tables, key=lambda t: (order.index(t.verdict), -t.runs, t.label))


def _listed(prediction: PredictionTable) -> list[str]:
    name = printable(prediction.label)
    observed = [point.nodes for point in prediction.observed]
    span = f"{min(observed)}-{max(observed)}" if observed else "-"
    return [
        name,
        prediction.level,
        str(prediction.runs),
        span,
        prediction.verdict.value,
        prediction.model,
        prediction.key[:_SHORT_KEY],
    ]


def _table(prediction: PredictionTable, *, every: bool) -> str:
    repeats = {point.nodes: point.repeats for point in prediction.observed}
    rows = [
        [
            str(prediction.nodes[i]),
            duration(prediction.median_s[i]),
            f"{duration(prediction.low_s[i])} to {duration(prediction.high_s[i])}",
            verdict_at_entry(prediction, i),
            str(repeats.get(prediction.nodes[i], "")),
        ]
        for i in shown_counts(prediction, every=every)
    ]
    interval = f"{percent(prediction.confidence)} of runs take"
    header = ["nodes", "run time", interval, "verdict", "runs kept"]
    return table(header, rows, left=frozenset({3}))
