"""Twenty-five users take all places on nimod's socket, and none of them keeps slurmctld out."""

import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slurm_plugin.nimod.access import reserved_socket
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.made import job
from tests.slurm_plugin.nimod.own_nimod import Nimod

USERS = range(60_001, 60_026)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become several users")

#: Connects as a user until the queue is full or there are as many as asked for.  It tells how many
#: there are, and keeps them until its input ends.
CROWD = """
import os, socket, sys
path, uid, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
held = []
for _ in range(most):
    channel = socket.socket(socket.AF_UNIX)
    channel.setblocking(False)
    try:
        channel.connect(path)
    except OSError as error:
        print(type(error).__name__, end=" ")
        break
    held.append(channel)
print(len(held), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def running():
    """A nimod in a folder that everybody can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Nimod(Path(folder))
        try:
            made.fit()
            made.start()
            made.see_cluster()
            yield made
        finally:
            if made.process is not None:
                made.process.send_signal(signal.SIGCONT)
            made.end()


class Crowd:
    """Processes of several users, each with many connections."""

    def __init__(self):
        self._members = []

    def join(self, path, uid, most):
        """Let a user connect as often as that; give the error, if any, and the connections."""
        argv = [sys.executable, "-I", "-c", CROWD, path, str(uid), str(most)]
        pipe = subprocess.PIPE
        member = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        self._members.append(member)
        return member.stdout.readline().strip()

    def leave(self):
        for member in self._members:
            member.kill()
            member.communicate()


@pytest.fixture
def crowd():
    made = Crowd()
    yield made
    made.leave()


def as_slurmctld(path, uid):
    """Connect and ask as a user; what came of connecting, and the line that came back."""
    code = (
        "import os, socket, sys; path, uid, line = sys.argv[1:]; os.setgroups([]);"
        "os.setgid(int(uid)); os.setuid(int(uid)); c = socket.socket(socket.AF_UNIX);"
        "c.setblocking(False); error = c.connect_ex(path); print(error, flush=True);"
        "c.setblocking(True); error or c.sendall(line.encode());"
        "error or print(c.makefile().readline(), end='')"
    )
    line = encode(Ask(job=job())).decode()
    asking = subprocess.Popen(
        [sys.executable, "-I", "-c", code, path, str(uid), line], stdout=subprocess.PIPE
    )
    error = int(asking.stdout.readline())
    return error, b"" if error else asking.stdout.readline()


def slurm_uid():
    try:
        return pwd.getpwnam("slurm").pw_uid
    except KeyError:
        return 0


def test_no_crowd_of_users_shuts_slurmctld_out(running, crowd):
    """All places are taken, and the queue of those who wait is full."""
    for uid in USERS:
        assert crowd.join(running.socket, uid, 16) == "16"
    running.process.send_signal(signal.SIGSTOP)
    said = [crowd.join(running.socket, uid, 100) for uid in USERS]
    assert said[-1] == "BlockingIOError 0", said
    # Who comes now finds no room, slurmctld neither.
    assert as_slurmctld(running.socket, slurm_uid())[0] != 0
    with socket.socket(socket.AF_UNIX) as first:
        first.setblocking(False)
        assert first.connect_ex(reserved_socket(running.socket)) == 0
    running.process.send_signal(signal.SIGCONT)
    error, answer = as_slurmctld(reserved_socket(running.socket), slurm_uid())
    assert (error, b'"action":"set"' in answer) == (0, True), answer


def test_the_reserved_socket_is_for_slurmctld_alone(running, crowd):
    assert crowd.join(reserved_socket(running.socket), USERS[0], 1) == "PermissionError 0"
    assert crowd.join(running.socket, USERS[0], 1) == "1"
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(reserved_socket(running.socket))
        channel.sendall(encode(Ask(job=job())))
        assert channel.recv(65536)
