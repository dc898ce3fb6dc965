"""How long a report takes, how much CPU and memory, beside reading the same rows alone.

A store is filled with made-up decisions and their runs, one a minute until now, of a thousand
applications; each figure is of a process of its own.  At last `nimo fit`'s sums of what was decided
more than a week ago are stored, and the report is made again, beside ``nimo predict`` and the first
page for browsers; then a day's rows are ingested, with as many decisions, twice.  ``--runs`` fills
the store with other runs first; ``--store`` has it done on a real PostgreSQL or MariaDB, of which
the CPU time of its own is given, too.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import _bench
import _stores
from msgspec.structs import replace
from store_queries import Filler

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.store import Store
from sacct_ingest.store.engine import make_engine
from slurm_plugin.config.settings import Config
from slurm_plugin.demo.sandbox import sacct_text
from slurm_plugin.evaluation.feedback import judge_applications, keep_memory

MODES = ("observe", "advise", "enforce")
REASONS = ("cheapest", "best_already", "array", "fixed_count", "unreliable_curve")
DAY = 3000  #: rows
#: CPU time, that of ended children too, and highest resident size; that of `resource` begins with
#: the parent's.
_COST = """\
import os
print(sum(os.times()[:4]), open('/proc/self/status').read().split('VmHWM:')[1].split()[0])
"""
READ = """\
from sacct_ingest.store import Store
with Store.open({store!r}) as store:
    for _ in store.decisions.with_outcomes(): pass
"""
COMMAND = """\
import os, sys
from slurm_plugin.cli.nimo import main
sys.stdout = open(os.devnull, "w")
main([*{command!r}, "--store", {store!r}])
sys.stdout = sys.__stdout__
"""


PAGE = """\
from functools import partial
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.slurm.slurm_conf import PrivateDataRules
from slurm_plugin.web.data import PageData
from slurm_plugin.web.start_pages import home
from slurm_plugin.web.view import View
from slurm_plugin.web.viewer import Viewer
site = PageData(Config(), partial(Store.open, {store!r}), lambda _: PrivateDataRules())
home(View(site, Viewer("root", PrivateDataRules()), dict()))
site.close()
"""
KEEP = """\
import time
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.report_data import keep_sums
with Store.open({store!r}) as store:
    keep_sums(store, Config(), now_s=time.time())
"""


def main() -> None:
    """Fill, measure, print."""
    parser = _bench.options(__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite (default), postgresql, mariadb")
    parser.add_argument("--runs", type=int, default=0, help="other runs in the store")
    parser.add_argument("--decisions", type=int, nargs="+", help="sizes, in decisions")
    args = parser.parse_args()
    sizes = args.decisions or ((2_000, 10_000) if args.quick else (10_000, 100_000, 1_000_000))
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for fresh in _stores.stores(stack, Path(folder), [args.store]).values():
            for size in sizes:
                with fresh() as url:
                    if args.runs:
                        with Store.open(url) as store:
                            Filler(store, make_engine(url, create=False)).to(args.runs)
                    fill(url, size)
                    rows += measure(url, Path(folder), size)
    _bench.table(rows, title="A report of many decisions")
    _bench.write(args.json, reports=rows)


def fill(url: str, size: int, *, applications: int = 0) -> None:
    """Make a store with this many decisions and runs.

    applications: how many have prediction tables, under their numbers; 0: none has.
    """
    rng, begin_s = Random(size), int(time.time()) - 60 * size
    with Store.open(url) as store:
        for start in range(0, size, 10_000):
            pairs = [
                made(begin_s + 60 * i, i, rng, applications=applications)
                for i in range(start, min(size, start + 10_000))
            ]
            store.runs.add(run for _, run in pairs)
            store.decisions.add([decision for decision, _ in pairs])
        store.decisions.join_outcomes()


def made(
    at_s: int, number: int, rng: Random, *, applications: int = 0
) -> tuple[DecisionRow, JobRun]:
    """One decision and its run: four nodes where two were asked for, or left alone."""
    mode = rng.choice(MODES)
    of = rng.randrange(applications) if applications else number % 1000
    user, name = f"user{of % 100}", f"app{of}"
    key = f"{of:024x}" if applications else f"{user}/{name}"
    chosen, applied = rng.random() < 0.5, mode == "enforce"
    nodes = 4 if chosen and applied else 2
    time_s = 1000.0 if nodes == 4 else 1800.0
    start_s, took_s = at_s + rng.randrange(3600), time_s * rng.lognormvariate(0.0, 0.08)
    decision = DecisionRow(
        decision_id=f"{number:012x}", cluster="pine", at_s=float(at_s), mode=mode,
        action="set" if chosen else "keep", reason="cheapest" if chosen else rng.choice(REASONS),
        user=user, name=name, account="hpc", partition="batch", key_level="line",
        key=key, label=f"{user}/{name}", verdict="reliable", requested_nodes=2,
        nodes=4 if chosen else 2, applied=chosen and applied,
        predicted_s=1000.0 if chosen else 1800.0, low_s=870.0 if chosen else 1560.0,
        high_s=1150.0 if chosen else 2070.0, request_predicted_s=1800.0, request_low_s=1560.0,
        request_high_s=2070.0, wait_s=600.0, request_wait_s=1200.0, confidence=0.9,
    )  # fmt: skip
    run = JobRun(
        cluster="pine", job_id=number + 1, submit_s=at_s, state=JobState.COMPLETED, user=user,
        name=name, partition="batch", start_s=start_s, end_s=int(start_s + took_s),
        elapsed_s=took_s, nodes=nodes, cpus=64 * nodes,
        admin_comment=f"NIMO1:{number:012x}:n={nodes},req=1-8,t=1,lo=1,hi=1,v=r,m=e,r=c",
    )  # fmt: skip
    return decision, run


def write_day(url: str, path: Path, size: int) -> None:
    """Decide on the jobs of a day, and write down what became of them as sacct prints it."""
    now_s, rng, config = int(time.time()), Random(size), Config()
    since_s = now_s - 86_400
    pairs = [made(since_s + i * 86_400 // DAY, size + i, rng) for i in range(DAY)]
    with Store.open(url) as store:
        judge_applications(store, config, now_s=since_s)
        keep_memory(store, requeue=False, now_s=since_s)
        store.decisions.add([decision for decision, _ in pairs])
    ended = {"uid": 1000, "exit_code": 0, "exit_signal": 0, "tasks": 1}
    runs = (replace(run, eligible_s=run.submit_s, req_nodes=run.nodes, **ended) for _, run in pairs)
    path.write_text("".join(sacct_text(runs)))


def measure(url: str, folder: Path, size: int) -> list[dict[str, Any]]:
    """Time and memory of reading alone, of the report in each form, and of a day's ingest."""
    day = folder / "day.txt"
    write_day(url, day, size)
    ingest = COMMAND.format(store=url, command=["ingest", "-M", "pine", str(day)])
    ways = {
        "rows read": READ.format(store=url),
        "terminal": COMMAND.format(store=url, command=["report"]),
        "JSON": COMMAND.format(store=url, command=["report", "--json"]),
        "HTML": COMMAND.format(
            store=url, command=["report", "--html", str(folder / "report.html")]
        ),
        "last 7 days": COMMAND.format(store=url, command=["report", "-S", "now-7days"]),
        "sums stored": KEEP.format(store=url),
        "terminal, with sums": COMMAND.format(store=url, command=["report"]),
        "predict": COMMAND.format(store=url, command=["predict"]),
        "first page": PAGE.format(store=url),
        f"ingest of {DAY} rows": ingest,
        "the same rows again": ingest,
    }
    rows: list[dict[str, Any]] = []
    for name, code in ways.items():
        began, before_s = time.perf_counter(), _stores.server_cpu_s(url)
        done = subprocess.run(
            [sys.executable, "-c", code + _COST], capture_output=True, text=True, check=True
        )
        took_s = time.perf_counter() - began
        cpu_s, peak_kib = map(float, done.stdout.split()[-2:])
        rows.append({
            "decisions": size,
            "what": name,
            "s": took_s,
            "CPU s": cpu_s,
            "server CPU s": _stores.server_cpu_s(url) - before_s,
            "CPU ratio": cpu_s / (rows[0]["CPU s"] if rows else cpu_s),
            "MiB": peak_kib / 1024,
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
