"""A copy of this machine's system to install packages in: nothing of it is left behind."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Puts all changes to / into memory; answers when it is ready, and ends with its standard input.
_ENTER = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/system"
mount --rbind /dev "$1/system/dev"
mount --rbind /sys "$1/system/sys"
mount -t proc proc "$1/system/proc"
mount -t tmpfs tmpfs "$1/system/run"
exec chroot "$1/system" sh -c "echo ready; read -r end"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NoSystemError(Exception):
    """No copy can be made here."""


class System:
    """A running copy; only what is done through `run` happens in it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def run(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the copy, as root and with nothing of this process's environment."""
        enter = ["nsenter", f"--target={self._pid}", "--mount", "--root", "--wd"]
        done = subprocess.run(
            [*enter, "env", "-i", f"PATH={_PATH}", "HOME=/root", "LC_ALL=C.UTF-8", *argv],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file."""
        return self.run("test", "-e", path, check=False).returncode == 0


@contextmanager
def system_copy(folder: Path) -> Iterator[System]:
    """Make a copy, with an empty folder for its changes.

    Raises NoSystemError: only root may, and not in every container.
    """
    if os.getuid() != 0:
        raise NoSystemError("only root can mount a copy of the system")
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", _ENTER, "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if process.stdout.readline() != "ready\n":
            reported = process.stderr.read()
            raise NoSystemError(f"mounting is not allowed here: {reported.strip()}")
        yield System(process.pid)
    finally:
        process.communicate()
