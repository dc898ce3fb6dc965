"""How long the pages of ``nimo web`` take with many applications and decisions.

A store is filled with made-up prediction tables and decisions; each page is asked for over TCP on
the loopback, of a server in a process of its own, one request after the other.  Beside it, in the
same run: a page of a few words from the same server (what HTTP alone costs), and the same list made
of the store without the catalogue in memory (what a page would cost that reads all tables).

CPU is the server's own, a page: it says on a busy machine what the wall time says on an idle one.
``--decisions`` and ``--applications`` give one size of site, whose decisions are of its
applications and of which pages show the last seven days.  Then some pages are asked for cold, too,
of a server that has just begun: until its first answer, and until the page is there; once where
no reports are kept, once where the server before has left its own, and once with those of a fit.
"""

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import _bench
from report import fill

from predictor.prediction_table import PredictionTable
from predictor.refit import row_of
from predictor.types import Point, Verdict
from sacct_ingest.store import FitRow, Store
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.stored_reports import keep_reports
from slurm_plugin.reports.application_list import list_table
from slurm_plugin.store_access import load_tables

_NODES = tuple(sorted({*range(1, 17), 23, 32, 45, 64, 91, 128}))
_CODE = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
PAGES = {
    "a few words": "/nothing",
    "applications": "/applications",
    "applications, last page": "/applications?page=999999",
    "applications, ordered": "/applications?order=application&reverse=yes",
    "applications, words": "/applications?q=user7+app",
    "one application": "/application?level=line&key={key}",
    "decisions": "/decisions",
    "decisions of a user": "/decisions?user=user7",
    "overview": "/",
    "report": "/report",
    "savings": "/savings",
    "queue": "/queue",
}

_Server = tuple[http.client.HTTPConnection, Callable[[], float]]
COLD = ("overview", "applications", "one application", "savings", "report", "queue")


def main(argv: Sequence[str] | None = None) -> int:
    """Fill, measure, print."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--decisions", type=int, help="decisions, each with its run")
    parser.add_argument("--applications", type=int, default=10_000)
    args = parser.parse_args(argv)
    sizes = ((1_000, 2_000),) if args.quick else ((1_000, 10_000), (10_000, 100_000))
    if args.decisions:
        sizes = ((args.applications, args.decisions),)
    rows: list[dict[str, Any]] = []
    cold: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for applications, decisions in sizes:
            path = Path(folder) / f"{applications}.db"
            whole = 0 if args.decisions else 36_500
            fill(str(path), decisions, applications=applications if args.decisions else 0)
            _fill(path, applications)
            rows += _measured(path, applications, repeats=10 if args.quick else 40, days=whole)
            if args.decisions:
                kept = Path(folder) / "kept"
                kept.mkdir()
                for state in ("nothing kept", "kept"):
                    cold += [_cold(path, applications, name, state, kept) for name in COLD]
                began_s = time.process_time()
                with Store.open(str(path)) as store:
                    keep_reports(store, Config(), now_s=time.time())
                print(f"a fit makes the reports in {time.process_time() - began_s:.1f} s of CPU")
                empty = Path(folder) / "empty"
                for name in COLD:
                    empty.mkdir(exist_ok=True)
                    cold.append(_cold(path, applications, name, "of the last fit", empty))
                    shutil.rmtree(empty)
    _bench.table(rows, title="Pages for browsers")
    if cold:
        _bench.table(cold, title="Of a server that has just begun")
    _bench.write(args.json, pages=rows, cold=cold)
    return 0


def _fill(path: Path, applications: int) -> None:
    rng = Random(applications)
    with Store.open(str(path)) as store:
        store.fits.replace([_fit(number, rng) for number in range(applications)])


def _fit(number: int, rng: Random) -> FitRow:
    serial_s, parallel_s = rng.uniform(1, 100), rng.uniform(1e3, 1e5)
    times = tuple(serial_s + parallel_s / n for n in _NODES)
    user, verdict = f"user{number % 100}", rng.choice(tuple(Verdict))
    table = PredictionTable(
        level="line", key=f"{number:024x}", label=f"{user}/app{number}", model="averaged",
        verdict=verdict, problems=(), nodes=_NODES, median_s=times,
        low_s=tuple(t / 1.1 for t in times), high_s=tuple(t * 1.1 for t in times),
        curve_sd=(0.05,) * len(times), confidence=0.9,
        observed=tuple(Point(n, serial_s + parallel_s / n, 3, 0.05) for n in (1, 4, 16)),
        knee=rng.choice((None, 8, 32)), max_useful=None, runs=rng.randrange(3, 500),
        mem_node_bytes=None, fitted_s=1.79e9, verdicts=(verdict,) * len(times),
    )  # fmt: skip
    return row_of(table)


def _cold(path: Path, applications: int, name: str, state: str, kept: Path) -> dict[str, Any]:
    """Ask a server that has just begun for one page, as a browser does.

    kept: folder where the server before may have left its reports.
    """
    address = PAGES[name].format(key=f"{applications // 2:024x}")
    with _serving(path, days=0, kept=kept) as (connection, cpu_s):
        before_s, began = cpu_s(), time.perf_counter()
        status = _status(connection, address)
        first_s, first_cpu_s = time.perf_counter() - began, cpu_s() - before_s
        while status == 503:
            time.sleep(0.5)
            status = _status(connection, address)
        return {
            "page": name,
            "reports": state,
            "first answer ms": first_s * 1000,
            "its CPU ms": first_cpu_s * 1000,
            "page ms": (time.perf_counter() - began) * 1000,
            "CPU ms": (cpu_s() - before_s) * 1000,
        }


def _measured(
    path: Path, applications: int, *, repeats: int, days: int
) -> Iterator[dict[str, Any]]:
    first = None
    with _serving(path, days=days) as (connection, cpu_s):
        # Its first sum of all decisions is made beside, from the start on: not to be timed here.
        warm_s = _timed(lambda: _get(connection, PAGES["overview"]))
        summing_s = cpu_s()
        for name, page in PAGES.items():
            address = page.format(key=f"{applications // 2:024x}")
            first_s = _timed(lambda to=address: _get(connection, to))
            began_s = cpu_s()
            times_s = [_timed(lambda to=address: _get(connection, to)) for _ in range(repeats)]
            used_s = (cpu_s() - began_s) / repeats
            typical_s = median(times_s)
            first = first or typical_s
            yield {
                "applications": applications,
                "page": name,
                "CPU ms": used_s * 1000,
                "median ms": typical_s * 1000,
                "worst ms": max(times_s) * 1000,
                "first ms": (warm_s if name == "overview" else first_s) * 1000,
                "ratio": typical_s / first,
            }
    assert first is not None
    for name, wall_s, used_s in (("start and first sum", warm_s, summing_s), _listed(path)):
        yield {
            "applications": applications,
            "page": name,
            "CPU ms": used_s * 1000,
            "median ms": wall_s * 1000,
            "worst ms": wall_s * 1000,
            "first ms": wall_s * 1000,
            "ratio": wall_s / first,
        }


def _listed(path: Path) -> tuple[str, float, float]:
    """Make the list without a catalogue: wall and CPU time."""
    with Store.open(str(path)) as store:
        began_s = time.process_time()
        wall_s = _timed(lambda: list_table(load_tables(store)).text())
        return "list out of the store", wall_s, time.process_time() - began_s


@contextmanager
def _serving(path: Path, *, days: int, kept: Path | None = None) -> Iterator[_Server]:
    """Start a server; gives a connection to it and what tells the CPU time that it has used.

    days: that the overview is about; 0: as many as where nothing is set.
    """
    config = path.with_suffix(".yaml")
    shown = f"web: {{days: {days}}}\n" if days else ""
    config.write_text(f"store: sqlite:///{path}\n{shown}")
    argv = [sys.executable, "-c", _CODE, "web", "--listen", "127.0.0.1:0", "--config", str(config)]
    own = {"CACHE_DIRECTORY": str(kept)} if kept else {}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=os.environ | own) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            yield connection, lambda: _cpu_s(process.pid)
        finally:
            process.terminate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _get(connection: http.client.HTTPConnection, address: str) -> None:
    while (status := _status(connection, address)) == 503:
        time.sleep(0.05)
    if status not in (200, 404):
        raise RuntimeError(f"{address}: {status}")


def _status(connection: http.client.HTTPConnection, address: str) -> int:
    connection.request("GET", address)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
