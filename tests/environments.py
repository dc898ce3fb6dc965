"""Environments that hold the project's wheel and borrow what it needs: made in seconds."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1]


def make_wheel(folder: Path) -> Path:
    """Build the project's wheel there, unless NIMO_WHEEL names that of `make release`."""
    if released := os.environ.get("NIMO_WHEEL"):
        return Path(released)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, PROJECT],
        check=True,
    )
    (made,) = folder.glob("*.whl")
    return made


def fill(python: Path, wheel: Path, extras: Sequence[str] = ()) -> None:
    """Put the wheel into an environment, and links to what it asks for.

    Installing all of that anew takes half a minute.
    """
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, wheel], check=True)
    (site_packages,) = python.parents[1].glob("lib/python*/site-packages")
    (metadata,) = site_packages.glob("nimo_slurm-*.dist-info")
    for name in sorted(_needed(PathDistribution(metadata).requires or [], extras)):
        _lend(name, site_packages)


def _needed(requirements: list[str], extras: Sequence[str] = ()) -> set[str]:
    """Names of the distributions that these requirements lead to, with those of some extras."""
    result: set[str] = set()
    waiting = [(Requirement(text), extras) for text in requirements]
    while waiting:
        one, chosen = waiting.pop()
        names = ("", *chosen)
        if one.marker and not any(one.marker.evaluate({"extra": name}) for name in names):
            continue
        if one.name not in result:
            result.add(one.name)
            more = distribution(one.name).requires or []
            waiting += [(Requirement(text), tuple(one.extras)) for text in more]
    return result - {"nimo-slurm"}  # an extra that is made of others names it


def _lend(name: str, site_packages: Path) -> None:
    owner = distribution(name)
    for top in {path.parts[0] for path in owner.files or []} - {"..", "__pycache__"}:
        target = site_packages / top
        if not target.exists():
            target.symlink_to(Path(str(owner.locate_file(top))))
