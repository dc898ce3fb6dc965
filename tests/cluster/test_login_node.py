"""A login node with a network and files of its own; two users there, one of them hostile."""

import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from predictor.refit import row_of
from sacct_ingest.store import Store
from slurm_plugin.nimod import line_client
from tests.cluster.login_node import PROJECT, Cable, LoginNode, relay_sections
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory, unavailable
from tests.end_to_end.site import Site
from tests.processes import LONGEST_WAIT_S, Account, free_ports, wait_until
from tests.requests.conftest import SHAPES, curve

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a login node")
HONEST, HOSTILE = "nobody", "games"
#: What users ask nimod besides advice.
WHY = ("nimo", "why", "1")
QUESTIONS = (*(("nimo", word) for word in ("predict", "report", "wait", "status")), WHY)
LINK_DOWN = 74
stranger = (PROJECT / "tests" / "attack" / "stranger.py").read_text()


@dataclass
class Place:
    """A site with a login node."""

    site: Site
    login: LoginNode
    port: int
    script: Path

    @property
    def controller(self):
        """Where nimod listens for relays."""
        return f"{self.login.cable.controller}:{self.port}"

    def advise(self, *argv, user=HONEST):
        """Run nimo-advise on the login node."""
        done, _ = self.login.nimo("advise", *argv, "-N", "1-8", self.script, user=user)
        return done

    def submit(self, *argv):
        """Submit on the login node as the honest user; give the job as slurmctld has it."""
        words = ("sbatch", "-H", "--parsable", *argv, self.script)
        done = self.login.run(*words, user=HONEST)
        return self.site.cluster.job(int(done.stdout.partition(";")[0]))


@contextmanager
def cable():
    if missing := [name for name in ("ip", "nsenter", "setpriv") if not shutil.which(name)]:
        unavailable(f"not installed: {', '.join(missing)}")
    made = Cable.new()
    made.lay()
    try:
        yield made
    finally:
        made.take_away()


@pytest.fixture(scope="module")
def place(slurm_cluster):
    with scratch_directory("nimo-login-") as folder, cable() as made:
        (folder / "here").mkdir()
        hooks = hooks_for(folder)
        conf = hooks / "nimo_hook.conf"
        text = conf.read_text().replace("/nimod.sock\n", "/here/nimod.sock\n")
        conf.write_text(text + "rewrite_in_cli_filter = yes\n")
        name = os.uname().nodename
        with slurm_cluster(lua=hooks, conf=[f"SlurmctldHost={name}({made.controller})"]) as cluster:
            site = Site(folder, cluster)
            site.nimod.socket = folder / "here" / "nimod.sock"
            with Store.open(site.nimod.store) as store:
                store.fits.replace([row_of(curve(user)) for user in (HONEST, HOSTILE)])
            (port,) = free_ports(1)
            [nimod], login = relay_sections(cluster, folder, f"{made.controller}:{port}")
            site.run_nimod("enforce", relay=nimod, snapshot={"interval_s": 0.3})
            node = LoginNode(folder, cluster, made, login)
            node.start()
            node.start_relay()
            script = site.write_script("shapes.sh", SHAPES)
            shutil.chown(script, HONEST)  # cli_filter reads what its user may write
            yield Place(site, node, port, script)


def test_there_is_no_socket_of_the_controller_on_the_login_node(place):
    observed = place.login.root("ls", place.site.nimod.socket.parent).stdout.split()
    assert [name for name in observed if not name.endswith("lock")] == ["nimod.sock"]
    assert place.site.nimod.socket.stat().st_ino != place.login.socket.stat().st_ino
    connect = f"import socket; socket.create_connection(('127.0.0.1', {place.port}))"
    refused = place.login.root(sys.executable, "-c", connect, check=False)
    assert "refused" in refused.stderr


@pytest.mark.releases
def test_users_get_advice_and_their_applications(place):
    advice = place.advise("--json")
    assert advice.returncode == 0, advice.stderr
    assert json.loads(advice.stdout)["nodes"] > 1
    assert advice.stderr == ""
    listed, _ = place.login.nimo("nimo", "predict", "--all", "--json", user=HONEST)
    assert listed.returncode == 0, listed.stderr
    assert [one["key"] for one in json.loads(listed.stdout)] == [f"{HONEST}/shapes"]
    # Root of a login node is nobody special, and opens no store.
    listed, _ = place.login.nimo("nimo", "predict")
    assert (listed.returncode, "shapes" in listed.stdout) == (0, False), listed.stderr


@pytest.mark.releases
def test_cli_filter_has_nimod_choose_and_hands_the_deadline_on(place):
    place.site.settled()
    before = place.site.status().answered
    job = place.submit("-N", "1-8", "-t", "60", "--comment=mine", "--deadline=2033-05-18")

    def asked_twice():
        """Whether it was prepared, and then decided; each status is a request, too."""
        nonlocal before
        before += 1
        return place.site.status().answered >= before + 2

    wait_until(asked_twice, what="two requests for a submission")
    low, _, high = job["NumNodes"].partition("-")
    assert (int(low) > 1, high in ("", low), job["Comment"]) == (True, True, "mine")
    note = re.search(r"NIMO1:(\w+)", job["AdminComment"])

    def decided():
        with Store.open(place.site.nimod.store) as store:
            detected = store.decisions.of_job(int(job["JobId"]), decision_id=note[1])
        return detected is not None and detected[0].user == HONEST

    wait_until(decided, what="the decision in the store")
    why, _ = place.login.nimo("nimo", "why", job["JobId"], user=HONEST)
    assert why.returncode == 0, why.stderr
    # Others read what Slurm shows of it, and neither its decision nor how to change it.
    why, _ = place.login.nimo("nimo", "why", job["JobId"], user=HOSTILE)
    assert why.returncode == 0, why.stderr
    assert "its user holds it" in " ".join(why.stdout.split())
    assert "asked for" not in why.stdout
    assert "What would start it sooner" not in why.stdout
    report, _ = place.login.nimo("nimo", "report", "--json", "-u", HONEST, user=HONEST)
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["decisions"] > 0


@pytest.mark.releases
def test_whose_job_is_changed_reads_one_line_about_it(place):
    place.site.settled()
    words = ("sbatch", "-H", "--parsable", "-N", "1-8", "-t", "60", place.script)
    done = place.login.run(*words, user=HONEST)
    job = place.site.cluster.job(int(done.stdout.partition(";")[0]))
    low, _, _ = job["NumNodes"].partition("-")
    lines = [line for line in done.stderr.splitlines() if "nimo: " in line]
    assert len(lines) == 1, done.stderr
    assert f"nimo: this job runs on {low} nodes" in lines[0]


def test_a_hostile_user_gets_nowhere_and_keeps_nobody_out(place):
    who = Account.of(HOSTILE)
    munged = place.site.cluster.settings.auth == "munge"
    munge = str(place.site.cluster.layout.munge_socket) if munged else ""
    argv = [place.login.cable.controller, place.port, munge, who.uid, who.gid]
    tried = place.login.root(
        "env", f"PYTHONPATH={PROJECT}", sys.executable, "-c", stranger, *map(str, argv)
    )
    result = json.loads(tried.stdout)
    assert result.pop("crowd") == 64
    if munged:
        assert f"uid {who.uid} do not count" in result.pop("as a relay")
        assert f"uid {who.uid} do not count" in result.pop("forged")
        assert "Unauthorized" in result.pop("decodes for root")
    else:
        assert "credential" not in result["without certificate"], "no welcome"
    assert all("ok" not in str(said) and "linked" not in str(said) for said in result.values())
    asked = {"user_id": 0, "user_name": "root", "name": "shapes"}
    with pytest.raises(line_client.RequestRefused, match=r"not for user"):
        as_user(place, HOSTILE, asked)
    assert place.advise().returncode == 0
    assert place.site.status().relays == ["login1"]


def trouble(place):
    """Why the relay has no link; empty where it has one."""
    return place.login.links().links[0].trouble


def as_user(place, user, job):
    """Ask the relay as a user, from this process."""
    account = Account.of(user)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        return line_client.advise(place.login.socket, job, timeout_s=LONGEST_WAIT_S)
    finally:
        os.seteuid(0)
        os.setegid(0)


class Between:
    """Somebody between relay and controller: passes on, remembers, and can change."""

    def __init__(self, here, port, to):
        self._listener = socket.create_server((here, port))
        self._to = to
        self.sent = bytearray()  # by the relay
        self.change = lambda data: data
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with suppress(OSError):
            while True:
                relay, _ = self._listener.accept()
                nimod = socket.create_connection(self._to)
                for ends in ((relay, nimod, True), (nimod, relay, False)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source, to, relays):
        with suppress(OSError):
            while data := source.recv(65536):
                if relays:
                    self.sent += data
                to.sendall(self.change(data) if relays else data)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        """End: a thread that still waited here would take connections of the next such socket."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


def test_somebody_in_between_can_neither_change_nor_replay(place):
    cable, settings = place.login.cable, place.login.settings
    (port,) = free_ports(1)
    between = Between(cable.controller, port, (cable.controller, place.port))
    place.login.stop_relay()
    place.login.configure(relay=settings | {"controllers": [f"{cable.controller}:{port}"]})
    place.login.start_relay()
    try:
        assert place.advise().returncode == 0
        uid = Account.of(HONEST).uid.to_bytes(4, "big")
        if settings.get("auth") == "tls":
            between.change = lambda data: data[:-1] + bytes([data[-1] ^ 1])
        else:
            between.change = lambda data: data.replace(uid, bytes(4))
        assert place.advise().returncode == LINK_DOWN
        between.change = lambda data: data
        with socket.create_connection((cable.controller, place.port)) as again:
            again.settimeout(LONGEST_WAIT_S)
            again.sendall(between.sent)
            said = again.makefile("rb").read()
        assert b'"nodes"' not in said
        if settings.get("auth") != "tls":
            assert b"Replayed credential" in said
    finally:
        between.close()
        place.login.stop_relay()
        place.login.configure()
        place.login.start_relay()


def doctor(place):
    """Findings of nimo doctor on the login node, by their check."""
    done, _ = place.login.nimo("nimo", "doctor", "--json")
    detected = {}
    for one in json.loads(done.stdout):
        detected.setdefault(one["check"], []).append(one)
    return detected


def test_doctor_looks_at_the_relay_and_its_links(place):
    detected = doctor(place)
    for check in ("configuration", "slurmctld", "clock", "relay", "link", "socket"):
        assert {one["state"] for one in detected[check]} == {"ok"}, detected[check]
    assert "store" not in detected
    assert place.controller in detected["link"][0]["message"]
    with stopped(place):
        wait_until(lambda: bool(trouble(place)), what="the end of the link")
        (finding,) = doctor(place)["link"]
        assert (finding["state"], place.controller in finding["message"]) == ("error", True)
    place.login.wait_linked()


def test_a_cut_link_is_named_with_its_fix(place):
    with stopped(place):
        wait_until(lambda: bool(trouble(place)), what="the end of the link")
        for command in (("advise", "-N", "1-8", place.script), *QUESTIONS):
            done, _ = place.login.nimo(*command, user=HONEST)
            # Slurm itself says why a job waits.
            assert done.returncode == (0 if command == WHY else LINK_DOWN)
            assert place.controller in done.stderr
            assert "start nimod there" in done.stderr or "cut" in done.stderr
            assert "store" not in done.stderr
        job = place.submit("-N", "1-8", "-t", "60", "--comment=mine")
        assert (job["NumNodes"], job["Comment"]) == ("1-8", "mine")
    place.login.wait_linked()
    assert place.advise().returncode == 0


@contextmanager
def stopped(place):
    place.site.nimod.stop()
    try:
        yield
    finally:
        place.site.nimod.start()
        wait_until(place.site.watching, what="nimod to see the cluster")


def test_a_slow_controller_is_named_and_keeps_no_job_waiting(place):
    processes = place.site.cluster.processes
    processes.signal("nimod", signal.SIGSTOP)
    try:
        done = place.advise()
        assert done.returncode == LINK_DOWN
        assert f"nimod on {place.controller}" in done.stderr
    finally:
        processes.signal("nimod", signal.SIGCONT)
    place.login.wait_linked()


def test_a_cable_that_loses_everything_is_noticed(place):
    place.login.cable.cut()
    try:
        done = place.advise()
        assert (done.returncode, place.controller in done.stderr) == (LINK_DOWN, True)
        wait_until(lambda: bool(trouble(place)), what="the end of the link")
        done = place.advise()
        assert (done.returncode, place.controller in done.stderr) == (LINK_DOWN, True)
    finally:
        place.login.cable.join()
    place.login.wait_linked()


IMPOSTOR = """
import os, signal, sys
import concurrent.futures.thread, encodings.idna
from slurm_plugin.config.loader import load
from slurm_plugin.nimod.relay.gateway import Gateway
from slurm_plugin.service.accountant import Accountant
from pathlib import Path
relay = load(Path(sys.argv[1])).relay
submit = lambda line, uid, account, done: done(b"{}")
gateway = Gateway(relay, submit=submit, asked_s=lambda: None, accountant=Accountant())
os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[2]))
gateway.start()
signal.pause()
"""


def test_a_user_who_takes_nimods_place_is_not_believed(place):
    if place.site.cluster.settings.auth != "munge":
        pytest.skip("users can read no key of a certificate")
    who, processes = Account.of(HOSTILE), place.site.cluster.processes
    with stopped(place):
        argv = [sys.executable, "-c", IMPOSTOR, place.site.nimod.config, str(who.uid), str(who.gid)]
        processes.start("impostor", argv, env={"PYTHONPATH": str(PROJECT)})
        try:
            wait_until(lambda: "do not count" in trouble(place), what="the impostor")
            done = place.advise()
            assert done.returncode == LINK_DOWN
            assert f"credentials of uid {who.uid} do not count" in done.stderr
            assert place.controller in done.stderr
        finally:
            processes.stop("impostor")
    place.login.wait_linked()


def test_without_a_relay_the_user_learns_what_to_start(place):
    place.login.stop_relay()
    try:
        done = place.advise()
        assert done.returncode == 69
        assert "systemctl start nimo-relay" in done.stderr
        for command in QUESTIONS:
            done, _ = place.login.nimo(*command, user=HONEST)
            if command != WHY:  # Slurm itself says why a job waits
                assert (done.returncode, done.stdout) == (69, ""), command
            assert "systemctl start nimo-relay" in done.stderr
        done, _ = place.login.nimo("nimo", "prune", user=HONEST)
        assert done.returncode == 74
        assert f"run this on {place.controller}" in done.stderr
        assert place.submit("-N", "1-8", "-t", "60")["NumNodes"] != ""
    finally:
        place.login.start_relay()
