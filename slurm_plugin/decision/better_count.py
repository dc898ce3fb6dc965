"""The line of sbatch about a count that would be better than the one that is asked for."""

from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.durations import duration_text
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.text.formatting import percent, starts_text


def better_count(decision: Decision, unit: Unit) -> str:
    """Line for the user about a better count; empty where the decision has none."""
    better, asked = decision.chosen, decision.request
    if decision.action is not Action.SET or better is None or asked is None:
        return ""
    if better.nodes == asked.nodes:
        return ""
    size = f"--nodes={better.nodes}" if unit is Unit.NODES else unit.counted(better.nodes)
    than = f"nimo: {size} would be better than {asked.nodes}"
    if decision.reason is Reason.MEMORY:
        return f"{than}, where runs had too little memory: it ends {_ends(better)}"
    if decision.reason is Reason.DEADLINE:
        gain = ", and makes the deadline"
    else:
        gain = _costs(better, asked, unit)
    return f"{than}: {_change(better, asked, gain)}"


def _ends(option: Option) -> str:
    """Say in what time a job ends on a count, from its submission."""
    about = "within" if option.bound else "in about"
    return f"{about} {duration_text(option.wait_s + option.prediction.time_s)}"


def _change(better: Option, asked: Option, gain: str) -> str:
    """Say what another count changes: the run time, or the end where it starts at another time."""
    starts, starts_as_asked = (
        starts_text(option.wait_s, bound=option.bound) for option in (better, asked)
    )
    if starts == starts_as_asked:
        runs = duration_text(better.prediction.time_s)
        runs_as_asked = duration_text(asked.prediction.time_s)
        if runs == runs_as_asked:
            return f"it runs about as long{gain}"
        return f"it runs {runs} instead of {runs_as_asked}{gain}"
    as_asked = duration_text(asked.wait_s + asked.prediction.time_s)
    if _ends(better).endswith(f" {as_asked}"):
        return f"it ends about as early{gain}"
    return f"it ends {_ends(better)} instead of {as_asked}{gain}"


def _costs(better: Option, asked: Option, unit: Unit) -> str:
    """Say how many node-, CPU- or GPU-hours another count takes less or more; empty: as many."""
    spent = better.nodes * better.prediction.time_s
    ratio = spent / (asked.nodes * asked.prediction.time_s)
    share = percent(abs(ratio - 1))
    if share == percent(0.0):
        return ""
    return f", for {share} {'fewer' if ratio < 1 else 'more'} {unit.word}-hours"
