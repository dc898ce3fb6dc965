"""A job of the user's that did not complete: what happened, and the lines that run it again.

Everything is asked and read as the user who asks, and of nobody's jobs but that user's.
"""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from sacct_ingest.errors import NimoError, NoHistory, ScriptError, SlurmError, StoreError
from sacct_ingest.files import atomic_file
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.evidence import node_memory
from sacct_ingest.scripts.job_script import CommandLine, script_options
from sacct_ingest.scripts.output_file import output_file
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.store.rows import RunRow
from sacct_ingest.text.durations import slurm_time
from slurm_plugin.cli import own_history
from slurm_plugin.config.settings import Config, data_folder
from slurm_plugin.evaluation.enough import (
    Enough,
    Lack,
    enough_memory,
    enough_time,
    lack_of,
    round_memory,
    round_time,
    within,
)
from slurm_plugin.reports import failed_text
from slurm_plugin.slurm import commands, sources
from slurm_plugin.slurm.cluster_state import RawState, lower_of
from slurm_plugin.slurm.ended_job import (
    EndedJob,
    command_line_of,
    ended_tasks,
    has_failed,
    in_queue,
    is_over,
    stored_script,
)
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.output_end import end_of_output
from slurm_plugin.slurm.rerun_line import (
    More,
    RerunLine,
    ScriptFile,
    Successors,
    rerun_line,
    successors,
)
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count, printable

_MIB = 2**20
#: Starts of an application that are looked at, and the fewest that make a history.
_RECENT, _FEWEST = 200, 3
_MODE, _FOLDER_MODE = 0o600, 0o700
#: The accounting has the end of a job after so long.
_ACCOUNTED_S = 15.0
#: Slurm is not waited for longer where something else was asked.
EXPLAINED_S = 5.0
_COMPLETING = "COMPLETING"  #: it has ended, and its nodes are not free yet
_LARGEST = 4 * 2**20  #: slurm.conf(5), max_script_size


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that did not complete; of an array all of its tasks that did not."""

    job_id: int
    ended: Sequence[EndedJob]  #: tasks that ended
    failed: Sequence[EndedJob]  #: of these
    running: int = 0  #: tasks that have not ended

    @property
    def array(self) -> bool:
        """Whether it is an array, or a task of one."""
        return self.failed[0].array_job_id is not None

    def by_lack(self) -> dict[Lack, list[EndedJob]]:
        """Group tasks by what they ran out of."""
        groups: dict[Lack, list[EndedJob]] = {}
        for run in self.failed:
            groups.setdefault(lack_of(run), []).append(run)
        return groups


@dataclass(frozen=True, slots=True)
class Again:
    """A line that runs failed jobs again, and why it asks for what it asks for."""

    line: RerunLine
    runs: Sequence[EndedJob]
    why: str = ""

    @property
    def tasks(self) -> list[int]:
        """Tasks of an array that it runs."""
        return [run.array_task_id for run in self.runs if run.array_task_id is not None]


def failed_job(
    job_id: int, task: int | None, config: Config, *, wait_s: float = _ACCOUNTED_S
) -> FailedJob:
    """Ask the accounting for a job of the user's that did not complete.

    wait_s: how long to wait until it has all tasks that have ended.
    Raises NoHistory: there is none; NimoError: it is another user's, it completed, it is one that
        is there again, or a heterogeneous one.
    """
    ended, queue = _ended(job_id, task, config, wait_s)
    return _failed(job_id, task, ended, queue)


def _failed(
    job_id: int, task: int | None, ended: Sequence[EndedJob], queue: Mapping[int | None, str]
) -> FailedJob:
    """Choose what did not complete. Raises NimoError: as of `failed_job`."""
    first = ended[0]
    which = f"job {job_id}" if task is None else f"job {job_id}_{task}"
    if not _is_own(first):
        whose = printable(first.user or "another user")
        raise NimoError(
            f"{which} is {whose}'s: only its own user can look into it and run it again"
        )
    back = _put_back(ended, queue)
    left = [run for run in ended if run not in back]
    if not left:
        raise NimoError(f"{which} is in the queue again: Slurm runs it once more by itself")
    failed = [run for run in left if has_failed(run)]
    # Tasks that were cancelled are not wanted, unless nothing else is meant.
    wanted = [run for run in failed if _is_wanted(run)] or failed
    if not wanted:
        tasks = f": {count(len(left), 'task')} of it ended" if len(left) > 1 else ""
        raise NimoError(f"{which} completed{tasks}")
    running = sum(one is not None and not is_over(state) for one, state in queue.items())
    return FailedJob(job_id, left, wanted, running)


def _put_back(ended: Sequence[EndedJob], queue: Mapping[int | None, str]) -> list[EndedJob]:
    """List those that Slurm has put back into the queue, as it does where a node failed.

    The accounting has their start before.
    """
    there = {one for one, state in queue.items() if not is_over(state) and state != _COMPLETING}
    return [run for run in ended if run.array_task_id in there or run.state is JobState.REQUEUED]


def _ended(
    job_id: int, task: int | None, config: Config, wait_s: float
) -> tuple[list[EndedJob], dict[int | None, str]]:
    """Give what has ended, and the states in the queue, as of `in_queue`."""
    sacct = LiveSacct(cluster=config.cluster, timeout_s=config.local.timeout_s)
    ask = partial(commands.run, timeout_s=config.local.timeout_s)
    queue = in_queue(job_id, ask)
    if task is not None:
        queue = {one: state for one, state in queue.items() if one == task}
    over = {one for one, state in queue.items() if is_over(state)}
    give_up_s = time.monotonic() + wait_s
    while True:
        try:
            ended = ended_tasks(job_id, task, sacct)
        except NoHistory:
            if not over or time.monotonic() >= give_up_s:
                raise
            ended = []
        if over <= {run.array_task_id for run in ended} or time.monotonic() >= give_up_s:
            return ended, queue
        time.sleep(1)


def _is_wanted(run: EndedJob) -> bool:
    """Whether a task failed that nobody cancelled."""
    return has_failed(run) and run.state is not JobState.CANCELLED


def _is_own(run: EndedJob) -> bool:
    if run.uid is not None:
        return run.uid == os.getuid()
    return run.user == user_name()


def story(job: FailedJob) -> list[str]:
    """Say what happened, with the end of the output of one job."""
    lines = []
    if len(job.ended) > 1:
        lines.append(failed_text.tasks_text(job.ended, job.failed))
    first = job.failed[0]
    lines.append(failed_text.happened(first, lack_of(first)))
    if path := _output_of(first):
        lines += failed_text.missing_folder_lines(first, path.parent)
        shown = end_of_output(path)
        name = os.path.relpath(path, first.work_dir)
        lines += [f"The end of its output ({printable(name)}):"] if shown else []
        lines += [f"  | {printable(line)[:200]}" for line in shown]
    return lines


def again(job: FailedJob, config: Config) -> list[Again]:
    """Make the lines that run it again: one for each thing that its tasks ran out of.

    Raises NimoError: it was no batch job, is heterogeneous, or neither its script nor the file is
        there; or the partition has no more of what ran out.
    """
    first = job.failed[0]
    if first.het_job_id is not None:
        raise NimoError("heterogeneous jobs are not run again by NIMO: each component asks its own")
    line = command_line_of(first)
    if line.program != "sbatch":
        raise NimoError(
            f"job {job.job_id} was no batch job"
            + (f" but one of {line.program}" if line.program else ": its submit line is not kept")
        )
    script = _script_of(first, line, config)
    return [_again(job, lack, runs, line, script, config) for lack, runs in job.by_lack().items()]


def _again(
    job: FailedJob,
    lack: Lack,
    runs: Sequence[EndedJob],
    line: CommandLine,
    script: ScriptFile,
    config: Config,
) -> Again:
    first = runs[0]
    tasks = None
    if job.array:
        tasks = tuple(run.array_task_id for run in runs if run.array_task_id is not None)
    if lack is Lack.NOTHING:
        return Again(rerun_line(first, line, script, More(tasks=tasks)), runs)
    enough = _enough(lack, runs, config)
    limit = slurm_time(round_time(enough.amount)) if lack is Lack.TIME else None
    memory_mib = round_memory(enough.amount) if lack is Lack.MEMORY else None
    if enough.bounded:  # rounded up it would be beyond the bound
        limit = slurm_time(int(enough.amount)) if limit else None
        memory_mib = int(enough.amount // _MIB) if memory_mib else None
    more = More(limit=limit, memory_mib=memory_mib, tasks=tasks)
    why = failed_text.why_so_much(lack, enough, first.partition)
    return Again(rerun_line(first, line, script, more), runs, why)


def _enough(lack: Lack, runs: Sequence[EndedJob], config: Config) -> Enough:
    """Give what would have been enough, within what the partition allows."""
    first = runs[0]
    rows = _history(first, config)
    if lack is Lack.TIME:
        had = float(max(run.limit_s or run.elapsed_s for run in runs))
        enough = enough_time(rows, had, first.nodes)
    else:
        had = float(max(node_memory(run) for run in runs))
        if not had:
            raise NimoError(
                f"job {first.job_id} ran out of memory, and the accounting does not say how much "
                "it had: run it again with a larger --mem"
            )
        enough = enough_memory(rows, had)
    bounded = within(enough, _most(lack, first.partition, config))
    if bounded.amount <= had:
        what = "longer time limit" if lack is Lack.TIME else "more memory on a node"
        raise NimoError(
            f"partition {printable(first.partition)} allows no {what} than the job had; another "
            "partition may (sinfo -o '%P %l %m'), or the job could save its state, or be split"
        )
    return bounded


def _most(lack: Lack, partition: str, config: Config) -> float | None:
    """Most that a partition allows; None: no such limit, or Slurm does not say."""
    ask = partial(commands.run, timeout_s=config.local.timeout_s)
    try:
        state: RawState = sources.read_text("", ask(sources.SINFO), ask(sources.PARTITIONS))
    except SlurmError:
        return None
    part = next((one for one in state.partitions if one.name == partition), None)
    if part is None:
        return None
    if lack is Lack.TIME:
        return part.max_time_s
    sizes = [node.mem_mib for node in state.nodes if partition in node.partitions]
    # Slurm has 1 MiB where a site tells it nothing.
    largest = max((size for size in sizes if size > 1), default=None)
    most = lower_of(part.max_mem_node_mib, largest)
    return None if most is None else float(most * _MIB)


def _history(run: EndedJob, config: Config) -> list[RunRow]:
    """Give the starts of a job's application; none where nothing is known of it."""
    with suppress(StoreError, SlurmError):
        own_history.ask_again(config)
        made = own_history.refreshed(config, [])
        with open_store(made) as store:
            found = store.runs.of_job(run.job_id)
            if not found:
                return []
            identity = found[-1].identity
            for level in KeyLevel:
                if level is KeyLevel.USER or not (key := identity.key(level)):
                    continue
                rows = store.runs.of_key(level, key, most=_RECENT)
                if len(rows) >= _FEWEST:
                    return [start for row in rows for start in row.each_start()]
    return []


def successors_of(
    job: FailedJob, tasks_of: Mapping[str, Sequence[int]], config: Config
) -> Successors:
    """Give what stands for a job that runs again, for those that wait for it.

    tasks_of: the new jobs, with the tasks of an array that each runs.
    """
    if not job.array:
        (new,) = tasks_of
        return Successors(whole=new, each=new)
    run_again = {task for tasks in tasks_of.values() for task in tasks}
    timeout_s = config.local.timeout_s
    queue = in_queue(job.job_id, partial(commands.run, timeout_s=timeout_s))
    sacct = LiveSacct(cluster=config.cluster, timeout_s=timeout_s)
    ended = ended_tasks(job.job_id, None, sacct)
    return successors(
        job.job_id,
        tasks_of,
        unfinished=sorted(
            task for task, state in queue.items() if task is not None and not is_over(state)
        ),
        lost=any(_is_wanted(run) and run.array_task_id not in run_again for run in ended),
    )


def _output_of(run: EndedJob) -> Path | None:
    """Name the file that a job wrote its errors to, else its output; None: not known."""
    line = command_line_of(run)
    if line.program != "sbatch" or not run.work_dir:
        return None
    options = line.options
    if "output" not in options and "error" not in options and line.script:
        text = _text_of(_within(run, line.script)) or ""
        options = script_options(text)
    pattern = options.get("error") or options.get("output") or ""
    named = output_file(
        pattern,
        job_id=run.job_id,
        name=run.name,
        user=run.user,
        array_job_id=run.array_job_id,
        array_task_id=run.array_task_id,
    )
    return _within(run, named) if named else None


def _within(run: EndedJob, name: str) -> Path:
    return Path(run.work_dir) / name


def _text_of(path: Path) -> str | None:
    """Text of a script; None: there is no plain file that this user can read."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            return None
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return None


def _script_of(run: EndedJob, line: CommandLine, config: Config) -> ScriptFile:
    """Find what a job ran: as Slurm keeps it, else the file that its submit line names.

    Raises ScriptError: neither is there.
    """
    kept = stored_script(run, partial(commands.run, timeout_s=config.local.timeout_s))
    # Standard input was the job's own, and is gone: this would be that of this process.
    a_file = bool(line.script) and not line.script.startswith(("/dev/", "/proc/"))
    named = _within(run, line.script) if a_file and "wrap" not in line.options else None
    there = _text_of(named) if named else None
    if kept is not None:
        if named and there is not None and there.rstrip() == kept.rstrip():
            return ScriptFile(named, there)
        job_id = run.array_job_id or run.job_id
        file = data_folder() / "again" / f"{job_id}.sh"
        note = f"the script is what Slurm kept of job {job_id}, without the quotes of its options"
        changed = there is not None
        return ScriptFile(
            file,
            kept,
            write=True,
            notes=(f"{note}: its file has changed since",) if changed else (note,),
        )
    if named and there is not None:
        notes: tuple[str, ...] = ()
        with suppress(OSError):
            if named.stat().st_mtime > run.submit_s:
                notes = (f"{printable(str(named))} was changed after the job was submitted",)
        return ScriptFile(named, there, notes=notes)
    where = f"and {printable(str(named))} is not there" if named else "and no file is named"
    raise ScriptError(
        f"Slurm keeps no script of job {run.job_id} (AccountingStoreFlags=job_script would keep "
        f"it), {where}: submit the job as you did before"
    )


def write_script(line: RerunLine) -> None:
    """Write the script that a line names, where Slurm alone had it; only its user can read it."""
    if line.script is None:
        return
    line.file.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    atomic_file.write(line.file, line.script.encode(errors="replace"))
    line.file.chmod(_MODE)


def explained(
    job_id: int, task: int | None, config: Config, within_s: float = EXPLAINED_S
) -> list[str]:
    """Say what happened to a job and how to run it again; nothing where it did not fail.

    Of what Slurm has put back into the queue it says that.

    within_s: seconds for each answer of the accounting.
    """
    patient = replace(config, local=replace(config.local, timeout_s=within_s))
    try:
        ended, queue = _ended(job_id, task, patient, within_s)
    except NimoError:
        return []
    back = [run for run in _put_back(ended, queue) if _is_own(run)]
    lines = [failed_text.happened(back[0], lack_of(back[0]))] if back else []
    if back:
        lines.append(failed_text.put_back_text([queue.get(run.array_task_id, "") for run in back]))
    try:
        job = _failed(job_id, task, ended, queue)
    except NimoError:
        return lines
    lines += story(job)
    try:
        made = again(job, patient)
    except NimoError as error:
        return [*lines, f"NIMO does not run it again: {error}."]
    which = f"{job_id}_{task}" if task is not None else str(job_id)
    for one in made:
        write_script(one.line)
        why = f" ({one.why})" if one.why else ""
        lines.append(f"To run it again{why}:")
        lines.append(f"  {one.line.text}")
    lines.append(f"'nimo again {which} --submit' does so.")
    return lines
