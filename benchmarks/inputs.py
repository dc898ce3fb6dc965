"""What it costs sbatch to look at how large a job's input files are.

The hook runs in Lua processes of their own, as it does in sbatch, in turns: with sizes of inputs
switched off, and on for scripts that name nothing, files, folders, patterns, and a file on a file
system that never answers (a FUSE mount whose questions nobody reads; needs root).  Times are those
of the hook, and of the whole process to its end, in milliseconds; beside them, how often sizes
came.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _bench

from tests.cluster.nimod import copy_hooks
from tests.hanging_mount import hanging_mount
from tests.lua.hooks import HERE

OFF, PAUSE = "off", "nimo-inputs-pause"


def main() -> None:
    """Measure in turns, and print."""
    args = _bench.options(str(__doc__)).parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="nimo-inputs-") as folder,
        tempfile.TemporaryDirectory(prefix="nimo-inputs-", dir="/dev/shm") as runtime,
    ):
        table = measured(Path(folder), Path(runtime), rounds=20 if args.quick else 300)
    _bench.table(table, title="Looking at input files")
    _bench.write(args.json, inputs=table)


def measured(folder: Path, runtime: Path, *, rounds: int) -> list[dict[str, Any]]:
    """Give a row for each command.

    runtime: stands for the user's XDG_RUNTIME_DIR, which is in memory.
    """
    commands = {OFF: ["f0.dat"], "no names": [], "one file": ["f0.dat"]}
    commands |= {f"{n} files": [f"f{i}.dat" for i in range(n)] for n in (16, 64)}
    commands |= {f"a folder of {n}": [f"folder{n}"] for n in (100, 400, 1000)}
    commands |= {f"a pattern for {n}": [f"folder{n}/*.dat"] for n in (100, 1000)}
    commands["one file that hangs"] = ["mount/x.dat"]
    make_files(folder)
    took = {name: list[tuple[float, float, bool]]() for name in commands}
    with hanging_mount(folder / "mount"):
        for _ in range(rounds):
            for name, words in commands.items():
                (runtime / PAUSE).unlink(missing_ok=True)
                took[name].append(one(folder, runtime, words, on=name != OFF))
        again = [one(folder, runtime, ["mount/x.dat"], on=True) for _ in range(rounds)]
    took["the same within a minute"] = again[1:]
    return [row(name, times) for name, times in took.items()]


def make_files(folder: Path) -> None:
    """Make what commands name, and the hooks with their settings."""
    for number in range(64):
        (folder / f"f{number}.dat").write_bytes(b"x" * 1000)
    for number in (100, 400, 1000):
        (folder / f"folder{number}").mkdir()
        for file in range(number):
            (folder / f"folder{number}/{file}.dat").write_bytes(b"x")
    (folder / "mount").mkdir()
    (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 1\nsrun solve\n")
    for on, name in ((True, "on"), (False, OFF)):
        copy_hooks(folder / name, most_ms=100)
        conf = f"forward_deadline = yes\nlook_at_inputs = {'yes' if on else 'no'}\n"
        (folder / name / "nimo_hook.conf").write_text(conf)


def one(
    folder: Path, runtime: Path, words: Sequence[str], *, on: bool
) -> tuple[float, float, bool]:
    """Time of the hook and of its process, ms, and whether it sends sizes."""
    # A deadline, so that the hook is loaded as a whole in any case.
    given = {"type": "sbatch", "chdir": str(folder), "deadline": "1767261600"}
    options = json.dumps(given | {"argv": [f"{folder}/job.sh", *words]})
    command = ["lua5.1", f"{HERE}/filter.lua", f"{folder}/{'on' if on else OFF}", options, "1"]
    begun_s = time.perf_counter()
    environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    process_ms = 1000 * (time.perf_counter() - begun_s)
    said = json.loads(done.stdout)
    return float(said["took_ms"]), process_ms, "inputs=" in said["comment"]


def row(name: str, times: Sequence[tuple[float, float, bool]]) -> dict[str, Any]:
    """Give the row of a command."""
    hook, process, seen = zip(*times, strict=True)
    return {
        "command": name,
        "hook ms": statistics.median(hook),
        "95 % of hooks ms": statistics.quantiles(hook, n=20)[-1],
        "process ms": statistics.median(process),
        "with sizes %": 100 * sum(seen) / len(seen),
    }


if __name__ == "__main__":
    main()
