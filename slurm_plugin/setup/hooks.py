"""The Lua hooks beside slurm.conf, put there so that no submission meets half of them.

slurmctld loads all of them when job_submit.lua has a newer time stamp, so that one comes last; each
file is there whole or not at all.
"""

from pathlib import Path

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.shipped_files import ENTRIES, HOOKS, place
from slurm_plugin.setup.compiled_hooks import compile_hooks
from slurm_plugin.setup.files import put

_LOADED = ENTRIES[-1]


def install(folder: Path) -> list[Path]:
    """Put the hooks of this release into a folder, in place of those of another one.

    A hook of the site's own stays, with ours beside it
    (:func:`slurm_plugin.config.shipped_files.place`).

    Returns list of Path: the files that were written, compiled copies too; empty where all are
        there already.
    Raises ConfigError: there is no such folder, or a file cannot be written.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; the hooks go where slurm.conf is")
    names = sorted((path.name for path in HOOKS.glob("*.lua")), key=_rank)
    changed = [name for name in names if _differs(folder, name)]
    # Whatever has changed, slurmctld goes by the time stamp of this one.
    to_write = [*(name for name in changed if name != _LOADED), _LOADED] if changed else []
    written = []
    for name in to_write:
        if name == _LOADED:
            written += compile_hooks(folder)
        written.append(place(folder, name))
        put(written[-1], (HOOKS / name).read_text())
    if to_write:
        (folder / _LOADED).touch()
    return written or compile_hooks(folder)


def _rank(name: str) -> tuple[int, str]:
    """Modules before the hooks that load them."""
    return (ENTRIES.index(name) + 1 if name in ENTRIES else 0), name


def _differs(folder: Path, name: str) -> bool:
    path = place(folder, name)
    return not path.exists() or path.read_bytes() != (HOOKS / name).read_bytes()
