"""nimod as a process: what it answers, how it begins, reloads and ends."""

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from sacct_ingest.sharing import SharedTag
from sacct_ingest.store import Store
from slurm_plugin.config import Config, Mode, Relay, Sharing, Snapshot
from slurm_plugin.config.loader import dump
from slurm_plugin.nimod import client
from slurm_plugin.nimod.daemon import Daemon
from slurm_plugin.protocol import MAX_LINE_BYTES, Answer, Ask, Command, Job, encode
from slurm_plugin.slurm import fields
from slurm_plugin.slurm.node_pool import AT_ONCE
from slurm_plugin.slurm.sources import line
from tests.processes import PATIENCE_S, wait_until
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
        self.notify.settimeout(PATIENCE_S)

    def set_slurm(self, text):
        for name in ("squeue", "sinfo", "scontrol"):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        (self.folder / "nodes").write_text("".join(map(idle_node, range(1, 9))))
        (self.folder / "partitions").write_text(PARTITIONS.splitlines()[0] + "\n")

    def start(self, ready=True, sharing=Sharing(), relay=Relay(), **environ):  # noqa: B008 - frozen
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
        return client.status(self.socket, timeout_s=PATIENCE_S)

    def decide(self, **fields):
        return client.decide(self.socket, Ask(job=job(**fields)), timeout_s=PATIENCE_S)

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


@pytest.fixture
def nimod(tmp_path):
    made = Nimod(tmp_path)
    yield made
    made.end()


@pytest.fixture
def running(nimod):
    nimod.fit()
    nimod.start()
    nimod.see_cluster()
    return nimod


def talk(path, data, answers=1):
    """Send bytes, return the lines that come back."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(path)
        channel.sendall(data)
        received = channel.makefile("rb")
        return [json.loads(received.readline()) for _ in range(answers)]


def test_a_submission_is_answered_and_recorded(running):
    answer = running.decide()
    assert answer.action == "set"
    assert 1 <= answer.set.min_nodes <= 8
    wait_until(running.decisions, what="the decision in the store")
    (row,) = running.decisions()
    assert (row.nodes, row.cluster, row.applied) == (answer.set.min_nodes, "pine", True)
    assert row.decision_id in answer.admin_comment


def test_one_connection_serves_many_requests(running):
    line = encode(Ask(job=job()))
    answers = talk(running.socket, line * 50, 50)
    assert [answer["v"] for answer in answers if answer.get("ok", True)] == [1] * 50


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"garbage", "malformed"),
        (b"[1, 2]", "Expected `object`"),
        (b'{"v":1,"op":"dance"}', "Invalid enum value 'dance'"),
        (b'{"v":1,"job":{"min_nodes":"four"}}', "Expected `int"),
        (b'{"v":2}', "nimod speaks 1"),
        (b"\xff\xfe", "malformed"),
        (b'{"x":1,"op":"\xff"}', "UTF-8"),
        (b'{"x":' + b"[" * 1000, "nested"),
        (b'{"op":"status","x":' + b"[" * 60_000 + b"]" * 60_000 + b"}", "nested"),
    ],
)
def test_a_bad_request_gets_an_error_and_the_connection_lives(running, line, told):
    bad, good = talk(running.socket, line + b"\n" + encode(Ask(op="status")), 2)
    assert bad["ok"] is False
    assert told in bad["error"]
    assert good["identities"] == 1


def test_a_user_whose_name_is_not_known_sees_nothing(tmp_path):
    config = Config(store=f"sqlite:///{tmp_path}/nimo.db", socket=str(tmp_path / "s"))
    made = Daemon(config, lambda: config)
    for op in ("applications", "explain"):
        reply = made.respond(encode(Ask(op=op, name="wrf", job_id=1)), 4_000_000)
        assert b"has no name" in reply.data
        assert reply.query is None


def test_a_request_without_end_is_cut_off(running):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(running.socket)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            channel.sendall(b"x" * (MAX_LINE_BYTES + 70_000))
        with contextlib.suppress(ConnectionResetError):
            assert b"longer than" in channel.makefile("rb").readline()
    assert running.status().ok


def test_a_peer_that_does_not_read_is_dropped(running):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(running.socket)
        line = encode(Ask(op="status"))
        with pytest.raises(OSError):
            for _ in range(20_000):
                channel.sendall(line)
    assert running.status().ok


def test_many_clients_at_once(running):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: running.decide(), range(200)))
    assert {answer.ok for answer in answers} == {True}
    wait_until(lambda: len(running.decisions()) == 200, what="all decisions")


def test_new_tables_are_seen_by_themselves(running):
    assert running.decide(user_name="bob").reason == "unknown_application"
    running.fit(table(), table(key="bob/solve", owner="bob"))
    wait_until(lambda: running.status().identities == 2, what="the new tables")
    assert running.decide(user_name="bob").action == "set"


def test_a_hangup_reads_the_tables_again(running):
    before = running.status().loaded_s
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: running.status().loaded_s > before, what="the reload")
    assert running.decide().action == "set"


def hang_up(nimod, text, told):
    """Write nimo.yaml, send SIGHUP and wait for what the log says of it."""
    (nimod.folder / "nimo.yaml").write_text(text)
    nimod.process.send_signal(signal.SIGHUP)
    wait_until(lambda: told in nimod.log.read_text(), what=told)


def test_a_hangup_reads_the_settings_and_a_broken_file_leaves_them(running):
    whole = (running.folder / "nimo.yaml").read_text()
    assert running.decide().action == "set"
    hang_up(running, whole.replace("mode: enforce", "mode: [broken"), "stay as they were")
    assert running.decide().action == "set"
    hang_up(running, whole.replace("mode: enforce", "mode: observe"), "settings read")
    assert running.decide().action == "keep"


def test_a_hangup_tells_which_changes_need_a_restart(running):
    whole = (running.folder / "nimo.yaml").read_text()
    hang_up(running, whole.replace("nimod.sock", "other.sock"), "socket was changed: that needs")
    assert running.status().ok


def test_reload_by_message(running):
    before = running.status().loaded_s
    assert client.status(running.socket, reload=True, timeout_s=PATIENCE_S).ok
    wait_until(lambda: running.status().loaded_s > before, what="the reload")


def test_the_end_is_clean_and_loses_no_decision(running):
    answers = [running.decide() for _ in range(20)]
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_S) == 0
    assert running.notify.recv(100) == b"STOPPING=1"
    assert not Path(running.socket).exists()
    assert len(running.decisions()) == len(answers)


def test_a_second_one_refuses_to_start(running):
    second = subprocess.run(
        running.process.args, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert second.returncode == 78
    assert f"another nimod has it (process {running.process.pid})" in second.stderr
    assert running.status().ok


def test_one_that_was_killed_is_followed_by_the_next(running):
    running.process.kill()
    running.process.wait()
    running.start()
    assert running.status().identities == 1


def test_it_begins_without_slurm_and_without_a_store(nimod):
    nimod.set_slurm("#!/bin/sh\necho 'slurmctld is away' >&2; exit 1\n")
    nimod.start()
    assert nimod.decide().reason == "no_snapshot"
    assert "slurmctld is away" in nimod.log.read_text()
    nimod.set_slurm(SLURM)
    nimod.fit()
    nimod.see_cluster()
    wait_until(lambda: nimod.status().identities == 1, what="the tables")
    assert nimod.decide().action == "set"
    # The record from before the cluster's name was known has it all the same.
    wait_until(lambda: len(nimod.decisions()) == 2, what="both decisions")
    assert nimod.log.read_text().count("slurmctld is away") == 1


def test_a_slurm_that_hangs_delays_no_answer(nimod):
    nimod.set_slurm("#!/bin/sh\nexec sleep 60\n")
    nimod.fit()
    nimod.start()
    began = time.monotonic()
    assert nimod.decide().reason == "no_snapshot"
    assert time.monotonic() - began < 30
    nimod.process.send_signal(signal.SIGTERM)
    assert nimod.process.wait(PATIENCE_S) == 0


def test_systemd_is_told_that_it_lives(nimod):
    nimod.start(WATCHDOG_USEC="300000")
    assert {nimod.notify.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}


@pytest.fixture
def in_the_open():
    """A nimod in a folder that everybody can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Nimod(Path(folder))
        yield made
        made.end()


NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = f"""
import os, sys, socket; os.setuid({NOBODY.pw_uid})
channels = []
for line in sys.stdin:
    channels.append(socket.socket(socket.AF_UNIX)); channels[-1].settimeout({PATIENCE_S})
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


@pytest.fixture
def watched(in_the_open):
    """With a curve of alice's by its tag and of nobody's own by its name."""
    in_the_open.fit(table(), table(level="tag", key="cfd"), table(key="nobody/solve"))
    in_the_open.start()
    in_the_open.see_cluster()
    return in_the_open


def test_no_answer_waits_while_nodes_are_counted_for_a_new_shape(nimod):
    nimod.fit()
    memory = range(2000, 2000 + AT_ONCE + 1)
    (nimod.folder / "nodes").write_text("".join(idle_node(mib, Memory=mib) for mib in memory))
    nimod.start()
    nimod.see_cluster()
    first = nimod.decide()
    assert (first.action, first.reason) == ("keep", "new_shape")
    wait_until(lambda: nimod.decide().action == "set", what="counted nodes")
    assert nimod.decide(features="other").reason == "new_shape"


@needs_root
def test_only_slurmctld_may_submit_or_reload(watched):
    own = job(user_name="nobody", user_id=NOBODY.pw_uid)
    for answer in ask_as_nobody(watched, Ask(job=own), Ask(op="reload")):
        assert f"not for user {NOBODY.pw_uid}" in answer["error"]
    assert watched.decisions() == []


@needs_root
def test_users_ask_about_their_own_jobs_only(watched):
    own = job(user_name="nobody", user_id=None)
    mine, unnamed, by_name, by_uid = ask_as_nobody(
        watched,
        Ask(op="advise", job=own),
        Ask(op="advise", job=job(user_name="", user_id=None)),
        Ask(op="advise", job=job(user_name="alice", user_id=None)),
        Ask(op="advise", job=job(user_name="nobody", user_id=1001)),
    )
    assert mine["nodes"] == unnamed["nodes"] is not None
    assert "jobs of user 'alice' are not for user" in by_name["error"]
    assert by_uid["ok"] is False


@needs_root
def test_users_prepare_their_own_jobs_only_and_nothing_is_recorded(watched):
    options = {"job-name": "solve", "nodes": "1-8", "time": "02:00:00"}
    ask = Ask(op="prepare", command=Command(program="salloc", options=options))
    bad = Ask(op="prepare", command=Command(program="salloc", options={"nodes": "few"}))
    answer, refused = ask_as_nobody(watched, ask, bad)
    assert answer["ticket"]
    assert not answer.keys() & {"admin_comment", "message", "reason"}
    assert "--nodes=few" in refused["error"]
    stolen = job(user_name="alice", user_id=1001, ticket=answer["ticket"])
    assert answer["ticket"] not in watched.decide(**msgspec.structs.asdict(stolen)).admin_comment
    wait_until(watched.decisions, what="the decision in the store")
    assert [row.via for row in watched.decisions()] == ["job_submit"]


def tell(nimod, ask):
    """Say something and wait for no answer, as the hooks do."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(nimod.socket)
        connection.sendall(encode(ask))


def test_what_is_announced_lies_ready_until_it_is_taken(running):
    options = {"job-name": "solve", "nodes": "1-8", "time": "02:00:00"}
    ticket, me = "0123456789ab", os.geteuid()
    folder = running.folder / "ready"
    command = Command(program="salloc", options=options)
    for odd in ("", "../x", "0123456789AB", "0" * 13):
        tell(running, Ask(op="prepare", tell=True, ticket=odd, command=command))
    tell(running, Ask(op="prepare", tell=True, ticket=ticket, command=command))
    path = folder / f"{me}-{ticket}"
    wait_until(path.exists, what="the decision")
    assert list(folder.iterdir()) == [path]
    # Nobody else may look around, and whoever knows the name may read.
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o711, 0o644)
    ready = json.loads(path.read_bytes())
    assert (ready["user_id"], ready["answer"]["v"]) == (me, 1)
    assert running.decisions() == []

    fields = dict(zip(ready["fields"], ready["values"], strict=True))
    arrived = Job(**{k: v for k, v in fields.items() if v is not None}, ticket=ticket)
    for _ in range(2):
        tell(running, Ask(job=arrived, tell=True, taken=True))
    wait_until(running.decisions, what="the record")
    assert not path.exists()
    running.status()
    assert [row.via for row in running.decisions()] == ["cli_filter"]
    running.process.terminate()
    running.process.wait(PATIENCE_S)
    assert not folder.exists()


@needs_root
@pytest.mark.parametrize(("private", "known"), [("none", True), ("accounts,jobs", False)])
def test_private_data_hides_what_others_ran(in_the_open, private, known):
    in_the_open.set_slurm(SLURM.replace('pine"', f'pine\nPrivateData = {private}"'))
    in_the_open.fit(table(level="tag", key="@lab/cfd", owner=""))
    shared = SharedTag(name="lab", application="cfd", users=("nobody",))
    in_the_open.start(sharing=Sharing(tags=(shared,)))
    in_the_open.see_cluster()
    ask = Ask(op="advise", job=job(user_name="nobody", user_id=None, comment="nimo:app=cfd"))
    (answer,) = ask_as_nobody(in_the_open, ask)
    assert bool(answer["points"]) is known
    assert client.advise(in_the_open.socket, ask, timeout_s=PATIENCE_S).points


@needs_root
def test_connections_of_a_user_are_few_and_those_of_slurmctld_many(watched):
    answers = ask_as_nobody(watched, *[Ask(op="status")] * 20)
    assert [bool(answer) for answer in answers] == [True] * 16 + [False] * 4
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            channel = stack.enter_context(socket.socket(socket.AF_UNIX))
            channel.connect(watched.socket)
        assert watched.status().ok


@needs_root
def test_a_user_who_asks_too_often_is_told_and_cut_off(watched):
    code = (
        f"import os, socket, sys; os.setuid({NOBODY.pw_uid})\n"
        "channel = socket.socket(socket.AF_UNIX); channel.connect(sys.argv[1])\n"
        "channel.sendall(sys.stdin.buffer.read() * 500); print(channel.makefile().read())\n"
    )
    argv = [sys.executable, "-I", "-c", code, watched.socket]
    line = encode(Ask(op="status"))
    done = subprocess.run(argv, input=line, capture_output=True, check=False, cwd="/")
    told = done.stdout.splitlines()
    assert b"more than 20 requests a second from user" in told[-2]
    assert len(told) < 500
    assert all(watched.status().ok for _ in range(60))


def test_where_nothing_is_changed_slurmctld_is_told_so_and_need_not_wait(running):
    whole = (running.folder / "nimo.yaml").read_text()
    observing = whole.replace("mode: enforce", "mode: observe")
    hang_up(running, observing, "settings read")
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(running.socket)
        reader = channel.makefile("rb")
        channel.sendall(encode(Ask(job=job())))
        assert msgspec.json.decode(reader.readline(), type=Answer).quiet
        for number in range(3):
            channel.sendall(encode(Ask(job=job(name=f"told{number}"), tell=True)))
        wait_until(lambda: len(running.decisions()) == 4, what="their decisions")
        assert {row.name for row in running.decisions()} == {"solve", "told0", "told1", "told2"}
        hang_up(running, whole, "hung up on")
        # It was sent nothing more, and has to ask again.
        assert reader.read() == b""
    answer = running.decide()
    assert (answer.action, answer.quiet) == ("set", False)
