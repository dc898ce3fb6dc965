"""A workflow's YAML file; docs/planning.md describes it key by key."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sacct_ingest.errors import ConfigError
from sacct_ingest.slurm_text import parse_size
from slurm_plugin.config.yaml_text import convert, load_yaml, read_text
from slurm_plugin.plan.workflow import (
    DataAccess,
    File,
    NetworkLink,
    PlanSite,
    Storage,
    Task,
    Workflow,
    workflow,
)

_Made = TypeVar("_Made")
_Given = TypeVar("_Given")
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
    latency: str | float = 0.0
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
    reads: list[str] = []
    writes: list[str] = []
    after: list[str] = []
    nodes: str | int | None = None
    places: list[str] = []
    application: str = ""
    run_time: dict[int, str | float] | str | float | None = None
    samples: str = ""
    sbatch: list[str] = []


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

    Raises
    ------
    ConfigError
        The file cannot be read, is not YAML, or says what cannot be; it names place and mend.
    """
    return parse(read_text(path), name=str(path))


def parse(text: str, *, name: str) -> Workflow:
    """Make a workflow of the text of a file called ``name``.

    Raises
    ------
    ConfigError
        See :func:`load`.
    """
    given = convert(load_yaml(text, name=name), WorkflowText, name=name)
    read = _Reader(name)
    storages = read.each("storages", given.storages, StorageText, _storage)
    places = read.each("places", given.places, PlaceText, _place)
    files = read.each("files", given.files, FileText, _file)
    tasks = read.each("tasks", given.tasks, TaskText, _task)
    links = read.links(given.links)
    _check_names(storages, places, files, tasks, name)
    _check_links(links, storages, name)
    title = given.name or re.sub(r"\W", "-", Path(name).stem)
    try:
        return workflow(
            title,
            storages=storages,
            links=links,
            places=places,
            files=files,
            tasks=tasks,
            deadline=given.deadline,
        )
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


class _Reader:
    """Reads parts of a file of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def each(
        self,
        section: str,
        given: Mapping[str, Any],
        kind: type[_Given],
        make: Callable[[str, _Given], _Made],
    ) -> dict[str, _Made]:
        """Make what the entries of a section say."""
        return {
            str(key): self._one(f"{section}.{key}", str(key), entry, kind, make)
            for key, entry in given.items()
        }

    def links(self, given: list[Any]) -> dict[tuple[str, str], NetworkLink]:
        """Make links, each for both ways where it does not say otherwise."""
        made: dict[tuple[str, str], NetworkLink] = {}
        for index, entry in enumerate(given):
            for link in self._one(f"links[{index}]", "link", entry, LinkText, _links):
                made[link.source, link.target] = link
        return made

    def _one(
        self,
        place: str,
        key: str,
        entry: Any,
        kind: type[_Given],
        make: Callable[[str, _Given], _Made],
    ) -> _Made:
        where = f"{self._name}: {place}"
        if not _NAME.fullmatch(key):
            raise ConfigError(f"{where}: a name is of letters, digits, _ and -")
        try:
            return make(key, convert({} if entry is None else entry, kind, name=where))
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error


def _storage(name: str, given: StorageText) -> Storage:
    if given.free is None:
        return Storage(name=name, path=given.path, host=given.host)
    return Storage(name=name, path=given.path, host=given.host, free_bytes=_size(given.free))


def _links(_name: str, given: LinkText) -> list[NetworkLink]:
    if given.streams < 1:
        raise ValueError(f"streams: {given.streams} copies at a time are none")
    bandwidth = None if given.bandwidth is None else _size(given.bandwidth)
    if bandwidth == 0.0:
        raise ValueError("bandwidth: has to be above zero")
    ways = [(given.from_, given.to), (given.to, given.from_)]
    return [
        NetworkLink(
            source=source,
            target=target,
            bandwidth_bytes_per_s=bandwidth,
            latency_s=_seconds(given.latency),
            remote=given.remote,
            streams=given.streams,
            copy=given.copy,
        )
        for source, target in ways[: 1 if given.one_way else 2]
    ]


def _place(name: str, given: PlaceText) -> PlanSite:
    low, high = _range(given.nodes)
    if given.speed is not None and not given.speed > 0:
        raise ValueError("speed: has to be above zero")
    return PlanSite(
        name=name,
        partition=given.partition or name,
        storage=given.storage,
        cluster=given.cluster,
        low=low,
        high=high,
        speed=given.speed,
        attributes=given.attributes,
    )


def _file(name: str, given: FileText) -> File:
    return File(
        name=name,
        size_bytes=_size(given.size),
        at=given.at,
        path=given.path,
        deliver=given.deliver,
        access=given.access,
    )


def _task(name: str, given: TaskText) -> Task:
    low, high = _range(given.nodes)
    return Task(
        name=name,
        command=given.command,
        reads=tuple(given.reads),
        writes=tuple(given.writes),
        after=tuple(given.after),
        low=low,
        high=high,
        places=tuple(given.places),
        application=given.application,
        run_times_s=_run_times(given.run_time, low),
        samples=given.samples,
        options=tuple(given.sbatch),
    )


def _run_times(given: dict[int, str | float] | str | float | None, low: int) -> dict[int, float]:
    """Run times by node count; a single one is that of the fewest nodes."""
    if given is None:
        return {}
    table = given if isinstance(given, dict) else {low: given}
    made = {nodes: _seconds(time) for nodes, time in table.items()}
    if not all(time > 0 and nodes > 0 for nodes, time in made.items()):
        raise ValueError("run_time: node counts and times have to be above zero")
    return dict(sorted(made.items()))


def _range(given: str | int | None) -> tuple[int, int | None]:
    """Node range as ``--nodes`` takes it; none: from one on."""
    if given is None:
        return 1, None
    low, _, high = str(given).partition("-")
    if not low.isdigit() or not (high or low).isdigit() or not 0 < int(low) <= int(high or low):
        raise ValueError(f"nodes: {given!r} is no range such as 2-8")
    return int(low), int(high or low)


def _size(given: str | int) -> float:
    return float(parse_size(str(given)) or 0)


def _seconds(given: str | float) -> float:
    """Seconds of a number or of a text such as ``1.5h``, ``20 min``, ``3ms``.

    >>> _seconds("1.5h"), _seconds(20)
    (5400.0, 20.0)
    """
    found = _SECONDS.fullmatch(str(given).strip())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{given!r} is no time such as 90, 15min or 3ms")
    return float(found[1]) * _UNITS[found[2]]


def _check_names(
    storages: Mapping[str, Storage],
    places: Mapping[str, PlanSite],
    files: Mapping[str, File],
    tasks: Mapping[str, Task],
    name: str,
) -> None:
    """See whether what is named elsewhere is there."""
    for place in places.values():
        _check_references(
            f"{name}: places.{place.name}.storage", [place.storage], storages, "storages"
        )
    for file in files.values():
        ends = [one for one in (file.at, file.deliver) if one is not None]
        _check_references(f"{name}: files.{file.name}", ends, storages, "storages")
    for task in tasks.values():
        where = f"{name}: tasks.{task.name}"
        _check_references(f"{where}.reads", task.reads, files, "files")
        _check_references(f"{where}.writes", task.writes, files, "files")
        _check_references(f"{where}.after", task.after, tasks, "tasks")
        _check_references(f"{where}.places", task.places, places, "places")
    if not (storages and places and tasks):
        raise ConfigError(f"{name}: give at least one each of storages, places and tasks")


def _check_links(
    links: Mapping[tuple[str, str], NetworkLink], storages: Mapping[str, Storage], name: str
) -> None:
    for ends in links:
        _check_references(f"{name}: links: {' to '.join(ends)}", ends, storages, "storages")


def _check_references(
    where: str, words: Iterable[str], section: Mapping[str, Any], called: str
) -> None:
    for word in words:
        if word not in section:
            among = ", ".join(section) or "none"
            raise ConfigError(f"{where}: {word!r} is not among the {called}: {among}")
