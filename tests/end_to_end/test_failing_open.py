"""Whatever becomes of nimod, every sbatch succeeds, unchanged and without waiting for it."""

import contextlib
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from predictor.stored_table import decode, encode
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.text.admin_comment import parse
from tests.cluster.listing import job_fields
from tests.cluster.nimod import LONGEST_WAIT_MS, SHIPPED_MS, set_hook_timeout
from tests.end_to_end.troubled_nimod import SET, TroubledNimod
from tests.processes import wait_until

SUBMISSIONS = 8
MANY, AT_ONCE = 1000, 250
RANGE = ("-N", "1-3", "-t", "5", "--hold")


@pytest.fixture(scope="module", autouse=True)
def as_shipped(site):
    """The hooks with the time-out that they have at a site."""
    set_hook_timeout(site.cluster, SHIPPED_MS)
    yield
    set_hook_timeout(site.cluster, LONGEST_WAIT_MS)


def submit_all(site):
    for _ in range(SUBMISSIONS):
        site.submit(*RANGE)


def unchanged(site):
    jobs = site.cluster.run("scontrol", "-o", "show", "job").stdout
    held = [line for line in jobs.splitlines() if "JobState=PENDING" in line]
    return len(held) == SUBMISSIONS and all("NumNodes=1-3 " in line for line in held)


@contextmanager
def stopped(site):
    site.nimod.stop()
    yield


@contextmanager
def frozen(site):
    site.nimod.freeze()
    try:
        yield
    finally:
        site.nimod.thaw()


@contextmanager
def socket_missing(site):
    site.nimod.stop()
    site.nimod.socket.unlink(missing_ok=True)
    yield


@contextmanager
def garbage(site):
    site.nimod.stop()
    with talker(site.nimod.socket, b'\x00\xff{"v": [[[ 1\n' * 100):
        yield


@contextmanager
def absurd(site):
    site.nimod.stop()
    answer = b'{"v":1,"ok":true,"action":"set","set":{"min_nodes":-4,"max_nodes":1e9}}\n'
    with talker(site.nimod.socket, answer):
        yield


@contextmanager
def killed(site):
    site.kill_nimod()
    yield


@contextmanager
def talker(path, answer):
    """Answer every line on a Unix socket with the same bytes."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o666)
    server.listen()

    def serve(connection):
        # The hook hangs up in the middle of what it does not want.
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                connection.sendall(answer)

    def accept():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        path.unlink(missing_ok=True)


def test_an_error_in_the_policy_rejects_no_job(enforcing):
    # First: after trouble with nimod the hook does not ask it for a while.
    # A table whose columns differ in length can be read, and fails when a count is looked up.
    with Store.open(enforcing.nimod.store) as store:
        whole = next(row for row in store.fits.all() if row.level == KeyLevel.LINE)
        table = decode(whole.payload)
        named = replace(table, level="tag", key="root/broken", acting={})
        broken = replace(named, median_s=table.median_s[:1])
        row = replace(whole, level=KeyLevel.TAG, key="root/broken", payload=encode(broken))
        sound = store.fits.all()
        store.fits.replace([*sound, row])
        enforcing.run_nimod("enforce")
        enforcing.settled()  # without a view of the cluster no table is looked at
        failed = enforcing.status().failed
        for _ in range(SUBMISSIONS):
            enforcing.submit(*RANGE, "--comment=nimo:app=broken")
        store.fits.replace(sound)
    assert unchanged(enforcing)
    assert enforcing.status().failed > failed


@pytest.mark.parametrize("trouble", [stopped, frozen, socket_missing, garbage, absurd, killed])
def test_every_sbatch_succeeds_and_none_waits_for_nimod(enforcing, trouble):
    """The trouble lasts until all are through: none of them can have waited for its end.

    How long a hook waits at most is shown where sockets and their clock are stand-ins.
    """
    try:
        with trouble(enforcing):
            submit_all(enforcing)
            assert unchanged(enforcing)
    finally:
        enforcing.run_nimod("enforce")


def test_the_kill_switch_works_without_a_restart(enforcing):
    enforcing.nimod.kill_switch.touch()
    try:
        submit_all(enforcing)
        assert unchanged(enforcing)
    finally:
        enforcing.nimod.kill_switch.unlink()
        enforcing.empty_queue()


@pytest.fixture
def short_timeouts(enforcing):
    """Hooks that ask again at once after time-outs, so that every trouble is met, elsewhere."""
    settings = enforcing.cluster.layout.etc / "nimo_hook.conf"
    before = settings.read_text()
    settings.write_text(before.replace("nimod.sock", "troubled.sock") + "breaker_s = 0.05\n")
    enforcing.cluster.restart("slurmctld")
    yield enforcing
    settings.write_text(before)
    enforcing.cluster.run("scancel", "--me")
    enforcing.restart_slurmctld()


def submit_many(site, names):
    """Submit held jobs of these names, eight at a time; the ids that sbatch printed."""
    # A failing sbatch ends xargs with status 123.
    argv = ["xargs", "-P", "8", "-I", "{}", "sbatch", "--parsable", "-J", "{}", *RANGE]
    return site.cluster.run(*argv, site.script, stdin="\n".join(names)).stdout.split()


def allowed(job, made):
    """Tell whether a job is as asked for, as the canned answer said, or as decided about it."""
    reported = parse(job.get("AdminComment", ""))
    if reported is None:
        # On 3 nodes only what came too late would have been.
        return job["NumNodes"] in ("1-3", "2", "2-2")
    own = made[reported.decision_id]
    counts = (f"{own.nodes}", f"{own.nodes}-{own.nodes}") if own.applied else ("1-3",)
    return own.name == job["JobName"] and job["NumNodes"] in counts


def on_two_nodes(site):
    """Tell whether one more job is set to two nodes."""
    job_id = site.submit(*RANGE)
    return site.cluster.job(job_id)["NumNodes"] in ("2", "2-2")


@pytest.mark.long
@pytest.mark.timeout(1200)  # two and a half minutes where other work has both cores
def test_a_thousand_jobs_pass_whatever_nimod_does(short_timeouts):
    cluster, since = short_timeouts.cluster, time.time()
    before = cluster.processes.status()["slurmctld"]
    names = []
    ids = []
    real = short_timeouts.nimod
    with TroubledNimod(real.socket.with_name("troubled.sock"), real, seed=7) as nimod:
        while len(names) < MANY or nimod.untried:
            more = [f"job{len(names) + n}" for n in range(AT_ONCE)]
            ids += submit_many(short_timeouts, more)
            names += more
        assert nimod.connections
    records = cluster.run("scontrol", "show", "job").stdout.split("\n\n")
    jobs = [job for job in map(job_fields, records) if job.get("JobState") == "PENDING"]
    assert sorted(job["JobId"] for job in jobs) == sorted(ids)
    assert sorted(job["JobName"] for job in jobs) == sorted(names)
    made = {d.decision_id: d for d in short_timeouts.made(since)}
    shown = ("JobName", "NumNodes", "AdminComment")
    assert [[job.get(f) for f in shown] for job in jobs if not allowed(job, made)] == []
    # A busy machine may have been too slow for all answers above, not for all from now on.
    with talker(real.socket.with_name("troubled.sock"), SET % (2, 2, 2)):
        wait_until(lambda: on_two_nodes(short_timeouts), what="an answer to be carried out again")
    assert cluster.processes.status()["slurmctld"] == before
