"""Commands of the tasks of an array that Snakemake's plugin for Slurm submits."""

import base64
import json
import zlib

import pytest

from sacct_ingest.scripts.snakemake_arrays import PACKED, command_of_task


def wrapped(packed, first="python3 -m snakemake first"):
    payload = base64.b64encode(json.dumps(packed).encode()).decode()
    return f"{first} {PACKED}={payload}"


def packed(command):
    return zlib.compress(command.encode(), level=9).hex()


def test_each_task_has_its_own_command():
    text = wrapped({"2": packed("second"), "3": packed("third")})
    commands = [command_of_task(text, task).strip() for task in range(5)]
    assert commands == ["", "python3 -m snakemake first", "second", "third", ""]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "snakemake",
        f"x {PACKED}=",
        f"x {PACKED}=eyIy",
        f"x {PACKED}=====",
        wrapped({}),
        wrapped([1]),
        wrapped({"2": 7}),
        wrapped({"a": "78"}),
        wrapped({"1": "zz"}),
        wrapped({"1": "7878"}),
    ],
)
def test_what_cannot_be_read_is_no_command(text):
    assert command_of_task(text, 1) == ""


def test_a_command_that_unpacks_to_gigabytes_is_cut():
    text = wrapped({"1": packed("x" * 20_000_000)})
    assert len(command_of_task(text, 1)) == 64 * 1024
