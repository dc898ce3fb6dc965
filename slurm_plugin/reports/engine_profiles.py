"""What processes of workflow engines need in each form, and beside a present profile."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import inf
from typing import Final

from sacct_ingest.text.durations import duration_text
from slurm_plugin.reports.engine_needs import BacktestedRun, Need, process_of
from slurm_plugin.reports.nextflow_config import asked_of_process, nextflow
from slurm_plugin.reports.snakemake_profile import asked_of_rule, snakemake
from slurm_plugin.text.formatting import count

SCHEMA = 2  #: of the JSON; raised where a field changes its meaning or goes
_MIB = 2**20
#: What has several values, and no column of a table.
_BY_INPUT: Final = frozenset({"by_input", "time_by_input"})


def as_csv(needs: Iterable[Need]) -> str:
    """Make a table with one row an application."""
    text = io.StringIO()
    columns = [name for name in Need.__slots__ if name not in _BY_INPUT]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(map(asdict, needs))
    return text.getvalue()


def as_json(needs: Iterable[Need]) -> str:
    """Make JSON with the number of its schema."""
    made: Mapping[str, object] = {"schema": SCHEMA, "applications": [asdict(n) for n in needs]}
    return json.dumps(made, indent=2) + "\n"


#: What is exported, by its name on the command line.
FORMATS = {"snakemake": snakemake, "nextflow": nextflow, "csv": as_csv, "json": as_json}


def compared(
    engine: str, text: str, name: str, tried: Iterable[tuple[Need, list[BacktestedRun]]]
) -> list[str]:
    """Say what runs of each process would have had by a profile, and by the new one.

    text, name: of the profile.
    tried: what is needed, and runs with what those before them say.
    Raises ConfigError: the profile cannot be read.
    """
    read = {"snakemake": asked_of_rule, "nextflow": asked_of_process}[engine]
    lines = []
    for need, runs in tried:
        if not (process := process_of(need, engine)):
            continue
        limit_s, mem_bytes = read(text, name, process)
        if not runs or limit_s is mem_bytes is None:
            why = "nothing in the file that can be read" if runs else "no further run to try it on"
            lines.append(f"{process}: {why}")
            continue
        short = sum(one.is_short(limit_s or inf, mem_bytes or 0.0) for one in runs)
        line = f"{process}: of {count(len(runs), 'run')} {need.short} would fail instead of {short}"
        if need.over:
            line += f"; {need.over}"
        if limit_s and all(one.limit_s < inf for one in runs):
            new_s = sum(one.limit_s for one in runs)
            less_s = len(runs) * limit_s - new_s
            line += (
                f"; limits {duration_text(new_s / len(runs))} instead of {duration_text(limit_s)}"
            )
            line += f", in all {duration_text(abs(less_s))} {'less' if less_s >= 0 else 'more'}"
        if mem_bytes and all(one.mem_bytes for one in runs):
            new = sum(one.first_bytes for one in runs) / len(runs)
            line += f"; memory {new / _MIB:.0f}M instead of {mem_bytes / _MIB:.0f}M"
        lines.append(line)
    return lines
