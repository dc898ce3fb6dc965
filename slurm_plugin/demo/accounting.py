"""What sacct and scontrol say of the demo's jobs, out of its accounting."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sacct_ingest.errors import ScriptError
from slurm_plugin.demo.sandbox import DELIMITER, HISTORY, DemoSite
from slurm_plugin.text.formatting import cut, padded

_TIMES: Final = frozenset({"Submit", "Eligible", "Start", "End"})
_WIDTH: Final = 12


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column that sacct is asked for."""

    name: str
    width: int


def sacct(site: DemoSite, words: Sequence[str]) -> int:
    """Print runs as sacct does, for people or as ``--parsable2`` asks.

    Raises ScriptError: there is no such column.
    """
    asked = _sacct_arguments(words)
    names, *rows = (
        line.split(DELIMITER)
        for line in (site.folder / HISTORY).read_text(encoding="utf-8").splitlines()
    )
    if asked.helpformat:
        print(" ".join(names))
        return 0
    shown = list(_columns(asked.format, names))
    places = {name: place for place, name in enumerate(names)}
    lines = [
        [_value(row, one.name, places) for one in shown]
        for row in rows
        if _is_asked(row, places, asked)
    ]
    titles = [one.name for one in shown]
    if asked.parsable2:
        for cells in [*([] if asked.noheader else [titles]), *lines]:
            print(asked.delimiter.join(cells))
        return 0
    for cells in [titles, *lines]:
        sized = zip(cells, shown, strict=True)
        print(" ".join(padded(cut(cell, one.width), one.width, left=False) for cell, one in sized))
    return 0


def _sacct_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sacct", add_help=False)
    for names in ("-X --allocations", "-P --parsable2", "-n --noheader", "--helpformat"):
        parser.add_argument(*names.split(), action="store_true")
    for names in ("-o --format", "-j --jobs", "-S --starttime", "-E --endtime", "--delimiter"):
        parser.add_argument(*names.split(), default="")
    asked, _ = parser.parse_known_args(words)
    asked.delimiter = asked.delimiter or "|"
    return asked


def _columns(form: str, names: Sequence[str]) -> Iterator[_Shown]:
    by_name = {name.lower(): name for name in names}
    for word in (form or "JobID,JobName,Partition,NNodes,State").split(","):
        name, _, width = word.partition("%")
        if name.lower() not in by_name:
            raise ScriptError(f'Invalid field requested: "{name}"')
        yield _Shown(by_name[name.lower()], int(width or _WIDTH))


def _is_asked(row: Sequence[str], places: dict[str, int], asked: argparse.Namespace) -> bool:
    job_id, _, step = row[places["JobIDRaw"]].partition(".")
    if asked.jobs and job_id not in asked.jobs.split(","):
        return False
    if step and asked.allocations:
        return False
    end_s = int(row[places["End"]])
    begin, end = (word.removeprefix("uts") for word in (asked.starttime, asked.endtime))
    return not (begin.isdecimal() and end_s < int(begin)) and not (
        end.isdecimal() and end_s > int(end)
    )


def _value(row: Sequence[str], name: str, places: dict[str, int]) -> str:
    text = row[places[name]]
    return moment(float(text)) if name in _TIMES and text else text


def moment(seconds: float) -> str:
    """Point in time as Slurm prints it, or as ``SLURM_TIME_FORMAT`` asks."""
    form = os.environ.get("SLURM_TIME_FORMAT", "")
    if "%s" in form:
        return form.replace("%s", str(int(seconds)))
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def scontrol(site: DemoSite, words: Sequence[str]) -> int:
    """Print what ``scontrol show job ID`` says.

    Raises ScriptError: there is no such job.
    """
    names, *rows = (
        line.split(DELIMITER)
        for line in (site.folder / HISTORY).read_text(encoding="utf-8").splitlines()
    )
    job_id = words[-1]
    values = next((dict(zip(names, row, strict=True)) for row in rows if row[1] == job_id), None)
    if values is None:
        raise ScriptError("Invalid job id specified")
    print(f"JobId={job_id} JobName={values['JobName']}")
    print(f"   UserId={values['User']}({values['UID']}) Account={values['Account']}")
    print(f"   JobState={values['State']} NumNodes={values['NNodes']}")
    print(f"   AdminComment={values['AdminComment']}")
    return 0
