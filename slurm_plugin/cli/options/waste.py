"""Show which node-hours bought nothing, why, and how many of them could come back.

It looks at the jobs in NIMO's store where you may read it, else at those that sacct shows: your
own, and all users' for root and Slurm's operators.  Where PrivateData hides jobs from other users,
operators see all jobs and others see their own.  A node-hour is counted once, under one cause.
"""

from pathlib import Path

from slurm_plugin.cli import command_context

EXAMPLE = """\
  nimo waste
  nimo waste -S now-7days --by application
  nimo waste --by account -n -o account,wasted,share
  nimo waste --plot waste.svg          # for a slide: no names
  nimo waste -A physics --json | jq .back"""
_BY = ("user", "account", "application", "partition")


def add_arguments(add: command_context.Options) -> None:
    """Declare the options."""
    add("files FILE", "saved histories instead, as of 'nimo ingest'", nargs="*", type=Path)
    add(
        "-S --since TIME",
        "jobs submitted since this time (default: now-30days; of files all)",
        type=command_context.moment,
    )
    add("-E --until TIME", "jobs submitted before this time", type=command_context.moment)
    add("-M --cluster CLUSTER", "jobs of this cluster", default="")
    add("-p --partition PARTITION", "jobs in this partition", default="")
    add("-A --account ACCOUNT", "jobs of this account", default="")
    add("-u --user USER", "jobs of this user", default="")
    add("--by", "add a table by user, account, application or partition", choices=_BY, default="")
    add("--plot FILE", "draw the causes into FILE (.svg, .png or .pdf), without names", default="")
    add.shared("local")
    add.table_of_store()
