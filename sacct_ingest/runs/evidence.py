"""What a start of a job is evidence of, by how it ended.

A start that completed took its time and its memory.  One that was cut off took at least as much:
its observation is right-censored.  One that failed says when and how often that happens, and
nothing of what the job takes; one that ended for lack of memory needed at least what it had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, Protocol

from sacct_ingest.records import JobState, Says, StepRun

#: States of a step that failed or was cancelled.
FAILED: Final = frozenset(state for state in JobState if state.failed)
#: A step that Slurm adds by itself.
ADDED_STEP: Final = "extern"


class Start(Protocol):
    """A start of a job, as far as its ending says something."""

    @property
    def state(self) -> JobState:
        """How it ended."""

    @property
    def elapsed_s(self) -> float:
        """How long it ran."""

    @property
    def nodes(self) -> int:
        """How many nodes it had, or how much of what sizes count."""

    @property
    def tasks(self) -> int | None:
        """How many tasks it had."""

    @property
    def mem_bytes(self) -> int | None:
        """Highest resident size of one task."""

    @property
    def req_mem_bytes(self) -> int | None:
        """Memory that it asked for, in all."""

    @property
    def failed_steps(self) -> int | None:
        """How many of its steps failed or were cancelled."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a start says: ``run_time`` of its seconds, ``memory`` of its bytes on each node."""

    run_time: Says
    elapsed_s: float
    memory: Says
    mem_bytes: int  #: 0 where ``memory`` is `Says.NOTHING`
    lacked_memory: bool  #: that ended it
    doubtful: bool = False  #: it completed, though steps of it did not: perhaps without its work


def evidence_of(start: Start) -> Evidence:
    """Give what a start says, by the table of states and by what was measured.

    >>> from types import SimpleNamespace
    >>> start = SimpleNamespace(state=JobState.TIMEOUT, elapsed_s=3600, nodes=1, tasks=1,
    ...                         mem_bytes=None, req_mem_bytes=None, failed_steps=None)
    >>> evidence_of(start).run_time.value
    'at least'
    """
    ran = start.elapsed_s > 0 and start.nodes > 0
    run_time = start.state.run_time if ran else Says.NOTHING
    memory = start.state.memory
    mem_bytes = node_need(start)
    lacked = ran_short(start)
    if lacked:
        memory = Says.AT_LEAST
        mem_bytes = max(mem_bytes, node_memory(start))
    if mem_bytes <= 0 or start.nodes < 1:
        memory = Says.NOTHING
    if memory is Says.NOTHING:
        mem_bytes = 0
    doubtful = start.state.finished and bool(start.failed_steps)
    return Evidence(run_time, start.elapsed_s, memory, mem_bytes, lacked, doubtful)


def ran_short(start: Start) -> bool:
    """Whether a start ended for lack of memory: its state says so, or its measured memory.

    Slurm's own accounting may end a run without saying so (``OverMemoryKill``): it fails, or is
    requeued, with all the memory that it asked for in use.
    """
    if not start.state.may_lack_memory:
        return start.state is JobState.OUT_OF_MEMORY
    return 0 < (start.req_mem_bytes or 0) <= node_need(start) * start.nodes


def failed_steps(steps: Sequence[StepRun]) -> int:
    """Count the steps that failed or were cancelled, but the one that Slurm adds by itself."""
    failed = [step for step in steps if step.state in FAILED]
    return len([step for step in failed if step.step != ADDED_STEP]) if failed else 0


def node_need(start: Start) -> int:
    """Memory that a start used on a node, bytes: its largest task's, for each; 0: not measured."""
    if start.nodes < 1:
        return 0
    return (start.mem_bytes or 0) * ceil((start.tasks or start.nodes) / start.nodes)


def node_memory(start: Start) -> int:
    """Memory that a start asked for on a node, bytes; 0: unknown."""
    return round((start.req_mem_bytes or 0) / start.nodes) if start.nodes > 0 else 0
