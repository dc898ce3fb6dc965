"""A Dask cluster to fit on: one that runs already, or workers that are Slurm jobs.

Loaded only for ``nimo fit --dask``; needs the extra ``dask``.
"""

import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from sacct_ingest.errors import DaskError, how_to_install
from slurm_plugin.config.settings import data_folder

try:
    import dask.config
    from distributed import Client, KilledWorker
except ImportError as error:
    raise DaskError(f"Dask is not installed; {how_to_install('dask')}") from error

SLURM = "slurm"  #: instead of an address: workers are to be jobs of this cluster
JOBS = 4  #: default number of workers to ask of Slurm
RETRIES = 3  #: times that a batch is tried again when its worker is lost
CONNECT_S = 10.0
WAIT_S = 600.0  #: for the first worker: jobs may have to wait in the queue

#: What a job asks for where Dask's configuration (``jobqueue.slurm``) does not say.
JOB = {"cores": 1, "processes": 1, "memory": "2GiB", "walltime": "01:00:00"}

#: Dask makes its workers give freed memory back at once, which doubles the time of a fit: its many
#: small arrays are mapped and cleared anew.  As much as here may stay with each of them.
_RETAINED_BYTES = 128 * 2**20
#: Client, scheduler and workers log their last messages, a batch of runs in each: of 1,000, as Dask
#: has it, those take 700 MB.
_LOGGED = 10
WORKER_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(_RETAINED_BYTES),
    "MALLOC_MMAP_THRESHOLD_": str(_RETAINED_BYTES),
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": str(_LOGGED),
}


@dataclass(frozen=True, slots=True)
class DaskPool:
    """Where to fit, and how many batches at once."""

    executor: Executor
    workers: int
    address: str  #: of the scheduler


@contextmanager
def dask_pool(where: str, jobs: int = JOBS, *, wait_s: float = WAIT_S) -> Iterator[DaskPool]:
    """Connect to a Dask cluster for a while.

    where: address of a scheduler, e.g. ``tcp://head:8786``, or ``slurm`` for a cluster of our own
        whose workers are Slurm jobs; the site's settings for those are Dask's own, under
        ``jobqueue.slurm``.
    jobs: workers to ask of Slurm.
    wait_s: how long to wait for the first worker.
    Raises DaskError: the scheduler cannot be reached, no worker comes, workers are of another
        release, or they were lost again and again.
    """
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.admin.low-level-log-length": _LOGGED}))
        cluster = stack.enter_context(_slurm_cluster(jobs)) if where == SLURM else where
        client = stack.enter_context(_client(cluster))
        _await_workers(client, wait_s)
        threads = sum(client.nthreads().values())
        workers = max(threads, jobs) if where == SLURM else threads
        executor = client.get_executor(pure=False, retries=RETRIES)
        try:
            yield DaskPool(executor, workers, str(client.scheduler_info()["address"]))
        except KilledWorker as error:
            raise DaskError(f"workers of Dask were lost again and again: {error}") from error


@contextmanager
def _client(cluster: Any) -> Iterator[Client]:
    try:
        client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DaskError(f"no Dask scheduler answers at {cluster}: {error}") from error
    with client:
        yield client


@contextmanager
def _slurm_cluster(jobs: int) -> Iterator[Any]:
    from dask_jobqueue.slurm import SLURMCluster  # noqa: PLC0415 - only needed here

    if shutil.which("sbatch") is None:
        raise DaskError("sbatch is not found: 'nimo fit --dask slurm' submits jobs with it")
    folder = data_folder() / "dask"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings: dict[str, Any] = JOB | {
        "log_directory": str(folder),
        "shared_temp_directory": str(folder),
        "scheduler_options": {"dashboard_address": "127.0.0.1:0"},
    }
    unset = {name: value for name, value in settings.items() if not _site_says(name)}
    prologue = [
        *dask.config.get("jobqueue.slurm.job-script-prologue", []),
        *(f"export {name}={value}" for name, value in WORKER_ENVIRONMENT.items()),
    ]
    try:
        # Anyone who reaches a scheduler can run code as its user: use TLS with keys of this refit.
        cluster: Any = SLURMCluster(
            protocol="tls://", security=True, job_script_prologue=prologue, **unset
        )
    except (OSError, ValueError, TypeError) as error:
        raise DaskError(f"jobqueue.slurm in Dask's configuration: {error}") from error
    with cluster:
        cluster.scale(jobs=jobs)
        yield cluster


def _site_says(name: str) -> bool:
    """Whether the site's own Dask configuration has this setting of jobs."""
    default = "00:30:00" if name == "walltime" else None  # dask-jobqueue's own
    value = dask.config.get(f"jobqueue.slurm.{name.replace('_', '-')}", default)
    return value not in (default, {})


def _await_workers(client: Client, wait_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=wait_s)
        releases = client.run(_release)
    except TimeoutError as error:
        raise DaskError(f"no Dask worker came within {wait_s:.0f} s") from error
    except ImportError as error:
        raise DaskError(f"workers of Dask lack what is needed to fit: {error}") from error
    others = {release for release in releases.values() if release != _release()}
    if others:
        raise DaskError(
            f"workers of Dask have nimo-slurm {', '.join(sorted(others))}, this is {_release()}: "
            "install the same release there"
        )
    logging.getLogger(__name__).info("%d workers of Dask", len(releases))


def _release() -> str:
    return version("nimo-slurm")
