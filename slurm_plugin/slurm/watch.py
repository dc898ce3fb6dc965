"""Looking at the cluster again and again: a few commands each time, never one for each job."""

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.limit_watch import LimitWatch
from slurm_plugin.slurm.snapshot import PARTITIONS, SINFO, SQUEUE, build
from slurm_plugin.slurm.state import Cluster

_COMMANDS = (SQUEUE, SINFO, PARTITIONS)

CONFIG = ("scontrol", "show", "config")
_NAME = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)
_ENFORCED = re.compile(r"^AccountingStorageEnforce\s*=\s*(\S+)", re.MULTILINE)
_PRIVATE = re.compile(r"^PrivateData\s*=.*\b(?:jobs|usage|all)\b", re.MULTILINE)
_SLURM_USER = re.compile(r"^SlurmUser\s*=\s*\S*\((\d+)\)", re.MULTILINE)


class Runner(Protocol):
    """Runs a command and returns its text; raises SlurmError."""

    def __call__(self, argv: Sequence[str], *, timeout_s: float) -> str:
        """Run ``argv``."""


class Watch:
    """The latest view of the cluster, and how to get a new one.

    Parameters
    ----------
    clock
        Seconds since the epoch.
    timeout_s
        For one command.
    cluster
        Name of the cluster; empty: Slurm is asked.
    run
        Runs a command.

    Attributes
    ----------
    slurm_users
        Uid that slurmctld runs as, once Slurm was asked.
    private
        Whether PrivateData hides users' jobs from each other; so until Slurm was asked.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        timeout_s: float,
        cluster: str = "",
        run: Runner = commands.run,
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._cluster = cluster
        self._run = run
        self._latest: Cluster | None = None
        self._asked = False
        self._enforced: tuple[str, ...] = ()
        self._limits = LimitWatch(clock, lambda argv: run(argv, timeout_s=timeout_s))
        self.slurm_users: frozenset[int] = frozenset()
        self.private = True

    def look(self) -> Cluster:
        """Ask Slurm; takes as long as its commands.

        Raises
        ------
        SlurmError
            A command failed or wrote something unknown.
        """
        if not self._asked:
            self._ask_config()
        taken_s = self._clock()
        squeue, sinfo, partitions = (
            self._run(argv, timeout_s=self._timeout_s) for argv in _COMMANDS
        )
        self._latest = build(
            squeue,
            sinfo,
            partitions,
            self._limits.look(self._cluster, self._enforced),
            cluster=self._cluster,
            taken_s=taken_s,
            previous=self._latest,
        )
        return self._latest

    def _ask_config(self) -> None:
        text = self._run(CONFIG, timeout_s=self._timeout_s)
        self.slurm_users = frozenset(map(int, _SLURM_USER.findall(text)))
        self.private = _PRIVATE.search(text) is not None
        found, enforced = _NAME.search(text), _ENFORCED.search(text)
        self._enforced = tuple(enforced[1].split(",")) if enforced else ()
        if not self._cluster and found is None:
            raise SlurmError("scontrol show config: no ClusterName")
        self._cluster = self._cluster or (found[1] if found else "")
        self._asked = True
