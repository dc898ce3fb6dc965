"""Jobs of every shape, asked on every surface of a real cluster: a table of the answers.

As root: starts a Slurm with accounting, the hooks and nimod, runs each shape some times, and then
asks about it with nimo-advise (text and JSON, by nimod, from the store, from the user's own
history), with sbatch, nimo why, the page of its application and nimo export.  Each cell is count,
time limit and memory to ask for, and the run time.  What differs from nimod's JSON has a star.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import _bench

from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import Store
from sacct_ingest.text.durations import duration_text, slurm_time
from slurm_plugin.config.loader import load
from slurm_plugin.store_access import load_tables
from slurm_plugin.stored_advice.advise import advise_usual
from tests.cluster import SlurmCluster
from tests.cluster.host import missing_programs
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, Site
from tests.processes import LONGEST_WAIT_S

#: Finished runs of each shape.
RUNS = 6
#: What the scripts do: ``sleep_until`` milliseconds after the job began, fewer on more tasks.
BODY = f"""\
{BEGAN}
{SLEEP_UNTIL}
"""


class Shape(NamedTuple):
    """A kind of job."""

    name: str
    asked: Sequence[str]  #: options of sbatch of the job that is asked about
    body: str = "sleep_until 5000"
    history: Sequence[Sequence[str]] = ()  #: options of its runs; empty: as asked
    directives: str = ""


SHAPES = (
    Shape("serial", ("-n1", "-t", "30")),
    Shape(
        "range",
        ("-N1-4", "-t", "30"),
        "sleep_until $((12000 / SLURM_NNODES + 1000))",
        [("-N", str(n), "-t", "30") for n in (1, 2, 4)],
    ),
    Shape("tasks", ("-N1", "-n4", "-t", "30")),
    Shape("cpus", ("-N1", "-n1", "-c2", "-t", "30")),
    Shape("gpus", ("-N1", "--gpus-per-node=1", "-t", "30")),
    Shape("array", ("--array=1-4%2", "-t", "30")),
    Shape("het", (), directives="#SBATCH -N1 -t 30\n#SBATCH hetjob\n#SBATCH -N2 -t 30\n"),
    Shape("dependency", ("-N1", "-t", "30", "-d", "singleton")),
    Shape("wrap", ("-N1", "-t", "30")),
    Shape("exclusive", ("-N1", "--exclusive", "--mem=400M", "-t", "30")),
)


@dataclass(frozen=True)
class Answer:
    """What a surface says of a job; None or empty: it says nothing of it."""

    count: str = ""  #: of nodes; of what else it says
    limit: str = ""
    memory: str = ""
    time_s: float | None = None
    chance: float | None = None
    note: str = ""

    def text(self, like: "Answer") -> str:
        """Write it, with a star where it is not as another says that says it, too."""
        words = []
        for name in ("count", "limit", "memory", "time_s", "chance"):
            value, other = getattr(self, name), getattr(like, name)
            if value in (None, ""):
                continue
            said = duration_text(value) if name == "time_s" else str(value)
            same = said == (duration_text(other) if name == "time_s" and other else str(other))
            words.append(said if same else f"{said}*")
        return " ".join([*words, self.note]) or "-"


def main() -> int:
    """Run all shapes, ask, print, write."""
    parser = _bench.options(__doc__ or "")
    options = parser.parse_args()
    if missing := missing_programs(None):
        print(f"nothing was tried: not installed: {', '.join(missing)}")
        return 0
    shapes = SHAPES[:3] if options.quick else SHAPES
    with site() as used:
        jobs = {shape.name: words_of(used, shape) for shape in shapes}
        prepare(used, shapes, jobs)
        rows = []
        for shape in shapes:
            answers = dict(asked(used, shape, jobs[shape.name]))
            like = answers["--json"]
            rows.append({"job": shape.name} | {name: a.text(like) for name, a in answers.items()})
            print(rows[-1], file=sys.stderr, flush=True)
    _bench.table(rows, title=f"Answers after {RUNS} runs")
    _bench.write(options.json, answers=rows)
    return 0


@contextmanager
def site() -> Iterator[Site]:
    """Run a site of eight nodes with two GPUs each."""
    with scratch_directory("nimo-surfaces-") as directory:
        cluster = SlurmCluster(directory, lua=hooks_for(directory), gpus=2)
        cluster.up()
        try:
            made = Site(directory, cluster)
            made.run_nimod("enforce")
            yield made
        finally:
            cluster.down()


def words_of(used: Site, shape: Shape) -> list[str]:
    """Words of sbatch behind the options: the script, or what is wrapped."""
    comment = f"--comment=nimo:app={shape.name}"
    if shape.name == "wrap":
        return [comment, "-J", "wrapped", "--wrap=sleep 5"]
    text = f"#!/bin/bash\n#SBATCH --job-name={shape.name}\n{shape.directives}{BODY}{shape.body}\n"
    return [comment, str(used.write_script(f"{shape.name}.sh", text))]


def prepare(used: Site, shapes: Sequence[Shape], jobs: Mapping[str, Sequence[str]]) -> None:
    """Run each shape so often, and learn from it."""
    ids = []
    for shape in shapes:
        every = [*(shape.history or [shape.asked])] * RUNS
        ids += [used.cluster.sbatch(*words, *jobs[shape.name]) for words in every[:RUNS]]
    used.cluster.wait(*ids, accounted=True, timeout_s=4 * LONGEST_WAIT_S)
    used.learn()
    used.settled()


def asked(used: Site, shape: Shape, job: Sequence[str]) -> Iterator[tuple[str, Answer]]:
    """Ask every surface."""
    words = [*shape.asked, *job]
    store = f"--store={used.nimod.store}"
    ways: Mapping[str, Callable[[], Answer]] = {
        "--json": lambda: of_json(used.advise("--json", *words, check=False).stdout),
        "nimo-advise": lambda: of_text(used.advise(*words, check=False).stdout),
        "store": lambda: of_json(used.advise(store, "--json", *words, check=False).stdout),
        "--local": lambda: of_json(of_own_history(used, words)),
        "page": lambda: of_page(used, shape.name),
        "export": lambda: of_export(used, shape.name),
        "sbatch": lambda: of_sbatch(used, words),
        "nimo why": lambda: of_why(used),
    }
    for name, ask in ways.items():
        try:
            yield name, ask()
        except Exception as error:
            yield name, Answer(note=f"failed: {error!r}"[:120])


def of_own_history(used: Site, words: Sequence[str]) -> str:
    """Ask without nimod; the history is kept with the cluster, of which there are others."""
    env = {"XDG_DATA_HOME": str(used.cluster.layout.work / "own-history")}
    return used.cluster.run("nimo-advise", "--local", "--json", *words, env=env, check=False).stdout


def counted(number: int | None, unit: Unit) -> str:
    """Write a size: of nodes the number alone."""
    if number is None:
        return ""
    return str(number) if unit is Unit.NODES else unit.counted(number)


def unit_of(word: str) -> Unit:
    """Read what is counted: one of them, or several."""
    return next(unit for unit in Unit if word.removesuffix("s") == unit.word)


def of_advice(advice: Mapping[str, Any]) -> Answer:
    """Read an advice."""
    shown = advice["nodes"] or advice["asked"]
    row = next((row for row in advice["rows"] if row["nodes"] == shown), {})
    directives = " ".join(advice[f"{name}directive"] for name in ("time_", "memory_"))
    return Answer(
        count=counted(advice["nodes"], Unit(advice["unit"])),
        time_s=row.get("time_s"),
        chance=row.get("chance"),
        **_lines(directives),
    )


def _lines(text: str) -> dict[str, str]:
    options = {
        "limit": re.search(r"--time=([\d:-]+)", text),
        "memory": re.search(r"--(?:mem|mem-per-cpu)=(\w+)", text),
    }
    return {name: found[1] for name, found in options.items() if found}


def of_json(text: str) -> Answer:
    """Read what ``--json`` prints."""
    return of_advice(json.loads(text))


def of_text(text: str) -> Answer:
    """Read count, limit and run time from the text that `nimo-advise` prints."""
    said = " ".join(text.split())
    about = re.search(r"(?:About|about) ([\d:]+ ?(?:s|min|h|d)?) on (\d+) (\w+)", said)
    # A job of --wrap is named options, others lines for the script.
    lines = " ".join(line for line in text.splitlines() if line.startswith(("#SBATCH", "--")))
    return Answer(
        count=counted(int(about[2]), unit_of(about[3])) if about else "",
        note=f"({about[1]})" if about else "",
        **_lines(lines),
    )


def of_page(used: Site, name: str) -> Answer:
    """Give the advice on the page of the application."""
    config = load(used.nimod.config)
    with Store.open(used.nimod.store) as store:
        tables = [one for one in load_tables(store) if one.level == KeyLevel.TAG]
        table = next(one for one in tables if one.key.split("/")[1:] == [name])
        made = advise_usual(store, table, config, now_s=time.time())
    if made is None:
        return Answer(note="no usual job")
    advice = json.loads(json.dumps(made[1], default=_as_dict))
    return of_advice(advice)


def _as_dict(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def of_export(used: Site, name: str) -> Answer:
    """Give what the profile has of the application."""
    found = json.loads(used.nimod.run("export", "json").stdout)["applications"]
    need = next((one for one in found if one["application"].endswith(f"/{name}")), None)
    if need is None:
        return Answer(note="left out")
    time_s, mem_bytes = need.get("time_s"), need.get("mem_bytes")
    return Answer(
        limit=slurm_time(time_s) if time_s else "",
        memory=f"{mem_bytes >> 20}M" if mem_bytes else "",
        note=f"({duration_text(need['median_s'])})" if need.get("median_s") else "",
    )


def of_sbatch(used: Site, words: Sequence[str]) -> Answer:
    """Submit the job, held; give what Slurm has of it and the line that `sbatch` printed."""
    ended = used.cluster.run("sbatch", "--hold", *words)
    job_id = re.search(r"batch job (\d+)", ended.stdout)
    assert job_id is not None
    _LAST.append(int(job_id[1]))
    shown = used.cluster.job(int(job_id[1]))
    lines = [line for line in ended.stderr.splitlines() if "nimo" in line]
    low, _, _ = shown["NumNodes"].partition("-")
    return Answer(count=low, limit=shown["TimeLimit"], note="; ".join(lines)[:160])


#: The jobs that `of_sbatch` submitted.
_LAST: list[int] = []


def of_why(used: Site) -> Answer:
    """Ask about the job that was submitted last; it is withdrawn."""
    job_id = _LAST[-1]
    time.sleep(3.0)
    said = " ".join(used.nimod.run("why", str(job_id), check=False).stdout.split())
    used.cluster.run("scancel", str(job_id))
    found = re.search(r"On (\d+) (\w+),? .*?predicted run time was ([\d.:]+ ?\w*)", said)
    if not found:
        return Answer(note="says no run time")
    return Answer(count=counted(int(found[1]), unit_of(found[2])), note=f"({found[3]})")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
