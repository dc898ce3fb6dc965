"""Where the files are that come with the product: the Lua hooks, sample settings, units."""

from importlib.resources import files
from pathlib import Path

_PACKAGE = Path(str(files("slurm_plugin")))

#: Folder of the Lua hooks.
HOOKS = _PACKAGE / "lua"
#: Folder of samples and units: in the package where it is installed, beside it in a checkout.
ETC = _PACKAGE / "etc" if (_PACKAGE / "etc").is_dir() else _PACKAGE.parent / "etc"
