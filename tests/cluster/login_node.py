"""A login node beside a test cluster: a network and a file system of its own, for root to make.

Its network has one cable, to the controller.  Where nimod's, munge's and Slurm's sockets are on the
controller, it has folders of its own, with a munged and a relay of its own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slurm_plugin.nimod import client
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.protocol.status_messages import Uplinks
from tests.certificates import Authority
from tests.cluster.releases import ReleaseError
from tests.cluster.slurm import SlurmCluster
from tests.processes import LONGEST_WAIT_S, Account, ProcessError, wait_until

_numbers = itertools.count(os.getpid() * 4 % 60_000, 4)

#: Runs one of our commands as another user; its modules may be where that user cannot read.
AS_USER = """
import os, sys
from importlib import import_module
from tests.cluster import login_node
for name in login_node.NEEDED:
    import_module(name)
uid, gid, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.setgroups([]); os.setgid(gid); os.setuid(uid)
sys.exit(import_module(module).main(sys.argv[4:]))
"""
NEEDED = (
    "slurm_plugin.cli.advise",
    "slurm_plugin.cli.advice_requests",
    "slurm_plugin.cli.nimo",
    "slurm_plugin.cli.commands.predict",
    "slurm_plugin.cli.commands.predict",
    "slurm_plugin.cli.commands.status",
    "slurm_plugin.cli.commands.why",
    "slurm_plugin.cli.waiting_jobs",
    "slurm_plugin.slurm.ended_job",
    "concurrent.futures.thread",
    "slurm_plugin.stored_advice.advise",
    "slurm_plugin.reports.curve_text",
    "slurm_plugin.reports.sheets",
    "encodings.idna",
)
#: How long a relay waits for a controller, on a busy machine; less than nimo-advise waits.
ANSWER_S = 1.5
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cable:
    """Two addresses and what joins them."""

    name: str
    controller: str
    login: str

    @classmethod
    def new(cls) -> Cable:
        """Choose addresses that nobody else has: of the networks for benchmarks, RFC 2544."""
        number = next(_numbers)
        network = f"198.{18 + number // 32768 % 2}.{number // 256 % 128}"
        low = number % 256
        return cls(f"nimo{number}", f"{network}.{low + 1}", f"{network}.{low + 2}")

    def lay(self) -> None:
        """Lay it, with the controller's end up; the other end is still here, too."""
        _ip("link", "add", f"{self.name}c", "type", "veth", "peer", "name", f"{self.name}l")
        _ip("address", "add", f"{self.controller}/30", "dev", f"{self.name}c")
        _ip("link", "set", f"{self.name}c", "up")

    def take_away(self) -> None:
        """Remove it."""
        _ip("link", "delete", f"{self.name}c", check=False)

    def cut(self) -> None:
        """Lose whatever is sent, without a word."""
        _ip("link", "set", f"{self.name}c", "down")

    def join(self) -> None:
        """Let everything pass again."""
        _ip("link", "set", f"{self.name}c", "up")


@dataclass
class LoginNode:
    """The node; its relay asks the controllers of ``settings``.

    folder: where nimod has its folder ``here`` on the controller, and the node its own.
    cluster: that is up, and whose controller is at the cable's end.
    settings: section ``relay`` of its nimo.yaml.
    """

    folder: Path
    cluster: SlurmCluster
    cable: Cable
    settings: dict[str, Any]
    account: Account = field(default_factory=Account.mine)
    pid: int = 0

    @property
    def socket(self) -> Path:
        """Where the relay listens, as seen on the controller."""
        return self.folder / "login" / "nimod.sock"

    def start(self) -> None:
        """Start the node, its munged or sackd, and the relay."""
        layout, own = self.cluster.layout, self.folder / "login-run"
        for path in (own, self.folder / "login", self.folder / "login-slurm"):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        instead = [(self.folder / "login", self.folder / "here"), (own, layout.run)]
        if self._sackd():
            instead.append((self.folder / "login-slurm", layout.directory / "entrance" / "run"))
        lines = [f"mount --bind {new} {old}" for new, old in instead]
        text = "\n".join([*lines, "hostname login1", "exec sleep infinity"])
        spaces = ["unshare", "--net", "--mount", "--uts", "--propagation", "private"]
        self.pid = self.cluster.processes.start("login", [*spaces, "sh", "-euc", text])
        wait_until(self._separate, what="the login node")
        _ip("link", "set", f"{self.cable.name}l", "netns", str(self.pid))
        self.root("ip", "link", "set", "lo", "up")
        self.root("ip", "address", "add", f"{self.cable.login}/30", "dev", f"{self.cable.name}l")
        self.root("ip", "link", "set", f"{self.cable.name}l", "up")
        self._authenticate()
        self.configure()

    def _separate(self) -> bool:
        name = Path(f"/proc/{self.pid}/comm").read_text().strip()
        return name == "sleep"

    def _sackd(self) -> bool:
        """Tell whether it has a sackd of its own; without, commands share slurmctld's socket."""
        root = self.cluster.root
        if root is None or self.cluster.settings.auth == "munge":
            return False
        if not root.has("sackd"):
            with suppress(ReleaseError):
                root.add(["sackd"])
        return root.has("sackd")

    def _authenticate(self) -> None:
        """Start munged or, where Slurm does without, sackd."""
        layout, processes = self.cluster.layout, self.cluster.processes
        if self.cluster.settings.auth == "munge":
            key = self.folder / "login-munge.key"
            shutil.copy(layout.etc / "munge.key", key)
            shutil.chown(key, self.account.uid)
            key.chmod(0o600)
            own = self.folder / "login-run"
            argv = ["munged", "--foreground", "--force", f"--socket={layout.munge_socket}"]
            argv += [f"--key-file={key}", f"--pid-file={own}/pid", f"--seed-file={own}/seed"]
            argv += [f"--log-file={self.folder}/login-munged.log"]
            processes.start("login-munged", [*self._enter(), *argv])
            wait_until((own / layout.munge_socket.name).exists, what="munged of the login node")
        elif self._sackd():
            argv = self.cluster.program("sackd", "-D", "-f", str(layout.slurm_conf))
            env = {"SLURM_CONF": str(layout.slurm_conf)}
            processes.start("login-sackd", [*self._enter(), *argv], env=env)
            sockets = (self.folder / "login-slurm").rglob
            wait_until(lambda: any(sockets("sack.socket")), what="sackd of the login node")

    def configure(self, **more: Any) -> None:
        """Write its nimo.yaml, which every user can read."""
        settings = {"socket": str(self.folder / "here" / "nimod.sock"), "relay": self.settings}
        (self.folder / "login.yaml").write_text(yaml.safe_dump(settings | more))

    def start_relay(self, *, linked: bool = True) -> None:
        """Start the relay, and wait for its link."""
        code = "import sys; from slurm_plugin.cli.nimo import main; "
        code += "from slurm_plugin.nimod.relay import relay; "
        code += f"relay.ANSWER_S = {ANSWER_S}; sys.exit(main(sys.argv[1:]))"
        argv = [sys.executable, "-c", code, "serve", "--relay", "-v"]
        argv += ["--config", str(self.folder / "login.yaml")]
        self.cluster.processes.start(
            "relay", [*self._enter(), *argv], env={"PYTHONPATH": str(PROJECT)}
        )
        wait_until(self._answers, what="the relay")
        if linked:
            self.wait_linked()

    def _answers(self) -> bool:
        """Tell whether the relay listens; its socket is there a moment before."""
        with suppress(client.Unreachable):
            return self.links().ok
        return False

    def stop_relay(self) -> None:
        """End the relay."""
        self.cluster.processes.stop("relay")

    def links(self) -> Uplinks:
        """Tell how its links are."""
        return client.exchange(self.socket, Ask(op="links"), Uplinks, LONGEST_WAIT_S)

    def wait_linked(self, number: int = 0) -> None:
        """Wait until the link to a controller is up."""
        try:
            wait_until(lambda: not self.links().links[number].trouble, what="link")
        except ProcessError as error:
            raise ProcessError(f"{error}: {self.links().links}") from error

    def run(
        self, *argv: str | Path, user: str = "", check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there, such as sbatch; as root, or as a user."""
        who = Account.of(user) if user else self.account
        change = ["setpriv", f"--reuid={who.uid}", f"--regid={who.gid}", "--clear-groups"]
        named = ["env", f"USER={who.name}", f"LOGNAME={who.name}", f"HOME={self.folder}"]
        return self.root(*(change if user else ()), *named, *argv, check=check, stdin=stdin)

    def nimo(
        self, module: str, *argv: str | Path, user: str = ""
    ) -> tuple[subprocess.CompletedProcess[str], float]:
        """Run ``nimo`` (module nimo) or ``nimo-advise`` (advise) there; also give the seconds."""
        who = Account.of(user) if user else self.account
        line = [sys.executable, "-c", AS_USER, str(who.uid), str(who.gid)]
        set_ = [f"NIMO_CONFIG={self.folder}/login.yaml", f"PYTHONPATH={PROJECT}"]
        set_ += [f"USER={who.name}", f"HOME={self.folder}", "PYTHONDONTWRITEBYTECODE=1"]
        began = time.monotonic()
        done = self.root("env", *set_, *line, f"slurm_plugin.cli.{module}", *argv, check=False)
        return done, time.monotonic() - began

    def root(
        self, *argv: str | Path, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there as root."""
        words = [*self._enter(), *map(str, argv)]
        return self.cluster.run(*words, check=check, stdin=stdin)

    def _enter(self) -> Sequence[str]:
        return ("nsenter", f"--target={self.pid}", "--net", "--mount", "--uts", "--wd=/tmp")


def relay_sections(
    cluster: SlurmCluster, folder: Path, *addresses: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sections ``relay`` of nimod's settings at each address, and of a relay's.

    With munge where the cluster has it, else with certificates.
    """
    nimods: list[dict[str, Any]] = [{"listen": where} for where in addresses]
    relay: dict[str, Any] = {"controllers": list(addresses)}
    if cluster.settings.auth == "munge":
        munge = {"munge_socket": str(cluster.layout.munge_socket)}
        return [one | munge for one in nimods], relay | munge
    authority = Authority(folder / "certificates")
    hosts = [where.rpartition(":")[0] for where in addresses]
    made = authority.certify("ctl1", *{f"IP:{host}" for host in hosts})
    tls = {"auth": "tls", "tls": made | {"login_nodes": ["login*"]}}
    return [one | tls for one in nimods], relay | {
        "auth": "tls",
        "tls": authority.certify("login1"),
    }


def _ip(*argv: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ProcessError(f"ip {' '.join(argv)}: {done.stderr.strip()}")
