"""What the store's queries cost as runs grow, and the plans by which SQLite answers them.

A store is filled with made-up runs in steps (``--runs``), most of them copied by the database, each
copy with applications of its own; after each, the queries of refits, reports, ingests and nimod are
timed.  Those of every day must not depend on how many runs there are, nor the rate at which a refit
of everything reads its runs; what counts them may grow with them.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import _accounting
import _bench
from sqlalchemy import Column, ColumnElement, Engine, Insert, Table, case, event, insert, select

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, KeyLevel
from sacct_ingest.store import Store, counters, schema
from sacct_ingest.store.engine import make_engine, writing
from sacct_ingest.store.rows import DecisionSelection

#: Runs that are made up and given as an ingest gives them: before all copies, and after them.
_BASE, _NEWEST = 16_000, 1000
_MONTHS = 12  #: at least as long as the first of them
_MANY_ROWS = 10 * _BASE
_READ = 5000  #: runs that are read of all


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--runs", type=int, nargs="+", help="sizes, in runs")
    parser.add_argument("--store", help="SQLAlchemy URL of an empty store instead of SQLite")
    args = parser.parse_args(argv)
    sizes = sorted(args.runs or ((2_000, 20_000) if args.quick else (10**5, 10**6, 10**7)))
    with tempfile.TemporaryDirectory() as folder:
        url = args.store or f"{folder}/nimo.db"
        with Store.open(url) as store:
            rows = list(_measured(store, url, sizes))
            plans = list(_plans(store, url)) if not args.store else []
    _bench.table(rows, title="Queries of the store")
    _bench.table(plans, title="Plans (SQLite)")
    _bench.write(args.json, rows=rows, plans=plans)
    return 0


def everyday(latest: JobRun) -> dict[str, Callable[[Store], Any]]:
    """Give the queries that must not depend on the number of runs; ``latest`` is the newest run."""
    at_s = latest.submit_s
    return {
        "add 100 known runs": lambda store: store.runs.add([latest] * 100),
        "steps of 100 runs": lambda store: store.runs.steps_of(range(1, 101)),
        "join of decisions": lambda store: store.decisions.join_outcomes(),
        "outcomes of a day": lambda store: list(
            store.decisions.with_outcomes(DecisionSelection(since_s=at_s - 86_400))
        ),
        "keys of new outcomes": lambda store: store.decisions.touched_keys(at_s - 86_400),
        "watermark": lambda store: store.watermarks.get("sacct:"),
    }


#: Queries that read all runs of a kind, as a stream: how fast it comes is what is timed.
WHOLE: dict[str, Callable[[Store], Any]] = {
    f"first {_READ} runs by line (refit)": lambda store: _first_runs(store, KeyLevel.LINE),
    f"first {_READ} runs by tag (refit)": lambda store: _first_runs(store, KeyLevel.TAG),
    "count": lambda store: store.runs.count(),
}


def _first_runs(store: Store, level: KeyLevel) -> None:
    read = 0
    for _, group in store.runs.by_key(level):
        read += len(group)
        if read >= _READ:
            return


def _measured(store: Store, url: str, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    filler = Filler(store, make_engine(url, create=False))
    for size in sizes:
        began_s = time.perf_counter()
        latest = filler.to(size)
        print(f"{size} runs: filled in {time.perf_counter() - began_s:.0f} s", file=sys.stderr)
        for name, query in (everyday(latest) | WHOLE).items():
            seconds = min(_timed(query, store) for _ in range(1 if name in WHOLE else 5))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            yield {"runs": size, "query": name, "ms": seconds * 1000, "peak MiB": peak}


class Filler:
    """Fills a store: some months of runs as an ingest does, then their copies by the database."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._first: list[JobRun] = []
        self._base = self._stored = self._stretch = 0

    def to(self, size: int) -> JobRun:
        """Add runs until there are about so many; gives the newest."""
        if not self._first:
            ended = (run for run in _accounting.runs_of(_MANY_ROWS) if run.state.ended)
            self._first = list(islice(ended, min(_BASE, size - _NEWEST)))
            self._base = self._add(self._first)
        while (missing := size - _NEWEST - self._stored) > 0:
            self._copy(min(missing, self._base))
        later = self._later()
        newest = [_accounting.moved(run, later) for run in self._first[:_NEWEST]]
        self._add(newest)
        self._store.decisions.add(
            [_decision(run) for run in {r.job_id: r for r in newest}.values()]
        )
        return newest[-1]

    def _later(self) -> int:
        return self._stretch * _MONTHS

    def _add(self, runs: Sequence[JobRun]) -> int:
        self._stretch += 1
        new = self._store.runs.add(runs).new
        self._stored += new
        return new

    def _copy(self, count: int) -> None:
        """Copy the first runs, with their steps."""
        moved_s, moved_ids = (
            self._later() * by for by in (_accounting.SHIFT_S, _accounting.COPY_IDS)
        )
        moved = dict.fromkeys(("submit_s", "eligible_s", "start_s", "end_s"), moved_s)
        moved |= dict.fromkeys(("job_id", "array_job_id", "het_job_id"), moved_ids)
        moved |= dict.fromkeys(("id", "run_id"), self._stored)
        with writing(self._engine) as connection:
            for table, key in ((schema.runs, "id"), (schema.steps, "run_id")):
                connection.execute(_copies(table, key, count, moved, f"{self._stretch}"))
            counters.increase(connection, "runs", count)
        self._stretch += 1
        self._stored += count


def _copies(table: Table, key: str, count: int, moved: Mapping[str, int], of: str) -> Insert:
    columns = [
        column + moved[column.name] if column.name in moved else _renamed(column, of)
        for column in table.columns
    ]
    names = [column.name for column in table.columns]
    return insert(table).from_select(names, select(*columns).where(table.c[key] <= count))


def _renamed(column: Column[Any], of: str) -> ColumnElement[Any]:
    if column.name not in ("tag", "line"):
        return column
    return case((column > "", column.concat(of)), else_="")


def _decision(run: JobRun) -> DecisionRow:
    return DecisionRow(
        decision_id=f"{run.job_id % 16**12:012x}",
        cluster=run.cluster,
        at_s=run.submit_s + 0.2,
        uid=run.uid,
        user=run.user,
        name=run.name,
        work_dir=run.work_dir,
    )


def _timed(query: Callable[[Store], Any], store: Store) -> float:
    began = time.perf_counter()
    query(store)
    return time.perf_counter() - began


def _plans(store: Store, url: str) -> Iterator[dict[str, Any]]:
    latest = next(iter(_accounting.runs_of(1)))
    for name, query in (everyday(latest) | WHOLE).items():
        observed: list[tuple[str, Any]] = []

        def note(_: Any, __: Any, sql: str, given: Any, *more: Any, to: Any = observed) -> None:
            to.append((sql, given[0] if more[1] else given))

        event.listen(Engine, "before_cursor_execute", note)
        query(store)
        event.remove(Engine, "before_cursor_execute", note)
        explained = make_engine(url, create=False)
        with explained.connect() as connection:
            for sql, given in observed:
                if sql.startswith("SELECT") and "counters" not in sql:
                    result = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)
                    yield {"query": name, "plan": "; ".join(row[3] for row in result)}
        explained.dispose()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
