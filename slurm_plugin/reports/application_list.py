"""Lists of applications: each once, and what sets those of one name apart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from predictor.prediction_table import PredictionTable
from predictor.types import Verdict
from sacct_ingest.records import PART, KeyLevel
from sacct_ingest.runs.layout import Unit
from slurm_plugin.text import table_columns as cols

TableKey = tuple[str, str]  #: level and key
#: Levels of which one application may have two tables of the same runs.
_BY_COMMAND = frozenset({KeyLevel.SCRIPT.value, KeyLevel.LINE.value})
#: Characters of a key that are shown.
_SHORT_KEY = 8


def list_table(tables: Iterable[PredictionTable]) -> cols.Table:
    """List applications, each once, the most reliable first, as `listing` says."""
    shown = each_once(tables)
    listed = [Listed.of(one) for one in shown]
    apart = distinctions(listed)
    entry_of = {one.table_key: one for one in listed}

    def details(one: PredictionTable) -> str:
        return apart.get((one.level, one.key), "")

    def counts_of(one: PredictionTable) -> frozenset[int]:
        return entry_of[one.level, one.key].nodes

    def span(one: PredictionTable) -> str:
        counts = counts_of(one)
        unit = "" if one.unit is Unit.NODES else f" {one.unit.plural}"
        return f"{min(counts)}-{max(counts)}{unit}" if counts else "-"

    columns = [
        cols.text_column(
            "application", "application", value=lambda t: entry_of[t.level, t.key].name
        ),
        cols.Column("by", "by", lambda t: t.level, left=True, worth=3),
        cols.Column("runs", "runs", worth=7),
        cols.Column(
            "nodes_observed", "nodes", span, order=lambda t: max(counts_of(t), default=0), worth=6
        ),
        cols.Column(
            "verdict",
            "verdict",
            lambda t: t.verdict.value,
            order=lambda t: list(Verdict).index(t.verdict),
            left=True,
        ),
        cols.Column("model", "model", left=True, worth=1),
        cols.Column(
            "key",
            "key",
            as_text=lambda key: key[:_SHORT_KEY],
            left=True,
            worth=2 if apart else cols.ON_REQUEST,
        ),
        cols.text_column(
            "details", "differs by", cols.ALWAYS if apart else cols.ON_REQUEST, value=details
        ),
    ]
    return cols.Table(columns, shown)


def each_once(tables: Iterable[PredictionTable]) -> list[PredictionTable]:
    """Leave out tables whose runs another one of the same name has; the most reliable first."""
    order = list(Verdict)
    ranked = sorted(tables, key=lambda t: (order.index(t.verdict), -t.runs, t.label))
    again = repeated([Listed.of(one) for one in ranked])
    return [one for one in ranked if (one.level, one.key) not in again]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a list needs of one prediction table."""

    level: str
    key: str
    label: str
    runs: int
    nodes: frozenset[int]  #: that it ran on, whatever was asked for
    command: str = ""  #: script and arguments
    layout: str = ""  #: that all runs have, in words
    parts: int = 0  #: tables of its layouts that there are besides
    owner: str = ""
    last_s: float = 0.0  #: start of the newest run

    @classmethod
    def of(cls, table: Any, row: Any = None, **more: Any) -> Self:
        """Take what a list needs from a prediction table; of a part of one, names from its row."""
        named = row or table
        return cls(
            level=KeyLevel(named.level).value,
            key=named.key,
            label=named.label,
            runs=table.runs,
            nodes=frozenset(one.nodes for one in table.longest or table.observed),
            command=table.command,
            layout=str(table.layout),
            parts=len(table.parts),
            owner=table.owner,
            last_s=table.last_s,
            **more,
        )

    @property
    def table_key(self) -> TableKey:
        """Level and key."""
        return self.level, self.key

    @property
    def name(self) -> str:
        """Label without the layout that a part has behind it."""
        return self.label.removesuffix(f" ({self.layout})") if PART in self.key else self.label


def repeated(tables: Sequence[Listed]) -> frozenset[TableKey]:
    """Find tables whose runs another one of the same name has as well, with more.

    An application that is recognised by its script and by its command line has two tables of the
    same runs, and a third one where it has a tag.
    """
    tagged = {_runs_of(one) for one in tables if one.level == KeyLevel.TAG.value}
    most: dict[str, Listed] = {}
    for one in tables:
        before = most.get(one.label)
        if one.level in _BY_COMMAND and (before is None or one.runs > before.runs):
            most[one.label] = one

    def again(one: Listed) -> bool:
        if one.level in _BY_COMMAND and _runs_of(one) in tagged:
            return True
        other = most.get(one.label, one)
        # Each run has one script and one command line: what fewer runs have, the other has too.
        same = one.level in _BY_COMMAND and one.level != other.level
        return same and one.runs <= other.runs and one.nodes <= other.nodes

    return frozenset(one.table_key for one in tables if again(one))


def _runs_of(one: Listed) -> tuple[str, int, float, frozenset[int]]:
    """Give what two tables of the same runs have in common, and others hardly ever."""
    return one.owner, one.runs, one.last_s, one.nodes


def distinctions(tables: Iterable[Listed]) -> Mapping[TableKey, str]:
    """Say how tables of one name differ: arguments, layout, else the key.

    Names that are there once have no entry.
    """
    by_name: dict[str, list[Listed]] = {}
    for one in tables:
        by_name.setdefault(one.name, []).append(one)
    made: dict[TableKey, str] = {}
    for group in by_name.values():
        if len(group) > 1:
            made |= _apart(group)
    return made


def _apart(group: Sequence[Listed]) -> dict[TableKey, str]:
    several = len({one.command for one in group}) > 1
    texts = {one.table_key: _words(one, with_command=several) for one in group}
    often = Counter(texts.values())
    for one in group:
        text = texts[one.table_key]
        if often[text] > 1 or not text:
            key = f"{one.level} {one.key[:_SHORT_KEY]}"
            texts[one.table_key] = f"{text}, {key}" if text else key
    return texts


def _words(one: Listed, *, with_command: bool) -> str:
    words = [one.command] if with_command and one.command else []
    if PART in one.key:
        words.append(one.layout)
    elif one.parts:
        words.append("all layouts")
    return ", ".join(words)
