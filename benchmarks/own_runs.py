"""Never against its own runs, over stores at hand: rows of counts that ran three times or more.

Each command of a log with so many finished runs of one count is fitted, and its table is asked with
every count that ran.  A row is *against* its runs where its median is outside their range, though
the answer calls the count observed.  *Moved* are those whose row follows a shift of level, and is
inside the range of the runs since.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import _bench
from history_accuracy import stored

from predictor.application.request import counts_run, for_request
from predictor.prediction_table import PredictionTable
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import RunRow

#: Runs of a count from which on its row is measured.
ENOUGH = 3
#: Run times are rounded in tables, and the accounting's clock counts whole seconds.
_NEAR_S, _NEAR = 1.0, 0.001


def main() -> None:
    """Fit the commands of each log, and count the rows."""
    parser = _bench.options(__doc__)
    parser.add_argument("--data", nargs="*", type=Path, default=[], metavar="FILE")
    arguments = parser.parse_args()
    rows = []
    for path in arguments.data or [None]:
        counted: Counter[str] = Counter()
        for runs in commands(stored(path)):
            counted.update(judged(runs))
        rows.append({"log": path.name if path else "generated", **counted})
    names = ("commands", "rows", "against")
    table = [{"log": row["log"], **{name: row.get(name, 0) for name in names}} for row in rows]
    _bench.table(table, title="Rows of counts that ran three times or more")
    _bench.write(arguments.json, own_runs=table)


def commands(rows: Sequence[RunRow]) -> Iterator[list[RunRow]]:
    """Give the runs of each command that ran often enough on one count."""
    groups: defaultdict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        if row.identity.line:
            groups[row.identity.line].append(row)
    for runs in groups.values():
        if max(_often(runs).values(), default=0) >= ENOUGH:
            yield runs


def _often(runs: Sequence[RunRow]) -> Counter[int]:
    return Counter(run.nodes for run in runs if run.state.finished and run.elapsed_s > 0)


def judged(runs: Sequence[RunRow]) -> Iterator[str]:
    """Name what was found of the rows of one command."""
    whole = IdentityRuns(KeyLevel.LINE, runs[0].identity.line, runs, 9e9)
    table = tables_of(whole, TableSettings())[0].table
    if table is None or table.unit.name != "NODES":
        return
    yield "commands"
    often = _often(runs)
    for asked in sorted(often):
        job = for_request(table, asked)
        for nodes in counts_run(job):
            if often[nodes] >= ENOUGH:
                yield "rows"
                if _against(job, nodes, runs):
                    yield "against"


def _against(job: PredictionTable, nodes: int, runs: Sequence[RunRow]) -> bool:
    times = [run.elapsed_s for run in runs if run.nodes == nodes and run.state.finished]
    said = at(job, nodes).time_s
    low, high = min(times), max(times)
    return not low * (1 - _NEAR) - _NEAR_S <= said <= high * (1 + _NEAR) + _NEAR_S


if __name__ == "__main__":
    main()
