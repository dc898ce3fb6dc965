"""slurmrestd on a test cluster, and jobs submitted through it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
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
    #: fields by sbatch's option, where a value is more than a number or a text
    fields: dict[str, Callable[[str], dict[str, object]]]
    #: what it has no field for, or refuses
    refused: tuple[str, ...] = ()


def _counted(name: str) -> Callable[[str], dict[str, object]]:
    """A number, which may be unset since 24.11."""
    return lambda value: {name: {"set": True, "number": int(value.removesuffix("M"))}}


def _plain(name: str) -> Callable[[str], dict[str, object]]:
    return lambda value: {name: int(value.removesuffix("M"))}


def _devices(name: str) -> Callable[[str], dict[str, object]]:
    return lambda value: {name: f"gres/gpu:{value.removeprefix('gpu:')}"}


def _text(name: str) -> Callable[[str], dict[str, object]]:
    return lambda value: {name: value}


def _list(name: str) -> Callable[[str], dict[str, object]]:
    return lambda value: {name: [value]}


def _true(name: str) -> Callable[[str], dict[str, object]]:
    return lambda _: {name: True}


def _later(value: str) -> int:
    """Give the time of ``now+1hour``, in seconds since the epoch."""
    count, unit = re.fullmatch(r"now\+(\d+)(hour|minute)s?", value).groups()
    return int(time.time()) + int(count) * {"hour": 3600, "minute": 60}[unit]


def _signal(value: str) -> dict[str, object]:
    """Give the fields of ``B:USR1@60``."""
    name, _, seconds = value.removeprefix("B:").partition("@")
    return {
        "kill_warning_signal": name,
        "kill_warning_delay": {"set": True, "number": int(seconds)},
        "kill_warning_flags": ["BATCH_JOB"] if value.startswith("B:") else [],
    }


#: Slurm 22.05 says of a job that is to be held, and is taken, that it is held (ESLURM_JOB_HELD).
_HELD = 2042
#: The same in all versions.
_FIELDS: dict[str, Callable[[str], dict[str, object]]] = {
    "-c": _plain("cpus_per_task"),
    "-n": _plain("tasks"),
    "--ntasks-per-node": _plain("tasks_per_node"),
    "--array": _text("array"),
    "-C": _text("constraints"),
    "-p": _text("partition"),
    "--comment": _text("comment"),
    "-d": _text("dependency"),
    "--reservation": _text("reservation"),
    "--requeue": _true("requeue"),
}

INTERFACES = (
    Interface(
        since=(24, 11),
        name="v0.0.42",
        environment=lambda variables: [f"{key}={value}" for key, value in variables.items()],
        nodes=lambda low, high: {"minimum_nodes": low, "maximum_nodes": high},
        fields={
            "--gpus": _devices("tres_per_job"),
            "--gres": _devices("tres_per_node"),
            "--gpus-per-node": _devices("tres_per_node"),
            "--gpus-per-task": _devices("tres_per_task"),
            "--mem": _counted("memory_per_node"),
            "--mem-per-cpu": _counted("memory_per_cpu"),
            "--time": _counted("time_limit"),
            "-w": _list("required_nodes"),
            "-x": _list("excluded_nodes"),
            "--exclusive": lambda _: {"shared": ["none"]},
            "--contiguous": _true("contiguous"),
            "--switches": _counted("required_switches"),
            "--deadline": lambda value: {"deadline": _later(value)},
            "--begin": lambda value: {"begin_time": {"set": True, "number": _later(value)}},
            "--time-min": _counted("time_minimum"),
            "--signal": _signal,
        },
    ),
    Interface(
        since=(22, 5),
        name="v0.0.38",
        environment=lambda variables: variables,
        nodes=lambda low, high: {"nodes": f"{low}-{high}"},
        fields={
            "--gpus": _text("gpus"),
            "--gres": _text("gres"),
            "--gpus-per-node": _text("gpus_per_node"),
            "--gpus-per-task": _text("gpus_per_task"),
            "--mem": _plain("memory_per_node"),
            "--mem-per-cpu": _plain("memory_per_cpu"),
            "--time": _plain("time_limit"),
            "-w": _text("nodelist"),
            "-x": _text("exclude_nodes"),
            "--exclusive": lambda _: {"exclusive": "exclusive"},
            "--deadline": _text("deadline"),
            "--begin": _text("begin_time"),
            "--time-min": _plain("time_minimum"),
            "--signal": lambda value: {"signal": value.removeprefix("B:")},  # B: is refused
        },
        refused=("--contiguous", "--switches", "-N 0"),
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


def takes(cluster: SlurmCluster, request: str) -> bool:
    """Whether slurmrestd of this release takes a request."""
    return not any(words in request for words in _interface(cluster).refused)


def request(cluster: SlurmCluster, path: Path, script: str, words: str, **fields: Any) -> int:
    """Submit what sbatch would be asked for in these words; give the job's id."""
    readers = _FIELDS | _interface(cluster).fields
    nodes: tuple[int, int] | None = None
    for name, value in _options(f"{words} --time=10"):
        if name == "-N":
            low, _, high = value.partition("-")
            nodes = (int(low), int(high or low))
        else:
            fields = {**fields, **readers[name](value)}
    given = {
        "partition": "batch",
        "current_working_directory": str(cluster.layout.work),
        "standard_output": "rest-%A.out",
    }
    answer = submit(cluster, path, script, nodes=nodes, **given | fields)
    assert all(error["error_code"] == _HELD for error in answer["errors"]), answer
    job_id: int = answer["job_id"]
    return job_id


def _options(words: str) -> list[tuple[str, str]]:
    """Options with their values: `-c 2`, `--mem=400M`."""
    parts = re.findall(r"(--[\w-]+)(?:=(\S+))?|(-\w) ?(\S+)", words)
    return [(long or short, value or other) for long, value, short, other in parts]


def submit(
    cluster: SlurmCluster, path: Path, script: str, *, nodes: tuple[int, int] | None, **fields: Any
) -> dict[str, Any]:
    """Submit a job, for a range of nodes if there is one, and give slurmrestd's answer."""
    interface = _interface(cluster)
    # A release that was built is not in /usr/bin.
    environment = interface.environment({"PATH": f"{cluster.bin}:/usr/bin:/bin"})
    range_of_nodes = interface.nodes(*nodes) if nodes else {}
    job = {"environment": environment, **range_of_nodes, **fields}
    connection = _UnixConnection(path)
    connection.request(
        "POST",
        f"/slurm/{interface.name}/job/submit",
        json.dumps({"script": script, "job": job}),
        {"Content-Type": "application/json"},
    )
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer
