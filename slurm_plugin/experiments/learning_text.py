"""Progress and results of ``nimo learn`` as text."""

import shlex
from collections.abc import Mapping, Sequence

from slurm_plugin.experiments.learn.journal import Stage, Trial
from slurm_plugin.experiments.learn.proposers import Next, ProposerState
from slurm_plugin.text.formatting import count, duration, hours, percent, wrapped
from slurm_plugin.text.table_columns import ALWAYS, WIDTH, OutputColumn, OutputTable


def progress_line(trial: Trial) -> str:
    """Describe the state of a run in one line."""
    what = assignment(trial.attributes)
    if trial.stage is Stage.SUBMITTED:
        return f"job {trial.job_id}: {what} ({trial.why})"
    if trial.stage is Stage.FAILED:
        return f"failed: {what}: {trial.reason}"
    busy = percent(trial.utilisation)
    return f"{duration(trial.elapsed_s)} on {what}, CPUs {busy} busy"


def assignment(attributes: Mapping[str, float]) -> str:
    """Write an assignment.

    >>> assignment({"cpus": 4.0, "rate": 1e6})
    'cpus 4, rate 1e+06'
    """
    return ", ".join(f"{name} {value:g}" for name, value in attributes.items())


def design(proposal: Next | None, argv: list[str], candidates: int, budget_node_h: float) -> str:
    """Show the next run without submitting it."""
    first = f"{count(candidates, 'assignment')}; {hours(budget_node_h)} node-hours are left"
    if proposal is None:
        return f"{first}\nnothing is to be run"
    return "\n".join(
        (first, f"next: {assignment(proposal.attributes)} ({proposal.why})", shlex.join(argv))
    )


def too_dear(reserved_node_h: float, left_node_h: float) -> str:
    """Say that the next run needs more than the rest of the budget.

    >>> too_dear(0.5, 0.25)
    'the next run needs 0.5 node-hours to itself, and 0.25 are left: --budget, or a shorter limit'
    """
    return (
        f"the next run needs {reserved_node_h:.3g} node-hours to itself, and "
        f"{left_node_h:.3g} are left: --budget, or a shorter limit"
    )


def summary(
    state: ProposerState, runs: int, spent_node_h: float, why: str, *, width: int = WIDTH
) -> str:
    """Summarise the fitted model, and say why learning ended, as wide as the terminal."""
    head = f"{why}: {count(runs, 'run')}, {hours(spent_node_h)} node-hours"
    if not state.expected:
        return f"{head}; nothing was learned"
    error = "no estimate yet" if state.error is None else f"{state.error:.1f} %"
    lines = [f"{head}; error {error}", ""]
    ranked = sorted(state.effects.items(), key=lambda pair: -pair[1])
    lines += [f"{name}: {factor:.2f} times from best to worst" for name, factor in ranked]
    lines += ["", *(f"{name} = {text}" for name, text in state.functions.items()), ""]
    best = sorted(state.expected, key=lambda one: one.time_s)
    shown = OutputTable(_columns(list(best[0].attributes)), best).text(width=width)
    text = "\n".join(lines)
    return f"{wrapped(text, width)}\n{shown}"


def _columns(names: Sequence[str]) -> list[OutputColumn]:
    """Columns of a table of assignments; attributes are left out last to first."""

    def of(name: str, place: int) -> OutputColumn:
        worth = max(ALWAYS - 1 - place, 1)
        return OutputColumn(
            name, name, lambda one: one.attributes[name], "{:g}".format, worth=worth
        )

    return [
        *(of(name, place) for place, name in enumerate(names)),
        OutputColumn("time_s", "time s", as_text="{:.1f}".format),
        OutputColumn(
            "interval", "90 %", lambda one: f"{one.low_s:.1f} - {one.high_s:.1f}", worth=ALWAYS - 1
        ),
        OutputColumn("verdict", "verdict", lambda one: one.verdict.value, left=True),
    ]
