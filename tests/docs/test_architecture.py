"""The page on architecture is that of the tree: its pictures, its folders, the files it names."""

import re
import tomllib
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
#: Folders without code of their own to look for.
_WITHIN = {"commands", "templates", "migrations", "versions", "__pycache__"}
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def layers() -> list[set[str]]:
    """Folders of slurm_plugin on each layer of the import contracts, the highest first."""
    contracts = [one for one in _SETTINGS["contracts"] if one["type"] == "layers"]
    (own,) = (one for one in contracts if "slurm_plugin.cli" in one["layers"])
    names = [re.findall(r"slurm_plugin\.(\w+)", layer) for layer in own["layers"]]
    folders = [{name for name in row if (ROOT / "slurm_plugin" / name).is_dir()} for row in names]
    return [row for row in folders if row]


def test_the_picture_of_slurm_plugin_is_its_import_contract() -> None:
    (picture,) = re.findall(r"```\n(cli\n.*?)```", PAGE, flags=re.DOTALL)
    assert [set(row.split(", ")) for row in picture.splitlines()] == layers()


def test_every_folder_of_the_packages_is_in_the_table() -> None:
    table = PAGE.partition("## The folders")[2].partition("## ")[0]
    named = set(re.findall(r"`(?:\w+/)*(\w+)/`", table))
    folders = {
        path.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_dir() and any(path.glob("*.py")) and path.name not in _WITHIN
    }
    assert folders - named - {"adept", "relay"} == set()


def test_the_files_that_it_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|lua))`", PAGE))
    files = [path.relative_to(ROOT).as_posix() for path in _sources()]
    missing = [one for one in named if not any(f"/{file}".endswith(f"/{one}") for file in files)]
    assert {"policy.py", "fold.py", "add_runs.py"} < named
    assert missing == []


def _sources() -> list[Path]:
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.[pl][yu]*")]
