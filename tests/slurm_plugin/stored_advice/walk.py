"""From accounting text through ingest and fit to what `nimo-advise` prints."""

import contextlib
import datetime as dt
import io
import json
from collections.abc import Iterable, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.nimo import main as nimo

HEADER = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|SubmitLine|WorkDir|Submit|Eligible|Start|"
    "End|Elapsed|State|ExitCode|NNodes|NCPUS|ReqCPUS|ReqNodes|Timelimit|AllocTRES|TotalCPU|NodeList"
)
_FORM = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One job of a history."""

    seconds: int
    line: str  #: what was submitted
    user: str = "ada"
    name: str = "run"
    nodes: int = 1
    cpus: int = 8
    gpus: int = 0
    limit: str = "08:00:00"
    state: str = "COMPLETED"
    busy: float = 0.0  #: CPUs; 0: not accounted


def _text(ran: Iterable[Ran]) -> str:
    begin, lines = dt.datetime(2026, 1, 5), [HEADER]  # noqa: DTZ001 - sacct writes local times
    for number, one in enumerate(ran, 1000):
        end = begin + dt.timedelta(seconds=one.seconds)
        start, tres = f"{begin:{_FORM}}", f"cpu={one.cpus},node={one.nodes}"
        if one.gpus:
            tres += f",gres/gpu={one.gpus}"
        columns = (
            *(number, number, "c", one.user, "lab", "batch"),
            *(one.name, one.line, f"/home/{one.user}"),
            *(start, start, start, f"{end:{_FORM}}", f"{dt.timedelta(seconds=one.seconds)}"),
            *(one.state, "0:0", one.nodes, one.cpus, one.cpus, one.nodes, one.limit, tres),
            *(dt.timedelta(seconds=round(one.seconds * one.busy)), _nodes(one.nodes)),
        )
        lines.append("|".join(map(str, columns)))
        begin = end + dt.timedelta(minutes=40)
    return "\n".join(lines) + "\n"


def _nodes(count: int) -> str:
    return "c1" if count == 1 else f"c[1-{count}]"


def fitted(
    folder: Path, ran: Iterable[Ran], script: str = "srun app", profiles: Sequence[NodeProfile] = ()
) -> None:
    """Make a store and a script ``app.sh`` in a folder."""
    (folder / "h.sacct").write_text(_text(ran))
    (folder / "app.sh").write_text(f"#!/bin/bash\n{script}\n")
    with chdir(folder), redirect_stdout(io.StringIO()):
        with Store.open("sqlite:///s.db") as store:
            store.profiles.add(profiles)
        nimo(["ingest", "--store", "s.db", "h.sacct"])
        nimo(["fit", "--store", "s.db"])


def advised(folder: Path, *argv: str) -> str:
    """Give what `nimo-advise` prints on a job of the same user."""
    said = io.StringIO()
    options = ["--store", "s.db", "--user=ada", "-D", "/home/ada", "-J", "run"]
    with chdir(folder), redirect_stdout(said), contextlib.suppress(SystemExit):
        advise([*options, *argv])
    return said.getvalue()


def rows(folder: Path, *argv: str) -> dict[int, dict[str, float]]:
    """Give the rows of the advice on a job, by count."""
    said = json.loads(advised(folder, "--json", *argv))
    return {row["nodes"]: row for row in said["rows"]}
