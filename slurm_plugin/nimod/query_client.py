"""Asking nimod about the store: one's own applications, and the decision about a job."""

from pathlib import Path

from slurm_plugin.nimod.client import exchange
from slurm_plugin.protocol import Ask
from slurm_plugin.protocol.query_messages import Applications, Explanation


def applications(
    path: str | Path, name: str = "", *, every: bool, timeout_s: float
) -> Applications:
    """Ask for prediction tables: one application's, or all that the user ran.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    return exchange(path, Ask(op="applications", name=name, every=every), Applications, timeout_s)


def explain(path: str | Path, job_id: int, decision_id: str, *, timeout_s: float) -> Explanation:
    """Ask for the decision about a job.

    Raises
    ------
    NoDecision
        There is none that the user may see.
    Unreachable
        There is no answer.
    """
    ask = Ask(op="explain", job_id=job_id, decision_id=decision_id)
    return exchange(path, ask, Explanation, timeout_s)
