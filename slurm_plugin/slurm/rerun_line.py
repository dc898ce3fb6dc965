"""The sbatch line that runs a job again: as it was submitted, with more of only what ran out."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sacct_ingest.scripts.job_script import CommandLine, script_options
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.slurm.ended_job import EndedJob

#: Options that asked for a moment that has passed, or say how sbatch itself goes about it.
_PAST = frozenset({"begin", "deadline", "hold", "test-only", "parsable", "wait", "chdir", "wrap"})
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_SINGLETON = "singleton"
_QUOTES_LOST = "the accounting keeps no quotes: check the script's arguments if one had blanks"
_RANGE = re.compile(r"%(\d+)\Z")


@dataclass(frozen=True, slots=True)
class RerunLine:
    """Words of sbatch, and what else there is to say of it.

    file: the script to run; ``script``: what to write there first, None: it is there.
    """

    argv: tuple[str, ...]
    file: Path
    script: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Line to paste."""
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class More:
    """What to ask for instead; None: as before."""

    limit: str | None = None
    memory_mib: int | None = None  #: of a node
    tasks: tuple[int, ...] | None = None  #: of an array


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """The script to run: its text (None: unknown), its file, and what to write there."""

    file: Path
    text: str | None
    write: bool = False
    notes: tuple[str, ...] = field(default=())


def rerun_line(run: EndedJob, line: CommandLine, script: ScriptFile, more: More) -> RerunLine:
    """Make the line of a job's next try.

    run: a start of the job.
    line: as it was submitted.
    """
    options = {name: value for name, value in line.options.items() if name not in _PAST}
    of_script = script_options(script.text or "")
    options |= _dependency(options, of_script)
    if options.get("dependency", "") is None:
        del options["dependency"]
    if more.limit:
        options["time"] = more.limit
    if more.memory_mib:
        options = _with_memory(options, of_script, run, more.memory_mib)
    if more.tasks is not None:
        asked = options.get("array") or of_script.get("array") or ""
        at_once = _RANGE.search(asked)
        options["array"] = indexes(more.tasks) + (at_once[0] if at_once else "")
    if script.write:  # a job has its script's name where it asks for none
        options.setdefault("job-name", run.name)
    if run.work_dir:
        options["chdir"] = run.work_dir
    words = [
        f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()
    ]
    argv = ("sbatch", *words, str(script.file), *line.arguments)
    lost = () if len(line.arguments) < 2 else (_QUOTES_LOST,)
    text = script.text if script.write else None
    return RerunLine(argv, script.file, text, (*script.notes, *lost))


def indexes(tasks: Iterable[int]) -> str:
    """Write indexes of an array as sbatch takes them.

    >>> indexes([1, 2, 3, 7, 9, 10])
    '1-3,7,9-10'
    """
    parts: list[list[int]] = []
    for one in sorted(set(tasks)):
        if parts and one == parts[-1][1] + 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _dependency(
    options: Mapping[str, str | None], of_script: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Keep what still makes sense: the job ran, so that what it waited for is over."""
    asked = options.get("dependency") or of_script.get("dependency")
    if not asked:
        return {}
    if _SINGLETON in re.split("[,?]", asked):
        return {"dependency": _SINGLETON}
    # An option of the script is lifted by one of the command line that says nothing.
    return {"dependency": "" if of_script.get("dependency") else None}


def _with_memory(
    options: dict[str, str | None],
    of_script: Mapping[str, str | None],
    run: EndedJob,
    node_mib: int,
) -> dict[str, str | None]:
    """Ask for so much memory on a node in the way in which the job asked for it."""
    asked = [name for name in _MEMORY if name in options]
    asked = asked or [name for name in _MEMORY if name in of_script] or ["mem"]
    kept = {name: value for name, value in options.items() if name not in _MEMORY}
    units = {
        "mem": 1.0,
        "mem-per-cpu": max(run.cpus / max(run.nodes, 1), 1.0),
        "mem-per-gpu": max((run.gpus or 0) / max(run.nodes, 1), 1.0),
    }[asked[0]]
    mib = -(-node_mib // units)
    before = (options.get(asked[0]) or of_script.get(asked[0]) or "").strip()
    if asked[0] == "mem" or not before:
        return kept | {asked[0]: f"{mib:.0f}M"}
    # Never less than before: Slurm may have counted other CPUs.
    had = parse_size(before if before[-1].isalpha() else f"{before}M") or 0
    return kept | {asked[0]: f"{max(mib, -(-had // 2**20)):.0f}M"}


def dependents(listing: str, job_id: int) -> dict[str, str]:
    r"""Give the jobs that wait for one, and what they wait for, with ``{}`` in its place.

    listing: of ``squeue -o "%i %E"``.

    >>> dependents("12 afterok:11(failed),afterany:9(unfulfilled)\n13 afterok:111(failed)", 11)
    {'12': 'afterok:{},afterany:9'}
    """
    made = {}
    own = re.compile(rf"(?<=:){job_id}(?:_\*)?(?=[(,:+?]|\Z)")
    for row in listing.splitlines():
        waiting, _, said = row.strip().partition(" ")
        if own.search(said) and "aftercorr" not in said:
            bare = re.sub(r"\((?:un)?fulfilled\)|\(failed\)", "", own.sub("{}", said))
            made[waiting] = bare
    return made


def submitted(argv: Sequence[str]) -> list[str]:
    """Give the words of sbatch with which it prints the id alone."""
    return [argv[0], "--parsable", *argv[1:]]
