"""A nimod of the test's own, with a made-up Slurm of eight idle nodes."""

import json
import os
import pwd
import signal
import socket
import subprocess
import sys

import pytest

from sacct_ingest.store import Store
from slurm_plugin.config.loader import dump
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config, RelaySettings, Sharing, Snapshot
from slurm_plugin.nimod import client
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.slurm import fields
from slurm_plugin.slurm.sources import line
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import job, table
from tests.slurm_plugin.nimod.test_store_link import fit
from tests.slurm_plugin.slurm.slurm_text import PARTITIONS

SLURM = """\
#!/bin/sh
case "$(basename "$0") $*" in
  squeue*) ;;
  sinfo*) cat "$(dirname "$0")/nodes" ;;
  *config*) echo "ClusterName = pine" ;;
  *assoc_mgr*) ;;
  *) cat "$(dirname "$0")/partitions" ;;
esac
"""


def idle_node(number, **fields_of_it):
    words = {"NodeList": f"n{number}", "StateComplete": "idle", "CPUs": 4, "CPUsState": "0/4/0/4"}
    return line(fields.NODE, words | {"Memory": 2000, "Partition": "batch*", **fields_of_it})


class Nimod:
    """A nimod of one's own, with a made-up Slurm of eight idle nodes on its PATH."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = str(folder / "nimod.sock")
        self.url = f"sqlite:///{folder}/nimo.db"
        self.log = folder / "log"
        self.process = None
        self.set_slurm(SLURM)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(folder / "notify"))
        self.notify.settimeout(LONGEST_WAIT_S)

    def set_slurm(self, text):
        for name in ("squeue", "sinfo", "scontrol"):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        (self.folder / "nodes").write_text("".join(map(idle_node, range(1, 9))))
        (self.folder / "partitions").write_text(PARTITIONS.splitlines()[0] + "\n")

    def start(self, ready=True, sharing=Sharing(), relay=RelaySettings(), **environ):  # noqa: B008 - frozen
        config = Config(
            sharing=sharing,
            relay=relay,
            store=self.url,
            socket=self.socket,
            mode=Mode.ENFORCE,
            snapshot=Snapshot(interval_s=0.1),
        )
        (self.folder / "nimo.yaml").write_text(dump(config))
        code = "import sys; from slurm_plugin.cli.nimo import main; sys.exit(main(sys.argv[1:]))"
        argv = [sys.executable, "-c", code, "serve", "-v"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*argv, "--config", str(self.folder / "nimo.yaml")],
                stderr=log,
                env={
                    **os.environ,
                    "PATH": f"{self.folder}:{os.environ['PATH']}",
                    "NOTIFY_SOCKET": str(self.folder / "notify"),
                    **environ,
                },
            )
        if ready:
            assert self.notify.recv(100) == b"READY=1"

    def see_cluster(self):
        wait_until(lambda: self.status().snapshot_age_s is not None, what="a view")

    def status(self):
        return client.status(self.socket, timeout_s=LONGEST_WAIT_S)

    def decide(self, **fields):
        return client.exchange(self.socket, Ask(job=job(**fields)), Answer, LONGEST_WAIT_S)

    def fit(self, *tables):
        with Store.open(self.url) as store:
            store.fits.replace([fit(made) for made in tables or (table(),)])

    def decisions(self):
        with Store.open(self.url) as store:
            return [row for row, _ in store.decisions.with_outcomes()]

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notify.close()


def talk(path, data, answers=1):
    """Send bytes, return the lines that come back."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(path)
        channel.sendall(data)
        received = channel.makefile("rb")
        return [json.loads(received.readline()) for _ in range(answers)]


def hang_up(nimod, text, reported):
    """Write nimo.yaml, send SIGHUP and wait for what the log says of it."""
    (nimod.folder / "nimo.yaml").write_text(text)
    nimod.process.send_signal(signal.SIGHUP)
    wait_until(lambda: reported in nimod.log.read_text(), what=reported)


NOBODY = pwd.getpwnam("nobody")


AS_NOBODY = f"""
import os, sys, socket; os.setuid({NOBODY.pw_uid})
channels = []
for line in sys.stdin:
    channels.append(socket.socket(socket.AF_UNIX)); channels[-1].settimeout({LONGEST_WAIT_S})
    channels[-1].connect(sys.argv[1])
    try:
        channels[-1].sendall(line.encode()); print(channels[-1].makefile().readline(), end="")
    except OSError:
        print("{{}}")
"""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")


def ask_as_nobody(nimod, *asks):
    """Answers to user nobody, each on a connection of its own; nothing where it was hung up on."""
    argv = [sys.executable, "-I", "-c", AS_NOBODY, nimod.socket]
    lines = "".join(encode(ask).decode() for ask in asks)
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True, cwd="/")
    return [json.loads(line) for line in done.stdout.splitlines()]


def notify(nimod, ask):
    """Say something and wait for no answer, as the hooks do."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(nimod.socket)
        connection.sendall(encode(ask))
