"""Workflows as WfCommons has them: instances in its JSON format, versions 1.3 to 1.6.

T. Coleman, H. Casanova, L. Pottier, M. Kaushik, E. Deelman, R. Ferreira da Silva, *WfCommons: A
framework for enabling scientific workflow research and development*, Future Generation Computer
Systems 128, 2022.
"""

import re
from collections.abc import Sequence

import msgspec

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.yaml_text import convert, load_json
from slurm_plugin.experiments.plan.foreign import ForeignTask, ForeignWorkflow

#: Shortest run time that a task is planned with, seconds.
_LEAST_S = 0.001
_SPLIT = ("1.5", "1.6")  #: versions that part what is to be run from how it ran
_WHOLE = ("1.3", "1.4")


class _Command(msgspec.Struct, frozen=True):
    program: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Command line; empty: none is known.

        Arguments are text for a shell, as all who write instances have them: an option with its
        value, a redirection.  Makeflow's begin with the program once more.
        """
        if not self.program:
            return ""
        first = self.arguments[0].rpartition("/")[2] if self.arguments else ""
        words = self.arguments if first == self.program else (self.program, *self.arguments)
        return " ".join(words)


def _group(task: str, name: str) -> str:
    """Name what several tasks are runs of: the name, or the id without its number.

    >>> _group("blastall_ID000014", "blastall_ID000014"), _group("count_2", "count")
    ('blastall', 'count')
    """
    return name if name not in ("", task) else re.sub(r"_(?:ID)?\d+$", "", task)


def _paths(files: Sequence[str]) -> tuple[str, ...]:
    """Name files below the folder of the data; some instances write a slash before."""
    return tuple(file.lstrip("/") or file for file in files)


class _File(msgspec.Struct, frozen=True):
    id: str
    sizeInBytes: int = 0  # noqa: N815 - the format's


class _Task(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    parents: tuple[str, ...] = ()
    inputFiles: tuple[str, ...] = ()  # noqa: N815
    outputFiles: tuple[str, ...] = ()  # noqa: N815


class _Ran(msgspec.Struct, frozen=True):
    id: str
    runtimeInSeconds: float  # noqa: N815
    command: _Command = _Command()
    coreCount: float = 1  # noqa: N815
    memoryInBytes: float = 0  # noqa: N815


class _Specification(msgspec.Struct, frozen=True):
    tasks: tuple[_Task, ...]
    files: tuple[_File, ...] = ()


class _Execution(msgspec.Struct, frozen=True):
    tasks: tuple[_Ran, ...] = ()


class _Workflow(msgspec.Struct, frozen=True):
    specification: _Specification
    execution: _Execution = _Execution()


class _Instance(msgspec.Struct, frozen=True):
    workflow: _Workflow
    name: str = ""


class _LinkedFile(msgspec.Struct, frozen=True):
    name: str
    link: str
    sizeInBytes: int = 0  # noqa: N815
    size: int = 0


class _WholeTask(msgspec.Struct, frozen=True):
    name: str
    id: str = ""
    parents: tuple[str, ...] = ()
    files: tuple[_LinkedFile, ...] = ()
    runtimeInSeconds: float | None = None  # noqa: N815
    runtime: float | None = None
    command: _Command = _Command()
    cores: float = 1
    memoryInBytes: float = 0  # noqa: N815


class _WholeWorkflow(msgspec.Struct, frozen=True):
    tasks: tuple[_WholeTask, ...]


class _WholeInstance(msgspec.Struct, frozen=True):
    workflow: _WholeWorkflow
    name: str = ""


class _Version(msgspec.Struct, frozen=True):
    schemaVersion: str  # noqa: N815


def read(text: str, *, name: str) -> ForeignWorkflow:
    """Read an instance.

    text: of the file called ``name``.
    Raises ConfigError: it is none; the text names the place.
    """
    document = load_json(text, name=name)
    version = convert(document, _Version, name=name).schemaVersion
    if version in _SPLIT:
        return _of_parts(convert(document, _Instance, name=name))
    if version in _WHOLE:
        return _of_whole(convert(document, _WholeInstance, name=name))
    known = ", ".join((*_WHOLE, *_SPLIT))
    raise ConfigError(f"{name}: schemaVersion: {version!r} is none of {known}")


def _of_parts(instance: _Instance) -> ForeignWorkflow:
    flow = instance.workflow
    ran = {one.id: one for one in flow.execution.tasks}
    tasks = []
    for task in flow.specification.tasks:
        own = ran.get(task.id)
        tasks.append(
            ForeignTask(
                name=task.id,
                group=_group(task.id, task.name),
                command=own.command.line if own else "",
                reads=_paths(task.inputFiles),
                writes=_paths(task.outputFiles),
                after=task.parents,
                run_time_s=max(own.runtimeInSeconds, _LEAST_S) if own else None,
                cores=round(own.coreCount) if own else 1,
                memory_bytes=own.memoryInBytes if own else 0,
            )
        )
    sizes = {_paths([one.id])[0]: float(one.sizeInBytes) for one in flow.specification.files}
    return ForeignWorkflow(instance.name, tuple(tasks), sizes)


def _of_whole(instance: _WholeInstance) -> ForeignWorkflow:
    every = instance.workflow.tasks
    # Parents are names or ids.
    ids = {one.name: one.id or one.name for one in every}
    linked = [file for one in every for file in one.files]
    sizes = {_paths([file.name])[0]: float(file.sizeInBytes or file.size) for file in linked}
    tasks = []
    for one in every:
        took_s = one.runtime if one.runtimeInSeconds is None else one.runtimeInSeconds
        tasks.append(
            ForeignTask(
                name=ids[one.name],
                group=_group(ids[one.name], one.name),
                command=one.command.line,
                reads=_linked(one.files, "input"),
                writes=_linked(one.files, "output"),
                after=tuple(ids.get(parent, parent) for parent in one.parents),
                run_time_s=None if took_s is None else max(took_s, _LEAST_S),
                cores=round(one.cores),
                memory_bytes=one.memoryInBytes,
            )
        )
    return ForeignWorkflow(instance.name, tuple(tasks), sizes)


def _linked(files: Sequence[_LinkedFile], link: str) -> tuple[str, ...]:
    return _paths([one.name for one in files if one.link == link])
