"""Files written whole, locks, and what others may have put in their way."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sacct_ingest.errors import NimoError, StoreError
from sacct_ingest.files import atomic_file
from sacct_ingest.files.atomic_file import Busy, alone, locked, replacing, write
from sacct_ingest.store import Store


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Give a folder that everybody may write to, as /tmp."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "journal"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        1 / 0  # noqa: B018
    assert path.read_text() == "before"
    write(path, b"after", mode=0o640)
    assert path.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["journal"]


@pytest.mark.parametrize("name", ["journal", "journal.new", "journal.tmp", ".journal.new"])
def test_no_link_is_followed(shared, victim, name):
    (shared / name).symlink_to(victim)
    write(shared / "journal", b"mine")
    assert victim.read_text() == "precious"
    assert (shared / "journal").read_text() == "mine"
    assert not (shared / "journal").is_symlink()


def test_names_of_new_files_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(10):
        with replacing(tmp_path / "journal") as file:
            names |= {one.name for one in tmp_path.iterdir()} - {"journal"}
            file.write(b"x")
    assert len(names) == 10
    assert all(len(name.rpartition(".")[2]) == 16 for name in names)


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE)
    write(path, b"a page")
    assert reader.communicate()[0] == b"a page"
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_what_has_the_name_of_a_lock_is_left_alone(tmp_path, victim, kind):
    place = tmp_path / "journal.lock"
    {
        "link": lambda: place.symlink_to(victim),
        "hard link": lambda: place.hardlink_to(victim),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }[kind]()
    with pytest.raises(OSError), locked(tmp_path / "journal"):
        pass
    with pytest.raises(NimoError, match="journal"), alone(tmp_path / "journal", program="", fix=""):
        pass
    assert victim.read_text() == "precious"


def test_a_lock_of_a_shared_folder_is_elsewhere(shared):
    with locked(shared / "journal"):
        assert list(shared.iterdir()) == []
        with pytest.raises(Busy, match=str(os.getpid())), locked(shared / "journal"):
            pass
        with locked(shared / "other"):
            pass


def test_a_folder_of_locks_that_others_may_write_to_is_refused(shared):
    own = Path(os.environ["XDG_RUNTIME_DIR"]) / "nimo" / "locks"
    own.mkdir(parents=True)
    own.chmod(0o777)
    with pytest.raises(PermissionError, match="only you"), locked(shared / "journal"):
        pass


def test_others_cannot_take_a_lock(tmp_path):
    before = os.umask(0)
    try:
        (tmp_path / "journal.lock").touch(0o666)
        for _ in range(2):
            with locked(tmp_path / "journal"):
                assert not (tmp_path / "journal.lock").stat().st_mode & 0o007
    finally:
        os.umask(before)


def test_a_lock_ends_with_its_process(tmp_path):
    program = (
        "import os, sys; from pathlib import Path\n"
        "from sacct_ingest.files.atomic_file import locked\n"
        "with locked(Path(sys.argv[1])): print(os.getpid(), flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "journal")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pid = int(other.stdout.readline())
    with pytest.raises(Busy) as busy, locked(tmp_path / "journal"):
        pass
    assert busy.value.pid == pid == other.pid
    other.kill()
    other.communicate()
    with locked(tmp_path / "journal"):
        pass


def test_a_store_is_not_made_where_a_link_leads(shared, tmp_path):
    (shared / "nimo.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="leads nowhere"):
        Store.open(str(shared / "nimo.db"))
    assert not (tmp_path / "elsewhere").exists()


def test_nothing_else_makes_files_or_locks():
    """Of the three packages only that module replaces files or takes locks."""
    root = Path(atomic_file.__file__).parents[2]
    words = ("import fcntl", "os.replace(", "mkstemp", "NamedTemporaryFile", "write_text(")
    for package in ("sacct_ingest", "predictor", "slurm_plugin"):
        for path in (root / package).rglob("*.py"):
            if path.name != "atomic_file.py" and path.parent.name != "demo":
                text = path.read_text()
                assert not [word for word in words if word in text], path
