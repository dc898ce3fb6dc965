"""A workflow's YAML file; docs/planning.md describes it key by key."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from sacct_ingest.errors import ConfigError
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.config.yaml_text import convert, load_yaml, read_text
from slurm_plugin.experiments.plan.workflow import (
    DataAccess,
    File,
    NetworkLink,
    PlanSite,
    Storage,
    Task,
    Workflow,
    ordered,
)

_Made = TypeVar("_Made")
_Entry = TypeVar("_Entry")
#: Names stand in job names, in placeholders and in options of sbatch.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "min": 60.0, "h": 3600.0}
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


class StorageText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A storage as written."""

    path: str
    free: str | int | None = None
    host: str = ""


class LinkText(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"from_": "from"}):
    """A link as written; both ways unless ``one_way``."""

    from_: str
    to: str
    bandwidth: str | int | None = None
    latency: str | float | None = None
    remote: bool = True
    streams: int = 1
    one_way: bool = False
    copy: str = "cp -a -- {source} {target}"


class PlaceText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A place as written; without a partition its name is one."""

    storage: str
    partition: str = ""
    cluster: str = ""
    nodes: str | int | None = None
    speed: float | None = None
    attributes: dict[str, float] = {}


class FileText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A file as written."""

    size: str | int = 0
    at: str | None = None
    path: str = ""
    deliver: str | None = None
    access: DataAccess = DataAccess.ANY


class TaskText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task as written."""

    command: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    nodes: str | int | None = None
    places: tuple[str, ...] = ()
    application: str = ""
    run_time: dict[int, str | float] | str | float | None = None
    samples: str = ""
    sbatch: tuple[str, ...] = ()


class WorkflowText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole file; its parts are read one by one, so that errors can name them."""

    storages: dict[str, Any]
    places: dict[str, Any]
    tasks: dict[str, Any]
    name: str = ""
    links: list[Any] = []
    files: dict[str, Any] = {}
    deadline: str = ""


def load(path: Path) -> Workflow:
    """Read a workflow.

    Raises ConfigError: the file cannot be read, is not YAML, or has a wrong value; the text names
        place and fix.
    """
    return parse(read_text(path), name=str(path))


def parse(text: str, *, name: str) -> Workflow:
    """Make a workflow of the text of a file called ``name``.

    Raises ConfigError: see :func:`load`.
    """
    document = convert(load_yaml(text, name=name), WorkflowText, name=name)
    read = _WorkflowReader(name)
    storages = read.each("storages", document.storages, StorageText, _storage)
    places = read.each("places", document.places, PlaceText, _place)
    files = read.each("files", document.files, FileText, _file)
    tasks = read.each("tasks", document.tasks, TaskText, _task)
    links = read.links(document.links)
    flow = Workflow(
        name=document.name or re.sub(r"\W", "-", Path(name).stem),
        storages=storages,
        links=links,
        places=places,
        files=files,
        tasks=tasks,
        deadline=document.deadline,
    )
    _check_names(flow, name)
    try:
        return ordered(flow)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


class _WorkflowReader:
    """Reads parts of a file of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def each(
        self,
        section: str,
        entries: Mapping[str, Any],
        kind: type[_Entry],
        make: Callable[[str, _Entry], _Made],
    ) -> dict[str, _Made]:
        """Make what the entries of a section say."""
        return {
            str(key): self._one(f"{section}.{key}", str(key), entry, kind, make)
            for key, entry in entries.items()
        }

    def links(self, entries: list[Any]) -> dict[tuple[str, str], NetworkLink]:
        """Make links, each for both ways where it does not say otherwise."""
        made: dict[tuple[str, str], NetworkLink] = {}
        for index, entry in enumerate(entries):
            for link in self._one(f"links[{index}]", "link", entry, LinkText, _links):
                made[link.source, link.target] = link
        return made

    def _one(
        self,
        place: str,
        key: str,
        entry: Any,
        kind: type[_Entry],
        make: Callable[[str, _Entry], _Made],
    ) -> _Made:
        where = f"{self._name}: {place}"
        if not _NAME.fullmatch(key):
            raise ConfigError(f"{where}: a name is of letters, digits, _ and -")
        try:
            return make(key, convert({} if entry is None else entry, kind, name=where))
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error


def _storage(name: str, entry: StorageText) -> Storage:
    if entry.free is None:
        return Storage(name=name, path=entry.path, host=entry.host)
    return Storage(name=name, path=entry.path, host=entry.host, free_bytes=_size(entry.free))


def _links(_name: str, entry: LinkText) -> list[NetworkLink]:
    if entry.streams < 1:
        raise ValueError(f"streams: {entry.streams} copies at a time are none")
    bandwidth = None if entry.bandwidth is None else _size(entry.bandwidth)
    if bandwidth == 0.0:
        raise ValueError("bandwidth: has to be above zero")
    ways = [(entry.from_, entry.to), (entry.to, entry.from_)]
    return [
        NetworkLink(
            source=source,
            target=target,
            bandwidth_bytes_per_s=bandwidth,
            latency_s=None if entry.latency is None else _seconds(entry.latency),
            remote=entry.remote,
            streams=entry.streams,
            copy=entry.copy,
        )
        for source, target in ways[: 1 if entry.one_way else 2]
    ]


def _place(name: str, entry: PlaceText) -> PlanSite:
    low, high = _range(entry.nodes)
    if entry.speed is not None and not 0 < entry.speed < inf:
        raise ValueError("speed: has to be above zero and finite")
    if wrong := [key for key, value in entry.attributes.items() if not 0 < value < inf]:
        raise ValueError(f"attributes: {wrong[0]} has to be above zero and finite")
    return PlanSite(
        name=name,
        partition=entry.partition or name,
        storage=entry.storage,
        cluster=entry.cluster,
        low=low,
        high=high,
        speed=entry.speed,
        attributes=entry.attributes,
    )


def _file(name: str, entry: FileText) -> File:
    rest = asdict(entry)
    return File(name=name, size_bytes=_size(rest.pop("size")), **rest)


def _task(name: str, entry: TaskText) -> Task:
    low, high = _range(entry.nodes)
    return Task(
        name=name,
        command=entry.command,
        reads=entry.reads,
        writes=entry.writes,
        after=entry.after,
        low=low,
        high=high,
        places=entry.places,
        application=entry.application,
        run_times_s=_run_times(entry.run_time, low),
        samples=entry.samples,
        options=entry.sbatch,
    )


def _run_times(value: dict[int, str | float] | str | float | None, low: int) -> dict[int, float]:
    """Run times by node count; a single one is that of the fewest nodes."""
    if value is None:
        return {}
    table = value if isinstance(value, dict) else {low: value}
    made = {nodes: _seconds(time) for nodes, time in table.items()}
    if not all(time > 0 and nodes > 0 for nodes, time in made.items()):
        raise ValueError("run_time: node counts and times have to be above zero")
    return dict(sorted(made.items()))


def _range(value: str | int | None) -> tuple[int, int | None]:
    """Node range as ``--nodes`` takes it; none: from one on."""
    if value is None:
        return 1, None
    low, _, high = str(value).partition("-")
    if not low.isdecimal() or not (high or low).isdecimal() or not 0 < int(low) <= int(high or low):
        raise ValueError(f"nodes: {value!r} is no range such as 2-8")
    return int(low), int(high or low)


def _size(value: str | int) -> float:
    return float(parse_size(str(value)) or 0)


def _seconds(value: str | float) -> float:
    """Seconds of a number or of a text such as ``1.5h``, ``20 min``, ``3ms``.

    >>> _seconds("1.5h"), _seconds(20)
    (5400.0, 20.0)
    """
    match = _SECONDS.fullmatch(str(value).strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{value!r} is no time such as 90, 15min or 3ms")
    return float(match[1]) * _UNITS[match[2]]


def _check_names(flow: Workflow, name: str) -> None:
    """See whether what is named elsewhere is there."""
    for place in flow.places.values():
        where = f"{name}: places.{place.name}.storage"
        _check_references(where, [place.storage], flow.storages, "storages")
    for file in flow.files.values():
        ends = [one for one in (file.at, file.deliver) if one is not None]
        _check_references(f"{name}: files.{file.name}", ends, flow.storages, "storages")
    for task in flow.tasks.values():
        where = f"{name}: tasks.{task.name}"
        _check_references(f"{where}.reads", task.reads, flow.files, "files")
        _check_references(f"{where}.writes", task.writes, flow.files, "files")
        _check_references(f"{where}.after", task.after, flow.tasks, "tasks")
        _check_references(f"{where}.places", task.places, flow.places, "places")
    if not (flow.storages and flow.places and flow.tasks):
        raise ConfigError(f"{name}: give at least one each of storages, places and tasks")
    for link in flow.links:
        _check_references(f"{name}: links: {' to '.join(link)}", link, flow.storages, "storages")


def _check_references(
    where: str, words: Iterable[str], section: Mapping[str, Any], called: str
) -> None:
    for word in words:
        if word not in section:
            among = ", ".join(section) or "none"
            raise ConfigError(f"{where}: {word!r} is not among the {called}: {among}")
