"""The configuration files of a throw-away Slurm, as text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cgroups
from tests.processes import Account

Version = tuple[int, int]

# Lines that only releases from the named one on understand. Debian's current ones: 22.05 and 24.11.
SINCE: tuple[tuple[Version, str, str], ...] = (
    # "disabled" is the one value that never touches the host's cgroups; 22.05 needs none.
    ((22, 11), "cgroup.conf", "CgroupPlugin=disabled"),
    ((22, 11), "slurm.conf", "AccountingStoreFlags=job_comment,job_script,job_env,job_extra"),
    ((25, 11), "slurm.conf", "CliFilterParameters=cli_filter_lua_path={etc}/cli_filter.lua"),
)
# A requeued job waits until its credential has expired: 120 s unless told otherwise.
AUTHENTICATION: dict[str, dict[str, str]] = {
    "munge": {"AuthType": "auth/munge", "AuthInfo": "socket={munge_socket},cred_expire=10"},
    # Since 23.11. The key is slurm.key beside slurm.conf.
    "slurm": {"AuthType": "auth/slurm", "AuthInfo": "cred_expire=10"},
}
CREDENTIALS = {"munge": "cred/munge", "slurm": "auth/slurm"}
REPEATABLE = ("NodeName", "PartitionName", "DownNodes", "NodeSet")
#: Seconds that Slurm waits for an answer, a connection, and the end of a killed step: a machine may
#: stand still for a while, and a step that was killed for longer would drain its node for good.
_PATIENCE = {"MessageTimeout": 60, "TCPTimeout": 10, "UnkillableStepTimeout": 600}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in a cluster's directory; ``shared``: in that of whose munge it shares."""

    directory: Path
    shared: Path | None = None

    @property
    def etc(self) -> Path:
        """Configuration files, keys and Lua hooks."""
        return self.directory / "etc"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF must name."""
        return self.etc / "slurm.conf"

    @property
    def log(self) -> Path:
        """Logs: ``NAME.log`` the daemon's own, ``NAME.out`` what it printed."""
        return self.directory / "log"

    @property
    def run(self) -> Path:
        """Sockets and pid files."""
        return self.directory / "run"

    @property
    def munge_socket(self) -> Path:
        """Where munged listens."""
        return (self.shared or self.directory) / "run" / "munge.sock"

    @property
    def bin(self) -> Path:
        """Slurm's commands, bound to this cluster."""
        return self.directory / "bin"

    @property
    def work(self) -> Path:
        """Where commands run unless told otherwise; everybody may write here."""
        return self.directory / "work"

    def folders(self) -> tuple[Path, ...]:
        """List all folders that must be there before the daemons start."""
        names = ("state", "spool")
        return (
            self.etc,
            self.log,
            self.run,
            self.bin,
            self.work,
            *map(self.directory.joinpath, names),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What distinguishes one test cluster from another.

    version: Slurm's release, such as ``(22, 5)``.
    account, slurmd_account: SlurmUser and SlurmdUser.
    ports: for slurmctld, slurmdbd and one slurmd after the other.
    nodes, cpus: how many nodes, and how many CPUs each claims to have.
    threads: CPUs of a core.
    plugins: slurm.conf parameters of the Lua hooks to switch on.
    conf: more lines for slurm.conf; they replace those with the same parameter.
    auth: how daemons and users are told apart: a key of `AUTHENTICATION`.
    gpus: how many GPUs each node claims to have.
    gpu_types: types of these, of one node after the other; none: they have no type.
    name: ClusterName.
    cgroups: whether control groups keep jobs within their memory.
    """

    version: Version
    account: Account
    slurmd_account: Account
    ports: Sequence[int]
    nodes: int = 8
    cpus: int = 4
    threads: int = 1
    plugins: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    auth: str = "munge"
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    name: str = "nimo"
    cgroups: bool = False

    def node_names(self) -> list[str]:
        """List the nodes' names: n1, n2, ..."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def gpu_type(self, place: int) -> str:
        """Type of the GPUs of one of the nodes; empty: it has none."""
        return self.gpu_types[place % len(self.gpu_types)] if self.gpu_types else ""


def files(layout: Layout, settings: Settings) -> dict[str, str]:
    """Write all configuration files: name to text."""
    parameters = {
        "slurm.conf": _slurm_conf(layout, settings),
        "slurmdbd.conf": _slurmdbd_conf(layout, settings),
        "cgroup.conf": dict(cgroups.CONF) if settings.cgroups else {},
        "gres.conf": _gres_conf(layout, settings),
    }
    for since, name, line in SINCE:
        if settings.version >= since and _requested(line, settings):
            key, _, value = line.format(etc=layout.etc).partition("=")
            parameters[name][key] = value
    texts = {name: _lines(each) for name, each in parameters.items() if each}
    texts["slurm.conf"] = override(
        texts["slurm.conf"] + _nodes(settings) + _partitions(settings), settings.conf
    )
    return {name: "\n".join(lines) + "\n" for name, lines in texts.items()}


def override(lines: Iterable[str], more: Iterable[str]) -> list[str]:
    """Add lines to a configuration; one with the same parameter replaces the old one.

    >>> override(["A=1", "B=2"], ["A=3", "NodeName=x"])
    ['B=2', 'A=3', 'NodeName=x']
    """
    more = list(more)
    replaced = {line.partition("=")[0].strip() for line in more} - set(REPEATABLE)
    return [line for line in lines if line.partition("=")[0] not in replaced] + more


def _requested(line: str, settings: Settings) -> bool:
    if line.startswith("CgroupPlugin"):
        return not settings.cgroups
    return not line.startswith("CliFilter") or "CliFilterPlugins" in settings.plugins


def _lines(parameters: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in parameters.items()]


def _authentication(layout: Layout, settings: Settings) -> dict[str, object]:
    places = {"munge_socket": layout.munge_socket}
    return {k: v.format(**places) for k, v in AUTHENTICATION[settings.auth].items()}


def _slurmdbd_conf(layout: Layout, settings: Settings) -> dict[str, object]:
    return {
        **_authentication(layout, settings),
        "DbdHost": "localhost",
        "DbdPort": settings.ports[1],
        "SlurmUser": settings.account.name,
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": settings.account.name,
        "StorageLoc": "slurm_acct_db",
        "LogFile": layout.log / "slurmdbd.log",
        "PidFile": layout.run / "slurmdbd.pid",
    }


def _gres_conf(layout: Layout, settings: Settings) -> dict[str, object]:
    # A GPU without a file does not count; one line holds it all.
    last = settings.gpus - 1
    if not settings.gpus:
        return {}
    files = f"File={layout.etc}/gpu[0-{last}]"
    if not settings.gpu_types:
        return {"Name": f"gpu {files}"}
    nodes = [
        f"{name} Name=gpu Type={settings.gpu_type(place)} {files}"
        for place, name in enumerate(settings.node_names())
    ]
    return {"NodeName": "\nNodeName=".join(nodes)}


def _slurm_conf(layout: Layout, settings: Settings) -> dict[str, object]:
    return {
        "ClusterName": settings.name,
        "SlurmctldHost": "localhost",
        "SlurmctldPort": settings.ports[0],
        "SlurmUser": settings.account.name,
        "SlurmdUser": settings.slurmd_account.name,
        **_authentication(layout, settings),
        "CredType": CREDENTIALS[settings.auth],
        "StateSaveLocation": layout.directory / "state",
        "SlurmdSpoolDir": layout.directory / "spool" / "%n",
        "SlurmctldPidFile": layout.run / "slurmctld.pid",
        "SlurmdPidFile": layout.run / "slurmd-%n.pid",
        "SlurmctldLogFile": layout.log / "slurmctld.log",
        "SlurmdLogFile": layout.log / "%n.log",
        # All nodes are this machine: believe slurm.conf, not the hardware; track by /proc.
        "SlurmdParameters": "config_overrides",
        **({"GresTypes": "gpu", "AccountingStorageTRES": "gres/gpu"} if settings.gpus else {}),
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if settings.cgroups else "task/none",
        "MpiDefault": "none",
        "ReturnToService": 2,
        "KillWait": 2,
        **_PATIENCE,
        **_scheduling(),
        **_accounting(layout, settings),
        **dict.fromkeys(settings.plugins, "lua"),
    }


def _scheduling() -> dict[str, object]:
    return {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_interval=2,batch_sched_delay=1",
    }


def _accounting(layout: Layout, settings: Settings) -> dict[str, object]:
    return {
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": settings.ports[1],
        # Clients of slurmdbd ignore AuthInfo and take munge's socket from the "password".
        **({"AccountingStoragePass": layout.munge_socket} if settings.auth == "munge" else {}),
        "AccountingStoreFlags": "job_comment,job_script,job_env",
    }


def _nodes(settings: Settings) -> list[str]:
    def gpus(place: int) -> str:
        words = ("gpu", settings.gpu_type(place), str(settings.gpus))
        return f" Gres={':'.join(filter(None, words))}" if settings.gpus else ""

    return [
        f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port}"
        f" CPUs={settings.cpus}{_cores(settings)} RealMemory=2000 Feature=plain{gpus(place)}"
        for place, (name, port) in enumerate(
            zip(settings.node_names(), settings.ports[2:], strict=True)
        )
    ]


def _cores(settings: Settings) -> str:
    cores = settings.cpus // settings.threads
    few = f" Sockets=1 CoresPerSocket={cores} ThreadsPerCore={settings.threads}"
    return few if settings.threads > 1 else ""


def _partitions(settings: Settings) -> list[str]:
    few = ",".join(settings.node_names()[:2])
    return [
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=7-0 DefaultTime=1:00:00",
        f"PartitionName=small Nodes={few} MaxTime=1:00:00 DefaultTime=10",
    ]
