"""Nodes and jobs through PySlurm, where it is installed and fits the running Slurm.

PySlurm is optional and works with the one release of Slurm that it was compiled against.
Partitions, reservations and licences are few and asked for as text (see :mod:`.fields`).
"""

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import converters, fields, sources
from slurm_plugin.slurm.raw_state import RawJob, RawNode, RawState
from slurm_plugin.slurm.sources import Release, Run, ask_few, read_few

_MODULE = "pyslurm"


def load(release: Release) -> Any:
    """Import PySlurm for a Slurm of this release.

    Raises SlurmError: it is not installed, does not load, or belongs to another release; the
        message says which.
    """
    try:
        module = importlib.import_module(_MODULE)
        built = library_release() or tuple(map(int, str(module.__version__).split(".")[:2]))
    except Exception as error:  # an extension module may fail in any way
        raise SlurmError(f"PySlurm cannot be loaded: {error}") from error
    if built != release:
        have, want = (f"{major}.{minor:02}" for major, minor in (built, release))
        raise SlurmError(f"PySlurm is for Slurm {have}, slurmctld is {want}")
    return module


def library_release() -> Release | None:
    """Release of the libslurm that PySlurm has loaded into the process; None where that is unknown.

    That, not PySlurm's own version, has to speak slurmctld's protocol.
    """
    try:
        asked: Callable[[], int] = ctypes.CDLL(None).slurm_api_version
    except (AttributeError, OSError):
        return None
    return _RELEASES.get(asked() >> 16)


#: Major number of libslurm's interface to release (API_CURRENT in Slurm's META file).
_RELEASES: dict[int, Release] = {
    38: (22, 5), 39: (23, 2), 40: (23, 11), 41: (24, 5), 42: (24, 11), 43: (25, 5), 44: (25, 11),
    45: (26, 5),
}  # fmt: skip


def ask(module: Any, run: Run) -> RawState:
    """Ask through PySlurm.

    Raises SlurmError: it failed, or its objects have unexpected fields.
    """
    few = read_few(*ask_few(run))
    try:
        jobs, nodes = _values(module.Jobs.load()), _values(module.Nodes.load())
        return replace(
            few,
            nodes=[RawNode(**fields.read_object(fields.NODE, node)) for node in nodes],
            jobs=[_job(job) for job in jobs if converters.state(job.state) in sources.ACTIVE],
        )
    except Exception as error:  # PySlurm has errors of its own
        raise SlurmError(f"PySlurm: {error!r}") from error


def _values(loaded: Any) -> list[Any]:
    return list(loaded.values()) if hasattr(loaded, "values") else list(loaded)


def _job(job: Any) -> RawJob:
    devices = converters.gres(job.gres or {})
    tres = {"cpu": float(job.cpus or 0), "mem": float(job.memory or 0)}
    tres |= {f"gres/{name}": float(n) for name, n in devices.items()}
    return replace(RawJob(**fields.read_object(fields.JOB, job)), tres=tres)
