"""Show NIMO on a simulated cluster: history, fit, advice, submissions, report.

It needs neither Slurm nor root.  It writes only into its own folder.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from sacct_ingest.errors import NimoError, system_errors
from slurm_plugin.cli.command_context import Options
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.slurm.job_request import user_name

EXAMPLE = "  nimo demo\n  nimo demo --directory /tmp/nimo-demo --seed 3"

_LONGEST_SOCKET = 108  #: bytes, with the zero at the end


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add(
        "--directory FOLDER",
        "folder for all its files (default: %(default)s)",
        type=Path,
        default=Path(".demo"),
    )
    add("--seed SEED", "seed of the generated history (default: 1)", type=int, default=1)


def run(args: argparse.Namespace) -> int:
    """Give the tour."""
    from slurm_plugin.demo.tour import Narrator, tour  # noqa: PLC0415 - loads numpy

    rng = Random(args.seed)  # noqa: S311 - made-up history, no secret
    folder = args.directory.absolute()
    with system_errors(NimoError, folder, "; see --directory"):
        folder.mkdir(parents=True, exist_ok=True)
    with _socket(folder) as socket:
        narrator = Narrator(DemoSite(folder, socket), sys.stdout)
        tour(narrator, user=user_name(), uid=os.getuid(), clock=time.time, rng=rng)
    return 0


@contextmanager
def _socket(folder: Path) -> Iterator[Path]:
    """Choose a place for nimod's socket whose path is short enough for one (unix(7))."""
    if len(os.fsencode(folder / "nimod.sock")) < _LONGEST_SOCKET:
        yield folder / "nimod.sock"
        return
    with tempfile.TemporaryDirectory(prefix="nimo-demo-") as short:
        yield Path(short) / "nimod.sock"
