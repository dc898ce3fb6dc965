"""Compare predictions and decisions with what happened.

It uses the outcomes that 'nimo ingest' has read.  Where PrivateData hides jobs from other users,
operators see all jobs and others see their own.
"""

from pathlib import Path

from slurm_plugin.cli import command_context

EXAMPLE = """\
  nimo report -S now-7days
  nimo report -p batch -u ada
  nimo report --html report.html --anonymise   # one file, to look at, print and send
  nimo report -P --table problems              # which runs would help most
  nimo report --json --table problems          # the same as JSON
  nimo report -o application,mape%8 --sort=-mape -n
  nimo report --csv tables/ -S 2026-10-01 -E 2026-11-01"""


def add_arguments(add: command_context.Options) -> None:
    """Declare the options."""
    add("-S --since TIME", "decisions since this time", type=command_context.moment)
    add("-E --until TIME", "decisions before this time", type=command_context.moment)
    add("-M --cluster CLUSTER", "decisions about this cluster", default="")
    add("-p --partition PARTITION", "decisions about this partition", default="")
    add("-A --account ACCOUNT", "decisions about this account's jobs", default="")
    add("-u --user USER", "decisions about this user's jobs", default="")
    add("--app APPLICATION", "decisions about this application", default="")
    add(
        "--least-waste NODE_HOURS",
        "name a user from this many node-hours beyond the knee on, and an account from as "
        "many unused CPU-hours (default: 100)",
        default=100.0,
    )
    add("--anonymise --anonymize", "replace the names of users, accounts and applications")
    add("--html FILE", "write the report as a web page; - is stdout", type=Path)
    add("--csv DIR", "write each table as a CSV file into this folder", type=Path)
    add("--table NAME", "print only this table (default with -P: applications)", default="")
    add.table_of_store()
    add.shared("local")
