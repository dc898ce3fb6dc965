"""The end of a job's output: read where it can be read at once, else left alone."""

import os
import time
from pathlib import Path

import pytest

from slurm_plugin.slurm import output_end
from slurm_plugin.slurm.output_end import end_of_output


def test_the_last_lines(tmp_path):
    path = tmp_path / "slurm-1.out"
    path.write_bytes(b"\n".join(b"line %d" % n for n in range(50)) + b"\n\n\n")
    assert end_of_output(path) == tuple(f"line {n}" for n in range(38, 50))


def test_of_a_huge_file_only_the_end_is_read(tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.seek(2**40)  # a hole
        file.write(b"\nthe end\n")
    assert end_of_output(path)[-1] == "the end"


def test_letters_that_are_none_are_replaced(tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(b"\xff\xfe bad\rprogress 1\rprogress 2\x00\n")
    assert len(end_of_output(path)) == 3


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def loop(folder: Path) -> Path:
    path = folder / "loop"
    path.symlink_to(path)
    return path


@pytest.mark.parametrize(
    "make",
    [
        fifo,
        loop,
        lambda folder: folder,
        lambda folder: folder / "none",
        lambda _: Path("/dev/zero"),
        lambda folder: folder / ("x" * 5000),
        lambda folder: folder / "nul\0",
    ],
)
def test_what_is_no_plain_file_is_not_read(make, tmp_path):
    assert end_of_output(make(tmp_path)) == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read all files")
def test_an_unreadable_file_is_left_alone(tmp_path):
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    assert end_of_output(path) == ()


def test_a_file_system_that_hangs_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(output_end, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(output_end, "_read", lambda _: time.sleep(2) or [])
    assert end_of_output(tmp_path) == ()
