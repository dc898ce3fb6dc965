"""A cluster with NIMO as a site installs it, and six users without rights who use it."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slurm_plugin.nimod import client
from tests.cluster import SlurmCluster, cgroups
from tests.cluster.host import missing_programs, write_file
from tests.cluster.nimod import COMMANDS, hooks_for
from tests.conftest import scratch_directory
from tests.processes import LONGEST_WAIT_S, Account, wait_until

USERS = ("ada", "ben", "chen", "dina", "emil", "fatma")
#: Who nimod runs as, and whose the store is.
DAEMON = "nimo"
ACCOUNTS = {"climate": ("ada", "ben"), "chemistry": ("chen", "dina"), "biology": ("emil", "fatma")}
#: How long the hooks wait for nimod: this machine is no idle controller.
TIMEOUT_MS = 2000
CONF = (
    "SelectTypeParameters=CR_Core_Memory",
    "DefMemPerCPU=50",
    "JobRequeue=1",
    "AccountingStorageEnforce=associations,limits,qos",
    "PartitionName=gpu Nodes=n[7-8] MaxTime=1-0 DefaultTime=1:00:00",
)
SETTINGS = {
    "mode": "enforce",
    "snapshot": {"interval_s": 1.0},
    "ingest": {"first_days": 1},
    "fit": {"workers": 1},
}
#: Of what the history is made.
COLUMNS = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|SubmitLine|WorkDir|Submit|Eligible|Start"
    "|End|Elapsed|State|ExitCode|NNodes|NCPUS|ReqCPUS|NTasks|Timelimit|ReqMem|AllocTRES|NodeList"
    "|MaxRSS|Comment|TRESUsageInTot"
)


@dataclass
class Said:
    """What a user did, and what came of it."""

    user: str
    command: str
    status: int
    output: str
    seconds: float

    def text(self) -> str:
        """As it stood on the terminal."""
        ended = f"[status {self.status}]\n" if self.status else ""
        return f"{self.user}$ {self.command}\n{self.output}{ended}"


@dataclass
class UsersSite:
    """The site.

    folder: holds all of it, homes too.
    programs: folder with nimo and nimo-advise, which every user can read.
    """

    folder: Path
    cluster: SlurmCluster
    programs: Path
    said: list[Said] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    next_id: int = 500_000

    # --- what an administrator does ---------------------------------------------------------------

    def install(self) -> None:
        """Write the settings, the commands, the accounts and the homes; start nimod."""
        store = self.folder / "var"
        store.mkdir()
        shutil.chown(store, DAEMON, DAEMON)
        settings = {
            "store": f"sqlite:///{store / 'nimo.db'}",
            "socket": str(self.socket),
            "kill_switch": str(self.folder / "nimo.off"),
        }
        self.config.write_text(yaml.safe_dump(settings | SETTINGS))
        for command in COMMANDS:
            text = f'#!/bin/sh\nexport NIMO_CONFIG={self.config} PATH="{self.cluster.bin}:$PATH"\n'
            text += f'exec {self.programs / command} "$@"\n'
            write_file(self.cluster.bin / command, text.encode(), 0o755, Account.mine())
        for account, users in ACCOUNTS.items():
            self.cluster.run("sacctmgr", "-i", "add", "account", account)
            names = ",".join(users)
            self.cluster.run("sacctmgr", "-i", "add", "user", names, f"account={account}")
        for user in USERS:
            self.home(user).mkdir(parents=True)
            shutil.chown(self.home(user), user, user)
            self.home(user).chmod(0o700)
        self.start_nimod()

    @property
    def config(self) -> Path:
        """The settings, which users read."""
        return self.folder / "nimo.yaml"

    @property
    def socket(self) -> Path:
        """Where nimod listens."""
        return self.folder / "run" / "nimod.sock"

    def start_nimod(self) -> None:
        """Start nimod as the site's user, and wait until it has seen the cluster."""
        argv = [self.cluster.bin / "nimo", "serve", "--config", self.config]
        account = Account.of(DAEMON)
        env = {**self.cluster.env, "HOME": str(self.folder / "var"), "PYTHONPATH": ""}
        self.cluster.processes.start("nimod", argv, env=env, account=account)
        wait_until(self._watching, what="nimod")

    def _watching(self) -> bool:
        with suppress(client.Unreachable):
            status = client.status(self.socket, timeout_s=LONGEST_WAIT_S)
            return status.snapshot_age_s is not None
        return False

    def learn(self) -> None:
        """Ingest and refit, as the timer does; then nimod has the new tables."""
        env = {"HOME": str(self.folder / "var"), "PYTHONPATH": ""}
        if self.rows:
            history = self.folder / "var" / f"history{self.next_id}.sacct"
            history.write_text("\n".join([COLUMNS, *self.rows]) + "\n")
            self.rows.clear()
            self.cluster.run("nimo", "ingest", history, user=DAEMON, env=env)
        self.cluster.run("nimo", "ingest", user=DAEMON, env=env)
        self.cluster.run("nimo", "fit", user=DAEMON, env=env)
        before = client.status(self.socket, timeout_s=LONGEST_WAIT_S).loaded_s
        self.cluster.processes.signal("nimod", signal.SIGHUP)

        def reloaded() -> bool:
            return client.status(self.socket, timeout_s=LONGEST_WAIT_S).loaded_s != before

        wait_until(reloaded, what="nimod to read its tables")
        time.sleep(2.0)

    def history(
        self,
        user: str,
        line: str,
        run_s: float,
        *,
        nodes: int = 1,
        cpus: int = 1,
        tasks: int = 1,
        state: str = "COMPLETED",
        limit_s: int = 3600,
        gpus: int = 0,
        gpu_percent: int = 0,
        name: str = "",
        folder: str = "",
        rss_mib: int = 0,
        mem: str = "50Mc",
        comment: str = "",
        days_ago: float = 3.0,
        exit_code: str = "0:0",
    ) -> None:
        """Add a run to the accounting that `learn` ingests: of days before this cluster was.

        gpu_percent: highest use of all GPUs; 100 is one whole GPU.  0: not gathered.
        """
        self.next_id += 1
        start_s = time.time() - days_ago * 86_400 + len(self.rows) * 60
        end_s = start_s + run_s
        script = next((word for word in line.split() if word.endswith((".sh", ".py"))), "wrap")
        work = self.home(user) / folder if folder else self.home(user)
        tres = f"cpu={cpus},node={nodes}" + (f",gres/gpu={gpus}" if gpus else "")
        hosts = "n1" if nodes == 1 else f"n[1-{nodes}]"
        fields = [
            *(self.next_id, self.next_id, "nimo", user, _account(user), "batch"),
            *(name or script, line, work, _clock(start_s), _clock(start_s), _clock(start_s)),
            *(_clock(end_s), _span(run_s), state, exit_code, nodes, cpus, cpus, tasks),
            *(_span(limit_s), mem, tres, hosts, "", comment, ""),
        ]
        self.rows.append("|".join(map(str, fields)))
        if rss_mib or gpu_percent:
            step = list(fields)
            step[0] = step[1] = f"{self.next_id}.batch"
            step[3] = step[5] = step[7] = step[8] = step[20] = step[25] = ""
            step[6], step[24] = "batch", f"{rss_mib * 1024}K"
            step[26] = f"gres/gpuutil={gpu_percent}" if gpu_percent else ""
            self.rows.append("|".join(map(str, step)))

    # --- what users do ----------------------------------------------------------------------------

    def home(self, user: str) -> Path:
        """Home of a user."""
        return self.folder / "home" / user

    def write(self, user: str, name: str, text: str) -> Path:
        """Write a file into a user's home."""
        path = self.home(user) / name
        path.parent.mkdir(exist_ok=True)
        shutil.chown(path.parent, user, user)
        path.write_text(text)
        shutil.chown(path, user, user)
        return path

    def do(
        self, user: str, command: str, *, env: Mapping[str, str] | None = None, folder: str = ""
    ) -> Said:
        """Run a command line as a user, at home or in a folder of it."""
        began = time.monotonic()
        own = {"HOME": str(self.home(user)), "LC_ALL": "C.UTF-8", "PYTHONPATH": ""}
        work = self.home(user) / folder
        argv = ["timeout", "120", "bash", "-c", f"{{ {command}\n}} 2>&1"]
        done = self.cluster.run(
            *argv, check=False, user=user, env=own | dict(env or {}), cwd=work, timeout_s=150
        )
        said = Said(user, command, done.returncode, done.stdout, time.monotonic() - began)
        self.said.append(said)
        return said

    def submit(self, user: str, options: str, **more: Any) -> int:
        """Submit a job as a user; give its id, or 0 where sbatch refused it."""
        said = self.do(user, f"sbatch {options}", **more)
        numbers = [line.split()[-1] for line in said.output.splitlines() if "Submitted" in line]
        return int(numbers[0]) if numbers else 0

    # --- what was true ----------------------------------------------------------------------------

    def ended(self, *jobs: int) -> list[dict[str, str]]:
        """Wait for jobs, and give what the accounting has of them."""
        self.cluster.wait(*jobs, timeout_s=240, accounted=True)
        fields = ("JobID", "State", "NNodes", "NCPUS", "Timelimit", "ReqMem", "Start", "ElapsedRaw")
        return self.cluster.sacct("-X", "-j", ",".join(map(str, jobs)), fields=fields)

    def fact(self, *jobs: int) -> str:
        """Say in words what came of jobs."""
        rows = self.ended(*jobs)
        return "; ".join(
            f"job {row['JobID']}: {row['State']} after {row['ElapsedRaw']} s on {row['NNodes']} "
            f"node(s), {row['NCPUS']} CPUs, limit {row['Timelimit']}, memory {row['ReqMem']}"
            for row in rows
        )

    def job(self, job_id: int) -> dict[str, str]:
        """Give what slurmctld has of a job."""
        return self.cluster.job(job_id)

    def cancel_all(self) -> None:
        """End all jobs."""
        ids = self.cluster.run("squeue", "-h", "-a", "-o", "%A").stdout.split()
        if ids:
            self.cluster.run("scancel", *ids, check=False)
            self.cluster.wait(*map(int, ids))
        wait_until(self._idle, what="the nodes to be free")
        time.sleep(2.5)

    def _idle(self) -> bool:
        listing = self.cluster.run("sinfo", "-h", "-N", "-p", "batch", "-o", "%N %T").stdout
        return "alloc" not in listing and "mix" not in listing and "compl" not in listing


@contextmanager
def users_site(programs: Path) -> Iterator[UsersSite]:
    """Run the site for a while."""
    with scratch_directory("nimo-users-") as folder, _users():
        (folder / "run").mkdir()
        shutil.chown(folder / "run", DAEMON, DAEMON)
        hooks = hooks_for(folder, timeout_ms=TIMEOUT_MS)
        conf = hooks / "nimo_hook.conf"
        socket = f"{folder}/run/nimod.sock"
        text = conf.read_text().replace(f"{folder}/nimod.sock", socket)
        conf.write_text(f"{text}allow_sizes = yes\nlook_at_inputs = yes\ninputs_ms = 100\n")
        cluster = SlurmCluster(
            folder / "slurm", lua=hooks, conf=CONF, gpus=2, memory_cgroups=not cgroups.lacking()
        )
        cluster.up()
        try:
            site = UsersSite(folder, cluster, programs)
            site.install()
            yield site
        finally:
            cluster.down()


@contextmanager
def _users() -> Iterator[None]:
    """Make the users, and remove those that were made."""
    made = []
    try:
        for user in (*USERS, DAEMON):
            if subprocess.run(["id", user], capture_output=True, check=False).returncode:
                subprocess.run(["useradd", "--no-create-home", "--user-group", user], check=True)
                made.append(user)
        yield
    finally:
        for user in made:
            subprocess.run(["userdel", user], capture_output=True, check=False)


def _account(user: str) -> str:
    return next(account for account, users in ACCOUNTS.items() if user in users)


def _clock(moment_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment_s))


def _span(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"


def lacking(programs: Path) -> str:
    """Say why no such site can be made here; empty: it can."""
    if os.geteuid() != 0:
        return "only root can make users"
    if missing := missing_programs():
        return f"not installed: {', '.join(missing)}"
    argv = [str(programs / "nimo"), "--version"]
    try:
        done = subprocess.run(argv, user="nobody", capture_output=True, check=False, cwd="/")
    except OSError as error:
        return f"{argv[0]}: {error.strerror}; name a folder with --programs"
    return "" if done.returncode == 0 else f"{argv[0]}: not every user can run it; --programs"
