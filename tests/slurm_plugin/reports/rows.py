"""Decisions and runs with only what a test is about."""

from collections.abc import Iterable
from typing import Any

from sacct_ingest.records import DecisionRow, JobState, StandingRow
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.outcomes import OutcomeReport, OutcomeTally, Pair
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.reports.advice_text import render

AT_S = 1_790_000_000.0


def decision(**given: Any) -> DecisionRow:
    """Make a decision that chose 4 nodes where 2 were asked for, and was applied."""
    fields: dict[str, Any] = {
        "decision_id": "0123456789ab",
        "cluster": "pine",
        "at_s": AT_S,
        "mode": "enforce",
        "via": "job_submit",
        "action": "set",
        "reason": "cheapest",
        "uid": 1001,
        "user": "ada",
        "name": "wrf",
        "work_dir": "/home/ada",
        "account": "physics",
        "partition": "batch",
        "qos": "normal",
        "tag": "",
        "script": "",
        "line": "ab12",
        "key_level": "line",
        "key": "ab12",
        "label": "wrf",
        "verdict": "reliable",
        "min_nodes": 1,
        "max_nodes": 8,
        "requested_nodes": 2,
        "limit_s": 7200,
        "deadline_s": None,
        "nodes": 4,
        "applied": True,
        "predicted_s": 1000.0,
        "low_s": 900.0,
        "high_s": 1100.0,
        "request_predicted_s": 1800.0,
        "wait_s": 0.0,
        "message": "",
    }
    return DecisionRow(**(fields | given))


def run(**given: Any) -> RunRow:
    """Make a completed run on 4 nodes that took 1000 s."""
    fields: dict[str, Any] = {
        "run_id": 1,
        "cluster": "pine",
        "job_id": 17,
        "submit_s": int(AT_S),
        "state": JobState.COMPLETED,
        "user": "ada",
        "name": "wrf",
        "partition": "batch",
        "nodes": 4,
        "cpus": 192,
        "tasks": 192,
        "elapsed_s": 1000.0,
        "limit_s": 7200,
        "eligible_s": int(AT_S),
        "start_s": int(AT_S) + 10,
        "end_s": int(AT_S) + 1010,
        "mem_bytes": None,
        "array_task_id": None,
        "tag": "",
        "script": "",
        "line": "ab12",
    }
    return RunRow(**(fields | given))


def summarise(
    pairs: Iterable[Pair], *, confidence: float, standings: Iterable[StandingRow] = ()
) -> OutcomeReport:
    """Sum up decisions, each with its run or None."""
    tally = OutcomeTally(confidence)
    for decided, run in pairs:
        tally.add(decided, run)
    return tally.report(standings)


def advised(advice: Advice, **how: Any) -> str:
    """Print an advice as nimo-advise does."""
    return "\n".join(filter(None, render(advice, **how)))
