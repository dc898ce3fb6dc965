"""Who may connect, how often, and whom nimod answers what: slurmctld, users, strangers."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from sacct_ingest.runs.sharing import SharedTag
from slurm_plugin.config.settings import Sharing
from slurm_plugin.nimod import client, line_client
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames
from slurm_plugin.nimod.connection import Reply
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask, Command, Job
from slurm_plugin.service.accountant import NAMELESS, NEWCOMERS, Accountant, Resource
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import job, table
from tests.slurm_plugin.nimod.handler import Handler
from tests.slurm_plugin.nimod.own_nimod import (
    NOBODY,
    SLURM,
    ask_as_nobody,
    hang_up,
    needs_root,
    notify,
)

ME = os.geteuid()


@pytest.fixture
def channels():
    pairs = [socket.socketpair() for _ in range(6)]
    yield [there for _, there in pairs]
    for pair in pairs:
        for channel in pair:
            channel.close()


def never(connection):
    raise AssertionError(connection)


def listener(names, *, trusted=False):
    return ConnectionLimiter(
        trusted=lambda uid: trusted, respond=lambda line, uid: Reply(b""), names=names
    )


def test_a_user_is_let_in_when_the_name_is_available(channels):
    arrived = threading.Event()
    names = UserNames(lambda uid: "alice")
    at_limit = listener(names)
    assert at_limit.enter(channels[0], lambda _: arrived.set()) is None
    assert arrived.wait(LONGEST_WAIT_S)
    assert names.cached(ME) == "alice"
    assert at_limit.enter(channels[1], never) is not None


def test_slurmctld_waits_for_no_name(channels):
    hung = threading.Event()
    names = UserNames(lambda uid: str(hung.wait(LONGEST_WAIT_S)))
    listener(names).enter(channels[0], lambda _: None)
    connection = listener(names, trusted=True).enter(channels[1], never)
    assert connection.first
    hung.set()


def test_a_user_without_a_name_is_let_in_with_none(channels):
    def unknown(uid):
        raise KeyError(uid)

    arrived = threading.Event()
    names = UserNames(unknown)
    listener(names).enter(channels[0], lambda _: arrived.set())
    assert arrived.wait(LONGEST_WAIT_S)
    assert names.cached(ME) == ""


def test_connections_are_counted_until_they_are_over(channels):
    names = UserNames(lambda uid: "alice", accountant=Accountant(connections=2))
    recorded = threading.Event()
    names.ask(ME, recorded.set)
    assert recorded.wait(LONGEST_WAIT_S)
    at_limit = listener(names)
    first, _, third = (at_limit.enter(channel, never) for channel in channels[:3])
    assert third is None
    at_limit.leave(first)
    assert at_limit.enter(channels[3], never) is not None


def test_slurmctld_is_not_counted(channels):
    names = UserNames(lambda uid: "", accountant=Accountant(connections=2))
    at_limit = listener(names, trusted=True)
    assert all(at_limit.enter(channel, never) for channel in channels)


def test_a_uid_without_a_name_is_looked_up_again_after_a_while():
    now, result = [0.0], []

    def look_up(uid):
        if not result:
            raise OSError("LDAP is away")
        return result[0]

    names = UserNames(look_up, clock=lambda: now[0])
    asked(names)
    assert names.cached(ME) == ""
    result.append("alice")
    asked(names)
    assert names.cached(ME) == ""
    now[0] = 61.0
    assert names.cached(ME) is None
    asked(names)
    assert names.cached(ME) == "alice"


def asked(names, uid=ME):
    done = threading.Event()
    names.ask(uid, done.set)
    assert done.wait(LONGEST_WAIT_S)


def test_a_crowd_of_users_leaves_places_for_the_next_one():
    """25 users take all that they may have, 16 each; the next ones are still let in."""
    limiter = listener(UserNames(own={uid: str(uid) for uid in range(105)}))
    places = [limiter.admit(uid) for uid in range(25) for _ in range(16)]
    assert len([uid for uid in places if uid is not None]) < 400
    assert [limiter.admit(uid).principal.name for uid in range(100, 105)] == list(range(100, 105))


def test_uids_without_a_name_share_the_places_of_one_user():
    """The subordinate uids of one account; another user comes in, whose name is not known yet."""
    names = UserNames({7: "alice"}.__getitem__)
    limiter = listener(names)
    crowd = range(100_000, 100_400)
    newcomers = names.accountant.of(NEWCOMERS)
    nameless = names.accountant.of(NAMELESS)
    unnamed = [uid for uid in crowd if limiter.admit(uid) is newcomers]
    assert len(unnamed) == 64
    for uid in unnamed:
        asked(names, uid)
    newcomers.give_back(Resource.CONNECTIONS, 64)
    counted = [limiter.admit(uid) for uid in unnamed]
    assert counted == [nameless] * 16 + [None] * 48
    assert limiter.admit(7) is newcomers
    asked(names, 7)
    assert limiter.admit(7).principal.name == 7
    nameless.give_back(Resource.CONNECTIONS)
    assert limiter.admit(unnamed[-1]) is nameless


def test_a_crowd_of_uids_without_a_name_is_one_line_in_the_log(caplog):
    """Subordinate uids of one account, each with more connections than a user may have."""
    names = UserNames({}.__getitem__)
    limiter = listener(names)
    for uid in range(100_000, 100_200):
        for _ in range(3):
            limiter.admit(uid)
        asked(names, uid)
    about = {record.getMessage().partition(" has")[0] for record in caplog.records}
    assert len(caplog.records) == len(about) <= 2


def test_uids_without_a_name_share_the_requests_of_one_user(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    made, crowd = Handler(tmp_path, names={7: "alice"}), range(100_000, 100_060)
    for uid in crowd:
        asked(made.names, uid)
    line = encode(Ask(op="status"))
    answers = [made.respond(line, uid).data for uid in crowd]
    assert [b'"ok":true' in one for one in answers] == [True] * 40 + [False] * 20
    assert b'"ok":true' in made.respond(line, 7).data


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


def test_what_is_announced_lies_ready_until_it_is_taken(running):
    options = {"job-name": "solve", "nodes": "1-8", "time": "02:00:00"}
    ticket, me = "0123456789ab", os.geteuid()
    folder = running.folder / "ready"
    command = Command(program="salloc", options=options)
    for odd in ("", "../x", "0123456789AB", "0" * 13):
        notify(running, Ask(op="prepare", one_way=True, ticket=odd, command=command))
    notify(running, Ask(op="prepare", one_way=True, ticket=ticket, command=command))
    path = folder / f"{me}-{ticket}"
    wait_until(lambda: path.exists() and path.stat().st_size, what="the decision")
    assert list(folder.iterdir()) == [path]
    # Other users cannot list the directory; who knows a file's name can read the file.
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o711, 0o644)
    ready = json.loads(path.read_bytes())
    assert (ready["user_id"], ready["answer"]["v"]) == (me, 1)
    assert running.decisions() == []

    fields = dict(zip(ready["fields"], ready["values"], strict=True))
    arrived = Job(**{k: v for k, v in fields.items() if v is not None}, ticket=ticket)
    for _ in range(2):
        notify(running, Ask(job=arrived, one_way=True, taken=True))
    wait_until(running.decisions, what="the record")
    assert not path.exists()
    running.status()
    assert [row.via for row in running.decisions()] == ["cli_filter"]
    running.process.terminate()
    running.process.wait(LONGEST_WAIT_S)
    assert not folder.exists()


@needs_root
@pytest.mark.parametrize(("private", "recorded"), [("none", True), ("accounts,jobs", False)])
def test_private_data_hides_what_others_ran(in_the_open, private, recorded):
    in_the_open.set_slurm(SLURM.replace('pine"', f'pine\nPrivateData = {private}"'))
    in_the_open.fit(table(level="tag", key="@lab/cfd", owner=""))
    shared = SharedTag(name="lab", application="cfd", users=("nobody",))
    in_the_open.start(sharing=Sharing(tags=(shared,)))
    in_the_open.see_cluster()
    ask = Ask(op="advise", job=job(user_name="nobody", user_id=None, comment="nimo:app=cfd"))
    (answer,) = ask_as_nobody(in_the_open, ask)
    assert bool(answer["points"]) is recorded
    assert line_client.advise(
        in_the_open.socket, structs.asdict(ask.job), timeout_s=LONGEST_WAIT_S
    ).points


@needs_root
def test_connections_of_a_user_are_few_and_those_of_slurmctld_many(watched):
    answers = ask_as_nobody(watched, *[Ask(op="status")] * 20)
    assert [answer["ok"] for answer in answers] == [True] * 16 + [False] * 4
    assert "has reached the limit of 16 connections" in answers[-1]["error"]
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            channel = stack.enter_context(socket.socket(socket.AF_UNIX))
            channel.connect(watched.socket)
        assert watched.status().ok


@needs_root
def test_a_user_who_connects_too_often_is_told_so_and_slurmctld_is_served(watched):
    code = (
        f"import os, socket, sys; os.setuid({NOBODY.pw_uid})\n"
        "for number in range(600):\n"
        "    channel = socket.socket(socket.AF_UNIX); channel.connect(sys.argv[1])\n"
        # Most do not wait for a word, so that they come faster than 20 a second on any machine.
        "    channel.settimeout(0.5)\n"
        "    try: number % 60 or print(channel.recv(1000))\n"
        "    except TimeoutError: pass\n"
        "    channel.close()\n"
    )
    argv = [sys.executable, "-I", "-c", code, watched.socket]
    done = subprocess.run(argv, capture_output=True, check=False, cwd="/", text=True)
    assert "has reached the limit of 20 new connections a second" in done.stdout
    status = watched.status()
    refused = {(one.principal, one.resource): one.count for one in status.refused}
    assert refused["user", "arrivals"] > 100
    # Once of this user; a busy machine may reach limits of all of them, too.
    told = f"user {NOBODY.pw_uid} has reached the limit"
    assert watched.log.read_text().count(told) == 1
    assert watched.decide().action == "set"


@needs_root
def test_a_user_who_asks_too_often_is_warned_and_cut_off(watched):
    code = (
        f"import os, socket, sys; os.setuid({NOBODY.pw_uid})\n"
        "channel = socket.socket(socket.AF_UNIX); channel.connect(sys.argv[1])\n"
        "channel.sendall(sys.stdin.buffer.read() * 500); print(channel.makefile().read())\n"
    )
    argv = [sys.executable, "-I", "-c", code, watched.socket]
    line = encode(Ask(op="status"))
    done = subprocess.run(argv, input=line, capture_output=True, check=False, cwd="/")
    reported = done.stdout.splitlines()
    assert b"has reached the limit of 20 requests a second" in reported[-2]
    assert len(reported) < 500
    assert all(watched.status().ok for _ in range(60))


def test_where_nothing_is_changed_slurmctld_is_notified_and_need_not_wait(running):
    whole = (running.folder / "nimo.yaml").read_text()
    observing = whole.replace("mode: enforce", "mode: observe")
    hang_up(running, observing, "settings read")
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(running.socket)
        reader = channel.makefile("rb")
        channel.sendall(encode(Ask(job=job())))
        assert msgspec.json.decode(reader.readline(), type=Answer).quiet
        for number in range(3):
            channel.sendall(encode(Ask(job=job(name=f"told{number}"), one_way=True)))
        wait_until(lambda: len(running.decisions()) == 4, what="their decisions")
        assert {row.name for row in running.decisions()} == {"solve", "told0", "told1", "told2"}
        hang_up(running, whole, "hung up on")
        # It was sent nothing more, and has to ask again.
        assert reader.read() == b""
    answer = running.decide()
    assert (answer.action, answer.quiet) == ("set", False)


def test_new_tables_are_noticed_by_themselves(running):
    assert running.decide(user_name="bob").reason == "unknown_application"
    running.fit(table(), table(key="bob/solve", owner="bob"))
    wait_until(lambda: running.status().identities == 2, what="the new tables")
    assert running.decide(user_name="bob").action == "set"


def test_a_hangup_reads_the_tables_again(running):
    before = running.status().loaded_s
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: running.status().loaded_s > before, what="the reload")
    assert running.decide().action == "set"


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
    assert client.status(running.socket, reload=True, timeout_s=LONGEST_WAIT_S).ok
    wait_until(lambda: running.status().loaded_s > before, what="the reload")


def test_the_end_is_clean_and_loses_no_decision(running):
    answers = [running.decide() for _ in range(20)]
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(LONGEST_WAIT_S) == 0
    assert running.notify.recv(100) == b"STOPPING=1"
    assert not Path(running.socket).exists()
    assert len(running.decisions()) == len(answers)


def test_a_second_one_refuses_to_start(running):
    second = subprocess.run(
        running.process.args, capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=False
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
    # Nobody waits as long for an answer: that one comes says that it did not wait for Slurm.
    nimod.set_slurm(f"#!/bin/sh\nexec sleep {10 * LONGEST_WAIT_S}\n")
    nimod.fit()
    nimod.start()
    assert nimod.decide().reason == "no_snapshot"
    nimod.process.send_signal(signal.SIGTERM)
    assert nimod.process.wait(LONGEST_WAIT_S) == 0


def test_systemd_is_notified_that_it_lives(nimod):
    nimod.start(WATCHDOG_USEC="300000")
    assert {nimod.notify.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
