"""The ``nimo-advise`` command: which node count for this job script, and how sure is that.

It stands where sbatch would: all of sbatch's options are taken, with the script and its arguments.
Starts fast: its help needs options only, and :mod:`advice_requests` answers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurm_plugin.cli import plot
from slurm_plugin.cli.command_context import Options, user_settings
from slurm_plugin.cli.common_options import HelpFormatter, add_manners, number
from slurm_plugin.cli.exit_status import guarded, listed

if TYPE_CHECKING:
    from slurm_plugin.text.table_columns import Table

_EPILOG = """\
nimo-advise reads all options of sbatch and its SBATCH_ variables.  The command line overrides the
variables, and they override the script.  With --test-only it also asks Slurm for start times.

examples:
  nimo-advise job.sh
  nimo-advise --deadline=now+4hours -p long job.sh input.dat
  nimo-advise --deadline=now+4hours --confidence=99 job.sh
  nimo-advise --json job.sh | jq .nodes
  nimo-advise -P job.sh | cut -d'|' -f1,2
  nimo-advise --format=nodes,time,ends%-14 --sort=-nodes --noheader job.sh
  nimo-advise --plot job.sh
  nimo-advise --plot=curve.svg job.sh
  nimo-advise --store history.db job.sh
  nimo-advise --local job.sh
  nimo-advise --application wrf-d02
  echo '{"id": 7, "argv": ["-N", "1-8", "job.sh"]}' | nimo-advise --json-lines
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``nimo-advise`` with these arguments (default: the process's); return its status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded("nimo-advise", lambda: _advise(arguments))


def tables() -> list[Table]:
    """Give what it prints, without rows."""
    from slurm_plugin.protocol.advice_messages import Advice  # noqa: PLC0415 - help needs none
    from slurm_plugin.reports.advice_text import scripts_table  # noqa: PLC0415

    return [scripts_table(Advice(), now_s=0.0)]


def parser() -> argparse.ArgumentParser:
    """Make the parser of the options that sbatch does not have."""
    made = argparse.ArgumentParser(
        prog="nimo-advise",
        description="Predicts run time over node counts for a job script and recommends a count.",
        usage="nimo-advise [OPTION...] [OPTION OF SBATCH...] SCRIPT [ARGUMENT...]",
        epilog=f"{_EPILOG}\n{listed('advise')}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    add_manners(made)
    add = Options(made)
    add("--all", "show all node counts")
    add("-v --verbose", "show how the job was recognised, and all problems")
    add.table()  # -o, -u and -n are sbatch's
    add(
        "--application NAME",
        "advise on the job that your runs of this application usually were, without a script",
        default="",
    )
    add("--user NAME", "user of the job (default: you)", default="")
    add(
        "--confidence PERCENT",
        "required chance to make the deadline (default: the site's, 95)",
        type=_share,
        default=0.0,
    )
    add(
        "--json-lines",
        "read many requests from standard input, one JSON object a line, and answer each",
    )
    plot.add_plot(add)
    add.shared("parsable", "json", "config", "local", "store")
    return made


def _share(percentage: str) -> float:
    read = number(lambda one: 50 < one < 100, "above 50 and below 100")
    return read(percentage.removesuffix("%")) / 100


def split_arguments(
    arguments: Sequence[str], made: argparse.ArgumentParser | None = None
) -> tuple[list[str], list[str]]:
    """Part our own options from sbatch's command line, which ends the options with the script.

    made: the parser of our own; all others are sbatch's.

    >>> split_arguments(["--json", "-N", "4", "--store=a.db", "job.sh", "--json"])
    (['--json', '--store=a.db'], ['-N', '4', 'job.sh', '--json'])
    """
    actions = (made or parser())._option_string_actions
    own: list[str] = []
    sbatch: list[str] = []
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        name = word.partition("=")[0]
        action = actions.get(name)
        into = sbatch if action is None else own
        into.append(word)
        if action is None or not words or "=" in word:
            follows = bool(words) and "=" not in word and _takes_next(name)
        else:  # that of --plot may be left out
            follows = plot.is_file(words[0]) if action.nargs == "?" else action.nargs is None
        if follows:
            into.append(words.pop(0))
    return own, sbatch + words


def _takes_next(word: str) -> bool:
    """Whether the value of sbatch's option ``word`` is the next word."""
    from sacct_ingest.scripts.job_script import Value, lookup  # noqa: PLC0415 - help needs none

    if word.startswith("--"):
        option = lookup("sbatch", word[2:])
        return option is not None and option[1] is Value.NEEDED
    # Letters may stand together (-vN 4); the first that takes a value ends them.
    kinds = [option[1] if (option := lookup("sbatch", letter)) else None for letter in word[1:]]
    return Value.NEEDED in kinds and kinds.index(Value.NEEDED) == len(kinds) - 1


def _advise(arguments: Sequence[str]) -> int:
    made = parser()
    own, sbatch = split_arguments(arguments, made)
    args = made.parse_args(own)
    if (args.json or args.parsable2) and args.plot == plot.TERMINAL:
        made.error("--plot does not go with --json or -P; --plot=FILE writes a picture")
    if args.application and (sbatch or args.json_lines):
        made.error("--application takes no script, no option of sbatch and no --json-lines")
    from slurm_plugin.cli import advice_requests  # noqa: PLC0415 - help needs none

    settings = user_settings(args)
    if args.json_lines:
        if sbatch:
            made.error("--json-lines takes the options of sbatch in each line's argv")
        return advice_requests.answer_lines(args, settings)
    return advice_requests.answer_one(args, sbatch, settings, made.error)
