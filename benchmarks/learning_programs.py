"""Learn two programs on a real Slurm, and ask for advice on what was learned.

``xz`` and ``zstd`` compress archives of six sizes with one and two threads, on one node of two
CPUs: `nimo lab learn` runs them until it stops, then `nimo-advise` is asked about each assignment.
Times are those of the accounting, whole seconds; so the machine has to be idle.  Written are the
run times of all assignments that were not run, too: the errors are of these.

No peer: what learning printed is the peer of what is advised.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import _bench

from tests.cluster import SlurmCluster
from tests.cluster.nimod import Nimod, hooks_for
from tests.conftest import scratch_directory
from tests.processes import wait_until

COMMANDS = {
    "xz": "xz -3 -T {cpus} --block-size=1MiB --stdout {input} > /dev/null",
    "zstd": "zstd -17 -T{cpus} --stdout {input} > /dev/null",
}
#: How long learning one program may take: all of its runs, one after the other.
LEARNING_S = 3600.0
SIZES_MIB, CPUS = (4, 8, 16, 24, 32, 48), (1, 2)
DESCRIPTION = """\
application: {name}
command: {command}
limit: "10"
budget: 4.0
inputs: [{inputs}]
assignments: [{{cpus: [1, 2], inputs: [{names}]}}]
"""
#: What the archive is made of.
FOLDERS = "/usr/lib/python3 /usr/share/doc /usr/share/perl"


def measured(name: str, nimod: Nimod) -> list[dict[str, Any]]:
    """Learn a program, ask about each assignment; run those that learning did not."""
    work = nimod.cluster.layout.work
    inputs = ", ".join(f"{{name: m{mib}, path: in{mib}}}" for mib in SIZES_MIB)
    names = ", ".join(f"m{mib}" for mib in SIZES_MIB)
    text = DESCRIPTION.format(name=name, command=COMMANDS[name], inputs=inputs, names=names)
    (work / f"{name}.yaml").write_text(text)
    learn = ("nimo", "lab", "learn", f"{name}.yaml", "--json")
    said = json.loads(nimod.cluster.run(*learn, timeout_s=LEARNING_S).stdout)
    trials = json.loads((work / f"{name}.learn.json").read_text())["trials"]
    ran_s = {_place(one["attributes"]): one["elapsed_s"] for one in trials}
    nimod.run("ingest")
    nimod.run("fit")
    rows = []
    for one in said["expected"]:
        place = _place(one["attributes"])
        took_s = ran_s.get(place) or _run_once(name, place, nimod)
        rows.append(
            {
                "program": name,
                "cpus": place[0],
                "MiB": place[1],
                "by learning": "ran" if place in ran_s else "left out",
                "measured s": took_s,
                "learned s": one["time_s"],
                "advised s": _advised_s(name, place, nimod),
                "within": "yes" if one["low_s"] <= took_s <= one["high_s"] else "no",
            }
        )
    return rows


def _place(attributes: Mapping[str, float]) -> tuple[int, int]:
    return round(attributes["cpus"]), round(attributes["input_bytes"] / 2**20)


def _wrapped(name: str, place: tuple[int, int]) -> list[str]:
    """Options of sbatch for one assignment."""
    cpus, mib = place
    command = COMMANDS[name].format(cpus=cpus, input=f"in{mib}")
    return [f"--cpus-per-task={cpus}", "--time=10", f"--wrap={command}"]


def _run_once(name: str, place: tuple[int, int], nimod: Nimod) -> float:
    """Run an assignment by itself; NIMO leaves it alone."""
    cluster = nimod.cluster
    job = cluster.sbatch("--comment=nimo:off", *_wrapped(name, place))
    cluster.wait(job, accounted=True)
    (row,) = cluster.sacct("-X", f"--jobs={job}", fields=("JobID", "ElapsedRaw"))
    return float(row["ElapsedRaw"])


def _advised_s(name: str, place: tuple[int, int], nimod: Nimod) -> float:
    """Ask for the run time of an assignment, as soon as nimod has the new tables."""
    comment = f"--comment=nimo:app={name},size={place[1]}M"
    argv = ("nimo-advise", "--json", comment, *_wrapped(name, place))
    rows: list[dict[str, Any]] = []

    def answered() -> bool:
        rows[:] = json.loads(nimod.cluster.run(*argv, check=False).stdout)["rows"]
        return any(row["nodes"] == place[0] and row.get("time_s") for row in rows)

    wait_until(answered, what=f"advice on {name}")
    return float(next(row["time_s"] for row in rows if row["nodes"] == place[0]))


def _archives(work: Path) -> None:
    command = f"tar --create --file=- {FOLDERS} 2>/dev/null | head --bytes={SIZES_MIB[-1] << 20}"
    data = subprocess.run(command, shell=True, capture_output=True, check=True).stdout
    for mib in SIZES_MIB:
        (work / f"in{mib}").write_bytes(data[: mib << 20])


def main() -> None:
    """Print and write the table."""
    args = _bench.options(str(__doc__)).parse_args()
    with scratch_directory("nimo-learned-") as folder:
        cluster = SlurmCluster(folder / "slurm", nodes=1, cpus=max(CPUS), lua=hooks_for(folder))
        cluster.up()
        try:
            nimod = Nimod(folder, cluster)
            nimod.start()
            _archives(cluster.layout.work)
            names = list(COMMANDS)[: 1 if args.quick else None]
            rows = [row for name in names for row in measured(name, nimod)]
        finally:
            cluster.down()
    _bench.table(rows, title="Programs learned on a real Slurm, and advice on them")
    _bench.write(args.json, rows=rows)


if __name__ == "__main__":
    main()
