"""Steps of a run to what NIMO's occupancies are made of: execution time, utilisation, data flow.

NIMO computes a task's occupancies from three measurements of a run (Shivam et al., *Active and
Accelerated Learning of Cost Models*, Algorithm 3; *Learning Application Models*, Algorithm 1)::

    U = o_a / (o_a + o_s)        D / T = 1 / (o_a + o_s)

so that ``o_a = U T / D`` and ``o_s = (1 - U) T / D``.  Here are T, U and D as Slurm's accounting
gives them; ``docs/occupancies.md`` says which of Slurm's settings give what, and their traps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sacct_ingest.records import StepRun

#: Steps whose processes run ``srun``, which reads and writes again what its tasks print.
_SCRIPTS: Final = frozenset({"batch", "interactive"})
#: Steps that are not the application.
SERVANTS: Final = _SCRIPTS | {"extern"}


class RunLength(Protocol):
    """What is needed of a run itself: `JobRun` and the store's `RunRow` have it."""

    @property
    def elapsed_s(self) -> float:
        """Execution time in seconds."""

    @property
    def cpus(self) -> int:
        """Allocated CPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one run used; None where the site gathers nothing.

    elapsed_s: t, seconds.
    utilisation: u, CPU time over allocated CPU time; 0 to 1.
    data_bytes: d, bytes read and written.
    cpu_s: CPU seconds behind U.
    """

    elapsed_s: float
    utilisation: float | None
    data_bytes: int | None
    cpu_s: float | None


def usage(run: RunLength, steps: Sequence[StepRun]) -> Usage:
    """Make T, U and D of a run and its steps.

    A gigabyte read in 100 s by two CPUs that computed for 150 s:

    >>> from sacct_ingest.job_run import JobRun
    >>> from sacct_ingest.records import JobState, StepRun
    >>> step = StepRun(step="0", state=JobState.COMPLETED, cpu_s=150.0,
    ...     disk_read_bytes=10**9, disk_write_bytes=0)
    >>> run = JobRun(cluster="pine", job_id=1, submit_s=0, state=JobState.COMPLETED,
    ...     elapsed_s=100.0, cpus=2, steps=(step,))
    >>> used = usage(run, run.steps)
    >>> used.elapsed_s, used.utilisation, used.data_bytes
    (100.0, 0.75, 1000000000)
    """
    # Exactly nothing means that Slurm did not look.
    cpu_s = sum(step.cpu_s for step in steps if step.cpu_s is not None) or None
    read = any(_disk(step) is not None for step in steps)
    return Usage(
        elapsed_s=run.elapsed_s,
        utilisation=_share(cpu_s, run.cpus * run.elapsed_s),
        data_bytes=_disk_flow(steps) if read else _lustre_flow(steps),
        cpu_s=cpu_s,
    )


def node_watts(nodes: int, elapsed_s: float, steps: Sequence[StepRun]) -> float | None:
    """Mean power in watts of each node of a run; None where half of its node time has no sensor.

    Slurm books each step all that its nodes took meanwhile, whatever else ran there.  So steps
    that run at once, as ``extern`` and those of srun, measure the same: their mean counts.
    """
    measured = [one for one in steps if one.energy_j is not None and one.elapsed_s > 0]
    node_s = sum(one.nodes * one.elapsed_s for one in measured)
    if not node_s or node_s < nodes * elapsed_s / 2:
        return None
    return sum(one.energy_j or 0 for one in measured) / node_s


def _share(cpu_s: float | None, available_s: float) -> float | None:
    """Utilisation; a moment more than all, as clocks that differ give, is all."""
    return min(1.0, cpu_s / available_s) if cpu_s is not None and available_s > 0 else None


def _disk_flow(steps: Sequence[StepRun]) -> int:
    """Bytes that calls read and wrote; of a script's only what srun cannot have relayed.

    srun relays no more than its tasks wrote, so what a script read or wrote beyond that is its
    own.  What the script did below that is not counted: D may be too low by as much.
    """
    application = [step for step in steps if step.step not in _SCRIPTS]
    printed = sum(step.disk_write_bytes or 0 for step in application)
    total = sum(_disk(step) or 0 for step in application)
    for step in steps:
        if step.step in _SCRIPTS:
            for moved in (step.disk_read_bytes or 0, step.disk_write_bytes or 0):
                total += max(0, moved - printed)
    return total


def _lustre_flow(steps: Sequence[StepRun]) -> int | None:
    """Sum Lustre's counters, which are of whole nodes.

    Each task is booked the counters of its whole node, so a step's sum over tasks is divided by
    the tasks a node.  The script's step sees the same traffic again: the largest of such counts
    only where no other step was counted.
    """
    application = [_node_total(s) for s in steps if s.step not in SERVANTS]
    if measured := [value for value in application if value is not None]:
        return sum(measured)
    servants = [_node_total(s) for s in steps if s.step in SERVANTS]
    return max((value for value in servants if value is not None), default=None)


def _node_total(step: StepRun) -> int | None:
    total = _both(step.lustre_read_bytes, step.lustre_write_bytes)
    if total is None:
        return None
    return round(total * max(step.nodes, 1) / max(step.tasks or step.nodes, step.nodes, 1))


def _disk(step: StepRun) -> int | None:
    return _both(step.disk_read_bytes, step.disk_write_bytes)


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
