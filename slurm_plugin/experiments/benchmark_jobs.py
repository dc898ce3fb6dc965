"""Benchmarks as Slurm jobs: which nodes there are, and one job on one of them."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.commands import run

_FORMAT = "%N|%t|%c|%m|%f"
_UNUSABLE = ("down", "drain", "drng", "fail", "maint", "unk", "boot", "inval", "pow")
_TIMEOUT_S = 30.0


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
    reported = parse_nodes(run(argv, timeout_s=_TIMEOUT_S))
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
    try:
        done = subprocess.run(
            argv_for(node, options, script),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise SlurmError(f"srun: {error.strerror or error}; are Slurm's commands there?") from error
    return done.stdout.decode(errors="replace")


def run_each(
    chosen: Sequence[Node], work: Callable[[Node], str], *, at_once: int
) -> Iterator[tuple[Node, str]]:
    """Run jobs, so many at a time; give each node's output in the order of the nodes."""
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        yield from zip(chosen, pool.map(work, chosen), strict=True)
