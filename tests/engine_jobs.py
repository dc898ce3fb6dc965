"""Submissions of workflow engines, recorded or made from their sources' own templates."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from sacct_ingest.job_run import JobRun
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.job_request import Submitter, job_fields
from tests.sacct_ingest.records import SUBMIT_S, run

_FILE = Path(__file__).parent / "data" / "engines.jsonl"
_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"


@cache
def submissions() -> list[dict[str, Any]]:
    """Give what engines handed to sbatch, and what their jobs are."""
    return [json.loads(line) for line in _FILE.read_text().splitlines()]


def job_of(one: dict[str, Any], user: str = "ada") -> Job:
    """Make the request that nimod sees."""
    command = parse_command_line(one["argv"])
    script = one["script"] or _WRAPPED.format(command.options["wrap"])
    given = job_fields(
        command, script, Submitter(user, 1001, one["work_dir"]), now_s=float(SUBMIT_S)
    )
    return Job(**given)


def run_of(one: dict[str, Any], **given: Any) -> JobRun:
    """Make the run that sacct shows."""
    job = job_of(one)
    return run(
        name=job.name,
        comment=job.comment,
        submit_line=" ".join(one["argv"]),
        work_dir=job.work_dir,
        nodes=1,
        **{"limit_s": 60 * (job.time_limit or 60), **given},
    )
