"""``nimo lab profile``: benchmark nodes in Slurm jobs; compare nodes of one type."""

import argparse
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import NamedTuple

from sacct_ingest.errors import ConfigError, NoHistory, ProbeError, SlurmError, system_errors
from sacct_ingest.probes.agreement import MEASURES, Outlier, TypeProfile, type_profiles
from sacct_ingest.probes.benchmarks import BenchmarkPlan, read, script
from sacct_ingest.probes.probe_settings import member
from sacct_ingest.records import NodeProfile
from slurm_plugin.cli.command_context import load_config, print_table, table_options
from slurm_plugin.cli.progress import progress
from slurm_plugin.config.setting_types import TypeColumn
from slurm_plugin.config.settings import Config
from slurm_plugin.slurm.commands import run as run_slurm
from slurm_plugin.slurm.slurm_conf import cluster_name
from slurm_plugin.store_access import open_store
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import printable, wrapped
from slurm_plugin.text.terminal_size import terminal_width

_FORMAT = "%N|%t|%c|%m|%f"
_UNUSABLE = ("down", "drain", "drng", "fail", "maint", "unk", "boot", "inval", "pow")
_TIMEOUT_S = 30.0
_IPERF_PORT = 5201
#: Settings that a plan of benchmarks has as they are, and options that srun does.
_OF_PLAN = ("seconds", "repeats", "disk_folder", "disk_bytes")
_OF_JOB = ("partition", "account", "qos", "reservation")
#: Measure to heading, factor and digits.
_COLUMNS = {
    "cpu_events_per_s": ("cpu/s", 1.0),
    "cpu_all_events_per_s": ("all cpus/s", 1.0),
    "mem_bandwidth_bytes_per_s": ("mem GB/s", 1e-9),
    "mem_latency_s": ("mem ns", 1e9),
    "disk_read_bytes_per_s": ("read MB/s", 1e-6),
    "disk_write_bytes_per_s": ("write MB/s", 1e-6),
    "disk_latency_s": ("disk us", 1e6),
    "net_bandwidth_bytes_per_s": ("net MB/s", 1e-6),
    "net_latency_s": ("net us", 1e6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as sinfo has it."""

    name: str
    state: str
    cpus: int
    memory_mib: int
    features: str

    @property
    def usable(self) -> bool:
        """Whether a job may start there now or soon."""
        return not self.state.startswith(_UNUSABLE)


def nodes(*, nodelist: str = "", partition: str = "") -> list[Node]:
    """Ask for nodes by their names, their partition, or both.

    Raises SlurmError: sinfo failed, or there are none.
    """
    argv = ["sinfo", "-h", "-N", "-o", _FORMAT]
    argv += ["-n", nodelist] if nodelist else []
    # Hidden partitions are seen when they are named; both at once is an error.
    argv += ["-p", partition] if partition else ["-a"]
    reported = parse_nodes(run_slurm(argv, timeout_s=_TIMEOUT_S))
    if not reported:
        asked = [("-w", nodelist), ("-p", partition)]
        options = " ".join(f"{option} {value}" for option, value in asked if value)
        raise SlurmError(f"sinfo lists no nodes for {options or 'this cluster'}")
    return reported


def parse_nodes(text: str) -> list[Node]:
    r"""Read sinfo's output; a node is there once for each of its partitions.

    >>> parse_nodes("n1|idle*|4|2000|(null)\nn1|idle*|4|2000|(null)\n")
    [Node(name='n1', state='idle', cpus=4, memory_mib=2000, features='')]
    """
    nodes: dict[str, Node] = {}
    for line in text.splitlines():
        try:
            name, state, cpus, memory, features = line.split("|", 4)
        except ValueError as error:
            raise SlurmError(f"sinfo printed a line that NIMO cannot read: {line!r}") from error
        nodes[name] = Node(
            name=name,
            state=state.rstrip("*~#!%$@^-+"),
            cpus=int(cpus),
            memory_mib=int(memory.rstrip("+")),
            features="" if features == "(null)" else features,
        )
    return list(nodes.values())


def argv_for(node: Node, options: Mapping[str, object], script: str) -> list[str]:
    """Command line of one benchmark's job: the whole node, with more of srun's options."""
    return [
        "srun",
        "--quiet",
        "--job-name=nimo-profile",
        # Its own decisions are none of its business.
        "--comment=nimo:off",
        f"--nodelist={node.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={node.cpus}",
        "--exclusive",
        "--mem=0",
        *(f"--{name}={value}" for name, value in options.items() if value != ""),
        "/bin/sh",
        "-c",
        script,
    ]


def run_on(node: Node, options: Mapping[str, object], script: str) -> str:
    """Run the script on a node; give all that it printed, and what srun complained about."""
    with system_errors(SlurmError, "srun", "; are Slurm's commands there?"):
        done = subprocess.run(
            argv_for(node, options, script),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode(errors="replace")


def tables() -> Sequence[cols.Table]:
    """Give what it prints, without rows."""
    return [
        cols.Table(_columns(MEASURES), [], caption="for people"),
        replace(profile_table([]), caption="with -P"),
    ]


def profile_table(profiles: Sequence[NodeProfile]) -> cols.Table:
    """Profiles as they are stored."""
    columns = [cols.Column(one.name, one.name.replace("_", " ")) for one in fields(NodeProfile)]
    return cols.Table(columns, profiles)


def run(args: argparse.Namespace) -> int:
    """Measure or show profiles, and name the outliers."""
    config = load_config(args)
    if args.show:
        with open_store(config) as store:
            profiles = store.profiles.latest(config.cluster or None)
    else:
        profiles = _measure(args, config)
    if not profiles:
        raise NoHistory("no node was measured yet: 'nimo lab profile -p PARTITION' measures them")
    types = type_profiles(profiles, tolerance=config.benchmarks.tolerance)
    if args.json:
        made = {"types": [asdict(t) for t in types], "nodes": [asdict(p) for p in profiles]}
        print(json.dumps(made))
    elif args.parsable2:
        print_table(profile_table(profiles), args)
    else:
        print(describe(profiles, types, table_options(args), width=terminal_width()))
    wrong = any(kind.outliers for kind in types) or any(each.error for each in profiles)
    return 1 if wrong else 0


def node_type(node: Node, cpu_model: str, columns: Sequence[TypeColumn]) -> str:
    """Name of a node's type: what its columns say, with commas between them."""
    texts = {
        TypeColumn.CPU_MODEL: cpu_model,
        TypeColumn.CPUS: f"{node.cpus} CPUs",
        TypeColumn.MEMORY: f"{round(node.memory_mib / 1024)} GiB",
        TypeColumn.FEATURES: node.features,
    }
    return ", ".join(texts[column] for column in columns if texts[column]) or "unknown"


def _measure(args: argparse.Namespace, config: Config) -> list[NodeProfile]:
    if not (args.nodelist or args.partition):
        raise ConfigError("which nodes? name them with -w, or their partition with -p")
    chosen = nodes(nodelist=args.nodelist, partition=args.partition)
    usable = [node for node in chosen if node.usable]
    cluster = config.cluster or cluster_name(partial(run_slurm, timeout_s=_TIMEOUT_S))
    with (
        open_store(config, create=True) as store,
        _network(args, config) as (host, port),
        progress("measuring") as report,
        ThreadPoolExecutor(max_workers=args.at_once) as pool,
    ):
        own = config.benchmarks
        given = {name: getattr(own, name) for name in _OF_PLAN}
        text = script(BenchmarkPlan(parts=args.only, network_host=host, network_port=port, **given))
        options = {name: getattr(args, name) for name in _OF_JOB}
        # Behind everybody else's jobs; without a patience it waits as long as it takes.
        options |= {"immediate": args.immediate or "", "nice": own.nice, "time": own.limit_min}
        profiles: list[NodeProfile] = []
        outputs = pool.map(lambda node: run_on(node, options, text), usable)
        for node, output in zip(usable, outputs, strict=True):
            found, cpu_model = read(output, cluster=cluster, node=node.name, at_s=time.time())
            kind = node_type(node, cpu_model, config.benchmarks.type_by)
            profiles.append(replace(found, node_type=kind))
            store.profiles.add(profiles[-1:])
            report(1, node.name, len(profiles) / len(usable))
    return profiles + [_left_out(node, cluster, config) for node in chosen if not node.usable]


def _left_out(node: Node, cluster: str, config: Config) -> NodeProfile:
    """Give a profile that says why a node was not measured; it is not stored."""
    kind = node_type(node, "", config.benchmarks.type_by)
    error = f"not measured: it is {node.state}"
    return NodeProfile(
        cluster=cluster, node=node.name, node_type=kind, at_s=time.time(), error=error
    )


@contextmanager
def _network(args: argparse.Namespace, config: Config) -> Iterator[tuple[str, int]]:
    """Give the iperf3 server to measure against; one of our own lives as long as we measure."""
    named = args.network_host or config.benchmarks.network_host
    if "network" not in args.only:
        yield "", 0
    elif named:
        server = member(named)
        yield server.host, server.port if ":" in named else _IPERF_PORT
    else:
        if shutil.which("iperf3") is None:
            raise ProbeError(
                "iperf3 is not installed here: install it, name a server with --network-host, or "
                "leave the "
                "network out with --only cpu,memory,disk"
            )
        with _own_server() as port:
            yield socket.gethostname(), port


@contextmanager
def _own_server() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("", 0))
        port = int(free.getsockname()[1])
    argv = ["iperf3", "--server", "--port", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as server:
        try:
            yield port
        finally:
            server.terminate()


class ProfileRow(NamedTuple):
    """A type of node, or one node of it."""

    node: str
    node_type: str
    values: Mapping[str, float | None]


def describe(
    profiles: Sequence[NodeProfile],
    types: Sequence[TypeProfile],
    options: cols.TableOptions | None = None,
    *,
    width: int = cols.WIDTH,
) -> str:
    """Give a table of types and their nodes; outliers and errors stand below it.

    Raises NoColumn: the options name a column that there is not.
    """
    made = types_table(profiles, types).text(options, width=width)
    complaints = [complaint(outlier) for kind in types for outlier in kind.outliers]
    complaints += [f"{profile.node}: {profile.error}" for profile in profiles if profile.error]
    return "\n".join([made, *(wrapped(printable(text), width) for text in complaints)])


def types_table(profiles: Sequence[NodeProfile], types: Sequence[TypeProfile]) -> cols.Table:
    """Types of nodes, each with its nodes below it."""
    by_name = {profile.node: profile for profile in profiles}
    rows = [row for kind in types for row in _rows(kind, by_name)]
    measures = [m for m in MEASURES if any(m in kind.values for kind in types)]
    return cols.Table(_columns(measures), rows)


def _rows(kind: TypeProfile, by_name: Mapping[str, NodeProfile]) -> Iterator[ProfileRow]:
    yield ProfileRow(kind.node_type, kind.node_type, kind.values)
    for node in kind.nodes:
        values = {measure: getattr(by_name[node], measure) for measure in MEASURES}
        yield ProfileRow(f"  {node}", kind.node_type, values)


def _columns(measures: Sequence[str]) -> list[cols.Column]:
    """Columns of these measures, the first of most worth."""

    def of(measure: str, place: int) -> cols.Column:
        return cols.Column(
            measure,
            _COLUMNS[measure][0],
            lambda row: row.values.get(measure),
            lambda value: _cell(measure, value),
            worth=max(cols.ALWAYS - 1 - place, 1),
        )

    return [
        cols.Column("node", "", left=True, cuts=True, meaning="node, or type of nodes"),
        cols.Column("node_type", "type", worth=cols.ON_REQUEST),
        *(of(measure, place) for place, measure in enumerate(measures)),
    ]


def complaint(outlier: Outlier) -> str:
    """Describe an outlier."""
    heading, _ = _COLUMNS[outlier.measure]
    return (
        f"{outlier.node}: {heading} {_cell(outlier.measure, outlier.value)} is "
        f"{outlier.ratio:.2f} of its type's {_cell(outlier.measure, outlier.typical)}"
    )


def _cell(measure: str, value: float | None) -> str:
    return "-" if value is None else f"{value * _COLUMNS[measure][1]:.4g}"
