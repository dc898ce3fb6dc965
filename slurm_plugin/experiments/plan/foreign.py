"""Workflows of other systems, as ``nimo lab plan`` has them: with the places of a site.

They have tasks and files, but not the storages, links and places: a site's file has those.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from sacct_ingest.errors import ConfigError

#: What a word of a command line is not followed or preceded by where it is a whole path.
_PATH = r"[\w./-]"
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """One task, by the names of the other system."""

    name: str
    group: str  #: what several tasks are runs of
    command: str = ""  #: empty: it can only be planned
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    run_time_s: float | None = None  #: None: that of its application
    cores: int = 1
    memory_bytes: float = 0
    limit_min: int = 0  #: the longest that it may take, as its author says; 0: not said
    application: str = ""


@dataclass(frozen=True, slots=True)
class ForeignWorkflow:
    """Tasks, the sizes of files, and which files are wanted besides those that no task reads."""

    name: str
    tasks: tuple[ForeignTask, ...]
    sizes: Mapping[str, float] = field(default_factory=dict)  #: in bytes, as far as they are known
    wanted: frozenset[str] = frozenset()


class SiteText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A site's file; what its sections hold is read with the workflow."""

    storages: dict[str, Any]
    places: dict[str, Any]
    links: list[Any] = []
    run_times: dict[str, float | str] = {}  #: of tasks, by rule, process or program
    data: str = ""  #: storage where files lie at first and in the end; empty: the first one
    deadline: str = ""


def with_site(flow: ForeignWorkflow, given: SiteText, *, name: str) -> str:
    """Give the text of the workflow's own file.

    given: what the site's file called ``name`` holds.
    Raises ConfigError: ``data`` is none of its storages, or there is no task of some run time.
    """
    data = given.data or next(iter(given.storages), "")
    if data not in given.storages:
        among = ", ".join(given.storages) or "none"
        raise ConfigError(f"{name}: data: {data!r} is not among the storages: {among}")
    folder = Path(given.storages[data]["path"])
    flow = replace(flow, tasks=tuple(_without_elsewhere(flow.tasks, folder)))
    written = {file for task in flow.tasks for file in task.writes}
    read = {file for task in flow.tasks for file in task.reads}
    sizes = _sizes(flow, written, folder)
    names = _names([*sizes])
    files: dict[str, dict[str, Any]] = {}
    for file, size in sizes.items():
        path = Path(file)
        below = path.relative_to(folder) if path.is_absolute() else file
        files[names[file]] = {"path": str(below), "size": f"{size:.0f}"}
        if file not in written:
            files[names[file]]["at"] = data
        elif file not in read or file in flow.wanted:
            files[names[file]]["deliver"] = data
    groups = {task.group for task in flow.tasks}
    if unknown := [group for group in given.run_times if group not in groups]:
        among = ", ".join(sorted(groups))
        raise ConfigError(f"{name}: run_times: {unknown[0]!r} is not among the tasks: {among}")
    tasks = _names(task.name for task in flow.tasks)
    document = {
        "name": re.sub(r"[^\w-]", "-", flow.name) or "workflow",
        "storages": given.storages,
        "places": given.places,
        "links": given.links,
        "deadline": given.deadline,
        "files": files,
        "tasks": {
            tasks[task.name]: _entry(task, tasks, names, given.run_times.get(task.group))
            for task in flow.tasks
        },
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode()  # JSON is YAML


def _entry(
    task: ForeignTask,
    tasks: Mapping[str, str],
    files: Mapping[str, str],
    run_time: float | str | None,
) -> dict[str, Any]:
    paths = {*task.reads, *task.writes}
    made: dict[str, Any] = {
        "command": _placed(task.command, {file: files[file] for file in paths}),
        "reads": list(dict.fromkeys(files[file] for file in task.reads)),
        "writes": list(dict.fromkeys(files[file] for file in task.writes)),
        "after": [tasks[one] for one in task.after if one in tasks],
        "nodes": 1,
        "application": task.application or task.group,
    }
    if run_time is not None or task.run_time_s is not None:
        made["run_time"] = task.run_time_s if run_time is None else run_time
    options = [f"--cpus-per-task={task.cores}"] if task.cores > 1 else []
    if task.memory_bytes:
        options.append(f"--mem={max(1, round(task.memory_bytes / _MIB))}M")
    if task.limit_min:
        options.append(f"--time={task.limit_min}")
    return made | ({"sbatch": options} if options else {})


def _without_elsewhere(tasks: Sequence[ForeignTask], folder: Path) -> Iterator[ForeignTask]:
    """Leave out files with absolute paths outside the folder of the data: all places see them.

    Who reads one that another task writes comes after that.
    """
    writers = {file: task.name for task in tasks for file in task.writes}

    def elsewhere(file: str) -> bool:
        return Path(file).is_absolute() and not Path(file).is_relative_to(folder)

    for task in tasks:
        made_there = [writers[one] for one in task.reads if elsewhere(one) and one in writers]
        yield replace(
            task,
            reads=tuple(one for one in task.reads if not elsewhere(one)),
            writes=tuple(one for one in task.writes if not elsewhere(one)),
            after=(*task.after, *made_there),
        )


def _sizes(flow: ForeignWorkflow, written: set[str], folder: Path) -> dict[str, float]:
    """Sizes of all files.

    A file of unknown size that does not exist yet is taken to be as large as its task's inputs.
    """
    sizes: dict[str, float] = {}
    for task in flow.tasks:
        for file in task.reads:
            if file not in sizes:
                there = 0.0 if file in written else _on_disk(folder, file)
                sizes[file] = flow.sizes.get(file, there)
        known = sum(sizes[file] for file in task.reads)
        for file in task.writes:
            sizes[file] = flow.sizes.get(file, known / len(task.writes))
    return sizes


def _on_disk(folder: Path, file: str) -> float:
    try:
        return float((folder / file).stat().st_size)
    except OSError:
        return 0.0


def _names(words: Iterable[str]) -> dict[str, str]:
    """Give each word a name of letters, digits, _ and - that no other has.

    >>> _names(["out/a.txt", "out/a-txt", "1"])
    {'out/a.txt': 'out-a-txt', 'out/a-txt': 'out-a-txt-2', '1': 'x1'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for word in dict.fromkeys(words):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", word).strip("-")
        plain = plain if plain[:1].isalpha() else f"x{plain}"
        tries = (plain if i == 1 else f"{plain}-{i}" for i in count(1))
        names[word] = next(name for name in tries if name not in taken)
        taken.add(names[word])
    return names


def _placed(command: str, files: Mapping[str, str]) -> str:
    """Put placeholders where a command has whole paths of files.

    >>> _placed("./sort in/a >in/ab", {"in/a": "a", "in/ab": "b", "sort": "sort"})
    '{sort} {a} >{b}'
    """
    if not files:
        return command
    longest = sorted(files, key=len, reverse=True)
    every = "|".join(map(re.escape, longest))
    return re.sub(
        rf"(?<!{_PATH})(?:\./)?({every})(?!{_PATH})",
        lambda match: f"{{{files[match[1]]}}}",
        command,
    )
