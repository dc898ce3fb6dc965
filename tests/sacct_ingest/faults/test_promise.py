"""The promise: whatever is killed whenever, the next ingest leaves what an undisturbed one does."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from functools import cache
from itertools import count
from random import Random

import pytest

from sacct_ingest.store import Store
from tests.conftest import database_server, scratch_directory
from tests.databases import MariaDB, PostgreSQL, unprivileged
from tests.processes import Account, ProcessError, wait_until
from tests.sacct_ingest.faults.history import NOWS, make_history
from tests.sacct_ingest.faults.site import Site, after, ended, kill

#: Time that an undisturbed ingest takes, about; what is killed is killed within it.
TAKES_S = 0.25


def killed(site, rng):
    process = site.start()
    number = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    after(rng.uniform(0, TAKES_S), lambda: kill(process, number))


def sacct_fails(site, rng):
    kind = rng.choice(("status", "signal", "garbage", "cut"))
    site.fail(kind=kind, call=rng.randrange(1, 4), share=rng.random())
    ended(site.start())


def sacct_is_silent(site, rng):
    site.fail(kind="silence", call=rng.randrange(1, 4), share=rng.random())
    process = site.start()
    after(rng.uniform(0.1, TAKES_S), lambda: kill(process))


def two_at_once(site, rng):
    first, second = site.start(), after(rng.uniform(0, TAKES_S), site.start)
    if rng.random() < 0.5:
        after(rng.uniform(0, TAKES_S), lambda: kill(first))
    else:
        ended(first)
    assert ended(second) == 0


def disk_full(site, rng):
    file = database_file(site)
    ended(site.start(file_bytes=file.stat().st_size + rng.randrange(1, 60_000)))


def locked(site, rng):
    writer = sqlite3.connect(database_file(site), isolation_level=None)
    process = site.start()
    after(rng.uniform(0, TAKES_S / 2), lambda: writer.execute("BEGIN IMMEDIATE"))
    after(rng.uniform(0, 2 * TAKES_S), writer.close)
    ended(process)


def nothing(site, rng):
    site.ingest()


ANYWHERE = (killed, killed, sacct_fails, sacct_is_silent, two_at_once, nothing)
SQLITE = (*ANYWHERE, disk_full, locked)


def database_file(site):
    return site.folder / "nimo.db"


@cache
def made(seed):
    return make_history(Random(seed))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What is in the store in the end if nothing happens, by the seed of the history."""

    @cache
    def contents(seed):
        folder = tmp_path_factory.mktemp("undisturbed")
        site = Site.make(folder, made(seed), f"sqlite:///{folder / 'nimo.db'}")
        for now_s in NOWS:
            site.at(now_s)
            site.ingest()
        return site.contents()

    return contents


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A store with nothing in it."""
    path = tmp_path_factory.mktemp("empty") / "nimo.db"
    Store.open(str(path)).close()
    return path


def disturbed(site, rng, faults):
    reported = []
    for now_s in NOWS:
        site.at(now_s)
        fault = rng.choice(faults)
        reported.append(fault.__name__)
        site.fail()
        fault(site, rng)
    sys.stdout.write(f"faults: {reported}\n")
    site.ingest()
    return site.contents()


def test_the_history_has_what_is_hard(undisturbed):
    contents = undisturbed(0)
    assert len(contents["runs"]) > 45
    assert len(contents["steps"]) > 30
    # A job whose row cannot be read, and its step.
    assert len(contents["rejects"]) == 2
    assert any("REQUEUED" in row for row in contents["runs"])
    assert any("mended" in row for row in contents["runs"])
    assert any("('run_id', (" in row for row in contents["decisions"])
    late = [e for e in made(0) if e.spans[0][1] < NOWS[0] - 7200 < NOWS[0] < e.from_s]
    assert late, "no row reaches the accounting after the ingest of its day"


@pytest.mark.parametrize("seed", range(24))
def test_after_any_fault_the_next_ingest_leaves_what_an_undisturbed_one_does(
    seed, tmp_path, empty, undisturbed
):
    shutil.copy(empty, tmp_path / "nimo.db")  # migrations take longer than all the rest
    url = f"sqlite:///{tmp_path / 'nimo.db'}?timeout=0.2"
    site = Site.make(tmp_path, made(seed % 5), url)
    assert disturbed(site, Random(seed), SQLITE) == undisturbed(seed % 5)


def test_follow_goes_on_until_it_is_asked_to_end_and_then_where_it_was(
    tmp_path, empty, undisturbed
):
    shutil.copy(empty, tmp_path / "nimo.db")
    site = Site.make(tmp_path, made(0), f"sqlite:///{tmp_path / 'nimo.db'}")
    for now_s in NOWS:
        site.at(now_s)
        site.fail()
        process = site.start("--follow", "--every", "0.001")
        try:
            wait_until(lambda now_s=now_s: read_to(site) == now_s, what="the new rows")
        finally:
            status = kill(process, signal.SIGTERM)
        assert status == 0, (tmp_path / "log").read_text()[-2000:]
    site.ingest()
    assert site.contents() == undisturbed(0)


def read_to(site):
    with Store.open(site.url) as store:
        return store.watermarks.get("sacct:")


def test_a_disk_that_is_really_full(tmp_path, undisturbed):
    with scratch_directory("nimo-full-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small file system; a limit of file size stood in")
        try:
            site = Site.make(tmp_path, made(0), f"sqlite:///{folder / 'nimo.db'}")
            filler = folder / "filler"
            space = os.statvfs(folder)
            filler.write_bytes(b"x" * (space.f_bavail * space.f_frsize - 8192))
            for now_s in NOWS:
                site.at(now_s)
                site.fail()
                assert ended(site.start()) == 74, (tmp_path / "log").read_text()
            assert f"left on the file system at {folder}" in (tmp_path / "log").read_text()
            subprocess.run(["mount", "-o", "remount,size=8m", str(folder)], check=True)
            filler.unlink()
            site.ingest()
            assert site.contents() == undisturbed(0)
        finally:
            subprocess.run(["umount", str(folder)], check=True)


SERVERS = [
    pytest.param((MariaDB, Account.mine), id="mariadb", marks=pytest.mark.database),
    pytest.param((PostgreSQL, unprivileged), id="postgresql", marks=pytest.mark.database),
]


@pytest.fixture(scope="module", params=SERVERS)
def server(request):
    """A server of our own, since it is killed."""
    kind, account = request.param
    with database_server(kind, account()) as server:
        keep_what_is_committed(server)
        yield server


def keep_what_is_committed(server):
    """Undo what our servers are told for speed: MariaDB would lose the last second."""
    if isinstance(server, MariaDB):
        server.execute("set global innodb_flush_log_at_trx_commit = 1")


_numbers = count()


def server_gone(server):
    daemon = "mariadbd" if isinstance(server, MariaDB) else "postgres"

    def gone(site, rng):
        process = site.start()
        server_end = signal.SIGKILL if isinstance(server, MariaDB) else signal.SIGQUIT
        after(rng.uniform(0, TAKES_S), lambda: server.processes.signal(daemon, server_end))
        ended(process)
        server.down()
        server.up()
        keep_what_is_committed(server)

    gone.__name__ = "server gone"
    return gone


def connections_lost(server):
    def lost(site, rng):
        process = site.start()
        after(rng.uniform(0, TAKES_S), lambda: end_connections(server))
        ended(process)

    lost.__name__ = "connections lost"
    return lost


def end_connections(server):
    if isinstance(server, PostgreSQL):
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return
    others = (
        "select id from information_schema.processlist where id <> connection_id() and db <> ''"
    )
    for number in server.execute(others).split():
        with contextlib.suppress(ProcessError):  # it may have ended meanwhile
            server.execute(f"kill {number}")


@pytest.mark.parametrize("seed", range(8))
def test_the_same_on_a_server(seed, server, tmp_path, undisturbed):
    faults = (*ANYWHERE, connections_lost(server), server_gone(server))
    name = f"promise_{next(_numbers)}"
    site = Site.make(tmp_path, made(seed % 5), server.create(name))
    assert disturbed(site, Random(1000 + seed), faults) == undisturbed(seed % 5)
    server.drop(name)
