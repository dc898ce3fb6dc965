"""slurmrestd on a test cluster, and jobs submitted through it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import SlurmCluster
from tests.cluster.configuration import Version
from tests.processes import LONGEST_WAIT_S, Account


@dataclass(frozen=True, slots=True)
class Interface:
    """What one version of the interface calls things."""

    since: Version
    name: str
    environment: Callable[[dict[str, str]], object]
    nodes: Callable[[int, int], dict[str, object]]


INTERFACES = (
    Interface(
        since=(24, 11),
        name="v0.0.42",
        environment=lambda variables: [f"{key}={value}" for key, value in variables.items()],
        nodes=lambda low, high: {"minimum_nodes": low, "maximum_nodes": high},
    ),
    Interface(
        since=(22, 5),
        name="v0.0.38",
        environment=lambda variables: variables,
        nodes=lambda low, high: {"nodes": f"{low}-{high}"},
    ),
)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LONGEST_WAIT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@contextmanager
def slurmrestd(cluster: SlurmCluster, user: str) -> Iterator[Path]:
    """Run slurmrestd as a user, who is then the one whose jobs it submits; give its socket."""
    path = cluster.layout.work / "rest.sock"
    path.unlink(missing_ok=True)  # that of the one before
    argv = ["-a", "rest_auth/local", f"unix:{path}"]
    cluster.start_program("slurmrestd", argv, account=Account.of(user))
    cluster.processes.wait_for("slurmrestd", lambda: _takes_connections(path))
    try:
        yield path
    finally:
        cluster.stop("slurmrestd")


def _takes_connections(path: Path) -> bool:
    connection = _UnixConnection(path)
    try:
        connection.connect()
    except OSError:  # not there yet, or there but nobody listens yet
        return False
    finally:
        connection.close()
    return True


def _interface(cluster: SlurmCluster) -> Interface:
    return next(i for i in INTERFACES if cluster.settings.version >= i.since)


def jobs(cluster: SlurmCluster, path: Path, of: str) -> bytes:
    """Give the jobs that slurmrestd lists of ``slurm`` (slurmctld) or ``slurmdb`` (slurmdbd)."""
    connection = _UnixConnection(path)
    connection.request("GET", f"/{of}/{_interface(cluster).name}/jobs")
    return connection.getresponse().read()


def submit(
    cluster: SlurmCluster, path: Path, script: str, *, nodes: tuple[int, int], **fields: Any
) -> dict[str, Any]:
    """Submit a job for a range of nodes and give slurmrestd's answer."""
    interface = _interface(cluster)
    # A release that was built is not in /usr/bin.
    environment = interface.environment({"PATH": f"{cluster.bin}:/usr/bin:/bin"})
    job = {"environment": environment, **interface.nodes(*nodes), **fields}
    connection = _UnixConnection(path)
    connection.request(
        "POST",
        f"/slurm/{interface.name}/job/submit",
        json.dumps({"script": script, "job": job}),
        {"Content-Type": "application/json"},
    )
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer
