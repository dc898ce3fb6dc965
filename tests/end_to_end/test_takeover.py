"""Two controllers, each with a nimod of its own: the hook asks that of the host it runs on.

The backup runs in namespaces of its own: it has another host name, and where the hooks look for
nimod's socket it finds that of its own nimod.
"""

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sacct_ingest.store import Store
from slurm_plugin.nimod import client
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.protocol.status_messages import Uplinks
from tests.cluster.login_node import relay_sections
from tests.cluster.nimod import Nimod, hooks_for
from tests.cluster.slurm import SlurmCluster
from tests.conftest import scratch_directory
from tests.processes import LONGEST_WAIT_S, ProcessError, free_ports, wait_until
from tests.requests.conftest import curve
from tests.slurm_plugin.nimod.test_store_link import fit

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes namespaces with a host name"),
]
BACKUP, BACKUP_ADDRESS = "controller2", "127.0.0.2"
#: Where the hooks look for nimod; each controller has a folder of its own there.
HERE, THERE = "here", "there"
IN_NAMESPACES = """
mount --bind "$1" "$2"
mount --bind "$3" /etc/hosts
hostname "$4"
shift 4
exec "$@"
"""


def links_of(socket):
    """Give the links of a relay."""
    return client.exchange(socket, Ask(op="links"), Uplinks, LONGEST_WAIT_S).links


@dataclass
class Pair:
    """A cluster of two controllers; a decision is recorded under the name of who made it."""

    folder: Path
    cluster: SlurmCluster
    store: str

    def start_backup(self):
        """Start the backup, which waits until it is needed."""
        layout, etc = self.cluster.layout, self.folder / "etc2"
        shutil.copytree(layout.etc, etc, dirs_exist_ok=True)
        shutil.chown(etc / "slurmdbd.conf", self.cluster.settings.account.name)
        conf = etc / "slurm.conf"
        text = conf.read_text()
        for name in ("slurmctld.pid", "slurmctld.log"):
            text = text.replace(f"/{name}\n", f"/backup-{name}\n")
        conf.write_text(text)
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {os.uname().nodename}\n{BACKUP_ADDRESS} {BACKUP}\n")
        if self.cluster.root:  # whose own file takes that place
            shutil.copy(hosts, layout.etc)
        own = (str(self.folder / THERE), str(self.folder / HERE), str(hosts), BACKUP)
        argv = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-euc"]
        argv += [IN_NAMESPACES, "sh", *own]
        argv += self.cluster.program("slurmctld", "-D")
        self.cluster.processes.start("backup", argv, env={"SLURM_CONF": str(conf)})
        wait_until(lambda: self.ping()[1], what="the backup")

    def ping(self):
        """Tell which of the two controllers answer."""
        lines = self.cluster.run("scontrol", "ping", check=False).stdout.splitlines()
        return any("primary" in one and "UP" in one for one in lines), any(
            "backup" in one and "UP" in one for one in lines
        )

    def start_nimod(self, name, relay):
        """Start the nimod of one of the controllers, which takes relays."""
        path = self.folder / f"{name}.yaml"
        socket = self.folder / name / "nimod.sock"
        settings = {"store": self.store, "socket": str(socket), "cluster": name}
        settings |= {"mode": "enforce", "snapshot": {"interval_s": 1.0}, "relay": relay}
        path.write_text(yaml.safe_dump(settings))
        argv = [self.cluster.bin / "nimo", "serve", "--config", path]
        self.cluster.processes.start(f"nimod-{name}", argv, env=self.cluster.env)

        def sees():
            return client.status(str(socket), timeout_s=LONGEST_WAIT_S).snapshot_age_s is not None

        wait_until(socket.exists, what=f"nimod {name}")
        wait_until(sees, what=f"nimod {name} to see the cluster")

    def start_relay(self, relay):
        """Start a relay that is linked to both."""
        path, socket = self.folder / "login.yaml", self.folder / "login.sock"
        path.write_text(yaml.safe_dump({"socket": str(socket), "relay": relay}))
        argv = [self.cluster.bin / "nimo", "serve", "--relay", "--config", path]
        self.cluster.processes.start("relay", argv, env=self.cluster.env)
        wait_until(socket.exists, what="the relay")
        wait_until(lambda: self.linked() == [True, True], what="both links")

    def linked(self):
        """Tell which of the relay's links are up."""
        links = links_of(self.folder / "login.sock")
        return [not one.trouble for one in links]

    def asks(self, number):
        """Wait until the relay asks this one of the two, and gets an answer."""
        socket = self.folder / "login.sock"

        def used():
            links = links_of(socket)
            return [one.used for one in links].index(True) == number

        def answered():
            with suppress(client.LinkDown):  # a busy machine may take more than 0.15 s
                return client.status(socket, timeout_s=LONGEST_WAIT_S).ok
            return False

        wait_until(used, what=f"the relay to ask nimod {number}")
        wait_until(answered, what=f"an answer of nimod {number}")

    def decided(self):
        """Submit a job, and give it with the decision about it, who made it included."""
        since = time.time()

        def submit():
            try:
                asked = ("-H", "-J", "shapes", "-N", "1-8", "-t", "60", "--comment=mine")
                return self.cluster.sbatch(*asked, "--deadline=2033-05-18", script="#!/bin/sh\n")
            except ProcessError:
                return None  # while no controller is in charge

        job_id = None
        while job_id is None and time.time() < since + LONGEST_WAIT_S:
            job_id = submit()
        assert job_id is not None
        made = []

        def written():
            with Store.open(self.store) as store:
                made[:] = [d for d, _ in store.decisions.with_outcomes() if d.at_s >= since]
            return bool(made)

        wait_until(written, what="the decision")
        return self.cluster.job(job_id), made[-1]


@pytest.fixture
def pair(slurm_cluster):
    with scratch_directory("nimo-two-") as folder:
        for name in (HERE, THERE):
            (folder / name).mkdir()
        hooks = hooks_for(folder)
        conf = hooks / "nimo_hook.conf"
        conf.write_text(conf.read_text().replace("/nimod.sock\n", f"/{HERE}/nimod.sock\n"))
        controllers = [f"SlurmctldHost={os.uname().nodename}(127.0.0.1)"]
        controllers += [f"SlurmctldHost={BACKUP}({BACKUP_ADDRESS})"]
        more = ["CommunicationParameters=NoCtldInAddrAny", "SlurmctldTimeout=10"]
        with slurm_cluster(lua=hooks, conf=[*controllers, *more]) as cluster:
            made = Pair(folder, cluster, Nimod(folder, cluster).store)
            with Store.open(made.store, create=True) as store:
                store.fits.replace([fit(curve("root"))])
            where = [f"127.0.0.1:{port}" for port in free_ports(2)]
            nimods, relay = relay_sections(cluster, folder, *where)
            for name, section in zip((HERE, THERE), nimods, strict=True):
                made.start_nimod(name, section)
            made.start_backup()
            made.start_relay(relay)
            yield made


def test_the_hook_of_the_backup_asks_its_own_nimod_and_relays_follow(pair):
    job, decision = pair.decided()
    assert (decision.cluster, decision.applied) == (HERE, True), decision.reason
    pair.asks(0)

    pair.cluster.run("scontrol", "takeover")
    wait_until(lambda: pair.ping() == (False, True), what="the takeover")
    job, decision = pair.decided()
    assert (decision.cluster, decision.applied) == (THERE, True), decision.reason
    assert (job["Comment"], decision.deadline_s) == ("mine", pytest.approx(1.9998e9, rel=0.01))
    assert f"NIMO1:{decision.decision_id}" in job["AdminComment"]
    pair.asks(1)

    # Without a nimod of its own it lets jobs pass: it does not find the other's.
    pair.cluster.stop(f"nimod-{THERE}")
    plain = pair.cluster.sbatch("-H", "-J", "shapes", "-N", "1-8", script="#!/bin/sh\n")
    assert "AdminComment" not in pair.cluster.job(plain)
    wait_until(lambda: pair.linked() == [True, False], what="the link to end")
    pair.asks(0)

    pair.cluster.processes.stop("slurmctld")
    pair.cluster.start("slurmctld")
    wait_until(lambda: pair.ping() == (True, True), what="the first controller to take over again")
    job, decision = pair.decided()
    assert (decision.cluster, decision.applied) == (HERE, True), decision.reason
