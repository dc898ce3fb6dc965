"""How fast accounting goes into each store, and how much memory that takes, at growing sizes.

The accounting is made up, with arrays, heterogeneous jobs, requeues, steps, duplicates, jobs that
still run, newlines, delimiters and odd characters in names (or it is ``--data``); text and JSON
hold the same jobs.
Servers are private ones, as the tests start them.  Each figure comes from a process of its own, so
that its peak memory is its own.  CPU seconds are those of the process and of its children.

slurm2sql reads the same text, where it is installed.  Both make a row of each job; slurm2sql makes
rows of its ninety columns for jobs and steps in one table, where a requeued job replaces its
first run (without ``update=True`` it would end the import).  NIMO keeps jobs and
steps apart, with eight indexes, leaves out what has not ended, knows a run again when it is read
twice, and gives each its identity keys.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import _accounting
import _bench
import _stores

from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.sources.opened import decoded, open_file
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from slurm_plugin.demo.sandbox import DELIMITER

END_S = 2_000_000_000
_ISO = ("Submit", "Eligible", "Start", "End")
_QUICK_ROWS, _ROWS = (10_000, 50_000), (10**4, 10**5, 10**6, 10**7)
#: Rows up to which JSON and the servers are measured: they are not what the aims are about.
_OTHERS_ROWS = 10**6


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = _bench.options(__doc__ or "", data="saved output of 'sacct -P' to read instead")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, nargs="+", help="sizes, in rows of jobs and steps")
    parser.add_argument(
        "--stores", nargs="+", default=["sqlite", "postgresql", "mariadb"], metavar="KIND"
    )
    args = parser.parse_args(argv)
    if args.measure:
        what, file, url = args.measure
        print(json.dumps(MEASURES[what](Path(file), url)))
        return 0
    sizes = args.rows or (_QUICK_ROWS if args.quick else _ROWS)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stores = _stores.stores(stack, Path(folder), args.stores)
        rows: list[dict[str, Any]] = []
        for size in sizes:
            files = {"data": args.data} if args.data else _files(Path(folder), size)
            measured = _measured(files, stores, others=size <= _OTHERS_ROWS)
            rows += [{"size": size, **row} for row in measured]
            for file in files.values() if not args.data else ():
                file.unlink()
    _bench.table(rows, title="Accounting into a store")
    print(*(f"\n{line}" for line in verdicts(rows)))
    _bench.write(args.json, rows=rows)
    return 0


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Ratios to slurm2sql at each size, and whether the rate depends on the size."""
    first = [row for row in rows if row["store"] == "sqlite" and row["what"] == "first load"]
    of_text = {row["size"]: row for row in first if row["file"] != "json"}
    of_json = {row["size"]: row for row in first if row["file"] == "json"}
    for row in rows:
        if row["what"] != "slurm2sql" or not row["rows/s"]:
            continue
        for kind, its in (("text", of_text), ("JSON", of_json)):
            if row["size"] in its:
                own = its[row["size"]]
                by_clock = own["rows/s"] / row["rows/s"]
                by_cpu = own["rows"] / own["CPU s"] / (row["rows"] / row["CPU s"])
                yield (
                    f"{row['size']} rows of {kind}: {by_clock:.1f} times slurm2sql's text by the "
                    f"clock, {by_cpu:.1f} by CPU time"
                )
    rates = {size: row["rows/s"] for size, row in of_text.items()}
    large = [(size, rate) for size, rate in sorted(rates.items()) if size >= max(rates) / 100]
    if len(large) > 1:
        (small, slow), (size, fast) = large[0], large[-1]
        yield f"rows/s at {size} rows / rows/s at {small} rows: {fast / slow:.2f}"


def parse_only(file: Path, _: str) -> dict[str, Any]:
    """Read the file and throw the runs away."""
    tally = Tally()
    clock = _Clock()
    for _run in SavedSacct(file, cluster="bench").read(0, 0, tally):
        pass
    return clock.figures(tally.rows)


def load(file: Path, url: str) -> dict[str, Any]:
    """Read the file into the store."""
    with Store.open(url) as store:
        clock = _Clock()
        done = ingest(store, SavedSacct(file, cluster="bench"), now_s=END_S)
        if done.refused:
            raise SystemExit(f"{done.refused} rows of {file} were refused")
        return clock.figures(done.read)


def peer(file: Path, url: str) -> dict[str, Any]:
    """slurm2sql, given the same jobs in the columns that it asks for."""
    try:
        import slurm2sql  # noqa: PLC0415
    except ImportError:
        return {"rows/s": None, "CPU s": None, "peak MiB": None}
    expected = [name for name in slurm2sql.COLUMNS if not name.startswith("_")]
    expected += slurm2sql.COLUMNS_EXTRA
    folder = Path(url).parent
    translated = folder / "slurm2sql.txt"
    with translated.open("w") as out:
        rows = sum(out.write(line) > 0 for line in _translated(file, expected)) - 1
    with sqlite3.connect(folder / "slurm2sql.db") as database, translated.open() as lines:
        clock = _Clock()
        slurm2sql.slurm2sql(database, raw_sacct=lines, update=True)
        return clock.figures(rows)


MEASURES: dict[str, Callable[[Path, str], dict[str, Any]]] = {
    "parse only": parse_only,
    "first load": load,
    "read again": load,
    "slurm2sql": peer,
}


class _Clock:
    """Time since it was made."""

    def __init__(self) -> None:
        self._began, self._cpu_s = time.perf_counter(), _cpu_s()

    def figures(self, rows: int) -> dict[str, Any]:
        seconds = time.perf_counter() - self._began
        return {
            "rows": rows,
            "rows/s": round(rows / seconds),
            "CPU s": round(_cpu_s() - self._cpu_s, 2),
            "peak MiB": round(max(usage.ru_maxrss for usage in _usages()) / 1024),
        }


def _usages() -> list[resource.struct_rusage]:
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def _cpu_s() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in _usages())


def _files(folder: Path, rows: int) -> dict[str, Path]:
    files = {"text": folder / f"{rows}.txt"}
    _accounting.write_text(files["text"], rows)
    if rows <= _OTHERS_ROWS:
        files["json"] = folder / f"{rows}.json"
        _accounting.write_json(files["json"], rows)
    return files


def _measured(
    files: Mapping[str, Path], stores: Mapping[str, _stores.Fresh], *, others: bool
) -> list[dict[str, Any]]:
    result = []
    for kind, file in files.items():
        result.append(_row(kind, "", "parse only", file, ""))
        for store, fresh in stores.items():
            if store == "sqlite" or (others and kind != "json"):
                with fresh() as url:
                    result += [
                        _row(kind, store, what, file, url) for what in ("first load", "read again")
                    ]
        if kind != "json":
            with tempfile.TemporaryDirectory() as folder:
                result.append(_row(kind, "sqlite", "slurm2sql", file, f"{folder}/x"))
    return result


def _row(kind: str, store: str, what: str, file: Path, url: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", what, str(file.resolve()), url],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TZ": "UTC"},
    )
    return {"file": kind, "store": store, "what": what, "rows": None, **json.loads(done.stdout)}


def _translated(text: Path, expected: Sequence[str]) -> Iterator[str]:
    """Lines with the columns and the delimiter that slurm2sql expects."""
    with decoded(open_file(text)) as lines:
        header = next(lines).rstrip("\n").split(DELIMITER)
        # It reads a line at a time, so that a name with a newline would be two broken rows; and
        # a name with its delimiter would part the columns.
        whole = (line for line in lines if line.count(DELIMITER) == len(header) - 1)
        yield ";|;".join(expected) + "\n"
        for line in whole:
            row = dict(zip(header, line.rstrip("\n").split(DELIMITER), strict=False))
            for name in _ISO:
                row[name] = _iso(row.get(name, ""))
            yield ";|;".join(row.get(name, "").replace(";|;", " ") for name in expected) + "\n"


def _iso(epoch: str) -> str:
    if not epoch.isdecimal():
        return epoch
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%S")


if __name__ == "__main__":
    sys.exit(main())
