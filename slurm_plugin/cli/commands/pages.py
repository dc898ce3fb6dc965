"""Write manual pages and shell completion (bash, zsh) of all commands.

The packages contain them.  After an installation with pip, this command writes them into the folder
where man and bash look: /usr/local/share for root, ~/.local/share for other users.  It needs
nimo-slurm[pages].
"""

import argparse
import os
from pathlib import Path

from sacct_ingest.errors import NimoError
from slurm_plugin.cli.command_context import Options

EXAMPLE = "  nimo pages\n  nimo pages /opt/nimo/share"


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("folder FOLDER", "where to write, such as /usr/local/share", nargs="?", type=Path)


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
