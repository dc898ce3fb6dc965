"""Write manual pages, and completion for bash and zsh, of all commands.

Packages have them.  After pip this command writes them: for root below /usr/local/share, for others
below ~/.local/share, where man and bash look for them.  It needs nimo-slurm[pages].
"""

import argparse
import os
from pathlib import Path

from sacct_ingest.errors import NimoError

EXAMPLE = "  nimo pages\n  nimo pages /opt/nimo/share"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, help="a folder share, to write below"
    )


def run(args: argparse.Namespace) -> int:
    """Write, and print what was written."""
    try:
        from slurm_plugin.cli import manual  # noqa: PLC0415 - with what only it needs
    except ModuleNotFoundError as error:
        raise NimoError(f"{error.name} is missing: pip install 'nimo-slurm[pages]'") from error
    usual = Path("/usr/local/share") if os.geteuid() == 0 else Path.home() / ".local" / "share"
    folder = args.folder or usual
    try:
        written = manual.write(folder)
    except OSError as error:
        raise NimoError(f"{error.filename or folder}: {error.strerror or error}") from error
    for path in written:
        print(path)
    return 0
