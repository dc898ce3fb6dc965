"""The benchmark that says how far predictions can be trusted on a site's log."""

import json
import math
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "history_accuracy.py"
COLUMNS = (
    "JobID|Cluster|User|JobName|SubmitLine|Submit|Eligible|Start|End|Elapsed|State|NNodes|NCPUS"
    "|Timelimit"
)
JOBS = 48


def log(path: Path) -> Path:
    """Save a log of one job name with two inputs in turn, which the command lines name."""
    rng, at_s, lines = random.Random(1), 1_700_000_000, [COLUMNS]
    for number in range(JOBS):
        given, nodes = number // 3 % 2, rng.choice((1, 2, 4))
        elapsed = round(900 * (given + 1) ** 2 / nodes * rng.lognormvariate(0, 0.02))
        submit, end = (
            datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            for at in (at_s, at_s + elapsed)
        )
        hours, minutes, seconds = elapsed // 3600, elapsed // 60 % 60, elapsed % 60
        line = f"sbatch -N {nodes} solve.sh input{given}"
        lines.append(
            f"{number + 1}|pine|ann|solve|{line}|{submit}|{submit}|{submit}|{end}"
            f"|{hours:02}:{minutes:02}:{seconds:02}|COMPLETED|{nodes}|{nodes}|04:00:00"
        )
        at_s += elapsed + 60
    path.write_text("\n".join(lines) + "\n")
    return path


def figures(folder: Path) -> dict[str, Any]:
    made, data = folder / "figures.json", log(folder / "log.sacct")
    command = [sys.executable, str(SCRIPT), "--data", str(data), "--json", str(made)]
    command += ["--no-boosting", "--every", "6"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    read: dict[str, Any] = json.loads(made.read_text())
    return read


def test_each_group_of_a_log_has_all_figures(tmp_path: Path) -> None:
    made = figures(tmp_path)
    (counts,) = made["counts"]
    assert (counts["applications"], counts["with 5 earlier runs"]) == (2, JOBS - 10)
    groups = {one["group"]: one for one in made["history"]}
    assert counts["jobs"] == counts["completed"] == JOBS >= counts["predicted"] >= JOBS - 4
    assert groups["all"]["jobs"] == counts["predicted"]
    expected = {"doubtful", "seen count", "new count", "curve", "history", "by line"}
    assert expected <= set(groups)
    for one in groups.values():
        assert {"jobs", "share %", "median %", "p90 %", "below %", "above %"} <= set(one)
        assert {"inside 50 %", "inside 90 %", "inside 95 %"} <= set(one)
        assert one["accuracy"] > 0
        assert {"own quantiles score", "interval CRPS", "own quantiles high/low"} <= set(one)
        assert one["interval score"] >= math.log(one["interval high/low"]) / 2 > 0
        rules = ("last alike", "last two", "last five", "limit")
        assert one["best simple accuracy"] == max(one[rule] for rule in rules)
    for kinds in (("seen count", "new count"), ("curve", "history")):
        assert sum(groups[kind]["jobs"] for kind in kinds) == counts["predicted"]
    # Jobs of one command line and size are repeats; those of the job name are two problems.
    (gap,) = made["gap"]
    assert gap["same"] == "line"
    assert 0.9 < gap["nimo"] <= 1
    assert 0.97 < gap["noise"] <= 1
