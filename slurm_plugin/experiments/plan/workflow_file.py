"""A workflow's YAML file; docs/planning.md describes it key by key."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from sacct_ingest.errors import ConfigError
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.config.yaml_text import convert, load_json, load_yaml, read_text
from slurm_plugin.experiments.plan import engine_dags, foreign, wfcommons, workflow

_Made = TypeVar("_Made")
#: Names stand in job names, in placeholders and in options of sbatch.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "min": 60.0, "h": 3600.0}
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_SECTIONS: dict[str, type[Any]] = {
    "storages": workflow.Storage, "places": workflow.PlanSite,
    "files": workflow.File, "tasks": workflow.Task,
}  # fmt: skip


class WorkflowText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole file; its parts are read one by one, so that errors can name them."""

    storages: dict[str, Any]
    places: dict[str, Any]
    tasks: dict[str, Any]
    name: str = ""
    links: list[Any] = []
    files: dict[str, Any] = {}
    deadline: str = ""


def text_of(path: Path, site: Path | None = None, trace: Path | None = None) -> str:
    """Read the text of a workflow; of one of another system with the site's places.

    site: file of storages, links and places.
    trace: tasks and run times of a Nextflow DAG.
    Raises ConfigError: a file cannot be read, or is of another kind.
    """
    text = read_text(path)
    name = str(path)
    read = _foreign(text)
    if read is None:
        if site or trace:
            raise ConfigError(
                f"{name}: it is no workflow of WfCommons, Snakemake or Nextflow; one that has its "
                "own places takes no --site and --trace"
            )
        return text
    if site is None:
        raise ConfigError(
            f"{name}: it has no places: name a file of storages, links and places with --site"
        )
    of_trace = {"trace": read_text(trace)} if trace else {}
    if trace and read is not engine_dags.dag:
        raise ConfigError(f"{name}: {engine_dags.NO_TRACE}")
    return foreign.with_site(read(text, name=name, **of_trace), _site(site), name=str(site))


def _site(path: Path) -> foreign.SiteText:
    """Read a site's file; its parts are those of a workflow, which stand for themselves."""
    name = str(path)
    site = convert(load_yaml(read_text(path), name=name), foreign.SiteText, name=name)
    storages, places = (_section(name, section, site) for section in ("storages", "places"))
    _check_sites(name, storages, places, _links(name, site.links))
    for key, value in site.run_times.items():
        if not _converted(f"{name}: run_times.{key}", _seconds, value):
            raise ConfigError(f"{name}: run_times.{key}: give a time above zero")
    return site


def _foreign(text: str) -> Callable[..., foreign.ForeignWorkflow] | None:
    """Give what reads a workflow of another system; None: it is one of ours."""
    if text.lstrip().startswith("{") and '"schemaVersion"' in text:
        return wfcommons.read
    if re.match(r"\s*(?:strict )?digraph\b", text):
        return engine_dags.dag
    if engine_dags.is_dry_run(text):
        return engine_dags.dry_run
    return None


def parse(text: str, *, name: str) -> workflow.Workflow:
    """Make a workflow of the text of a file called ``name``.

    Raises ConfigError: see :func:`load`.
    """
    document = convert(_decoded(text, name), WorkflowText, name=name)
    sections = {section: _section(name, section, document) for section in _SECTIONS}
    flow = workflow.Workflow(
        name=document.name or re.sub(r"\W", "-", Path(name).stem),
        links=_links(name, document.links),
        deadline=document.deadline,
        **sections,
    )
    _check_names(flow, name)
    try:
        return workflow.ordered(flow)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def _decoded(text: str, name: str) -> Any:
    """Read JSON, as a workflow of another system is passed on, or YAML, to which 1e-5 is text."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return load_yaml(text, name=name)
    return load_json(text, name=name)


def _section(name: str, section: str, document: WorkflowText | foreign.SiteText) -> dict[str, Any]:
    """Make the entries of one section of a file."""
    entries: dict[str, Any] = getattr(document, section)
    kind = _SECTIONS[section]
    return {
        key: _read(name, f"{section}.{key}", key, entry, kind) for key, entry in entries.items()
    }


def _links(name: str, entries: list[Any]) -> dict[tuple[str, str], workflow.NetworkLink]:
    """Make links, each for both ways where it does not say otherwise."""
    made: dict[tuple[str, str], workflow.NetworkLink] = {}
    for index, entry in enumerate(entries):
        link = _read(name, f"links[{index}]", "link", entry, workflow.NetworkLink)
        made[link.source, link.target] = link
        if not link.one_way:
            back = replace(link, source=link.target, target=link.source)
            made[back.source, back.target] = back
    return made


def _read(name: str, at: str, key: str, entry: Any, kind: type[_Made]) -> _Made:
    """Make an entry of a file called ``name``; ``at`` is its place there."""
    where = f"{name}: {at}"
    if not _NAME.fullmatch(key):
        raise ConfigError(f"{where}: a name is of letters, digits, _ and -")
    if not isinstance(entry, dict | None):
        return convert(entry, kind, name=name, at=at)
    # An empty value is one that is not there.
    given = {
        k: v for k, v in (entry or {}).items() if v is not None or k not in (*_VALUES, "run_time")
    }
    if "name" in given:
        raise ConfigError(f"{where}.name: unknown key; its name is {key}")
    for field in given.keys() & _VALUES:
        given[field] = _converted(f"{where}.{field}", _VALUES[field], given[field])
    if "run_time" in given:
        # A single one is that of the fewest nodes.
        value = given["run_time"]
        low = given.get("nodes", (1,))[0]
        table = _with_counts(value) if isinstance(value, dict) else {low: value}
        times = convert(table, dict[int, str | float], name=name, at=f"{at}.run_time")
        given["run_time"] = {
            n: _converted(f"{where}.run_time", _seconds, time) for n, time in sorted(times.items())
        }
    made = convert({**given, "name": key}, kind, name=name, at=at)
    if isinstance(made, workflow.PlanSite) and not made.partition:
        return replace(made, partition=key)
    return made


def _with_counts(table: dict[object, object]) -> dict[object, object]:
    """Give a table by numbers; the keys of JSON are texts.

    >>> _with_counts({"1": 400, 2: 220})
    {1: 400, 2: 220}
    """
    return {int(n) if isinstance(n, str) and n.isdecimal() else n: v for n, v in table.items()}


def _converted(where: str, meaning: Callable[[object], Any], value: object) -> Any:
    try:
        return meaning(value)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _range(value: object) -> tuple[int, int]:
    """Node range as ``--nodes`` takes it."""
    low, _, high = str(value).partition("-")
    if not low.isdecimal() or not (high or low).isdecimal() or not 0 < int(low) <= int(high or low):
        raise ValueError(f"{value!r} is no range such as 2-8")
    return int(low), int(high or low)


def _replicas(value: object) -> tuple[object, ...]:
    """Storages of a file: one, or a list of those that have it alike."""
    return tuple(value) if isinstance(value, list) else (value,)


def _size(value: object) -> float:
    return float(parse_size(str(value)) or 0)


def _seconds(value: object) -> float:
    """Seconds of a number or of a text such as ``1.5h``, ``20 min``, ``3ms``.

    >>> _seconds("1.5h"), _seconds(20)
    (5400.0, 20.0)
    """
    match = _SECONDS.fullmatch(str(value).strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{value!r} is no time such as 90, 15min or 3ms")
    return float(match[1]) * _UNITS[match[2]]


#: What a text or number of these keys means.
_VALUES: dict[str, Callable[[object], object]] = {
    "free": _size, "bandwidth": _size, "size": _size, "latency": _seconds, "nodes": _range,
    "at": _replicas,
}  # fmt: skip


def _check_names(flow: workflow.Workflow, name: str) -> None:
    _check_sites(name, flow.storages, flow.places, flow.links)
    for file in flow.files.values():
        where = f"{name}: files.{file.name}"
        _check_references(f"{where}.at", file.at, flow.storages, "storages")
        delivered = [file.deliver] if file.deliver else []
        _check_references(f"{where}.deliver", delivered, flow.storages, "storages")
    for task in flow.tasks.values():
        where = f"{name}: tasks.{task.name}"
        _check_references(f"{where}.reads", task.reads, flow.files, "files")
        _check_references(f"{where}.writes", task.writes, flow.files, "files")
        _check_references(f"{where}.after", task.after, flow.tasks, "tasks")
        _check_references(f"{where}.places", task.places, flow.places, "places")
    if not flow.tasks:
        raise ConfigError(f"{name}: tasks: give at least one")


def _check_sites(
    name: str,
    storages: Mapping[str, workflow.Storage],
    places: Mapping[str, workflow.PlanSite],
    links: Iterable[tuple[str, str]],
) -> None:
    for place in places.values():
        where = f"{name}: places.{place.name}.storage"
        _check_references(where, [place.storage], storages, "storages")
    for link in links:
        _check_references(f"{name}: links: {' to '.join(link)}", link, storages, "storages")
    if not (storages and places):
        raise ConfigError(f"{name}: {'places' if storages else 'storages'}: give at least one")


def _check_references(
    where: str, words: Iterable[str], section: Mapping[str, Any], called: str
) -> None:
    for word in words:
        if word not in section:
            among = ", ".join(section) or "none"
            raise ConfigError(f"{where}: {word!r} is not among the {called}: {among}")
