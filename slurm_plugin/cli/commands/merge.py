"""Merge run times by node type from other stores into this one.

aprof's sums over the runs of each application on each node type are added.  Predictions for a node
type then use the runs of all clusters.  Each run counts once, in any order of merges.  This store's
own runs stay as they are.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.store import contribution_file as exported
from slurm_plugin.cli.command_context import add_shared, load_config, option
from slurm_plugin.cli.progress import waiting
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:
    from sacct_ingest.store import Store

EXAMPLE = """\
  nimo merge /mnt/oak/nimo.db
  nimo merge postgresql://nimo@oak/nimo
  nimo merge --export pine.sums
  nimo merge pine.sums --json"""


@dataclass(frozen=True, slots=True)
class _Merged:
    """Result of merging one source."""

    source: str
    new: int  #: runs that were added or updated
    refused: int = 0
    first_refused: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    option(parser, "source SOURCE", "store (file or URL), or file of --export", nargs="*")
    option(
        parser,
        "--export FILE",
        "write this store's sums of runs to FILE, for another store to merge",
        type=Path,
    )
    add_shared(parser, "json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Merge each source, then export."""
    with open_store(load_config(args)) as store, waiting("merging"):
        done = [_merge(store, source) for source in args.source]
        written = exported.write(args.export, store.sums.contributions()) if args.export else None
    if args.json:
        print(json.dumps({"merged": [asdict(one) for one in done], "exported": written}))
        return 0
    for one in done:
        print(f"{one.source}: {count(one.new, 'run')} came in")
        if one.refused:
            print(f"  {count(one.refused, 'line')} left out; the first: {one.first_refused}")
    if written is not None:
        print(f"{args.export}: {count(written, 'run')} written")
    elif not done:
        print("nothing to merge: name a store, or a file of --export")
    return 0


def _merge(store: "Store", source: str) -> _Merged:
    # Database and numbers are heavy, and --help needs none.
    from predictor.node_types import sums  # noqa: PLC0415
    from sacct_ingest.store import Store  # noqa: PLC0415

    if exported.is_one(Path(source)):
        refused = exported.ContributionRefused()
        new = sums.merge(store, exported.read(Path(source), refused))
        return _Merged(source, new, refused.count, refused.first)
    with Store.open(source, create=False) as other:
        return _Merged(source, sums.merge(store, other.sums.contributions()))
