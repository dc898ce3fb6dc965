"""``nimo-advise --test-only``: Slurm's own start estimates, beside ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import JobRefused, SlurmError
from sacct_ingest.scripts.job_script import parse_command_line
from slurm_plugin.protocol.advice_messages import Advice, Row
from slurm_plugin.slurm.job_request import JobFields
from slurm_plugin.slurm.start_estimate import EstimateRequest, StartEstimateCache, run, starts

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Advise

_STDIN = ("", "-")


def submission_of(words: Sequence[str], script_text: str) -> EstimateRequest:
    """Command line of sbatch, without its first word, apart.

    >>> submission_of(["--test-only", "-N", "4", "job.sh", "x"], "")
    EstimateRequest(options=('-N', '4'), script=('job.sh', 'x'), text='')
    """
    command = parse_command_line(["sbatch", *words])
    script = (command.script, *command.arguments) if command.script else ()
    options = words[: len(words) - len(script)]
    if "wrap" in command.options or command.script not in _STDIN:
        text = ""
    else:
        text, script = script_text, ()
    passed = tuple(word for word in options if word not in ("--test-only", "--"))
    return EstimateRequest(options=passed, script=script, text=text)


def counts_of(rows: Sequence[Row], most: int) -> list[int]:
    """Node counts worth asking about: the recommended one, then those that end first."""

    def rank(row: Row) -> tuple[bool, float]:
        return not row.recommended, (row.wait_s or 0.0) + row.time_s

    return [row.nodes for row in sorted(rows, key=rank)[:most]]


def check(words: Sequence[str], script_text: str, how: Advise) -> None:
    """Ask Slurm whether it would accept the job.

    Raises JobRefused: Slurm would refuse it.
    """
    submission = submission_of(words, script_text)
    try:
        run(submission.argv(), submission.text, environ=os.environ, timeout_s=how.timeout_s)
    except JobRefused as error:
        raise JobRefused(f"Slurm would refuse this job: {error}", error.exit_status) from error
    except SlurmError:
        return  # Slurm is not here, or has no time: nothing speaks against the job


def add(advice: Advice, words: Sequence[str], job: JobFields, how: Advise, *, now_s: float) -> None:
    """Put Slurm's estimates into the rows of an advice.

    Raises SlurmError: Slurm gives none, or the site does not allow the request.
    """
    if not how.test_only:
        raise SlurmError("this site does not let nimo-advise ask for them")
    if job.get("het_job_offset") is not None:
        raise SlurmError("not for heterogeneous jobs")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    starts_s = starts(
        submission_of(words, job["script"]),
        counts_of(advice.rows, how.calls),
        partial(run, environ=os.environ, timeout_s=how.timeout_s),
        StartEstimateCache(Path(cache) / "nimo" / "estimates.json", keep_s=how.cache_s),
        now_s=now_s,
    )
    for row in advice.rows:
        if row.nodes in starts_s:
            row.slurm_wait_s = max(starts_s[row.nodes] - now_s, 0.0)
