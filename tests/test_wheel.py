"""The wheel: all that the product is, outside the checkout.  The demo's tests run it from there."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import scratch_directory
from tests.environments import PROJECT
from tests.processes import Account

#: Folder of the checkout -> where its files are in the wheel.
PLACES = {
    "sacct_ingest": "sacct_ingest",
    "predictor": "predictor",
    "slurm_plugin": "slurm_plugin",
    "etc": "slurm_plugin/etc",
}


def _sources():
    listing = subprocess.run(
        ["git", "ls-files", *PLACES], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout: what belongs to the project is not known")
    for line in listing.stdout.splitlines():
        top, _, rest = line.partition("/")
        yield f"{PLACES[top]}/{rest}"


def test_the_wheel_holds_every_file_of_the_packages_and_etc(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = set(_sources())
    assert "slurm_plugin/lua/job_submit.lua" in expected
    assert "slurm_plugin/etc/systemd/nimod.service" in expected
    assert expected <= held
    assert not [name for name in held if name.startswith(("tests/", "benchmarks/"))]


def test_python_runs_it_as_a_module(scripts, tmp_path):
    command = [scripts / "python", "-m", "slurm_plugin", "advise", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: nimo-advise")


def test_the_hooks_are_located_in_the_environment(scripts, tmp_path):
    done = subprocess.run(
        [scripts / "nimo", "hook-path"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(scripts.parent)
    assert (folder / "job_submit.lua").exists()


def test_all_in_one_file_runs_for_a_user_without_rights(wheel, tmp_path):
    if not (wheel.parent / "nimo.pyz").exists():
        pytest.skip("make test-release looks at what make release built")
    with scratch_directory("nimo-pyz-") as folder:
        program = shutil.copy(wheel.parent / "nimo.pyz", folder)
        account = Account.of("nobody") if os.geteuid() == 0 else Account.mine()
        os.chown(folder, account.uid, account.gid)
        done, stopped = (
            subprocess.run(
                ["/usr/bin/python3", program, "demo", *words, "--directory", folder / "demo"],
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": os.defpath, "HOME": str(folder)},
                **account.popen_arguments(),
            )
            for words in ([], ["--stop"])
        )
    assert "$ nimo report" in done.stdout, done.stderr
    assert "is stopped" in stopped.stdout, stopped.stderr
