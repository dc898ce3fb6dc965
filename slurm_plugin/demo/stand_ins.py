"""What squeue, sinfo and scontrol would print on the made-up cluster.

The demo has no Slurm, but nimod asks for the state of the cluster as always; these texts answer.
They follow the formats of :mod:`slurm_plugin.slurm.sources`.
"""

from pathlib import Path

from slurm_plugin.demo.history import CLUSTER, NODES, node_names
from slurm_plugin.slurm import fields
from slurm_plugin.slurm.sources import SEPARATOR, line

_HOUR_S = 3600
#: Running jobs: nodes, and hours until their limit.
RUNNING = ((6, 13), (2, 20))
#: Waiting jobs: the nodes they ask for, and hours of their limits.
WAITING = ((28, 4), (30, 2), (30, 6))
_MEBIBYTES = 192_000
_CPUS = 48
#: Lines of ``scontrol show config``.
_SETTINGS = f"ClusterName = {CLUSTER}\nSLURM_VERSION = 26.05.5"


def write(folder: Path, *, now_s: float) -> None:
    """Write the stand-ins as commands into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"squeue": squeue(int(now_s)), "sinfo": sinfo(), "scontrol": partitions()}
    for name, text in texts.items():
        command = folder / name
        settings = f"[ \"$*\" != 'show config' ] || {{ echo '{_SETTINGS}'; exit; }}\n"
        first = settings if name == "scontrol" else ""
        # What follows the last colon is the separator that squeue is asked for.
        separator = "${SQUEUE_FORMAT2##*:}"
        shown = f'sed "s/{SEPARATOR}/{separator}/g"' if name == "squeue" else "cat"
        command.write_text(f"#!/bin/sh\n{first}{shown} <<'END'\n{text}END\n")
        command.chmod(0o755)


def squeue(now_s: int) -> str:
    """Text of ``squeue`` at ``now_s``, seconds since the epoch."""
    text, first = "", 0
    for nodes, hours in RUNNING:
        text += _job(
            State="RUNNING",
            NumNodes=nodes,
            StartTime=now_s - _HOUR_S,
            EndTime=now_s + hours * _HOUR_S,
            Reason="None",
            NodeList=node_names(range(first, first + nodes)),
        )
        first += nodes
    for nodes, hours in WAITING:
        limit = f"{hours}:00:00"
        text += _job(
            State="PENDING", NumNodes=nodes, TimeLimit=limit, Reason="Resources", NodeList=""
        )
    return text


def sinfo() -> str:
    """Text of ``sinfo``: one line for each node and partition."""
    in_use = sum(nodes for nodes, _ in RUNNING)
    return "".join(
        _node(node, partition, used=node < in_use)
        for node in range(NODES)
        for partition in ("batch*", "short")
    )


def _job(**words: object) -> str:
    tres = f"cpu={_CPUS * int(str(words['NumNodes']))}"
    return line(fields.JOB, {"Partition": "batch", "tres-alloc": tres, **words})


def _node(node: int, partition: str, *, used: bool) -> str:
    words = {
        "NodeList": node_names([node]),
        "StateComplete": "allocated" if used else "idle",
        "CPUs": _CPUS,
        "CPUsState": f"{_CPUS}/0/0/{_CPUS}" if used else f"0/{_CPUS}/0/{_CPUS}",
        "Memory": _MEBIBYTES,
        "Partition": partition,
    }
    return line(fields.NODE, words)


def partitions() -> str:
    """Text of ``scontrol show partition -o``."""
    limits = (("batch", "YES", "2-00:00:00"), ("short", "NO", "02:00:00"))
    lines = [
        f"PartitionName={name} Default={default} DefaultTime=01:00:00 MaxNodes=UNLIMITED "
        f"MaxTime={longest} MinNodes=0 State=UP"
        for name, default, longest in limits
    ]
    return "".join(f"{line}\n" for line in lines)
