"""Tests that fail run once more: with new fixtures, and nothing of the first run is lost."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "pytest-once-more"
#: A server that a test uses up: the next one in the same process cannot pass.
USED_UP = """\
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def server():
    return []

def test_uses_it_up(server):
    runs = Path(__file__).with_name("runs")
    server.append("used")
    first = not runs.exists()
    runs.touch()
    assert server == ["used"]
    assert not first or {fails_twice!r} == "", "the first failure"
    assert {fails_twice!r} != "yes", "the second failure"

def test_passes():
    with Path(__file__).with_name("passes").open("a") as calls:
        calls.write("x")
"""


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    pytest = [sys.executable, "-m", "pytest", "--rootdir", folder, folder, *options]
    return subprocess.run(
        ["sh", SCRIPT, *pytest],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NIMO_TEST_MINUTES": "10"},
    )


def test_two_may_pass_in_a_second_run_and_are_named(tmp_path):
    def again(option: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", SCRIPT, option], check=False, capture_output=True, text=True, cwd=tmp_path
        )
        return done.returncode, done.stdout

    text = USED_UP.format(fails_twice="no")
    assert again("--verdict") == (0, "pytest-once-more: no test needed a second run\n")
    for times in (1, 2, 3):
        (tmp_path / "runs").unlink(missing_ok=True)
        done = run(tmp_path, text)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "AssertionError: the first failure" in done.stdout
        assert "1 failed, 1 passed" in done.stdout
        assert (tmp_path / "passes").read_text() == times * "x"
        status, said = again("--verdict")
        assert status == (times > 2)
        assert said.count("test_it.py::test_uses_it_up") == times
        assert "test_passes" not in said
    again("--forget")
    assert again("--verdict")[0] == 0


def test_what_fails_twice_fails(tmp_path):
    done = run(tmp_path, USED_UP.format(fails_twice="yes"))
    assert done.returncode == 1
    assert "AssertionError: the first failure" in done.stdout
    assert "AssertionError: the second failure" in done.stdout


def test_success_and_wrong_usage_run_once(tmp_path):
    assert run(tmp_path, USED_UP.format(fails_twice="")).returncode == 0
    assert (tmp_path / "passes").read_text() == "x"
    assert run(tmp_path, USED_UP.format(fails_twice=""), "--no-such-option").returncode == 4
    assert (tmp_path / "passes").read_text() == "x"
