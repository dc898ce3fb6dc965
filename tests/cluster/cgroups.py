"""Control groups by which a test cluster's slurmd keep jobs within their memory.

Slurm's plugin for hierarchies of version 1 serves where the memory controller is in one of these:
version 2 alone would need a subtree that nobody else, such as systemd, looks after.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_MEMORY = Path("/sys/fs/cgroup/memory")
#: cgroup.conf of a cluster that enforces memory.
CONF = {
    "CgroupPlugin": "cgroup/v1",
    "CgroupMountpoint": _MEMORY.parent,
    "ConstrainRAMSpace": "yes",
    "MinRAMSpace": 1,
}


def lacking() -> str:
    """Say why jobs cannot be kept within their memory here; empty where they can."""
    if os.geteuid() != 0:
        return "only root can make control groups"
    if not (_MEMORY / "memory.limit_in_bytes").exists():
        return f"no memory controller of control groups, version 1, at {_MEMORY}"
    probe = _MEMORY / f"nimo-test-{os.getpid()}"
    try:
        probe.mkdir()
        (probe / "memory.limit_in_bytes").write_text(str(2**20))
        event = (probe / "cgroup.event_control").exists()
    except OSError as error:
        return f"no control group can be made in {_MEMORY}: {error}"
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()
    return "" if event else f"{_MEMORY} does not notify of a lack of memory"


def clear(nodes: Iterable[str]) -> None:
    """Remove what the slurmd of these nodes leave behind; some releases name no node there."""
    for node in (*nodes, "%n"):
        for folder, _, _ in os.walk(_MEMORY / f"slurm_{node}", topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
