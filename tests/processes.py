"""Daemons for tests: started, watched and stopped through a guardian (`tests.guardian`)."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import guardian

SOCKET_PATH_MAX = 107  # bytes of sockaddr_un.sun_path, less the closing NUL
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Waiting long costs nothing where it comes to pass, and machines may be slow or stand still.
LONGEST_WAIT_S = 600.0


class ProcessError(RuntimeError):
    """A daemon did not start, ended early or did not answer; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user that a daemon runs as."""

    name: str
    uid: int
    gid: int

    @classmethod
    def mine(cls) -> Account:
        """Give the account of this process."""
        return cls.of(pwd.getpwuid(os.geteuid()).pw_name)

    @classmethod
    def of(cls, name: str) -> Account:
        """Look an account up by its name; KeyError when there is none."""
        entry = pwd.getpwnam(name)
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    @property
    def foreign(self) -> bool:
        """Tell whether a process must change its user to run as this one."""
        return self.uid != os.geteuid()

    def own(self, *paths: Path) -> None:
        """Give files to this account."""
        for path in paths:
            if self.foreign:
                os.chown(path, self.uid, self.gid)

    def popen_arguments(self) -> dict[str, Any]:
        """Give the arguments with which `subprocess` runs a command as this account."""
        if not self.foreign:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(slots=True)
class Processes:
    """The daemons of one directory and their guardian.

    directory: existing directory, private to these daemons; their output goes to ``log/NAME.out``.
    """

    directory: Path
    _guardian: subprocess.Popen[bytes] | None = None

    def open(self, *, leashed: bool) -> None:
        """Start the guardian.

        leashed: whether the daemons are to be ended when this process dies.
        """
        if len(os.fsencode(self._socket)) > SOCKET_PATH_MAX:
            raise ProcessError(
                f"path too long for a Unix socket, take a shorter one: {self._socket}"
            )
        if self.up:
            raise ProcessError(f"daemons already run in {self.directory}")
        self.end_orphans()
        (self.directory / "log").mkdir(exist_ok=True)
        argv = [sys.executable, "-I", guardian.__file__, str(self.directory)]
        log = self.directory / "log" / "guardian.out"
        with log.open("ab") as output:
            process = self._guardian = subprocess.Popen(
                [*argv, "--leash", str(os.getpid())] if leashed else argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
            )
        wait_until(lambda: self.up or process.poll() is not None, what="the guardian to answer")
        if not self.up:
            raise ProcessError(f"the guardian did not start:\n{tail(log)}")

    def close(self) -> None:
        """End all daemons and their guardian, and wait until they have."""
        if self.up:
            self._ask("quit")
            wait_until(lambda: not self._socket.exists(), what="the guardian to end")
        if self._guardian is not None:
            self._guardian.wait(timeout=LONGEST_WAIT_S)
            self._guardian = None
        self.end_orphans()

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        account: Account | None = None,
    ) -> int:
        """Start a daemon, which must stay in the foreground, and give its pid.

        name: its name here, and of its log.
        argv: program and arguments.
        env: variables to add to this process's own.
        account: who it runs as; only root may name another than itself.
        """
        who = account if account is not None and account.foreign else None
        pid = self._ask(
            "start",
            name=name,
            argv=[str(word) for word in argv],
            env={**os.environ, "PATH": search_path(), **(env or {})},
            cwd=str(self.directory),
            log=str(self.log(name)),
            user=who and (who.uid, who.gid),
        )
        return int(pid)

    def stop(self, *names: str, wait_s: float = 30.0) -> None:
        """Terminate daemons together; kill those that take longer than `patience_s` seconds."""
        self._ask("stop", names=names, wait_s=wait_s)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to one daemon: SIGSTOP freezes it, SIGCONT lets it go on."""
        self._ask("signal", name=name, number=int(number))

    def status(self) -> dict[str, str]:
        """Tell for each daemon ``running`` with its pid, or how it ended."""
        return {
            name: f"running, pid {state['pid']}" if state["status"] is None else _ending(state)
            for name, state in (self._ask("status") if self.up else {}).items()
        }

    def running(self, name: str) -> bool:
        """Tell whether this daemon is alive."""
        return self.status().get(name, "").startswith("running")

    def wait_for(
        self, name: str, ready: Callable[[], bool], *, timeout_s: float = LONGEST_WAIT_S
    ) -> None:
        """Wait until a daemon is ready.

        Raises ProcessError: when it ends or takes longer; with the end of its output.
        """

        def ready_or_dead() -> bool:
            return ready() or not self.running(name)

        try:
            wait_until(ready_or_dead, timeout_s=timeout_s, what=f"{name} to be ready")
        except ProcessError as error:
            raise ProcessError(f"{error}\n{tail(self.log(name))}") from None
        if not self.running(name):
            how = self.status().get(name, "unknown")
            raise ProcessError(f"{name} did not stay up ({how}):\n{tail(self.log(name))}")

    def log(self, name: str) -> Path:
        """Name the file with a daemon's output."""
        return self.directory / "log" / f"{name}.out"

    @property
    def up(self) -> bool:
        """Tell whether the guardian answers."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def end_orphans(self) -> None:
        """Kill what a guardian that was itself killed has left, and only that."""
        record = self.directory / "processes.json"
        if self.up or not record.exists():
            return
        for pid, born in json.loads(record.read_text()).values():
            if born is not None and guardian.start_time(pid) == born:
                for descendant in [*guardian.descendants(pid), pid]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(descendant, signal.SIGKILL)
        record.unlink()

    @property
    def _socket(self) -> Path:
        return self.directory / "guardian.sock"

    def _ask(self, do: str, **arguments: object) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LONGEST_WAIT_S)
            try:
                connection.connect(str(self._socket))
            except OSError as error:
                raise ProcessError(f"nothing runs in {self.directory} ({error})") from error
            with connection.makefile("rw") as stream:
                stream.write(json.dumps({"do": do, **arguments}) + "\n")
                stream.flush()
                reply = json.loads(stream.readline())
        if "error" in reply:
            raise ProcessError(f"{do} {arguments.get('name', '')}: {reply['error']}")
        return reply["result"]


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    timeout_s: float = LONGEST_WAIT_S,
    interval_s: float = 0.02,
) -> None:
    """Wait, with growing pauses up to 0.2 s, until a condition holds.

    Raises ProcessError: when it does not within `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ProcessError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(interval_s)
        interval_s = min(0.2, interval_s * 1.5)


def search_path() -> str:
    """Give PATH with the folders of daemons, which not every user's has.

    Without the wrappers of a throw-away cluster that somebody plays with in the same shell.
    """
    folders = os.environ.get("PATH", os.defpath).split(":")
    own = [f for f in folders if not (Path(f).parent / "guardian.sock").exists()]
    return ":".join([*own, "/usr/sbin", "/sbin"])


def tail(path: Path, lines: int = 15) -> str:
    """Give a file's name and its last lines."""
    text = path.read_text(errors="replace") if path.exists() else "(there is no such file)"
    return "\n".join([f"--- {path}", *text.splitlines()[-lines:]])


def free_ports(count: int, *, rng: random.Random | None = None) -> range:
    """Find `count` consecutive TCP ports that nobody listens on.

    They lie below the kernel's ephemeral ports, so that no outgoing connection takes them before
    the daemons do.
    """
    rng = rng or random.Random()
    ceiling = min(int(EPHEMERAL_PORTS.read_text().split()[0]), 32768)
    for _ in range(100):
        first = rng.randrange(10240, ceiling - count)
        ports = range(first, first + count)
        if all(map(_is_free, ports)):
            return ports
    raise ProcessError(f"found no {count} free ports in a row below {ceiling}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _ending(state: Mapping[str, int]) -> str:
    status = state["status"]
    return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
