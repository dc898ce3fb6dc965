"""Plans in words: a table of them, the steps of the first, its critical path."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slurm_plugin.experiments.plan.chain import PlannedJob, command_line, job_name
from slurm_plugin.text.formatting import clock, duration, hours, percent, wrapped
from slurm_plugin.text.table_columns import ALWAYS, WIDTH, OutputColumn, OutputTable, text_column

if TYPE_CHECKING:  # numbers are heavy, and --help needs none
    from slurm_plugin.experiments.plan.plans import Plan

_SHOWN = 6  #: plans beside the first
#: Share of the time by which the end of all differs from that of the last step shown.
_NOTED = 0.01


def render(
    plans: Sequence[Plan], now_s: float, deadline_s: float | None, *, width: int = WIDTH
) -> Iterator[str]:
    """Lines about plans, the first of them in full, as wide as the terminal."""
    first = plans[0]
    text = (
        f"{first.label}: {duration(first.end_s - now_s)} from now, at {clock(first.end_s)} "
        f"({duration(first.low_s - now_s)} to {duration(first.high_s - now_s)}), "
        f"{hours(first.node_hours)} node-hours"
    )
    if first.proven:
        text += "; no plan is better"
    for name, why in first.doubts.items():
        text += f"\nDOUBTFUL {name}: {why}"
    if deadline_s is not None and first.chance is not None:
        late = "MISSED" if first.low_s > deadline_s else "NOT SURE"
        verdict = "met" if first.high_s <= deadline_s else late
        chance = percent(first.chance)
        text += f"\ndeadline {clock(deadline_s)}: {verdict}, in {chance} of the simulated cases"
    yield wrapped(text, width)
    yield ""
    yield _steps(first, now_s, width)
    for step in first.schedule.steps:
        for file, storage in step.remote:
            yield wrapped(f"{step.name} reads {file} at {storage}", width)
    yield ""
    for line in _drawn(first, now_s):
        yield wrapped(line, width)
    yield wrapped(f"critical path: {' -> '.join(step.name for step in first.path)}", width)
    if len(plans) > 1:
        yield ""
        yield _others(plans, now_s, width)


def lines_of(workflow: str, chain: Sequence[PlannedJob]) -> Iterator[str]:
    """Give the command lines with which a chain would be submitted; ids are shown as names."""
    ids = {job.name: f"<{job.name.replace(' ', '-')}>" for job in chain}
    clusters = {job.name: job.cluster for job in chain}
    for job in chain:
        own = {name: ids[name] for name in job.needs if clusters[name] == job.cluster}
        yield shlex.join(command_line(job, job_name(workflow, job.name), own))
        yield from (f"    {line}" for line in job.script.splitlines()[2:])


def as_json(plans: Sequence[Plan], chain: Sequence[PlannedJob], now_s: float) -> dict[str, Any]:
    """Plans as numbers, the first with its steps."""
    return {
        "now_s": now_s,
        "plans": [_plan_json(plan) for plan in plans],
        "sbatch": [{"name": job.name, "options": job.options, "needs": job.needs} for job in chain],
    }


_PLAN = ("label", "end_s", "low_s", "high_s", "confidence", "chance", "node_hours", "proven",
         "doubts")  # fmt: skip


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in _PLAN} | {
        "critical_path": [step.name for step in plan.path],
        "why_not": plan.why,
        "steps": [
            {"name": step.name, "place": step.pool, "read_in_place": dict(step.remote)}
            | {name: getattr(step, name) for name in ("nodes", "start_s", "end_s", "wait_s")}
            for step in plan.schedule.steps
        ],
    }


def _steps(plan: Plan, now_s: float, width: int) -> str:
    critical = {step.name for step in plan.path}

    def after(name: str, get: Callable[[Any], float], worth: int) -> OutputColumn:
        return OutputColumn(name, name, get, duration, worth=worth)

    columns = [
        text_column(
            "step",
            "  step",
            value=lambda step: f"{'*' if step.name in critical else ' '} {step.name}",
        ),
        text_column("where", "where", value=lambda step: step.pool),
        OutputColumn("nodes", "nodes", lambda step: step.nodes or None),
        after("start", lambda step: step.start_s - now_s, 8),
        after("wait", lambda step: step.wait_s, 6),
        after("takes", lambda step: step.estimate.time_s, 7),
        after("end", lambda step: step.end_s - now_s, ALWAYS),
    ]
    return OutputTable(columns, plan.schedule.steps).text(width=width)


def _drawn(plan: Plan, now_s: float) -> Iterator[str]:
    """Explain an expected end that is later than the last step of the table."""
    if plan.end_s - plan.schedule.end_s > _NOTED * (plan.end_s - now_s):
        yield (
            "Each step is shown with its median; the latest of several is later than that: half of "
            f"the cases end by {duration(plan.end_s - now_s)}."
        )


def _others(plans: Sequence[Plan], now_s: float, width: int) -> str:
    """Compare plans; what speaks against each stands below the table."""
    sure, shown = percent(plans[0].confidence), plans[: _SHOWN + 1]
    columns = [
        text_column("plan", "plan", value=lambda plan: plan.label),
        OutputColumn("ends", "ends after", lambda plan: duration(plan.end_s - now_s)),
        OutputColumn("high", f"{sure} by", lambda plan: duration(plan.high_s - now_s), worth=5),
        OutputColumn("node_hours", "node-hours", as_text=hours, worth=6),
        OutputColumn("chance", "in time", as_text=percent, worth=7),
    ]
    table = OutputTable(columns, shown).text(width=width)
    against = (f"{plan.label}: {plan.why or 'taken'}" for plan in shown)
    return "\n".join([table, "", *(wrapped(line, width) for line in against)])


def progress_text(counts: Mapping[str, int]) -> str:
    """Put counts of states into a line.

    >>> progress_text({"COMPLETED": 3, "RUNNING": 1})
    '3 COMPLETED, 1 RUNNING'
    """
    return ", ".join(f"{number} {state}" for state, number in counts.items())
