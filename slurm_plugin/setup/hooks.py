"""The Lua hooks beside slurm.conf, put there so that no submission meets half of them.

slurmctld loads all of them when job_submit.lua has a newer time stamp, so that one comes last; each
file is there whole or not at all.
"""

import re
from pathlib import Path

from sacct_ingest.errors import ConfigError
from slurm_plugin.setup.files import put
from slurm_plugin.shipped import HOOKS

#: Slurm loads these by name; a site may have its own.
_ENTRIES = ("cli_filter.lua", "job_submit.lua")
_OURS = re.compile(r"\brequire[,(\s]*\"nimo\"")


def install(folder: Path) -> list[Path]:
    """Put the hooks of this release into a folder, in place of those of another one.

    Returns
    -------
    list of Path
        The files that were written; empty where all are there already.

    Raises
    ------
    ConfigError
        There is no such folder, the site has a hook of its own there, or a file cannot be written.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; the hooks go where slurm.conf is")
    for entry in _ENTRIES:
        _refuse_foreign(folder / entry)
    modules = sorted(path.name for path in HOOKS.glob("*.lua") if path.name not in _ENTRIES)
    others = [name for name in (*modules, _ENTRIES[0]) if _differs(folder, name)]
    last = [_ENTRIES[1]] if others or _differs(folder, _ENTRIES[1]) else []
    for name in (*others, *last):
        put(folder / name, (HOOKS / name).read_text())
    return [folder / name for name in (*others, *last)]


def _refuse_foreign(path: Path) -> None:
    if path.exists() and not _OURS.search(path.read_text(errors="replace")):
        raise ConfigError(
            f"{path} is the site's own: docs/hooks.md says how both work together, or move it away"
        )


def _differs(folder: Path, name: str) -> bool:
    path = folder / name
    return not path.exists() or path.read_bytes() != (HOOKS / name).read_bytes()
