"""The RPM's specification; with NIMO_RPM naming one (`make test-rpm`), the whole package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from packages import stage
from packages.manual import page_of
from slurm_plugin.cli.nimo import COMMANDS
from tests.conftest import scratch_directory
from tests.packages.system import NoSystemError, system_copy

WHOLE = os.environ.get("NIMO_RPM", "")
whole = pytest.mark.skipif(not WHOLE, reason="make test-rpm looks at the whole package")
SPEC = stage.PROJECT / "packages" / "rpm" / "nimo-slurm.spec"
pytestmark = pytest.mark.skipif(shutil.which("rpmspec") is None, reason="rpm is not installed")


def parsed(*options):
    defined = [f"--define=project {stage.PROJECT}", f"--define=builder {sys.executable}"]
    done = subprocess.run(
        ["rpmspec", *options, *defined, SPEC], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_rpm_takes_it_with_the_projects_version():
    assert "%{" not in parsed("-P")
    version = f'version = "{parsed("-q", "--qf", "%{version}")}"'
    assert version in (stage.PROJECT / "pyproject.toml").read_text()


def test_the_newest_entry_of_its_changelog_is_this_version():
    entry = parsed("-P").partition("%changelog\n* ")[2].splitlines()[0]
    assert entry.endswith(f" - {parsed('-q', '--qf', '%{version}')}-1")


def test_lines_of_its_description_fit_a_terminal():
    assert [
        line for line in parsed("-q", "--qf", "%{description}").splitlines() if len(line) > 80
    ] == []


def test_it_lists_all_files_that_are_staged(tmp_path):
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


def said(*options):
    ask = ["rpm", "-qp", *options, WHOLE]
    done = subprocess.run(ask, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@whole
def test_it_holds_all_that_a_site_needs():
    held = set(said("-l").splitlines())
    units = {
        f"/usr/lib/systemd/system/{path.name}" for path in (stage.PROJECT / "etc/systemd").iterdir()
    }
    pages = {f"/usr/share/man/man1/{page_of(name)}.1.gz" for name in (*COMMANDS, "advise", "lab")}
    assert units | pages <= held
    assert any(path.endswith("slurm_plugin/lua/job_submit.lua") for path in held)
    assert any(path.endswith("store/migrations/versions/0013_first_schema.py") for path in held)
    assert [path for path in held if ".build-id" in path] == []


@pytest.mark.skipif(shutil.which("rpmlint") is None, reason="rpmlint is not installed")
@pytest.mark.parametrize("path", [SPEC, pytest.param(WHOLE, marks=whole)], ids=["spec", "whole"])
def test_rpmlint_finds_no_error(path):
    filters = stage.PROJECT / "packages" / "rpm" / "rpmlint.toml"
    done = subprocess.run(
        ["rpmlint", "-c", filters, path],
        cwd=stage.PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " E: " not in done.stdout


@whole
def test_what_it_needs_and_who_owns_it():
    needed = said("--requires").splitlines()
    assert [line for line in needed if line.startswith("python(abi) = 3.")]
    assert "lua-socket" in needed
    rows = said("--qf", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]")
    files = [line.split(maxsplit=3) for line in rows.splitlines()]
    assert {tuple(row[1:3]) for row in files} == {("root", "root"), ("nimo", "nimo")}
    assert [row[3] for row in files if row[1] == "nimo"] == ["/var/lib/nimo"]
    assert [row[3] for row in files if row[0][0] != "l" and "w" in row[0][5:]] == []
    assert said("-c").splitlines() == ["/etc/nimo/nimo.yaml"]


@pytest.fixture
def system():
    try:
        with scratch_directory("nimo-rpm-") as folder, system_copy(folder) as made:
            yield made
    except NoSystemError as error:
        pytest.skip(str(error))


@whole
def test_install_use_and_erase(system, tmp_path):
    # Nothing of a Debian system is known to RPM.
    put = Path(shutil.copy(WHOLE, tmp_path))
    system.run("rpm", "--install", "--nodeps", put)
    assert system.run("nimo", "-V").stdout.startswith("nimo 0")
    assert system.run("stat", "-c", "%U:%G %a", "/var/lib/nimo").stdout == "nimo:nimo 750\n"
    as_nimo = ("runuser", "-u", "nimo", "--")
    done = system.run(*as_nimo, "nimo", "demo", "--directory", "/var/lib/nimo/demo")
    assert "$ nimo report" in done.stdout
    system.run(*as_nimo, "nimo", "demo", "--stop", "--directory", "/var/lib/nimo/demo")
    system.run("rpm", "--erase", "nimo-slurm")
    assert not system.exists("/usr/bin/nimo")
    assert not system.exists(str(stage.HOME))
    assert system.exists("/var/lib/nimo/demo/nimo.db")


def covered(path, listed):
    places = [Path(path), *Path(path).parents]
    return any(place.match(pattern) for place in places for pattern in listed)
