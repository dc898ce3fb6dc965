"""What the store's queries cost as runs grow, and the plans by which SQLite answers them.

A store is filled with made-up runs in steps (``--runs``); after each, the queries of refits,
reports, ingests and nimod are timed.  Those of every day must not depend on how many runs there
are; what reads all runs (a refit of everything, a count) may grow with them.
"""

import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import _accounting
import _bench
from sqlalchemy import create_engine, event

from sacct_ingest.records import DecisionRow, JobRun, KeyLevel
from sacct_ingest.sources.base import ENDED
from sacct_ingest.store import Store
from sacct_ingest.store.rows import Selection

_BATCH = 2000
_ROWS_PER_RUN = 3.2  # of the made-up accounting


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
            rows = list(_measured(store, sizes))
            plans = list(_plans(store)) if not args.store else []
    _bench.table(rows, title="Queries of the store")
    _bench.table(plans, title="Plans (SQLite)")
    _bench.write(args.json, rows=rows, plans=plans)
    return 0


def everyday(latest: JobRun) -> dict[str, Callable[[Store], Any]]:
    """Give the queries that must not depend on the number of runs; ``latest`` is the newest run."""
    name, at_s = f"{latest.user}/{latest.name}", latest.submit_s
    return {
        "add 100 known runs": lambda store: store.runs.add([latest] * 100),
        "history of a name": lambda store: store.runs.history(KeyLevel.NAME, name, 20),
        "history of a tag": lambda store: store.runs.history(KeyLevel.TAG, "app1/d01", 20),
        "steps of 100 runs": lambda store: store.runs.steps_of(range(1, 101)),
        "join of decisions": lambda store: store.decisions.join_outcomes(),
        "outcomes of a day": lambda store: list(
            store.decisions.with_outcomes(Selection(since_s=at_s - 86_400))
        ),
        "keys of new outcomes": lambda store: store.decisions.touched_keys(at_s - 86_400),
        "watermark": lambda store: store.watermarks.get("sacct:"),
    }


#: Queries that read all runs of a kind, as a stream.
WHOLE: dict[str, Callable[[Store], Any]] = {
    "runs by line (refit)": lambda store: deque(store.runs.by_key(KeyLevel.LINE), maxlen=0),
    "runs by tag (refit)": lambda store: deque(store.runs.by_key(KeyLevel.TAG), maxlen=0),
    "count": lambda store: store.runs.count(),
}


def _measured(store: Store, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    stream = (run for run in _accounting.runs_of(int(sizes[-1] * _ROWS_PER_RUN * 1.2)))
    ended = (run for run in stream if run.state in ENDED)
    stored = 0
    for size in sizes:
        latest = _fill(store, islice(ended, size - stored))
        stored = size
        for name, query in (everyday(latest) | WHOLE).items():
            seconds = min(_timed(query, store) for _ in range(1 if name in WHOLE else 5))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            yield {"runs": size, "query": name, "ms": seconds * 1000, "peak MiB": peak}


def _fill(store: Store, runs: Iterable[JobRun]) -> JobRun:
    latest: list[JobRun] = []
    with store.writer() as writer:
        while batch := list(islice(runs, _BATCH)):
            writer.add(batch)
            latest = batch
    store.decisions.add([_decision(run) for run in latest[-500:]])
    return latest[-1]


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


def _plans(store: Store) -> Iterator[dict[str, Any]]:
    latest = next(iter(_accounting.runs_of(1)))
    engine = store._engine
    for name, query in (everyday(latest) | WHOLE).items():
        seen: list[tuple[str, Any]] = []

        def note(_: Any, __: Any, sql: str, given: Any, *more: Any, to: Any = seen) -> None:
            to.append((sql, given[0] if more[1] else given))

        event.listen(engine, "before_cursor_execute", note)
        query(store)
        event.remove(engine, "before_cursor_execute", note)
        explained = create_engine(engine.url)
        with explained.connect() as connection:
            for sql, given in seen:
                if sql.startswith("SELECT") and "counters" not in sql:
                    found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)
                    yield {"query": name, "plan": "; ".join(row[3] for row in found)}
        explained.dispose()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
