"""An sdist and a container's image get all the files that their builds read."""

import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from packages import stage
from tests.packages.test_recipes import WORKFLOWS

CONTAINERFILE = (stage.PROJECT / "packages" / "container" / "Containerfile").read_text()
#: Settings of tools that only a clone has.
OF_A_CLONE = {"/.ci", "/.gitignore", "/.pre-commit-config.yaml"}
#: Hatchling takes it without being asked.
ALWAYS = {"/pyproject.toml"}
#: An image that nobody can replace by another one under the same name.
BY_DIGEST = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def test_an_sdist_has_what_git_has():
    listing = subprocess.run(
        ["git", "ls-files"], cwd=stage.PROJECT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout: what belongs to the project is not known")
    expected = {f"/{path.partition('/')[0]}" for path in listing.stdout.splitlines()}
    settings = tomllib.loads((stage.PROJECT / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {*included} == expected - OF_A_CLONE - ALWAYS


def test_the_files_that_an_image_copies_build_the_wheel(tmp_path):
    pytest.importorskip("hatchling")
    place = tmp_path / "context"
    for line in re.findall(r"^COPY (.*)", CONTAINERFILE, re.MULTILINE):
        *sources, target = line.split()
        for name in sources:
            path = stage.PROJECT / name
            if path.is_dir():
                shutil.copytree(path, place / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (place / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place / target)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [*tmp_path.glob("nimo_slurm-*.whl")]


def test_all_that_an_image_installs_is_pinned_to_hashes():
    installs = re.findall(r"pip install ([^&]*)", CONTAINERFILE)
    assert len(installs) == 3
    for words in installs:
        assert "--require-hashes" in words or "--no-deps" in words, words


def test_images_are_named_by_their_digest():
    (base,) = re.findall(r"^ARG BASE=(.*)", CONTAINERFILE, re.MULTILINE)
    images = [base]
    for path in WORKFLOWS.values():
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        images += [job["container"] for job in jobs if "container" in job]
    assert len(images) > 2
    assert [image for image in images if not BY_DIGEST.fullmatch(image)] == []
