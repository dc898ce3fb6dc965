"""A real Slurm on this machine, without systemd or containers."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.cluster import cgroups
from tests.cluster.configuration import Layout, Settings, files
from tests.cluster.host import real, slurm_account, write_file
from tests.cluster.listing import job_fields, table
from tests.cluster.releases import Root, root, version_of
from tests.databases import MariaDB
from tests.processes import (
    LONGEST_WAIT_S,
    Account,
    ProcessError,
    Processes,
    free_ports,
    search_path,
    tail,
    wait_until,
)

DAEMONS = ("munged", "mariadbd", "slurmdbd", "slurmctld")  # in the order of their start
COMMANDS = (
    *("sbatch", "srun", "salloc", "scancel", "squeue", "sinfo", "sacct", "sacctmgr"),
    *("scontrol", "sdiag", "sstat", "sprio", "sreport"),
)
OPTIONAL = ("scrontab",)  # Debian's 22.05 has it not
HOOKS = {"job_submit.lua": "JobSubmitPlugins", "cli_filter.lua": "CliFilterPlugins"}
# What would bend the commands' behaviour when the tests themselves run inside a job.
INHERITED = re.compile(r"(SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SACCT)_")


class SlurmCluster:
    """One cluster: munged, MariaDB, slurmdbd, slurmctld and a few slurmd on loopback.

    directory: holds everything: configuration, state, logs. Made if it is not there. A second `up`
        goes on with the accounting database and the jobs of the first.
    nodes, cpus: how many nodes (n1, n2, ...), and how many CPUs each claims to have.
    threads: CPUs of a core.
    conf: more lines for slurm.conf; they replace those with the same parameter.
    lua: folder whose job_submit.lua, cli_filter.lua and nimo* are copied beside slurm.conf. Each of
        the two hooks is switched on if its file is there.
    leashed: whether everything is to end when this process does, however it does.
    release: Slurm's release, such as 24.11; by default the one installed on this machine. Another
        one runs in a root directory (`tests.cluster.releases`); munge and MariaDB stay this
        machine's.
    auth: ``munge`` or, from 23.11 on, ``slurm``.
    gpus: how many GPUs each node claims to have.
    gpu_types: types of these, of one node after the other; none: they have no type.
    name: its name.
    memory_cgroups: whether control groups keep jobs within their memory (`tests.cluster.cgroups`).
    beside: another cluster, which is up: this one shares its munge and its accounting, so that each
        takes commands for the other with ``-M``.
    registers: folder with a file ``msr`` that stands for the first processor's registers on nodes.
    installed: folder that new data directories of MariaDB are copied from (`tests.databases`).
    Raises ReleaseError: when the release cannot be had here.

    Notes
    -----
    Partitions: ``batch`` (default, all nodes) and ``small`` (the first two). As root, slurmd runs
    as root and the rest as the user ``slurm``, as on a real cluster, if there is such a user and it
    can reach the directory; otherwise all daemons run as the caller.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 8,
        cpus: int = 4,
        threads: int = 1,
        conf: Sequence[str] = (),
        lua: Path | None = None,
        leashed: bool = True,
        release: str | None = None,
        auth: str = "munge",
        gpus: int = 0,
        gpu_types: Sequence[str] = (),
        name: str = "nimo",
        memory_cgroups: bool = False,
        beside: SlurmCluster | None = None,
        registers: Path | None = None,
        installed: Path | None = None,
    ) -> None:
        self._beside, self._registers = beside, registers
        shared = beside.layout.directory if beside else None
        self.layout = Layout(directory.resolve(), shared)
        self._root = root(release) if release else None
        self.processes = Processes(self.layout.directory)
        self.settings = Settings(
            version=self._root.version() if self._root else version_of([real("slurmctld")]),
            account=slurm_account(self.layout.directory),
            slurmd_account=Account.mine(),
            ports=_ports(nodes, beside),
            nodes=nodes,
            cpus=cpus,
            threads=threads,
            plugins=tuple(name for file, name in HOOKS.items() if lua and (lua / file).exists()),
            conf=tuple(conf),
            auth=auth,
            gpus=gpus,
            gpu_types=tuple(gpu_types),
            name=name,
            cgroups=memory_cgroups,
        )
        self._lua = lua
        self._leashed = leashed
        self._database = MariaDB(
            self.layout.directory, self.processes, self.settings.account, installed
        )

    # --- life ---------------------------------------------------------------------------------

    def up(self) -> float:
        """Bring the cluster up and give the seconds that took.

        Raises ProcessError: when a daemon does not come up, with the end of its log; nothing is
            left running.
        """
        began = time.monotonic()
        if self.processes.up:
            raise ProcessError(f"a cluster is already up in {self.layout.directory}")
        self._write_files()
        self.processes.open(leashed=self._leashed)
        try:
            for daemon in (*self._daemons(), *self.settings.node_names()):
                self._launch(daemon)
                if daemon in DAEMONS:
                    self._await(daemon)
            self._await("nodes")
        except BaseException:
            self.processes.close()
            raise
        return time.monotonic() - began

    def down(self) -> float:
        """Take everything down and give the seconds that took; harmless when it is down."""
        began = time.monotonic()
        try:
            if self.processes.up:
                self._end_jobs()
                others = self.processes.status().keys() - set(DAEMONS)
                self.processes.stop(*others, wait_s=3)
                for daemon in reversed(self._daemons()):
                    self.processes.stop(daemon)
        finally:
            self.processes.close()
            if self.settings.cgroups:
                cgroups.clear(self.settings.node_names())
        return time.monotonic() - began

    def start(self, daemon: str) -> None:
        """Start munged, mariadbd, slurmdbd, slurmctld or a node such as n1; wait until ready."""
        self._launch(daemon)
        self._await(daemon)

    def program(self, name: str, *arguments: str) -> list[str]:
        """Give the command line of one of Slurm's programs, to be run as oneself."""
        return self._slurm(name, Account.mine(), *arguments)

    def start_program(self, program: str, argv: Sequence[str], *, account: Account) -> None:
        """Start another of Slurm's daemons, such as slurmrestd, and do not wait for it."""
        line = self._slurm(program, account, *argv)
        env = {"SLURM_CONF": str(self.layout.slurm_conf)}
        self.processes.start(program, line, env=env, account=None if self._root else account)

    def stop(self, daemon: str) -> None:
        """Stop one daemon."""
        self.processes.stop(daemon)

    def restart(self, daemon: str) -> None:
        """Stop a daemon and start it again."""
        self.stop(daemon)
        self.start(daemon)

    def lacking(self, *programs: str | Path) -> list[str]:
        """Name the programs that its jobs do not find: a root directory has little but Slurm."""
        expected = list(map(str, programs))
        if self._root:
            return self._root.lacking(expected)
        return [program for program in expected if not shutil.which(program, path=search_path())]

    def reconfigure(self) -> None:
        """Make the daemons read slurm.conf again."""
        self.run("scontrol", "reconfigure")

    def log(self, daemon: str) -> str:
        """Give the text of a daemon's log."""
        own = self.layout.log / f"{daemon}.log"
        return (own if own.exists() else self.processes.log(daemon)).read_text(errors="replace")

    # --- use ----------------------------------------------------------------------------------

    @property
    def bin(self) -> Path:
        """Folder to put into PATH: Slurm's commands for this cluster."""
        return self.layout.bin

    @property
    def root(self) -> Root | None:
        """Root directory that Slurm is in; None for this machine's own."""
        return self._root

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's commands talk to this cluster."""
        inherited = {k: v for k, v in os.environ.items() if not INHERITED.match(k)}
        path = f"{self.bin}:{os.environ.get('PATH', os.defpath)}"
        return {**inherited, "SLURM_CONF": str(self.layout.slurm_conf), "PATH": path}

    def run(
        self,
        *argv: str | Path,
        check: bool = True,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        timeout_s: float = LONGEST_WAIT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that talks to this cluster.

        check: raise ProcessError, with what the command printed, when it fails.
        user: who runs it; only root may name another.
        env: variables to add to `env`.
        cwd: where; by default the cluster's folder ``work``.
        stdin: its standard input.
        """
        account = Account.of(user) if user else Account.mine()
        who = {"USER": account.name, "LOGNAME": account.name} if user else {}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(word) for word in argv],
            **account.popen_arguments(),
            check=False,
            env={**self.env, **who, **(env or {})},
            cwd=cwd or self.layout.work,
            input=stdin,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=timeout_s,
        )
        if check and done.returncode != 0:
            printed = (done.stdout + done.stderr).strip()
            raise ProcessError(f"{argv[0]} ended with status {done.returncode}: {printed}")
        return done

    def sbatch(
        self,
        *argv: str | Path,
        script: str = "",
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> int:
        """Submit a job and give its id; `script` is the text of a script passed on stdin."""
        done = self.run("sbatch", "--parsable", *argv, stdin=script, user=user, env=env, cwd=cwd)
        return int(done.stdout.strip().partition(";")[0])

    def job(self, job_id: int) -> dict[str, str]:
        """Give what ``scontrol show job`` says of a job: its own words for fields and values."""
        return job_fields(self.run("scontrol", "show", "job", str(job_id)).stdout)

    def wait(
        self, *job_ids: int, timeout_s: float = LONGEST_WAIT_S, accounted: bool = False
    ) -> None:
        """Wait until jobs have ended; the id of an array or het job stands for all its parts.

        accounted: wait also until sacct knows how they ended, which can take 5 s more.
        """
        ids = {str(job_id) for job_id in job_ids}

        def ended() -> bool:
            listing = self.run(
                "squeue", "-h", "-a", "-r", "-O", "JobID:12,ArrayJobID:12,HetJobID:12"
            )
            return ids.isdisjoint(listing.stdout.split())

        def recorded() -> bool:
            rows = self.sacct("-X", "-j", ",".join(ids), fields=("JobID", "Partition", "End"))
            # Until slurmctld's batch of start records has arrived, up to 5 s late, 22.05 shows a
            # half record: named "allocation", without partition, limit and submit line.
            full = [r for r in rows if r["Partition"] and r["End"] != "Unknown"]
            return full == rows and ids <= {re.split(r"\D", r["JobID"])[0] for r in rows}

        for done in (ended, recorded) if accounted else (ended,):
            try:
                wait_until(done, timeout_s=timeout_s, what=f"jobs {sorted(ids)}: {done.__name__}")
            except ProcessError as error:
                raise ProcessError(f"{error}\n{self.run('squeue').stdout}") from None

    def wait_for_nodes(self, idle: Callable[[], bool]) -> None:
        """Wait until `idle` says that the nodes are free.

        Raises ProcessError: when they are not in time, or one of their slurmd has ended by itself;
            with the state of each node, and the ends of these logs.
        """

        def free() -> bool:
            if dead := self._dead_nodes():
                raise ProcessError(f"slurmd has ended by itself: {', '.join(dead)}")
            return idle()

        try:
            wait_until(free, what="the nodes to be free")
        except ProcessError as error:
            nodes = self._dead_nodes() or self.settings.node_names()
            logs = [tail(self.processes.log(name)) for name in nodes]
            states = self.run("sinfo", "-N", "-l").stdout
            raise ProcessError("\n".join([str(error), states, *logs])) from None

    def _dead_nodes(self) -> list[str]:
        nodes = set(self.settings.node_names())
        return [
            name
            for name, state in self.processes.status().items()
            if name in nodes and not state.startswith("running")
        ]

    def sacct(
        self, *argv: str, fields: Sequence[str] = ("JobID", "JobName", "State", "NNodes", "Elapsed")
    ) -> list[dict[str, str]]:
        """Ask accounting: one dict for each record, steps too unless ``-X`` is among `argv`."""
        # Names may hold any character, so the separator must be one that nobody can guess.
        separator = secrets.token_hex(8)
        options = ("-P", f"--delimiter={separator}", f"--format={','.join(fields)}")
        return table(self.run("sacct", *options, *argv).stdout, fields, separator)

    # --- inside -------------------------------------------------------------------------------

    def _write_files(self) -> None:
        self.layout.directory.mkdir(parents=True, exist_ok=True)
        for folder in self.layout.folders():
            folder.mkdir(exist_ok=True)
        self.layout.work.chmod(0o1777)
        if self._root:
            self._root.prepare(self.layout.directory)
        account = self.settings.account
        account.own(self.layout.directory, *self.layout.folders())
        for name, text in files(self.layout, self.settings).items():
            secret = name == "slurmdbd.conf"
            write_file(self.layout.etc / name, text.encode(), 0o600 if secret else 0o644, account)
        for key in ("munge.key", "slurm.key"):
            shared = self._beside.layout.etc / key if self._beside else None
            secret_key = shared.read_bytes() if shared else secrets.token_bytes(128)
            write_file(self.layout.etc / key, secret_key, 0o600, account)
        for number in range(self.settings.gpus):
            write_file(self.layout.etc / f"gpu{number}", b"", 0o644, account)
        self._copy_hooks()
        for command in (*COMMANDS, *(set(OPTIONAL) - set(self.lacking(*OPTIONAL)))):
            self._write_wrapper(command)

    def _write_wrapper(self, command: str) -> None:
        argv = self._slurm(command, Account.mine())
        text = f'#!/bin/sh\nSLURM_CONF={self.layout.slurm_conf} exec {shlex.join(argv)} "$@"\n'
        write_file(self.bin / command, text.encode(), 0o755, self.settings.account)

    def _slurm(self, program: str, account: Account, *arguments: str) -> list[str]:
        """Give the command line that runs a program of Slurm's, wherever it is installed."""
        if self._root is None:
            return [real(program), *arguments]
        argv = [self._root.program(program), *arguments]
        return self._root.inside(self.layout.directory, argv, account)

    def _daemons(self) -> list[str]:
        if self._beside:
            return ["slurmctld"]
        return [name for name in DAEMONS if name != "munged" or self.settings.auth == "munge"]

    def _copy_hooks(self) -> None:
        if self._lua:
            for source in [*map(self._lua.joinpath, HOOKS), *self._lua.glob("nimo*")]:
                if source.exists():
                    shutil.copy(source, self.layout.etc)

    def _end_jobs(self) -> None:
        """Cancel all jobs, so that they and their steps end in good order."""
        if not self._succeeds("scontrol", "ping"):
            return
        if ids := self.run("squeue", "-h", "-o", "%A", check=False).stdout.split():
            self.run("scancel", *ids, check=False)
            with contextlib.suppress(ProcessError):
                wait_until(
                    lambda: not self.run("squeue", "-h", "-t", "R,CG", check=False).stdout,
                    timeout_s=5,
                    what="jobs to end",
                )

    def _launch(self, daemon: str) -> None:
        if daemon == "mariadbd":
            self._database.up()
            # A slurmdbd that must make it itself dies with libmariadb 3.4.10.
            self._database.execute("create database if not exists slurm_acct_db")
            return
        account = self.settings.account if daemon in DAEMONS else self.settings.slurmd_account
        env = {
            "SLURM_CONF": str(self.layout.slurm_conf),
            "MYSQL_UNIX_PORT": str(self._database.socket),
        }
        argv = self._command(daemon, account)
        # Only root can enter a root directory: entering changes the account, not the guardian.
        entered = self._root is not None and daemon != "munged"
        self.processes.start(daemon, argv, env=env, account=None if entered else account)

    def _command(self, daemon: str, account: Account) -> list[str]:
        run, log = self.layout.run, self.layout.log
        match daemon:
            case "munged":
                return [
                    # --force: the folders above ours may belong to anybody.
                    *("munged", "--foreground", "--force", f"--socket={self.layout.munge_socket}"),
                    *(f"--key-file={self.layout.etc}/munge.key", f"--pid-file={run}/munged.pid"),
                    *(f"--log-file={log}/munged.log", f"--seed-file={run}/munge.seed"),
                ]
            case "slurmdbd":
                return self._slurm(daemon, account, "-D")
            case "slurmctld":
                return self._slurm(daemon, account, "-D", "-i")
            case node if node in self.settings.node_names():
                slurmd = self._slurm("slurmd", account, "-D", "-N", node)
                if self._registers is None:
                    return slurmd
                script = f'mount --bind {self._registers} /dev/cpu/0 && exec "$@"'
                return ["unshare", "--mount", "sh", "-c", script, "sh", *slurmd]
        raise ProcessError(f"there is no daemon {daemon!r}")

    def _await(self, daemon: str) -> None:
        ready: dict[str, Callable[[], bool]] = {
            "munged": self.layout.munge_socket.exists,
            "slurmdbd": lambda: self._succeeds("sacctmgr", "-n", "show", "cluster"),
            "slurmctld": lambda: self._succeeds("scontrol", "ping") and self._registered(),
        }
        if daemon in ready:
            self.processes.wait_for(daemon, ready[daemon])
        elif daemon != "mariadbd":
            names = self.settings.node_names() if daemon == "nodes" else [daemon]
            self._await_nodes(names)

    def _await_nodes(self, names: Iterable[str]) -> None:
        missing = set(names)

        def idle() -> bool:
            listing = self.run("sinfo", "-h", "-N", "-t", "idle,mixed,allocated", "-o", "%N %T")
            up = {line.split()[0] for line in listing.stdout.splitlines() if "*" not in line}
            missing.difference_update(up)
            for name in missing:
                # With auth/slurm they all make /run/slurm/sack.socket: of two at once one ends.
                if not self.processes.running(name):
                    self._launch(name)
            return not missing

        try:
            wait_until(idle, what="nodes to be up")
        except ProcessError as error:
            logs = [tail(self.processes.log(name)) for name in ("slurmctld", *sorted(missing)[:1])]
            raise ProcessError("\n".join([f"{error}: {sorted(missing)}", *logs])) from None

    def _succeeds(self, *argv: str) -> bool:
        return self.run(*argv, check=False).returncode == 0

    def _registered(self) -> bool:
        """Tell whether slurmdbd knows where slurmctld is; before, accounting loses records."""
        listing = self.run("sacctmgr", "-n", "-P", "show", "cluster", "format=controlport")
        return str(self.settings.ports[0]) in listing.stdout.split()


def _ports(nodes: int, beside: SlurmCluster | None) -> list[int]:
    """Free ports for slurmctld, slurmdbd and the nodes; a shared slurmdbd has its own."""
    own = list(free_ports(nodes + 2))
    return [own[0], beside.settings.ports[1], *own[2:]] if beside else own
