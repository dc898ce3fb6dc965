"""Owns the daemons of one test set-up, so that none of them outlives it.

A program of its own: ``python guardian.py DIRECTORY [--leash PID]``. It starts, watches and stops
daemons on request, and ends them all when it is told to, or when the process that holds its leash
dies, however that one dies.

``atexit`` would not do: it does not run when pytest is killed. Nor would the parent-death signal:
the kernel clears it when slurmctld becomes SlurmUser, and it never reaches slurmstepd, which
detaches itself from slurmd. The guardian is a child subreaper instead: whatever its daemons leave
behind becomes its own child, and it does not end before its last child has.

Requests are one JSON object on one line over ``DIRECTORY/guardian.sock``, one for each connection:
``{"do": "start", "name": ..., "argv": [...], ...}``. See `tests.processes` for the other side.
"""

import argparse
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
TERM_WAIT_S = 10.0
LAST_WAIT_S = 2.0
POLL_S = 0.02
LEASH_POLL_S = 0.3


@dataclass(slots=True)
class Child:
    """One daemon and, once it has ended, its exit status (negative: the signal that ended it)."""

    name: str
    pid: int
    status: int | None = None

    def signal(self, number: int) -> None:
        """Send a signal; the pid is ours until it is reaped, so it cannot be somebody else's."""
        if self.status is None:
            os.kill(self.pid, number)


@dataclass(slots=True)
class Guardian:
    """Starts and ends daemons; see the module's docstring.

    directory: where its socket and the record of what runs are.
    """

    directory: Path
    children: dict[str, Child] = field(default_factory=dict)
    ending: bool = False

    def start(
        self,
        *,
        name: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        log: str,
        user: tuple[int, int] | None,
    ) -> int:
        """Start a daemon; its output is appended to `log`; `user` is a user and group id."""
        uid, gid = user or (None, None)
        with Path(log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=uid,
                group=gid,
                extra_groups=None if user is None else [],
            )
        process.returncode = 0  # reaped by reap(), not by Popen
        self.children[name] = Child(name, process.pid)
        self.record()
        return process.pid

    def stop(self, *, names: list[str], wait_s: float = TERM_WAIT_S) -> None:
        """Terminate these daemons at once, and kill those that have not ended in time."""
        stopped = [self.children[name] for name in names if name in self.children]
        for child in stopped:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + wait_s
        while any(child.status is None for child in stopped):
            if time.monotonic() > deadline:
                for child in stopped:
                    child.signal(signal.SIGKILL)
            time.sleep(POLL_S)
            self.reap()
        for child in stopped:
            del self.children[child.name]
        self.record()

    def signal(self, *, name: str, number: int) -> None:
        """Send a signal to one daemon."""
        self.children[name].signal(number)

    def status(self) -> dict[str, Any]:
        """Tell the pid and exit status of each daemon."""
        return {c.name: {"pid": c.pid, "status": c.status} for c in self.children.values()}

    def quit(self) -> None:
        """End everything, and then itself."""
        self.ending = True

    def reap(self) -> None:
        """Collect the children that have ended, adopted ones too."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                for child in self.children.values():
                    if child.pid == pid:
                        child.status = os.waitstatus_to_exitcode(status)

    def record(self) -> None:
        """Write down what runs, for whoever must clean up if the guardian itself is killed."""
        running = {c.name: (c.pid, start_time(c.pid)) for c in self.children.values()}
        new = self.directory / "processes.json.new"
        new.write_text(json.dumps(running))
        new.replace(self.directory / "processes.json")

    def sweep(self) -> None:
        """End the daemons, then kill what they left; its orphans come to us, so repeat."""
        self.stop(names=list(self.children), wait_s=LAST_WAIT_S)
        while True:
            self.reap()
            left = descendants(os.getpid())
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)

    def perform(self, *, do: str, **arguments: Any) -> object:
        """Do what a request asks."""
        if do not in REQUESTS:
            raise ValueError(f"unknown request {do!r}")
        return getattr(self, do)(**arguments)

    def answer(self, connection: socket.socket) -> None:
        """Do what one request asks and send the result or the error."""
        with connection, connection.makefile("r") as lines:
            connection.settimeout(30)
            try:
                request = json.loads(lines.readline())
                reply = {"result": self.perform(**request)}
            except (OSError, ValueError, KeyError, TypeError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):  # the client may have gone
                connection.sendall(json.dumps(reply).encode() + b"\n")


REQUESTS = frozenset({"start", "stop", "signal", "status", "quit"})


def start_time(pid: int) -> int | None:
    """Give a process's start time in clock ticks since boot; None when it is gone or a zombie.

    A pid is reused after a while; a pid with its start time is not.
    """
    try:
        # The command, second field, may hold blanks and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def descendants(ancestor: int) -> list[int]:
    """List the pids of all living descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
    result = [ancestor]
    for pid in result:
        result += [child for child, parent in parents.items() if parent == pid]
    return result[1:]


def become_subreaper() -> None:
    """Ask the kernel to make orphaned descendants our children."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def listen(path: Path) -> socket.socket:
    """Open the socket for requests, in the place of a dead guardian's."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    return listener


def serve(guardian: Guardian, listener: socket.socket, leash: int | None) -> None:
    """Answer requests until told to end, or until the leash's holder, our parent, dies."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while not guardian.ending and leash in (None, os.getppid()):
            if selector.select(timeout=LEASH_POLL_S):
                guardian.answer(listener.accept()[0])
            guardian.reap()


def main() -> None:
    """Run until told to end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--leash", type=int, metavar="PID")
    options = parser.parse_args()
    become_subreaper()
    guardian = Guardian(options.directory)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: guardian.quit())
    with listen(options.directory / "guardian.sock") as listener:
        try:
            serve(guardian, listener, options.leash)
        finally:
            guardian.sweep()
            for name in ("guardian.sock", "processes.json"):
                (options.directory / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
