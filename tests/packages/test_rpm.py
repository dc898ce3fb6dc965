"""The RPM's specification."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from packages import stage

SPEC = stage.PROJECT / "packages" / "rpm" / "nimo-slurm.spec"
pytestmark = pytest.mark.skipif(shutil.which("rpmspec") is None, reason="rpm is not installed")


def parsed(*options: str) -> str:
    defined = [f"--define=project {stage.PROJECT}", f"--define=builder {sys.executable}"]
    done = subprocess.run(
        ["rpmspec", *options, *defined, SPEC], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_rpm_takes_it_with_the_projects_version() -> None:
    assert "%{" not in parsed("-P")
    version = f'version = "{parsed("-q", "--qf", "%{version}")}"'
    assert version in (stage.PROJECT / "pyproject.toml").read_text()


def test_it_lists_all_files_that_are_staged(tmp_path: Path) -> None:
    root = tmp_path / "root"
    stage.stage(
        root,
        python=Path(sys.executable),
        zsh="usr/share/zsh/site-functions",
        fill=lambda python: None,
    )
    section = parsed("-P").partition("%files\n")[2]
    listed = [line.split()[-1] for line in section.splitlines() if line.startswith(("/", "%"))]
    staged = [f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()]
    assert [path for path in staged if not covered(path, listed)] == []


def covered(path: str, listed: list[str]) -> bool:
    places = [Path(path), *Path(path).parents]
    return any(place.match(pattern) for place in places for pattern in listed)
