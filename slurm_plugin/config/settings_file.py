"""Which file of settings is in force, and the socket that it names.

To load a reader of YAML takes as long as to start Python: commands that only need nimod's socket
read that line themselves.  Imports nothing heavy.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

SYSTEM_FILE = Path("/etc/nimo/nimo.yaml")
SOCKET = "/run/nimo/nimod.sock"
_LINE = re.compile(r"socket[ \t]*:[ \t]+(/[\w./+-]*)[ \t]*(?:#.*)?")
_PACKAGE = Path(__file__).parents[1]
#: Folder of the Lua hooks.
HOOKS = _PACKAGE / "lua"
#: Folder of samples and units: in the package where it is installed, beside it in a checkout.
ETC = _PACKAGE / "etc" if (_PACKAGE / "etc").is_dir() else _PACKAGE.parent / "etc"
#: Hooks that Slurm loads by name; a site may have its own.
ENTRIES = ("cli_filter.lua", "job_submit.lua")
_LOADS_NIMO = re.compile(r"\brequire[,(\s]*\"nimo(?:_\w+)?\"")


def find(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """File that `slurm_plugin.config.loader.load` reads, None for the built-in defaults."""
    if path is not None:
        return path
    if named := environ.get("NIMO_CONFIG"):
        return Path(named)
    return SYSTEM_FILE if SYSTEM_FILE.exists() else None


def leaves_out(
    section: str, path: Path | None = None, environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether the file in force certainly has no such section, so that its defaults hold.

    section: name of a section, such as ``advise``.
    path, environ: as `slurm_plugin.config.loader.load` takes them.
    """
    chosen = find(path, environ)
    if chosen is None:
        return True
    text = _text(chosen)
    # A name with escapes stands between double quotes.
    return text is not None and "\\" not in text and not _lines_with(section, text)


def socket_of(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Socket that the file in force names, or the usual one.

    None where the whole file has to be parsed: it cannot be read, or the line is no plain one.

    path, environ: as `slurm_plugin.config.loader.load` takes them.
    """
    chosen = find(path, environ)
    if chosen is None:
        return SOCKET
    text = _text(chosen)
    if text is None:
        return None
    lines = _lines_with("socket", text)
    if not lines:
        # Flow style or an alias would not stand at the beginning of a line.
        return None if text.lstrip().startswith(("{", "%", "&", "!", '"', "'")) else SOCKET
    match = _LINE.fullmatch(lines[0].rstrip())
    return match[1] if match and len(lines) == 1 else None


def _text(file: Path) -> str | None:
    """Text of the file; None: it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _lines_with(word: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if word in line and not line.startswith("#")]


def place(folder: Path, hook: str) -> Path:
    """Where a hook is among those beside slurm.conf.

    Under another name where the site has one of its own, which then calls it.
    """
    path = folder / hook
    shared = hook in ENTRIES and path.exists()
    foreign = shared and not _LOADS_NIMO.search(path.read_text(errors="replace"))
    return folder / f"nimo_{hook}" if foreign else path
