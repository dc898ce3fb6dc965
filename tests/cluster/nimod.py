"""NIMO itself on a test cluster: hooks in slurmctld, nimod beside it, commands in PATH."""

import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from slurm_plugin.config.settings_file import HOOKS
from slurm_plugin.setup.hooks import compile_hooks, install
from tests.cluster.host import write_file
from tests.cluster.slurm import SlurmCluster
from tests.processes import Account, ProcessError

PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
COMMANDS = ("nimo", "nimo-advise")
#: How long the hooks wait for nimod where a test is about its answer: a busy machine must not turn
#: it into none.
LONGEST_WAIT_MS = 5000
#: How long they wait at a site.
SHIPPED_MS = 20
#: The most that they can be told to wait.
MOST_MS = 100


def copy_hooks(folder: Path, *, most_ms: float) -> None:
    """Install the hooks in a folder; their longest wait is lifted there, for a busy machine.

    The modules' compiled copies lie beside them, as at a site.
    """
    folder.mkdir(exist_ok=True)
    install(folder)
    path = folder / "nimo_settings.lua"
    text = path.read_text()
    shipped = f"M.MAX_TIMEOUT_MS = {MOST_MS} "
    if shipped not in text:
        raise ProcessError(f"{path}: no longest wait of {MOST_MS} ms")
    path.write_text(text.replace(shipped, f"M.MAX_TIMEOUT_MS = {max(most_ms, MOST_MS):.0f} "))
    compile_hooks(folder)


def hooks_for(directory: Path, *, timeout_ms: int = LONGEST_WAIT_MS) -> Path:
    """Copy the hooks into a new folder there, set to ask the nimod of `directory`; give the folder.

    slurmctld reads their settings when it loads them, so this comes before the cluster.

    timeout_ms: how long they wait for nimod.
    """
    folder = directory / "hooks"
    copy_hooks(folder, most_ms=timeout_ms)
    (folder / "nimo_hook.conf").write_text(
        f"socket = {directory / 'nimod.sock'}\n"
        f"kill_switch = {directory / 'nimo.off'}\n"
        f"timeout_ms = {timeout_ms}\n"
        "forward_deadline = yes\n"
        "allow_refusal = yes\n"
    )
    return folder


def set_hook_timeout(cluster: SlurmCluster, timeout_ms: int) -> None:
    """Let the hooks of a running cluster wait this long for nimod; slurmctld loads them again."""
    settings = cluster.layout.etc / "nimo_hook.conf"
    text = settings.read_text()
    settings.write_text(re.sub(r"timeout_ms = \d+", f"timeout_ms = {timeout_ms}", text))
    # slurmctld compares whole seconds.
    time.sleep(1.0)
    (cluster.layout.etc / "job_submit.lua").touch()


def run_in_root(cluster: SlurmCluster, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the Python of a cluster's root directory, with its PySlurm and a copy of this project."""
    root, folder = cluster.root, cluster.layout.directory
    if root is None:
        raise ProcessError("this machine's own Slurm is in no root directory")
    project = folder / "entrance" / "project"
    for package in PACKAGES:
        shutil.copytree(HOOKS.parents[1] / package, project / package, dirs_exist_ok=True)
    line = root.inside(folder, [root.python, *map(str, argv)], Account.mine())
    return cluster.run(*line, env={"PYTHONPATH": str(project)})


class Nimod:
    """nimod beside a test cluster, and the ``nimo`` commands set up for it.

    directory: holds nimo.yaml, the store, the socket and the kill switch.
    cluster: a cluster that is up, with the hooks of `hooks_for(directory)`.
    settings: what nimo.yaml is to say besides store and socket.

    Notes
    -----
    nimod and the commands run as the caller, so that both may write the store.
    """

    def __init__(
        self, directory: Path, cluster: SlurmCluster, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.cluster = cluster
        self.config = directory / "nimo.yaml"
        self.socket = directory / "nimod.sock"
        self.kill_switch = directory / "nimo.off"
        self.store = f"sqlite:///{directory / 'nimo.db'}"
        self.configure(settings or {})
        for command in COMMANDS:
            text = f'#!/bin/sh\nexport NIMO_CONFIG={self.config} PATH="{cluster.bin}:$PATH"\n'
            text += f'exec {Path(sysconfig.get_path("scripts")) / command} "$@"\n'
            write_file(cluster.bin / command, text.encode(), 0o755, Account.mine())

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write nimo.yaml; a running nimod does not know of it until it is started again."""
        fixed: dict[str, Any] = {
            "store": self.store,
            "socket": str(self.socket),
            "kill_switch": str(self.kill_switch),
        }
        # Each day is a call of sacct, and no test cluster was there yesterday; few runs are fitted
        # before more processes have started.
        fixed |= {"ingest": {"first_days": 1}, "fit": {"workers": 1}}
        self.config.write_text(yaml.safe_dump({**fixed, **settings}))

    def start(self) -> None:
        """Start nimod and wait until it answers; ProcessError with the end of its log if not."""
        processes = self.cluster.processes
        processes.start(
            "nimod",
            [self.cluster.bin / "nimo", "serve", "--config", self.config],
            env=self.cluster.env,
        )
        processes.wait_for("nimod", self.answers)

    def stop(self) -> None:
        """End nimod."""
        self.cluster.stop("nimod")

    def freeze(self) -> None:
        """Stop it from answering while its socket stays open."""
        self.cluster.processes.signal("nimod", signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self.cluster.processes.signal("nimod", signal.SIGCONT)

    def answers(self) -> bool:
        """Tell whether somebody listens on its socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def run(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``nimo`` with these arguments against this cluster."""
        return self.cluster.run("nimo", *argv, check=check)
