"""Logs in the Standard Workload Format as workloads for replays."""

from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from slurm_plugin.replay.workload import Workload


def workload(text: TextIO, most: int) -> tuple[Workload, NDArray[np.int64]]:
    """Read the jobs of a log in the order of submission, and their numbers."""
    lines = text.readlines()
    head = "".join(line for line in lines if line.startswith(";"))
    rows = np.loadtxt([line for line in lines if not line.startswith(";")])[:most]
    nodes = np.where(rows[:, 7] > 0, rows[:, 7], rows[:, 4]).astype(int)
    usable = (nodes > 0) & (rows[:, 3] > 0)
    size = next(
        (int(line.split(":")[1]) for line in head.splitlines() if "MaxProcs:" in line),
        int(nodes.max()),
    )
    rows, nodes = rows[usable], np.minimum(nodes[usable], size)
    limits = np.where(rows[:, 8] > 0, rows[:, 8], 1.5 * rows[:, 3])
    order = np.argsort(rows[:, 1], kind="stable")
    work = Workload(
        submit_s=rows[order, 1],
        nodes=nodes[order],
        run_s=np.minimum(rows[order, 3], limits[order]),
        limit_s=limits[order],
        wait_s=np.zeros(len(order)),
        users=tuple(str(user) for user in rows[order, 11].astype(int)),
        cluster_nodes=size,
    )
    return work, rows[order, 0].astype(np.int64)
