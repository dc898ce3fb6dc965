"""The disk probe on the disk that the tests run on."""

import os
from pathlib import Path

import pytest

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import local
from tests.conftest import unavailable

MIB = 1 << 20


def knows_o_direct(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_a_bounded_file_is_written_read_and_removed(tmp_path, monkeypatch):
    if not knows_o_direct(tmp_path):
        unavailable(f"the file system of {tmp_path} knows no O_DIRECT")
    written, flags = [], []
    real_write, real_open = os.write, os.open

    def write(file: int, data: bytes) -> int:
        written.append(real_write(file, data))
        return written[-1]

    def opened(path: str, how: int, mode: int = 0o777) -> int:
        flags.append(how)
        return real_open(path, how, mode)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "open", opened)
    written_per_s, read_per_s, latency_s = local.measure_disk(
        tmp_path, size_bytes=3 * MIB + 5, reads=4
    )
    assert sum(written) == 3 * MIB
    assert all(how & os.O_DIRECT for how in flags)
    assert written_per_s > 0
    assert read_per_s > 0
    assert 0 < latency_s < 60
    assert [path.name for path in tmp_path.iterdir()] == ["direct"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ProbeError, match="No such file"):
        local.measure_disk(tmp_path / "none", size_bytes=MIB, reads=1)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    if not knows_o_direct(tmp_path):
        unavailable(f"the file system of {tmp_path} knows no O_DIRECT")
    monkeypatch.setattr(os, "write", lambda file, data: 4096)
    with pytest.raises(ProbeError, match="No space left"):
        local.measure_disk(tmp_path, size_bytes=MIB, reads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["direct"]


def test_a_file_system_that_only_answers_from_its_cache(tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ProbeError, match=r"O_DIRECT.*choose another folder"):
        local.measure_disk(tmp_path, size_bytes=MIB, reads=1)
