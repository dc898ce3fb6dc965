"""The description of an application for ``nimo lab learn``: a YAML file into typed structures."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import prod
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec

from predictor.occupancy.active.settings import FunctionForm, LearnerSettings
from predictor.occupancy.active.space import MOST_CANDIDATES, Space
from sacct_ingest.errors import ConfigError, FormatError, system_errors
from sacct_ingest.records import NodeProfile
from sacct_ingest.runs.attributes import size_text
from sacct_ingest.text.slurm_text import parse_size, parse_time_limit
from slurm_plugin.config.yaml_text import convert, load_yaml, read_text
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.campaign import Run

#: Above zero; the bound refuses YAML's ``.inf``.
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Counts = Count | tuple[Count, ...]
Words = str | int | float | tuple[str | int | float, ...]
#: Choice -> option of sbatch.
OPTIONS = {
    "nodes": "--nodes",
    "tasks": "--ntasks",
    "cpus": "--cpus-per-task",
    "memory": "--mem",
    "cpu_freq": "--cpu-freq",
}
_FIXED = ("partition", "constraint", "nodelist")
#: Attribute that an input gives, and of which more is always slower.
INPUT_BYTES = "input_bytes"
GIB = 2.0**30
#: How attributes are named of which more is slower, too.
_LATENCY = "latency_s"
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9][A-Za-z0-9_.-]*)\}")


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One copy of the input: the data profile λ is its size."""

    name: Name
    path: str = ""
    size: str = ""  #: such as ``20G``; empty: the size of the file


class AssignmentGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A group of assignments: all combinations of the listed values."""

    nodes: Count | Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)] = 1
    tasks: Counts = ()
    cpus: Counts = ()
    memory: Words = ()
    cpu_freq: Words = ()
    variables: dict[Name, Words] = {}
    inputs: tuple[Name, ...] = ()
    partition: str = ""
    constraint: str = ""
    nodelist: str = ""
    options: tuple[str, ...] = ()  #: more of sbatch's options
    attributes: dict[Name, Positive] = {}


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An application, its possible assignments, and the budget for learning."""

    application: Name
    command: str = ""  #: shell command; ``{name}`` stands for a choice
    script: str = ""  #: or a job script
    arguments: tuple[str, ...] = ()
    work_dir: str = ""
    limit: str  #: time limit of a run, as ``--time`` takes it
    budget: Positive  #: node-hours
    assignments: tuple[AssignmentGroup, ...]
    inputs: tuple[Input, ...] = ()
    slower: tuple[str, ...] = ()  #: attributes of which more makes runs slower
    profile: tuple[str, ...] = ()  #: figures of the nodes' profiles that are attributes
    data_flow: bool = True  #: whether the accounting's bytes mean something
    network_share: Share | None = None  #: of the time for each I/O; None: as the nodes count it
    account: str = ""
    qos: str = ""
    nice: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    patience: str = ""  #: how long a run may wait in the queue
    tries: Count = 2  #: of a run that was interrupted
    learning: LearnerSettings = LearnerSettings()

    @property
    def limit_s(self) -> int:
        """Time limit in seconds."""
        return parse_time_limit(self.limit) or 0

    @property
    def patience_s(self) -> float:
        """Longest wait in the queue in seconds."""
        return (parse_time_limit(self.patience) or 0) if self.patience else float("inf")

    def tag(self, assignment: "Assignment") -> str:
        """Tag by which runs are recognised, without ``nimo:``: application and size of the input.

        Later jobs that have it are predicted from the runs that were learned from.
        """
        size = assignment.attributes.get(INPUT_BYTES)
        return f"app={self.application}" + (f",size={size_text(f'{size:.0f}')}" if size else "")


def load(path: Path) -> Description:
    """Read a description.

    Raises ConfigError: the file cannot be read or holds a wrong key or value.
    """
    return parse(read_text(path), name=str(path))


def parse(text: str, *, name: str) -> Description:
    """Make a description of the text of a file called ``name``.

    Raises ConfigError: see :func:`load`.
    """
    made = convert(load_yaml(text, name=name), Description, name=name)
    for key in ("limit", "patience"):
        _check_duration(made, key, name)
    if bool(made.command) == bool(made.script):
        raise ConfigError(f"{name}: give either command or script")
    if made.arguments and not made.script:
        raise ConfigError(f"{name}: arguments: a command has its own; they go with script")
    input_names = {one.name for one in made.inputs}
    for index, group in enumerate(made.assignments):
        for input_name in group.inputs:
            if input_name not in input_names:
                place = f"assignments[{index}].inputs"
                raise ConfigError(f"{name}: {place}: {input_name!r} is not among inputs")
    return made


def _check_duration(made: Description, key: str, name: str) -> None:
    text = getattr(made, key)
    try:
        valid = not text or parse_time_limit(text)
    except ValueError:
        valid = None
    if not valid or (key == "limit" and not text):
        raise ConfigError(f"{name}: {key}: {text!r} is no time; give it as sbatch's --time")


class Stage(StrEnum):
    """How far a run has come."""

    PLANNED = "planned"  #: perhaps submitted, without a job id yet
    SUBMITTED = "submitted"
    DONE = "done"
    FAILED = "failed"


class Trial(Run, frozen=True, kw_only=True):
    """One run of one assignment."""

    key: str  #: of the assignment
    attempt: int
    job_name: str
    attributes: dict[str, float]
    purpose: str
    why: str
    stage: Stage = Stage.PLANNED
    again: bool = False  #: whether the same once more may succeed
    utilisation: float | None = None
    data_bytes: int | None = None
    network_share: float | None = None  #: of the time for each I/O, where it was measured

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.stage in (Stage.DONE, Stage.FAILED)


class ModelChoices(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs are learned from; 'nimo lab plan' reads them without the description."""

    data_flow: bool = True  #: whether the accounting's bytes mean something
    network_share: float = 0.0  #: of the stall, where it was not measured
    form: FunctionForm = FunctionForm.CHOSEN
    faster: frozenset[str] | None = None  #: attributes of which more makes runs faster


class JournalFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one application, and how they are learned from."""

    application: str
    trials: tuple[Trial, ...] = ()
    model: ModelChoices = ModelChoices()
    version: int = 1


class Journal:
    """The file; ``trials``, by assignment and attempt, are in the order of their planning."""

    def __init__(self, path: Path, application: str, model: ModelChoices | None = None) -> None:
        self._path = path
        self._application = application
        self._model = model or ModelChoices()
        self.trials = {(one.key, one.attempt): one for one in self._read()}

    def find(self, key: str, attempt: int) -> Trial | None:
        """Give a run that was planned before."""
        return self.trials.get((key, attempt))

    def save(self, trial: Trial) -> Trial:
        """Write a run down, new or changed; it is on the disk when this returns."""
        self.trials[trial.key, trial.attempt] = trial
        trials = tuple(self.trials.values())
        held_jobs.write(self._path, JournalFile(self._application, trials, self._model))
        return trial

    def _read(self) -> tuple[Trial, ...]:
        if not self._path.exists():
            return ()
        saved = held_jobs.read(self._path, JournalFile, "move it away to begin anew")
        if saved.application != self._application:
            raise FormatError(
                f"{self._path}: it is of {saved.application}, not of {self._application}; name "
                "another file with --state"
            )
        return saved.trials


#: Profiles of the nodes that a group of assignments may get.
Profiles = Callable[[AssignmentGroup], Sequence[NodeProfile]]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Nodes, options, command and attributes of one run.

    ``command`` follows sbatch's options; ``key`` identifies the run.
    """

    nodes: int
    options: tuple[str, ...]
    command: tuple[str, ...]
    attributes: dict[str, float]
    key: str


@dataclass(frozen=True, slots=True)
class Choices:
    """Assignments by their attributes: those with the same ones stand in for each other."""

    space: Space
    places: dict[tuple[float, ...], tuple[Assignment, ...]]

    def at(self, attributes: Mapping[str, float]) -> tuple[Assignment, ...]:
        """Give the assignments with these attributes."""
        return self.places[self.space.key(attributes)]


def choices(description: Description, profiles: Profiles, *, name: str, folder: Path) -> Choices:
    """Work out all assignments of a description.

    profiles: asked for each group where figures of node profiles are attributes.
    name: of the file, for errors.
    folder: what relative paths of the script and the inputs begin at.
    Raises ConfigError: attributes are missing somewhere, or none differs.
    """
    script = ""
    if description.script:  # a change to it makes another run
        with system_errors(ConfigError, f"{name}: script: {description.script}"):
            script = (folder / description.script).read_text(errors="replace")
    inputs = {one.name: one for one in description.inputs}
    made: list[Assignment] = []
    for index, group in enumerate(description.assignments):
        place = f"{name}: assignments[{index}]"
        words = [*group.variables, *(["input"] if group.inputs else [])]
        text = " ".join((description.command, *description.arguments))
        if unused := [one for one in words if one not in _PLACEHOLDER.findall(text)]:
            raise ConfigError(
                f"{place}: the command never uses {{{unused[0]}}}: all would run alike"
            )
        also = {**group.attributes, **_figures(description.profile, profiles, group, place)}
        context = (inputs, folder, script, place)
        combined = _combinations(group, place)
        made += [_assignment(description, group, one, also, context) for one in combined]
    return _by_attributes(made, description, name)


def _combinations(group: AssignmentGroup, place: str) -> Iterator[dict[str, str]]:
    lists: dict[str, list[str]] = {key: _listed(getattr(group, key)) for key in OPTIONS}
    lists["input"] = list(group.inputs)
    lists |= {key: _listed(values) for key, values in group.variables.items()}
    named = {key: values for key, values in lists.items() if values}
    if (count := prod(map(len, named.values()))) > MOST_CANDIDATES:
        raise ConfigError(
            f"{place}: {count} combinations are more than {MOST_CANDIDATES}: list fewer values"
        )
    for values in product(*named.values()):
        yield dict(zip(named, values, strict=True))


def _listed(values: object) -> list[str]:
    return [str(one) for one in (values if isinstance(values, tuple) else (values,))]


_Context = tuple[Mapping[str, Input], Path, str, str]


def _assignment(
    description: Description,
    group: AssignmentGroup,
    chosen: Mapping[str, str],
    also: Mapping[str, float],
    context: _Context,
) -> Assignment:
    inputs, folder, script, place = context
    if int(chosen.get("tasks", chosen["nodes"])) < int(chosen["nodes"]):
        tasks = chosen["tasks"]
        nodes = chosen["nodes"]
        raise ConfigError(f"{place}: of {nodes} nodes Slurm gives {tasks} to {tasks} tasks")
    options = [f"{OPTIONS[key]}={value}" for key, value in chosen.items() if key in OPTIONS]
    options += [f"--{key}={getattr(group, key)}" for key in _FIXED if getattr(group, key)]
    options += group.options
    words = dict(chosen)
    attributes = dict(also)
    if "input" in chosen:
        one = inputs[chosen["input"]]
        words["input"] = str(folder / one.path) if one.path else one.name
        try:
            size = parse_size(one.size) if one.size else (folder / one.path).stat().st_size
        except (OSError, ValueError) as error:
            raise ConfigError(f"{place}: input {one.name}: {error}; give its size") from error
        if not size:
            raise ConfigError(f"{place}: input {one.name}: its size is not above zero")
        attributes[INPUT_BYTES] = float(size)
    amounts = {key: text for key, text in chosen.items() if key != "input"}  # which has its size
    attributes |= {key: n for key, text in amounts.items() if (n := _number(key, text)) is not None}
    command = (
        (str(folder / description.script), *(fill(one, words) for one in description.arguments))
        if description.script
        else (f"--wrap={fill(description.command, words)}",)
    )
    identity = json.dumps([options, command, script, description.work_dir])
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return Assignment(int(chosen["nodes"]), tuple(options), command, attributes, key)


def fill(text: str, words: Mapping[str, str]) -> str:
    """Put choices in the place of their names in braces; other braces are the shell's own.

    >>> fill("awk '{print}' -n {cpus} ${HOME}", {"cpus": "4"})
    "awk '{print}' -n 4 ${HOME}"
    """
    return _PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), text)


def _number(key: str, text: str) -> float | None:
    """Value of a choice as an attribute; None for words."""
    try:
        value = parse_size(text) if key == "memory" else float(text)
    except ValueError:
        return None
    return float(value) if value and value > 0 else None


def _figures(
    figures: Sequence[str], profiles: Profiles, group: AssignmentGroup, place: str
) -> dict[str, float]:
    """Figures of the nodes that a group may get: the median of each."""
    if not figures:
        return {}
    node_profiles = profiles(group)
    made = {}
    for figure in figures:
        if figure not in NodeProfile.__dataclass_fields__:
            raise ConfigError(f"{place}: profile: {figure!r} is no figure of a node profile")
        values = [value for one in node_profiles if (value := getattr(one, figure))]
        if not values:
            raise ConfigError(
                f"{place}: no node's profile has {figure}; 'nimo lab profile' measures it, or give "
                "it under attributes"
            )
        made[figure] = float(median(values))
    return made


def _by_attributes(made: Sequence[Assignment], description: Description, name: str) -> Choices:
    every = {key for one in made for key in one.attributes}
    for key in sorted(every):
        if any(key not in one.attributes for one in made):
            raise ConfigError(f"{name}: {key} is given for some assignments only; give it for all")
    vary = sorted(key for key in every if len({one.attributes[key] for one in made}) > 1)
    if not vary:
        raise ConfigError(f"{name}: the assignments differ in nothing that can be learned")
    for part, order in description.learning.attributes.items():
        if wrong := [one for one in order if one not in vary]:
            place = f"{name}: learning.attributes.{part}"
            raise ConfigError(f"{place}: {wrong[0]!r} does not differ here; {', '.join(vary)} do")
    latencies = (one for one in vary if one.endswith(_LATENCY))
    slower = {INPUT_BYTES, *description.slower, *latencies}
    places: dict[tuple[float, ...], list[Assignment]] = defaultdict(list)
    for one in made:
        places[tuple(one.attributes[key] for key in vary)].append(one)
    candidates = tuple(dict(zip(vary, values, strict=True)) for values in places)
    try:
        space = Space(candidates, {key: key not in slower for key in vary})
    except ValueError as error:
        raise ConfigError(f"{name}: assignments: {error}") from error
    return Choices(space, {values: tuple(each) for values, each in places.items()})


def in_units(attributes: Mapping[str, float]) -> str:
    """Write an assignment.

    >>> in_units({"cpus": 4.0, "rate": 1e6, "memory": 2.0**31})
    'cpus 4, rate 1e+06, memory 2 GiB'
    """
    return ", ".join(f"{name} {amount(name)(value)}" for name, value in attributes.items())


def amount(name: str) -> Callable[[float], str]:
    """Give what writes the values of an attribute."""
    if name in ("memory", INPUT_BYTES):
        return lambda v: f"{v / GIB:.3g} GiB" if v >= GIB else f"{v / 2**20:.3g} MiB"
    return "{:g}".format
