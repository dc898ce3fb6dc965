"""What squeue, sinfo and scontrol would print on the made-up cluster.

The demo has no Slurm, but nimod asks for the state of the cluster as always; these texts answer.
They follow the formats of :mod:`slurm_plugin.slurm.snapshot`.
"""

from pathlib import Path

from slurm_plugin.demo.history import NODES, node_names

_HOUR_S = 3600
#: Running jobs: nodes, and hours until their limit.
_RUNNING = ((6, 5), (2, 9))
#: Waiting jobs: the nodes they ask for.
_WAITING = (28, 30, 30)
_MEBIBYTES = 192_000
_CPUS = 48


def write(folder: Path, *, now_s: float) -> None:
    """Write the stand-ins as commands into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"squeue": squeue(int(now_s)), "sinfo": sinfo(), "scontrol": partitions()}
    for name, text in texts.items():
        command = folder / name
        command.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
        command.chmod(0o755)


def squeue(now_s: int) -> str:
    """Text of ``squeue`` at ``now_s``, seconds since the epoch."""
    lines, first = [], 0
    for job, (nodes, hours) in enumerate(_RUNNING, start=900):
        names = node_names(range(first, first + nodes))
        end_s = now_s + hours * _HOUR_S
        lines.append(f"{job}|R|batch|{nodes}|{now_s - _HOUR_S}|{end_s}|None|{names}")
        first += nodes
    lines += [
        f"{job}|PD|batch|{nodes}|N/A|N/A|Resources|"
        for job, nodes in enumerate(_WAITING, start=950)
    ]
    return _text(lines)


def sinfo() -> str:
    """Text of ``sinfo``: one line for each node and partition."""
    size = f"{_MEBIBYTES}|{_CPUS}"
    in_use = sum(nodes for nodes, _ in _RUNNING)
    lines = [
        f"{node_names([node])}|{partition}|{'alloc' if node < in_use else 'idle'}|{size}"
        for node in range(NODES)
        for partition in ("batch*", "short")
    ]
    return _text(lines)


def partitions() -> str:
    """Text of ``scontrol show partition -o``."""
    limits = (("batch", "YES", "2-00:00:00"), ("short", "NO", "02:00:00"))
    lines = [
        f"PartitionName={name} Default={default} DefaultTime=01:00:00 MaxNodes=UNLIMITED "
        f"MaxTime={longest} MinNodes=0 State=UP"
        for name, default, longest in limits
    ]
    return _text(lines)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
