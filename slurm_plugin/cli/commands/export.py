"""``nimo export``: write what your workflows' rules need as a profile for their engine."""

import argparse
import sys
from difflib import unified_diff
from functools import partial

from sacct_ingest.errors import NoHistory, SlurmError
from sacct_ingest.records import KeyLevel
from slurm_plugin.cli import own_history
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.cli.options.export import ENGINES
from slurm_plugin.cli.through_nimod import may_read_store
from slurm_plugin.config.yaml_text import read_text
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.text.formatting import count

_TIMEOUT_S = 15.0


def run(args: argparse.Namespace) -> int:
    """Print the profile, or how it differs from the present one."""
    from slurm_plugin.reports import engine_needs, engine_profiles  # noqa: PLC0415 - heavy
    from slurm_plugin.slurm import commands, sources  # noqa: PLC0415
    from slurm_plugin.store_access import open_store  # noqa: PLC0415

    config = load_config(args, for_user=True)
    if args.local or not (args.store or may_read_store(config)):
        config = own_history.refreshed(config)
    user = args.user or user_name()
    tried = []
    few = 0
    with open_store(config) as store:
        for key, rows in store.runs.by_key(KeyLevel.TAG):
            if not key.startswith(f"{user}/"):
                continue
            chosen = engine_needs.of_workflow(rows, args.workflow) if args.workflow else rows
            one = engine_needs.need_of(key, chosen, quantile=args.quantile, margin=args.margin)
            tried += [one] if one else []
            few += bool(chosen) and one is None
    if few:
        left_out = f"{count(few, 'application')} with fewer than {engine_needs.FEWEST}"
        print(f"nimo export: left out {left_out} completed runs", file=sys.stderr)
    if not tried:
        tagged = "of a workflow engine or with a tag"
        raise NoHistory(f"none of {user}'s applications {tagged} has enough runs")
    if args.format in ENGINES:
        ask = partial(commands.run, timeout_s=_TIMEOUT_S)
        try:
            state = sources.read_text("", ask(sources.SINFO), ask(sources.PARTITIONS))
            tried = [(engine_needs.bounded(need, state), runs) for need, runs in tried]
        except SlurmError as error:
            print(f"nimo export: no bounds of partitions are known: {error}", file=sys.stderr)
    text = engine_profiles.FORMATS[args.format]([need for need, _ in tried])
    if args.diff is None:
        sys.stdout.write(text)
        return 0
    present = read_text(args.diff)
    old = present.splitlines(keepends=True)
    new = text.splitlines(keepends=True)
    sys.stdout.writelines(unified_diff(old, new, str(args.diff), "nimo export"))
    if args.format in ENGINES:
        print(*engine_profiles.compared(args.format, present, str(args.diff), tried), sep="\n")
    return 0
