"""Explain the decision about a job: the request, the prediction, the choice, and the reason.

Users see decisions about their own jobs, through nimod.  Root and the owner of the store see all of
them.
"""

import argparse

from sacct_ingest.errors import NoHistory, SlurmError
from sacct_ingest.text import admin_comment
from slurm_plugin.cli.command_context import add_shared, load_config
from slurm_plugin.cli.through_nimod import TIMEOUT_S, nimod_or_store
from slurm_plugin.config.settings import Config
from slurm_plugin.nimod import query_client
from slurm_plugin.protocol.query_messages import Explanation, explanation_of
from slurm_plugin.reports.why_text import explain
from slurm_plugin.slurm import commands
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import terminal_width

EXAMPLE = "  nimo why 4711\n  nimo why 4711 --json | jq .decision.reason"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", metavar="JOBID", type=_job_id, help="id of the job")
    add_shared(parser, "json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Ask nimod or the store, and print."""
    config = load_config(args, for_user=True)
    decision_id = "" if args.store else _noted(args.job, timeout_s=config.snapshot.timeout_s)
    explanation = nimod_or_store(
        lambda: config,
        lambda: query_client.explain(config.socket, args.job, decision_id, timeout_s=TIMEOUT_S),
        lambda: _stored(config, args.job, decision_id),
        store_named=bool(args.store),
    )
    if explanation.decision is None:
        raise NoHistory(
            f"there is no decision about a job {args.job} that you may see; in observe mode NIMO "
            "finds a job after it has ended and 'nimo ingest' has read the accounting"
        )
    if args.json:
        print(json_text(explanation))
    else:
        print(wrapped(explain(explanation, args.job), terminal_width()))
    return 0


def _noted(job_id: int, *, timeout_s: float) -> str:
    """Id of the decision in the admin_comment of a job that slurmctld still has; else empty."""
    try:
        text = commands.run(("scontrol", "show", "job", str(job_id)), timeout_s=timeout_s)
    except SlurmError:
        return ""
    note = admin_comment.parse(text.replace("AdminComment=", " "))
    return note.decision_id if note else ""


def _stored(config: Config, job_id: int, decision_id: str) -> Explanation:
    with open_store(config) as store:
        pair = store.decisions.of_job(job_id, decision_id=decision_id)
    return explanation_of(*pair) if pair else Explanation()


def _job_id(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711")
    return int(text)
