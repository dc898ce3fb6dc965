"""Write what your applications need, by their record, as a profile for Snakemake or Nextflow.

A need covers every completed run and a quantile of them with a margin.  A further attempt of
Nextflow doubles what ran out, time or memory; Snakemake does not say which, so both grow.
Applications with fewer than five completed runs are left out.
"""

import argparse
import sys
from difflib import unified_diff
from functools import partial
from pathlib import Path

from sacct_ingest.errors import FormatError, NoHistory
from sacct_ingest.records import KeyLevel
from slurm_plugin.cli import own_history
from slurm_plugin.cli.command_context import add_shared, load_config, option
from slurm_plugin.cli.through_nimod import may_read_store
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.text.formatting import count

EXAMPLE = """\
  nimo export snakemake > profile/config.yaml
  nimo export snakemake --workflow rnaseq --diff profile/config.yaml
  nimo export nextflow --quantile 0.9 --margin 1.5 > nimo.config
  nimo export json | jq .applications[0].time_s"""
_NAMES = ("snakemake", "nextflow", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = partial(option, parser)
    add("format", "what to write: %(choices)s", choices=_NAMES)
    add(
        "--workflow NAME",
        "only runs with this file or folder in the path of their workflow or working directory",
        default="",
    )
    add("-u --user USER", "applications of this user (default: you)", default="")
    add(
        "--quantile QUANTILE",
        "share of the completed runs that a need covers (default: %(default)s)",
        type=_share,
        default=0.95,
    )
    add(
        "--margin MARGIN",
        "factor on this quantile (default: %(default)s)",
        type=_factor,
        default=1.2,
    )
    add("--diff FILE", "show what would change in this file", type=Path)
    add_shared(parser, "local", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Print the profile, or how it differs from the present one."""
    from slurm_plugin.reports import engine_profiles  # noqa: PLC0415 - the database is heavy
    from slurm_plugin.store_access import open_store  # noqa: PLC0415

    config = load_config(args, for_user=True)
    if args.local or not (args.store or may_read_store(config)):
        config = own_history.refreshed(config)
    begin = f"{args.user or user_name()}/"
    needs, few = [], 0
    with open_store(config) as store:
        for key, rows in store.runs.by_key(KeyLevel.TAG):
            if not key.startswith(begin):
                continue
            chosen = engine_profiles.of_workflow(rows, args.workflow) if args.workflow else rows
            need = engine_profiles.need_of(key, chosen, quantile=args.quantile, margin=args.margin)
            needs += [need] if need else []
            few += bool(chosen) and need is None
    if few:
        left_out = f"{count(few, 'application')} with fewer than {engine_profiles.FEWEST}"
        print(f"nimo export: left out {left_out} completed runs", file=sys.stderr)
    if not needs:
        raise NoHistory("no application of a workflow engine or with a tag has enough runs")
    text = engine_profiles.FORMATS[args.format](needs)
    sys.stdout.write(_diff(args.diff, text) if args.diff else text)
    return 0


def _diff(present: Path, text: str) -> str:
    """Show lines that go and come.

    Raises FormatError: the file cannot be read.
    """
    try:
        before = present.read_text()
    except (OSError, ValueError) as error:
        raise FormatError(f"{present}: {error}") from error
    old, new = before.splitlines(keepends=True), text.splitlines(keepends=True)
    return "".join(unified_diff(old, new, str(present), "nimo export"))


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text}: a share above 0 and up to 1, such as 0.95")
    return share


def _factor(text: str) -> float:
    factor = float(text)
    if not 1 <= factor <= 100:
        raise argparse.ArgumentTypeError(f"{text}: a factor from 1 to 100, such as 1.2")
    return factor
