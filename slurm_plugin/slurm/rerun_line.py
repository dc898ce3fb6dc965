"""The sbatch line that runs a job again: as it was submitted, with more of only what ran out."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Successors:
    """What stands for a job that others wait for, in the terms of ``--dependency``.

    whole: for all of it; None: not all of it runs again.
    tasks: for a task of an array.
    each: for each task by its own index (``aftercorr``); None: nothing does.
    """

    whole: str | None = None
    tasks: Mapping[int, str] = field(default_factory=dict)
    each: str | None = None

    def of(self, kind: str, task: str | None) -> str | None:
        """Give it for a kind of dependency on a task, or on all of the job; None: it stays."""
        if task is not None and task != "*":
            return self.tasks.get(int(task))
        return self.each if kind == "aftercorr" else self.whole


def successors(
    job_id: int, ids: Mapping[str, Sequence[int]], *, unfinished: Iterable[int], lost: bool
) -> Successors:
    """Give what stands for an array whose tasks run again.

    ids: new jobs, with the tasks that each runs.
    unfinished: tasks of the old one that have not ended.
    lost: whether others of its tasks failed, which do not run again.

    >>> successors(7, {"9": [2, 4]}, unfinished=[5], lost=False).whole
    '9:7_5'
    """
    old = [f"{job_id}_{task}" for task in unfinished]
    return Successors(
        whole=None if lost else ":".join([*ids, *old]),
        tasks={task: f"{new}_{task}" for new, tasks in ids.items() for task in tasks},
        each=next(iter(ids)) if len(ids) == 1 and not old and not lost else None,
    )


def dependents(listing: str, job_id: int, new: Successors) -> dict[str, str | None]:
    r"""Give the jobs that wait for one, and what they are to wait for; None: nothing changes.

    listing: of ``squeue -o "%i %E"``.

    >>> waiting = "12 afterok:11(failed),afterany:9(unfulfilled)\n13 afterok:111(failed)"
    >>> dependents(waiting, 11, Successors("14"))
    {'12': 'afterok:14,afterany:9'}
    """
    made: dict[str, str | None] = {}
    own = re.compile(rf":{job_id}(?:_(\d+|\*))?(?=[(,:+?]|\Z)")
    for row in listing.splitlines():
        waiting, _, said = row.strip().partition(" ")
        if own.search(said):
            bare = re.sub(r"\((?:un)?fulfilled\)|\(failed\)", "", said)
            clauses = (
                own.sub(partial(_successor, new, clause), clause)
                for clause in re.split("([,?])", bare)
            )
            text = "".join(clauses)
            made[waiting] = text if text != bare else None
    return made


def _successor(new: Successors, clause: str, found: re.Match[str]) -> str:
    stands = new.of(clause.partition(":")[0], found[1])
    return found[0] if stands is None else f":{stands}"


def submitted(argv: Sequence[str]) -> list[str]:
    """Give the words of sbatch with which it prints the id alone."""
    return [argv[0], "--parsable", *argv[1:]]
