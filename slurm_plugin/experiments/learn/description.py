"""The description of an application for ``nimo learn``: a YAML file into typed structures."""

from pathlib import Path
from typing import Annotated

import msgspec

from predictor.occupancy.active.settings import LearnerSettings
from sacct_ingest.errors import ConfigError
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.config.yaml_text import convert, load_yaml, read_text

#: Above zero; the bound refuses YAML's ``.inf``.
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Counts = Count | tuple[Count, ...]
Words = str | int | float | tuple[str | int | float, ...]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One copy of the input: the data profile λ is its size."""

    name: Name
    path: str = ""
    size: str = ""  #: such as ``20G``; empty: the size of the file


class AssignmentGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A group of assignments: all combinations of the listed values."""

    nodes: Counts = 1
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
