"""Facts of an identity's runs: run times, memory, owner, and the longest on each node count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from predictor.tables.memory import node_need, ran_short
from predictor.types import UNBOUNDED, Longest, Memory, Run
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.attributes import attributes
from sacct_ingest.scripts.signature import command_of_line, words_of_line
from sacct_ingest.scripts.templates import name_template, template

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Completed runs after which a run that its limit stopped sets no limit any more: it may have hung.
_SINCE_CUT = 10


def ended_runs(rows: Iterable[RunRow]) -> list[RunRow]:
    """Select the runs with a run time: finished, or cut short; failed ones have none."""
    return [row for row in rows if row.state.says_run_time and row.nodes > 0 and row.elapsed_s > 0]


def runs_of(rows: Iterable[RunRow]) -> list[Run]:
    """Give what a curve needs of the runs with a run time."""
    return [
        Run(
            nodes=row.nodes,
            elapsed_s=float(row.elapsed_s),
            end_s=float(row.end_s or 0),
            censored=row.state.cut_short,
            limit_s=float(row.limit_s or 0),
            submit_s=float(row.submit_s),
        )
        for row in ended_runs(rows)
    ]


def attributes_of_run(row: RunRow) -> dict[str, str]:
    """Give the attributes of a stored run by name."""
    return attributes(
        words_of_line(row.submit_line, row.work_dir, row.comment, row.name),
        account=row.account,
        limit_s=row.limit_s,
        mem_node_bytes=(row.req_mem_bytes or 0) / max(row.nodes, 1),
        work_dir=row.work_dir,
        script=row.script,
        name=row.name,
        comment=row.comment,
    )


_COMMAND_LENGTH = 200  #: characters of a command that tables keep


def command_of(level: KeyLevel, rows: Sequence[RunRow]) -> str:
    """Script and arguments of the newest run that has a submit line; empty for other keys."""
    if level not in (KeyLevel.SCRIPT, KeyLevel.LINE):
        return ""
    newest = next((row for row in reversed(rows) if row.submit_line), None)
    if newest is None:
        return ""
    made = command_of_line(newest.submit_line, newest.work_dir, newest.name)
    return template(made)[:_COMMAND_LENGTH]


def label_of(level: KeyLevel, key: str, rows: Sequence[RunRow]) -> str:
    """Name the application for people."""
    if level not in (KeyLevel.SCRIPT, KeyLevel.LINE):
        return key
    name, _ = Counter(name_template(row.name) for row in rows).most_common(1)[0]
    users = {row.user for row in rows}
    return f"{users.pop()}/{name}" if len(users) == 1 else name


def memory_of(rows: Iterable[RunRow]) -> tuple[Memory, ...]:
    """Highest memory of a node on each count: the largest task times tasks on a node.

    A run that ended for lack of memory is left out: its need is above all that was measured.
    """
    needs: dict[int, int] = {}
    short: dict[int, int] = {}
    for row in rows:
        if row.nodes > 0 and (row.mem_bytes or ran_short(row)):
            need = node_need(row)
            measured = short if ran_short(row) else needs
            measured[row.nodes] = max(need, measured.get(row.nodes, 0))
    needs |= {n: UNBOUNDED for n, least in short.items() if least >= needs.get(n, 0)}
    return tuple(Memory(nodes, need) for nodes, need in sorted(needs.items()))


def owner_of(rows: Iterable[RunRow]) -> str:
    """User whose runs these all are; empty where there are several."""
    users = {row.user for row in rows}
    return users.pop() if len(users) == 1 else ""


def longest_of(rows: Iterable[RunRow]) -> tuple[Longest, ...]:
    """Longest run on each count, of those with a run time."""
    times: dict[int, float] = {}
    cut: dict[int, float] = {}
    completed = 0
    for row in sorted(ended_runs(rows), key=lambda row: row.end_s or 0, reverse=True):
        elapsed_s = float(row.elapsed_s)
        times[row.nodes] = max(elapsed_s, times.get(row.nodes, 0.0))
        completed += not row.state.cut_short
        if row.state.cut_short and completed < _SINCE_CUT:
            cut[row.nodes] = max(elapsed_s, cut.get(row.nodes, 0.0))
    return tuple(Longest(n, time_s, cut.get(n, 0.0)) for n, time_s in sorted(times.items()))
