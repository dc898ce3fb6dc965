"""Two clusters of one slurmdbd, each with a host for its data, and a shaped link between the hosts.

The hosts are network namespaces.  Each has a sensor and a server of files; jobs of one cluster read
the other one's files from that server, through the link.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import SlurmCluster
from tests.conftest import ClusterFactory
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.sacct_ingest.probes import slow_link
from tests.sacct_ingest.probes.slow_link import ADDRESSES, Hosts

NIMO = Path(sysconfig.get_path("scripts")) / "nimo"
#: Names of the clusters, of their storages, places and hosts.  Data lies near; work is faster far.
NEAR, FAR = "near", "far"
SPEEDS = {NEAR: 1, FAR: 3}
#: Three ways with a workflow's data: what a task and the file that it reads say then.
WAYS = {
    "staged": ({"places": [FAR]}, {"access": "stage"}),
    "read in place": ({"places": [FAR]}, {"access": "remote"}),
    "stayed": ({"places": [NEAR]}, {}),
}
#: A way that takes so many times as long as a better one, and some seconds, is not waited for.
_ENOUGH, _MORE_S = 1.3, 5.0
CONF = ("SchedulerParameters=bf_interval=2,batch_sched_delay=0,sched_interval=2",)
_PORT, _SENSOR_PORT = 8000, 7733
#: Prints a file; one of the other cluster comes over the link.
_FETCH = """\
#!/bin/sh -e
case $1 in
  {work}/$SLURM_CLUSTER_NAME/*) exec cat "$1" ;;
esac
case $SLURM_CLUSTER_NAME in
  near) from={addresses[1]} host={hosts.near} ;;
  far) from={addresses[0]} host={hosts.far} ;;
esac
exec ip netns exec $host curl -fsS http://$from:{port}/${{1#{work}/}}
"""
#: Reads a file and computes for so many seconds, on nodes of the near cluster: then, or meanwhile.
_AFTER = """\
#!/bin/sh -e
{work}/fetch "$1" >/dev/null
{work}/compute $2
"""
_MEANWHILE = """\
#!/bin/sh -e
began=$(date +%s.%N)
(
  {work}/fetch "$1" >/dev/null
  echo "$(date +%s.%N) - $began" | bc >read_s
) &
{work}/compute $2
wait $!
"""
_COMPUTE = """\
#!/bin/sh -e
[ $SLURM_CLUSTER_NAME = far ] && speed={far} || speed={near}
sleep $(echo "scale=3; $1 / $speed" | bc)
"""


@dataclass
class LinkedClusters:
    """Both clusters, and what joins them."""

    near: SlurmCluster
    far: SlurmCluster
    hosts: Hosts
    folder: Path = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self.folder = self.near.layout.work
        texts = {"fetch": _FETCH, "after": _AFTER, "meanwhile": _MEANWHILE, "compute": _COMPUTE}
        for name, text in texts.items():
            path = self.folder / name
            path.write_text(
                text.format(
                    work=self.folder, hosts=self.hosts, addresses=ADDRESSES, port=_PORT, **SPEEDS
                )
            )
            path.chmod(0o755)
        for name in (NEAR, FAR):
            (self.folder / name).mkdir()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the files of both hosts."""
        with ExitStack() as stack:
            for host, address in zip((self.hosts.near, self.hosts.far), ADDRESSES, strict=True):
                argv = (sys.executable, "-m", "http.server", str(_PORT), f"--bind={address}")
                server = subprocess.Popen(
                    self.hosts.command(host, *argv, f"--directory={self.folder}"),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                stack.callback(_ended, server)
                ask = self.hosts.command(
                    host, "curl", "-fsS", "-o", "/dev/null", f"http://{address}:{_PORT}/compute"
                )
                wait_until(
                    lambda ask=ask: (
                        not subprocess.run(  # type: ignore[misc]
                            ask, capture_output=True, check=False
                        ).returncode
                    ),
                    what="the server of files",
                )
            yield

    def file(self, name: str, size_bytes: int) -> None:
        """Put a file of this size on the near host."""
        (self.folder / NEAR / name).write_bytes(os.urandom(size_bytes))

    @contextmanager
    def link(self, rate_mbit: float) -> Iterator[MeasuredLink]:
        """Give the link a bandwidth, and measure it by sensors on both hosts."""
        slow_link.set_rate(self.hosts, rate_mbit)
        self._number += 1
        folder = self.folder / f"link-{self._number}"
        folder.mkdir()
        key = folder / "key"
        key.write_text("a key that only tests know")
        members = zip((NEAR, FAR), ADDRESSES, strict=True)
        probes = {
            "hosts": [f"{name}={address}:{_SENSOR_PORT}" for name, address in members],
            "key_file": str(key),
            "spin_s": 0.1,
            "period_s": 3600,
            "timeout_s": 30,
        }
        settings = {"mode": "observe", "store": f"sqlite:///{folder}/nimo.db", "probes": probes}
        (folder / "nimo.yaml").write_text(yaml.safe_dump(settings))
        link = MeasuredLink(self, folder)
        with ExitStack() as stack:
            for name, address in zip((NEAR, FAR), ADDRESSES, strict=True):
                argv = ("--serve", f"--name={name}", f"--bind={address}:{_SENSOR_PORT}")
                sensor = link.start(name, "lab", "probe", *argv)
                stack.callback(_ended, sensor)
                assert sensor.stdout is not None
                while not sensor.stdout.readline().startswith("listening"):
                    assert sensor.poll() is None
            link.nimo(NEAR, "lab", "probe")
            yield link

    def sample(self, name: str, seconds: float, *, over_link: bool = False) -> dict[str, Any]:
        """Run the program that reads meanwhile once, and give what it took as a plan's sample.

        name: of the cluster.
        seconds: that it computes at the near one's speed.
        over_link: whether it reads the file of the near host, and not a copy of its own.
        """
        cluster = self.near if name == NEAR else self.far
        folder = self.folder / f"run-{name}"
        folder.mkdir(exist_ok=True)
        raw = self.folder / NEAR / "raw"
        if name == FAR and not over_link:
            raw = Path(shutil.copy(raw, self.folder / FAR / "copy"))
        script = f"#!/bin/sh -e\ndate +%s.%N >began\n{self.folder}/meanwhile {raw} {seconds:g}\n"
        job_id = cluster.sbatch("-N1", f"--chdir={folder}", script=script + "date +%s.%N >ended\n")
        cluster.wait(job_id)
        began, ended, read_s = (
            float((folder / file).read_text()) for file in ("began", "ended", "read_s")
        )
        size, computed_s = raw.stat().st_size, seconds / SPEEDS[name]
        bandwidth = size / read_s if over_link else 1e9
        return {
            "attributes": {
                "nodes": 1,
                "pace": SPEEDS[name],
                "net_bandwidth_bytes_per_s": bandwidth,
            },
            "utilisation": min(computed_s / (ended - began), 1.0),
            "time_s": ended - began,
            "data_bytes": size,
            "network_share": 1.0,
        }

    def passes(self, seconds: float) -> dict[str, Any]:
        """Three programs, one after the other, that read the same file and then compute."""
        names = ("align", "filter", "merge")
        return {
            name: {
                "command": f"{self.folder}/after {{raw}} {seconds:g}",
                "run_time": {1: seconds},
                "after": list(names[max(number - 1, 0) : number]),
            }
            for number, name in enumerate(names)
        }

    def stream(self, seconds: float) -> dict[str, Any]:
        """Give a program that computes while it reads, with samples of six runs."""
        samples = [self.sample(NEAR, seconds), self.sample(FAR, seconds)]
        for rate in (64, 16, 6.4, 3.2):
            slow_link.set_rate(self.hosts, rate)
            samples.append(self.sample(FAR, seconds, over_link=True))
        path = self.folder / "samples.json"
        path.write_text(json.dumps(samples))
        command = f"{self.folder}/meanwhile {{raw}} {seconds:g}"
        return {"stream": {"command": command, "samples": str(path)}}


@dataclass(frozen=True)
class MeasuredLink:
    """The link with one bandwidth, and the store of what was measured of it."""

    clusters: LinkedClusters
    folder: Path

    def command(self, host: str, *argv: str | Path) -> list[str]:
        """Command line of ``nimo`` on one of the hosts."""
        hosts = self.clusters.hosts
        return hosts.command(hosts.near if host == NEAR else hosts.far, str(NIMO), *map(str, argv))

    def environment(self) -> dict[str, str]:
        """Give the environment of ``nimo``, whose settings are those of this link."""
        return {**self.clusters.near.env, "NIMO_CONFIG": str(self.folder / "nimo.yaml")}

    def start(self, host: str, *argv: str) -> subprocess.Popen[str]:
        """Start ``nimo`` on one of the hosts."""
        return subprocess.Popen(
            self.command(host, *argv),
            env=self.environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )

    def nimo(self, host: str, *argv: str | Path) -> str:
        """Run ``nimo`` on one of the hosts; empty: where Slurm's commands are.  Its output."""
        line = self.command(host, *argv) if host else [str(NIMO), *map(str, argv)]
        done = self.clusters.near.run(*line, env=self.environment(), cwd=self.folder)
        return done.stdout

    def transfer(self, file: str) -> None:
        """Move a file from the near host to the far one."""
        path = self.clusters.folder / NEAR / file
        self.nimo(NEAR, "lab", "probe", f"--name={NEAR}", "--transfer", path, FAR)

    def workflow(self, name: str, tasks: dict[str, Any], size_bytes: int, way: str = "") -> Path:
        """Write a workflow whose tasks read one file that lies near, and keep it to one way."""
        task, file = WAYS[way] if way else ({}, {})
        folder = self.folder / f"{name}-{way or 'any'}".replace(" ", "-")
        folder.mkdir()
        copy = f"{self.clusters.folder}/fetch {{source}} >{{target}}"
        text = {
            "name": name,
            "storages": {
                one: {"path": str(self.clusters.folder / one), "host": one} for one in (NEAR, FAR)
            },
            "links": [{"from": NEAR, "to": FAR, "copy": copy}],
            "places": {
                one: {"storage": one, "partition": "batch", "cluster": one, "speed": SPEEDS[one]}
                | {"attributes": {"pace": SPEEDS[one]}}
                for one in (NEAR, FAR)
            },
            "files": {"raw": {"at": NEAR, "size": size_bytes, **file}},
            "tasks": {one: {"reads": ["raw"], **given, **task} for one, given in tasks.items()},
        }
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(text, sort_keys=False))
        return path

    def planned(self, path: Path) -> dict[str, Any]:
        """Plan a workflow; the first plan as JSON."""
        plans: list[dict[str, Any]] = json.loads(self.nimo("", "lab", "plan", "--json", path))[
            "plans"
        ]
        return plans[0]

    def made(self, path: Path, *, most_s: float = LONGEST_WAIT_S) -> float | None:
        """Submit and follow a workflow's plan; seconds from its first step until its last ended.

        None: it took longer than ``most_s``, and was interrupted.
        """
        argv = [str(NIMO), "lab", "plan", "--submit", "--follow", "--fixed", "--json", str(path)]
        with subprocess.Popen(
            argv,
            env=self.environment(),
            cwd=path.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while True:
                try:
                    out, err = process.communicate(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    if _ran_s(path.with_suffix(".plan.json")) > most_s:
                        process.terminate()
                        process.communicate()
                        return None
        steps = json.loads(out)["steps"].values()
        assert {step["state"] for step in steps} == {"COMPLETED"}, err
        began_s = min(step["started_s"] for step in steps)
        return float(max(step["ended_s"] for step in steps) - began_s)

    def ends(self, name: str, tasks: dict[str, Any], size_bytes: int) -> dict[str, float | None]:
        """Make a workflow in each way; the seconds that each took.

        None: reading in place took far longer than the better one of the others, and was
        interrupted.
        """
        files = {way: self.workflow(name, tasks, size_bytes, way) for way in WAYS}
        with ThreadPoolExecutor() as pool:
            # What stays takes nothing of the link, nor of the nodes of the other cluster.
            stayed = pool.submit(self.made, files["stayed"])
            staged = self.made(files["staged"])
            least_s = min(one for one in (stayed.result(), staged) if one is not None)
            in_place = self.made(files["read in place"], most_s=_ENOUGH * least_s + _MORE_S)
            return {"stayed": stayed.result(), "staged": staged, "read in place": in_place}


def _ran_s(record: Path) -> float:
    """Give the seconds since the first step of a plan began; none did: 0."""
    if not record.exists():
        return 0.0
    steps = json.loads(record.read_text())["steps"].values()
    began_s = [step["started_s"] for step in steps if step["started_s"] is not None]
    return time.time() - min(began_s) if began_s else 0.0


def way_of(plan: dict[str, Any]) -> str:
    """Name the way of a plan's data."""
    tasks = [step for step in plan["steps"] if step["nodes"]]
    if {step["place"] for step in tasks} == {NEAR}:
        return "stayed"
    if {step["place"] for step in tasks} != {FAR}:
        return "at both"
    read = [bool(step["read_in_place"]) for step in tasks]
    return "read in place" if all(read) else "at both" if any(read) else "staged"


@contextmanager
def linked(slurm_cluster: ClusterFactory) -> Iterator[LinkedClusters]:
    """Start both clusters and join their hosts."""
    with (
        slow_link.limited(100) as hosts,
        slurm_cluster(name=NEAR, nodes=1, conf=CONF) as near,
        slurm_cluster(name=FAR, nodes=1, conf=CONF, beside=near) as far,
    ):
        clusters = LinkedClusters(near, far, hosts)
        with clusters.serving():
            yield clusters


def _ended(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    process.wait()
    if process.stdout:
        process.stdout.close()
