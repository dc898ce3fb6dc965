"""What sbatch, sacct and scontrol are in the demo's folder: they act on its accounting.

A submission asks nimod as the hook does, and its run is over at once.  Then its accounting is read
and fitted, as timers do at a site.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from sacct_ingest.errors import NimoError, ScriptError
from sacct_ingest.scripts.job_script import CommandLine, parse_command_line
from slurm_plugin.demo import history
from slurm_plugin.demo.accounting import moment, sacct, scontrol
from slurm_plugin.demo.nimod_process import await_decisions, reload
from slurm_plugin.demo.sandbox import DELIMITER, HISTORY, DemoSite, sacct_text
from slurm_plugin.demo.submissions import DemoSubmission, run, submit
from slurm_plugin.nimod import client
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.job_request import JobFields, Submitter, job_fields, user_name

#: Run time of a job that the made-up cluster does not know, in seconds.
_SHORT_S: Final = 20.0
_FIRST_ID: Final = 910_000


def main(name: str, folder: str, words: Sequence[str]) -> int:
    """Run one of the commands in place of Slurm's; gives its exit status."""
    site = DemoSite.of(Path(folder))
    try:
        return _COMMANDS[name](site, words)
    except (NimoError, OSError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 1


def _sbatch(site: DemoSite, words: Sequence[str]) -> int:
    command = parse_command_line(["sbatch", *words])
    submission, job = _submission(command)
    job_id = _next_id(site)
    if submission.low > history.NODES:
        raise ScriptError("Batch job submission failed: Node count specification invalid")
    if "test-only" in command.options:
        at = moment(time.time())
        print(f"sbatch: Job {job_id} to start at {at} on {submission.high} nodes", file=sys.stderr)
        return 0
    try:
        answer = submit(site.socket, job)
    except client.Unreachable:
        answer = Answer()
    print(answer.message, end="\n" * bool(answer.message), file=sys.stderr)
    if answer.action == "refuse":
        raise ScriptError("Batch job submission failed: Unspecified error")
    rng = Random(job_id)  # noqa: S311 - made-up run, no secret
    now_s = int(time.time())
    made = run(submission, answer, job_id=job_id, submit_s=now_s, uid=os.getuid(), rng=rng)
    print(job_id if "parsable" in command.options else f"Submitted batch job {job_id}", flush=True)
    _account(site, replace(made, name=job.name, submit_line=" ".join(["sbatch", *words])))
    return 0


def _submission(command: CommandLine) -> tuple[DemoSubmission, Job]:
    user = user_name()
    wrapped = command.options.get("wrap")
    script = f"#!/bin/sh\n{wrapped}\n" if wrapped else Path(command.script).read_text()
    submitter = Submitter(user, os.getuid(), str(Path.cwd()))
    fields: JobFields = {"partition": "batch", "hook": HookLevel.SIZES}
    fields |= job_fields(command, script, submitter, now_s=time.time())
    job = Job(**fields)
    called = " ".join([Path(command.script).name, *command.arguments]).strip()
    made_up = (*history.applications(user), history.newcomer(user))
    application = next((one for one in made_up if one.command == called), None)
    if application is None:
        application = history.Application(
            job.name,
            user,
            called or job.name,
            {},
            _SHORT_S,
            serial_s=0.0,
            trouble=0.0,
            script_min=60,
        )
    low = job.min_nodes or 1
    submission = DemoSubmission(
        application=application, nodes=f"{low}-{max(low, job.max_nodes or low)}", place=job.work_dir
    )
    return submission, job


def _next_id(site: DemoSite) -> int:
    lines = (site.folder / HISTORY).read_text(encoding="utf-8").splitlines()
    newest = int(lines[-1].split(DELIMITER)[1].partition(".")[0])
    return max(_FIRST_ID, newest + 1)


def _account(site: DemoSite, made: history.MadeJob) -> None:
    """Add a run to the accounting, and have it read and fitted."""
    _, *rows = sacct_text([made])
    with (site.folder / HISTORY).open("a", encoding="utf-8") as file:
        file.writelines(rows)
    new = site.folder / "sacct-new.txt"
    new.write_text("".join(sacct_text([made])), encoding="utf-8")
    with suppress(client.Unreachable):
        await_decisions(site)
    code = (
        "import sys; from slurm_plugin.cli.nimo import main; "
        "sys.exit(main(['ingest', sys.argv[1]]) or main(['fit', '--workers', '1']))"
    )
    environment = {**os.environ, "NIMO_CONFIG": str(site.config)}
    subprocess.run(
        [sys.executable, "-c", code, str(new)], env=environment, check=False, capture_output=True
    )
    with suppress(client.Unreachable):
        reload(site)


_COMMANDS = {"sbatch": _sbatch, "sacct": sacct, "scontrol": scontrol}
