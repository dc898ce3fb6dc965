"""Where the files are that come with the product: the Lua hooks, sample settings, units."""

import re
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]

#: Folder of the Lua hooks.
HOOKS = _PACKAGE / "lua"
#: Folder of samples and units: in the package where it is installed, beside it in a checkout.
ETC = _PACKAGE / "etc" if (_PACKAGE / "etc").is_dir() else _PACKAGE.parent / "etc"
#: Hooks that Slurm loads by name; a site may have its own.
ENTRIES = ("cli_filter.lua", "job_submit.lua")

_LOADS_NIMO = re.compile(r"\brequire[,(\s]*\"nimo(?:_\w+)?\"")


def place(folder: Path, hook: str) -> Path:
    """Where a hook is among those beside slurm.conf.

    Under another name where the site has one of its own, which then calls it.
    """
    path = folder / hook
    foreign = hook in ENTRIES and path.exists() and not _is_ours(path)
    return folder / f"nimo_{hook}" if foreign else path


def _is_ours(hook: Path) -> bool:
    return bool(_LOADS_NIMO.search(hook.read_text(errors="replace")))
