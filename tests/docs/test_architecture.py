"""The page on architecture is that of the tree: its pictures, its folders, the files it names."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
#: Folders without code of their own to look for.
_WITHIN = {"commands", "templates", "migrations", "versions", "__pycache__"}
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def layers(package):
    """What may import what in a package, by its import contract: the highest layer first."""
    (own,) = (one for one in _SETTINGS["contracts"] if one.get("containers") == [package])
    return [set(layer.split(" | ")) for layer in own["layers"]]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_of_a_package_is_its_import_contract(package):
    (picture,) = re.findall(rf"```\n{package}/\n(.*?)```", PAGE, flags=re.DOTALL)
    drawn = [set(row.strip().split(", ")) for row in picture.splitlines()]
    assert drawn == layers(package)


def test_every_folder_of_the_packages_is_in_the_table():
    table = PAGE.partition("## The folders")[2].partition("## ")[0]
    named = set(re.findall(r"`(?:\w+/)*(\w+)/`", table))
    folders = {
        path.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_dir() and any(path.glob("*.py")) and path.name not in _WITHIN
    }
    assert folders - named - {"adept", "relay"} == set()


def test_the_files_that_it_names_exist():
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|lua))`", PAGE))
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.[pl][yu]*")]
    files = [path.relative_to(ROOT).as_posix() for path in sources]
    missing = [one for one in named if not any(f"/{file}".endswith(f"/{one}") for file in files)]
    assert {"policy.py", "runs_from_rows.py", "add_runs.py"} < named
    assert missing == []
