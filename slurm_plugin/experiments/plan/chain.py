"""A plan as jobs: for each step a script and sbatch's options, chained by dependencies.  Pure."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, inf

from sacct_ingest.probes import reported_copies
from sacct_ingest.scripts.job_script import parse_command_line
from sacct_ingest.text.slurm_text import parse_time_limit
from slurm_plugin.experiments.learn.description import OPTIONS
from slurm_plugin.experiments.plan.run_times import RESOURCES
from slurm_plugin.experiments.plan.schedule import PlanSchedule, Step, TaskBounds
from slurm_plugin.experiments.plan.workflow import (
    File,
    PlanSite,
    Storage,
    Task,
    Workflow,
    link_ends,
)

#: The limit is what hardly any run exceeds, with a margin.
_MARGIN, _LEAST_S = 1.2, 60.0
_NO_LIMIT_S = 365 * 86_400.0  #: as Slurm has it
#: A task is late for good when even successors this fast do not help.
_FAST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One step as it is submitted."""

    step: Step  #: as planned
    options: tuple[str, ...]  #: for sbatch, without name and dependencies
    script: str
    cluster: str

    @property
    def name(self) -> str:
        """Name of the step."""
        return self.step.name

    @property
    def nodes(self) -> int:
        """Nodes that it takes."""
        return self.step.nodes or 1

    @property
    def limit_s(self) -> float:
        """Longest that it may take."""
        asked = parse_command_line(["sbatch", *self.options]).options.get("time") or ""
        return float(parse_time_limit(asked) or _NO_LIMIT_S)

    @property
    def needs(self) -> tuple[str, ...]:
        """Steps that have to succeed before."""
        return self.step.needs


def jobs(
    flow: Workflow,
    schedule: PlanSchedule,
    *,
    rooms: Mapping[tuple[str, str], TaskBounds],
    deadline_s: float | None = None,
    hard: bool = False,
) -> list[PlannedJob]:
    """Jobs of a plan, each after those that it needs.

    flow: the workflow.
    schedule: its plan.
    rooms: what tasks may have at places; limits are no longer than they allow.
    deadline_s: when all has to have ended.
    hard: whether Slurm is to end jobs that can no longer be in time (``--deadline``).
    """
    latest = _latest(schedule, deadline_s)
    return [
        _job(flow, step, rooms, latest.get(step.name) if hard else None) for step in schedule.steps
    ]


def job_name(workflow: str, step: str, mark: str = "") -> str:
    """Name of a step's job; with the ``mark`` of what was submitted it can be found again.

    >>> job_name("brain", "raw to scratch", "3fa9c1-2")
    'brain.raw-to-scratch.3fa9c1-2'
    """
    return re.sub(r"[^\w.-]", "-", ".".join(filter(None, (workflow, step, mark))))


def command_line(job: PlannedJob, name: str, ids: Mapping[str, str]) -> list[str]:
    """Give the arguments of sbatch, which reads the script from stdin.

    job: what is submitted.
    name: of the job.
    ids: ids of jobs of the same cluster that it may have to wait for, by step.
    """
    argv = ["sbatch", "--parsable", f"--job-name={name}", *job.options]
    if needed := [ids[name] for name in job.needs if name in ids]:
        argv += [f"--dependency=afterok:{':'.join(needed)}", "--kill-on-invalid-dep=yes"]
    return argv


def path_of(file: File, storage: Storage) -> str:
    """Where a file is on a storage."""
    return f"{storage.path.rstrip('/')}/{file.path or file.name}"


def place_of_copy(flow: Workflow, step: Step) -> PlanSite:
    """Place where a copy runs: near its target, or else near its source."""
    places = [*flow.places.values()]
    near = [p for s in (step.target, step.source) for p in places if p.storage == s]
    return (near or places)[0]


def _job(
    flow: Workflow, step: Step, rooms: Mapping[tuple[str, str], TaskBounds], latest_s: float | None
) -> PlannedJob:
    place = flow.places[step.pool] if step.nodes else place_of_copy(flow, step)
    task = flow.tasks[step.task]
    # Slurm refuses a job whose limit ends after its deadline.
    room = rooms.get((step.task, place.name))
    needed_min = ceil((step.estimate.longest_s * _MARGIN + _LEAST_S) / 60)
    most_s = min(room.longest_s if room else inf, (latest_s or inf) - step.start_s)
    options = [
        f"--partition={place.partition}",
        f"--nodes={step.nodes or 1}",
        f"--time={needed_min if most_s == inf else max(min(needed_min, int(most_s // 60)), 1)}",
        f"--comment={_tag(flow, task) if step.nodes else 'nimo:off'}",
    ]
    if place.cluster:
        options.append(f"--clusters={place.cluster}")
    if latest_s is not None:
        options.append(f"--deadline=uts{ceil(latest_s)}")
    for name, value in step.resources:
        unit, letter = RESOURCES[name]
        options.append(f"{OPTIONS[name]}={value / unit:.0f}{letter}")
    if step.nodes:
        options += task.options
    return PlannedJob(
        step=step,
        options=tuple(options),
        script=_task_script(flow, step, task) if step.nodes else _copy_script(flow, step),
        cluster=place.cluster,
    )


def _tag(flow: Workflow, task: Task) -> str:
    """Tag by which the run is recognised next time."""
    name, _, problem = (task.application or f"{flow.name}/{task.name}").partition("/")
    parts = [f"app={name}", *([f"problem={problem}"] if problem else [])]
    return "nimo:" + ",".join(re.sub(r"[\s,;|]", "-", part) for part in parts)


def _task_script(flow: Workflow, step: Step, task: Task) -> str:
    storages = dict.fromkeys((*task.reads, *task.writes), step.target) | dict(step.remote)
    paths = {
        name: path_of(flow.files[name], flow.storages[storage])
        for name, storage in storages.items()
    }
    folders = sorted({paths[name].rpartition("/")[0] for name in task.writes})
    lines = ["#!/bin/sh", "set -e"]
    lines += [f"mkdir -p -- {shlex.quote(folder)}" for folder in folders]
    command = _filled(task.command, paths) or "# its command is not known"
    return "\n".join([*lines, command, ""])


def _copy_script(flow: Workflow, step: Step) -> str:
    """Copy beside the target first, so that no reader finds half a file; then say how fast."""
    file = flow.files[step.file]
    near = place_of_copy(flow, step)
    # What sbatch took along of its environment may name the cluster that it was called on.
    options = f"-M {near.cluster} " if near.cluster else ""
    source, target = (path_of(file, flow.storages[one]) for one in (step.source, step.target))
    folder = target.rpartition("/")[0]
    part = f"{target}.part"
    copy = flow.links[step.source, step.target].copy
    ends = link_ends(flow, step.source, step.target)
    # A storage without a host is the nodes that are near to it.
    end = dict(zip((step.source, step.target), ends, strict=True)).get(near.storage, "")
    host = flow.storages[near.storage].host
    return "\n".join([
        "#!/bin/sh",
        "set -e",
        f"mkdir -p -- {shlex.quote(folder)}",
        f"rm -rf -- {shlex.quote(part)}",
        reported_copies.BEFORE,
        _filled(copy, {"source": source, "target": part}),
        reported_copies.AFTER,
        f"mv -T -- {shlex.quote(part)} {shlex.quote(target)}",
        *reported_copies.report_lines(target, ends, end=end, host=host, options=options),
        "",
    ])  # fmt: skip


def _filled(command: str, paths: Mapping[str, str]) -> str:
    """Put paths where their names are in braces; the shell's own ``${name}`` stays.

    >>> _filled("sort {raw} > ${raw}", {"raw": "/data/my raw"})
    "sort '/data/my raw' > ${raw}"
    """
    return re.sub(
        r"(?<!\$)\{([A-Za-z][\w-]*)\}",
        lambda match: shlex.quote(paths[match[1]]) if match[1] in paths else match[0],
        command,
    )


def _latest(schedule: PlanSchedule, deadline_s: float | None) -> dict[str, float]:
    """Latest end of each step, if all steps after it are fast."""
    if deadline_s is None:
        return {}
    latest = dict.fromkeys((step.name for step in schedule.steps), inf)
    for step in reversed(schedule.steps):
        latest[step.name] = min(latest[step.name], deadline_s)
        before_s = latest[step.name] - step.estimate.quantile(_FAST)
        for name in step.needs:
            latest[name] = min(latest.get(name, inf), before_s)
    return latest


def dependents(chain: Iterable[PlannedJob], failed: str) -> list[str]:
    """Name the steps that cannot run after one failed."""
    lost = {failed}
    names = []
    for job in chain:
        if not lost.isdisjoint(job.needs):
            lost.add(job.name)
            names.append(job.name)
    return names
