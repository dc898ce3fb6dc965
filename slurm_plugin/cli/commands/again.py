"""``nimo again``: run a failed job again, with more of what it ran out of."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError, SlurmError
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:  # heavy, and --help needs none
    from slurm_plugin.cli.failed_job import FailedJob
    from slurm_plugin.config.settings import Config

_TIMEOUT_S = 60.0


def run(args: argparse.Namespace) -> int:
    """Print the lines, or submit."""
    from slurm_plugin.cli import failed_job, own_history  # noqa: PLC0415 - heavy

    config = own_history.with_own_store(load_config(args, for_user=True))
    job_id, task = args.job
    job = failed_job.failed_job(job_id, task, config)
    made = failed_job.again(job, config)
    if job.running:
        tasks = count(job.running, "task")
        print(f"nimo again: {tasks} of it still to end, and left out", file=sys.stderr)
    for one in made:
        failed_job.write_script(one.line)
        for note in filter(None, (one.why, *one.line.notes)):
            print(f"nimo again: {note}", file=sys.stderr)
        if not args.submit:
            print(one.line.text)
    if args.submit:
        ids = [_submit(one.line.argv) for one in made]
        for new, one in zip(ids, made, strict=True):
            tasks = f", {count(len(one.tasks), 'task')} of it" if job.array else ""
            print(f"Submitted batch job {new} for job {job_id}{tasks}")
        tasks_of = {new: one.tasks for new, one in zip(ids, made, strict=True)}
        _move_dependents(job, tasks_of, config)
    return 0


def _submit(argv: tuple[str, ...]) -> str:
    from slurm_plugin.slurm import commands  # noqa: PLC0415 - heavy
    from slurm_plugin.slurm.rerun_line import submitted  # noqa: PLC0415

    return commands.submit(submitted(argv), timeout_s=_TIMEOUT_S)


def _move_dependents(job: "FailedJob", tasks_of: dict[str, list[int]], config: "Config") -> None:
    """Have the user's jobs that wait for the old job wait for what stands for it."""
    from slurm_plugin.cli import failed_job  # noqa: PLC0415 - heavy
    from slurm_plugin.slurm import commands  # noqa: PLC0415
    from slurm_plugin.slurm.rerun_line import dependents  # noqa: PLC0415

    ask = partial(commands.run, timeout_s=_TIMEOUT_S)
    try:
        listing = ask(("squeue", "--me", "-h", "-t", "PD", "-o", "%i %E"))
        new = failed_job.successors_of(job, tasks_of, config)
    except NimoError as error:
        print(
            f"nimo again: jobs that wait for the old one were not looked for: {error}",
            file=sys.stderr,
        )
        return
    for waiting, condition in dependents(listing, job.job_id, new).items():
        if condition is None:
            print(f"Job {waiting} waits as before: not all that it waits for runs again")
            continue
        try:
            ask(("scontrol", "update", f"jobid={waiting}", f"dependency={condition}"))
        except SlurmError as error:
            print(f"nimo again: job {waiting} waits as before: {error}", file=sys.stderr)
        else:
            print(f"Job {waiting} waits for the new one now: {condition}")
