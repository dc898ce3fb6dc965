"""How fast accounting text goes into SQLite, and how much memory that takes.

The text is that of a made-up cluster (or ``--data``); slurm2sql reads the same jobs where it is
installed.  Each figure comes from a process of its own, so that its peak memory is its own.
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
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import _bench
from msgspec.structs import replace

from sacct_ingest.ingest import ingest
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.opened import decoded, open_file
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from slurm_plugin.demo.applications import applications
from slurm_plugin.demo.history import make_runs
from slurm_plugin.demo.sacct_text import DELIMITER, sacct_text

END_S = 1_790_000_000
DAYS = 30
_ISO = ("Submit", "Eligible", "Start", "End")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = _bench.options(__doc__ or "", data="saved output of 'sacct -P' to read instead")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.measure:
        what, text, folder = args.measure
        print(json.dumps(MEASURES[what](Path(text), Path(folder))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        texts = [args.data] if args.data else _texts(Path(folder), quick=args.quick)
        repeats = 1 if args.quick else 3
        rows = [_best(what, text, repeats) for text in texts for what in MEASURES]
    _bench.table(rows, title="Accounting text into SQLite")
    _bench.write(args.json, rows=rows)
    return 0


def parse_only(text: Path, _: Path) -> dict[str, Any]:
    """Read the text and throw the runs away."""
    tally = Tally()
    began = time.perf_counter()
    for _run in SavedSacct(text, cluster="bench").read(0, 0, tally):
        pass
    return _figures(tally.rows, time.perf_counter() - began)


def ingest_new(text: Path, folder: Path) -> dict[str, Any]:
    """Read the text into an empty store."""
    with Store.open(str(folder / "nimo.db")) as store:
        return _ingest(store, text)


def ingest_again(text: Path, folder: Path) -> dict[str, Any]:
    """Read it into a store that has it all: what every overlap costs."""
    with Store.open(str(folder / "nimo.db")) as store:
        _ingest(store, text)
        return _ingest(store, text)


def peer(text: Path, folder: Path) -> dict[str, Any]:
    """slurm2sql, given the same jobs in the columns that it asks for."""
    try:
        import slurm2sql  # noqa: PLC0415
    except ImportError:
        return {"rows/s": None, "peak MiB": None}
    wanted = [name for name in slurm2sql.COLUMNS if not name.startswith("_")]
    wanted += slurm2sql.COLUMNS_EXTRA
    translated = folder / "slurm2sql.txt"
    with translated.open("w") as out:
        rows = sum(out.write(line) > 0 for line in _translated(text, wanted)) - 1
    with sqlite3.connect(folder / "slurm2sql.db") as database, translated.open() as lines:
        began = time.perf_counter()
        slurm2sql.slurm2sql(database, raw_sacct=lines)
        return _figures(rows, time.perf_counter() - began)


MEASURES: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "parse only": parse_only,
    "ingest": ingest_new,
    "ingest again": ingest_again,
    "slurm2sql": peer,
}


def _ingest(store: Store, text: Path) -> dict[str, Any]:
    began = time.perf_counter()
    done = ingest(store, SavedSacct(text, cluster="bench"), now_s=END_S)
    return _figures(done.read, time.perf_counter() - began)


def _figures(rows: int, seconds: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "rows/s": round(rows / seconds), "peak MiB": round(peak)}


def _best(what: str, text: Path, repeats: int) -> dict[str, Any]:
    """Take the fastest of some repeats: others' work on the machine only ever slows down."""
    found = [_in_a_process(what, text) for _ in range(repeats)]
    best = max(found, key=lambda figures: figures["rows/s"] or 0)
    return {"text": text.name, "what": what, "rows": None, **best}


def _in_a_process(what: str, text: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", what, str(text.resolve()), folder],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "TZ": "UTC"},
        )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _texts(folder: Path, *, quick: bool) -> list[Path]:
    """Texts of growing length; the memory taken must not grow with them."""
    base = list(make_runs(applications("ada"), end_s=END_S, rng=Random(1), days=DAYS))
    return [_text(folder, base, copies) for copies in ((4, 16) if quick else (16, 160))]


def _text(folder: Path, base: Sequence[Any], copies: int) -> Path:
    path = folder / f"{copies * DAYS} days"
    with path.open("w") as out:
        for copy in range(copies):
            lines = sacct_text(_moved(base, copy))
            out.writelines(islice(lines, 1 if copy else 0, None))
    return path


def _moved(runs: Sequence[Any], copy: int) -> Iterator[Any]:
    """Repeat the month, with other job ids and later."""
    shift = copy * DAYS * 86_400
    for run in runs:
        yield replace(
            run,
            job_id=run.job_id + copy * 10**6,
            array_job_id=run.array_job_id and run.array_job_id + copy * 10**6,
            submit_s=run.submit_s + shift,
            start_s=run.start_s + shift,
            end_s=run.end_s + shift,
        )


def _translated(text: Path, wanted: Sequence[str]) -> Iterator[str]:
    """Lines with the columns and the delimiter that slurm2sql expects."""
    with decoded(open_file(text)) as lines:
        header = next(lines).rstrip("\n").split(DELIMITER)
        yield ";|;".join(wanted) + "\n"
        for line in lines:
            row = dict(zip(header, line.rstrip("\n").split(DELIMITER), strict=False))
            for name in _ISO:
                row[name] = _iso(row.get(name, ""))
            yield ";|;".join(row.get(name, "") for name in wanted) + "\n"


def _iso(epoch: str) -> str:
    if not epoch.isdecimal():
        return epoch
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%S")


if __name__ == "__main__":
    sys.exit(main())
