"""Decisions that lie ready for job_submit, and commands that ask ahead and do not wait."""

import json
import time

import pytest

from slurm_plugin.nimod.request_handler import is_ticket
from slurm_plugin.protocol.decision_messages import Answer, Change, ReadyDecision
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import decode_ask

TICKET = "0123456789ab"
UID = 1000
JOB = {"user_id": UID, "name": "solve", "min_nodes": 1, "max_nodes": 8, "time_limit": 30}
SHOWN = {**JOB, "comment": f"nimo{{deadline=,ticket={TICKET},own=4}} mine"}
CHOSEN = Answer(
    action="set",
    set=Change(min_nodes=4, max_nodes=4, time_limit=20),
    admin_comment="NIMO1:x",
    message="4 nodes",
)
ASKED = {"v": 1, "admin_comment": "asked"}


@pytest.fixture
def hooks(runtime):
    made = runtime()
    with (made.folder / "nimo_hook.conf").open("a") as conf:
        conf.write(f"socket = {made.folder}/nimod.sock\n")
    (made.folder / "ready").mkdir()
    made.answer(ASKED)
    return made.load()


def lay(hooks, *, answer=CHOSEN, name="", **changed):
    fields = {**JOB, "array_inx": None, "num_tasks": None}
    given = {
        "until_s": time.time() + 60,
        "user_id": UID,
        "fields": list(fields),
        "values": list(fields.values()),
        "answer": answer,
    }
    made = ReadyDecision(**given | changed)
    (hooks.folder / "ready" / (name or f"{UID}-{TICKET}")).write_bytes(encode(made))


def test_what_lies_ready_is_carried_out_and_nimod_is_notified(hooks):
    lay(hooks)
    outcome = hooks.submit(**SHOWN, script="#!/bin/sh\n", argc=1, argv={0: "job.sh"})
    job = outcome.job
    assert (job["min_nodes"], job["max_nodes"], job["time_limit"]) == (4, 4, 20)
    assert (job["admin_comment"], job["comment"]) == ("NIMO1:x", "mine")
    assert (outcome.code, outcome.messages, outcome.log) == (0, ["4 nodes"], [])
    [line] = hooks.peer.sent.values()
    ask = decode_ask(line.encode("latin-1"))
    assert (ask.op, ask.one_way, ask.taken, ask.job.ticket) == ("decide", True, True, TICKET)
    assert (ask.job.user_id, ask.job.max_nodes, ask.job.script) == (UID, 8, "")
    assert hooks.peer.awake == 0


def test_it_is_carried_out_once(hooks):
    lay(hooks)
    hooks.submit(**SHOWN)
    assert hooks.submit(**SHOWN).job["admin_comment"] == "asked"


@pytest.mark.parametrize(
    "changed",
    [
        *({"user_id": 1001}, {"name": "other"}, {"max_nodes": 7}, {"time_limit": 31}),
        *({"array_inx": "1-9"}, {"num_tasks": 2}),
    ],
    ids=str,
)
def test_another_job_is_asked_about(hooks, changed):
    lay(hooks)
    outcome = hooks.submit(**SHOWN | changed)
    assert outcome.job["admin_comment"] == "asked"
    assert "taken" not in hooks.asked()[-1]


def test_another_users_ticket_opens_nothing(hooks):
    lay(hooks, name=f"1001-{TICKET}")
    assert hooks.submit(**SHOWN).job["admin_comment"] == "asked"
    assert hooks.submit(**SHOWN | {"user_id": 1001}).job["admin_comment"] == "asked"


@pytest.mark.parametrize(
    "changed",
    [
        *({"until_s": time.time() - 1}, {"v": 2}, {"fields": [], "values": [], "user_id": 7}),
        {"answer": Answer(action="set", set=Change(min_nodes=9, max_nodes=9))},
        {"answer": Answer(action="set", set=Change(time_limit=1))},
        {"answer": Answer(action="refuse")},
        {"answer": Answer(ok=False)},
    ],
    ids=["late", "other version", "other user", "too many nodes", "short", "refuse", "error"],
)
def test_what_the_hook_would_not_take_from_nimod_it_does_not_take_there(hooks, changed):
    lay(hooks, **changed)
    assert hooks.submit(**SHOWN).job["admin_comment"] == "asked"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":1}', '{"v":1,"answer":[]}', "x" * 70_000])
def test_a_broken_file_is_not_taken(hooks, text):
    (hooks.folder / "ready" / f"{UID}-{TICKET}").write_text(text)
    assert hooks.submit(**SHOWN).job["admin_comment"] == "asked"


def test_a_ticket_is_no_path(hooks):
    (hooks.folder / "ready" / f"{UID}-").mkdir()
    lay(hooks, name="x")
    comment = "nimo{deadline=,ticket=/../x,own=4} mine"
    outcome = hooks.submit(**SHOWN | {"comment": comment})
    assert outcome.job.get("admin_comment") == "asked"


def test_without_nimod_nothing_is_carried_out(hooks):
    lay(hooks)
    hooks.peer.connect_problem = "connection refused"
    outcome = hooks.submit(**SHOWN)
    assert (outcome.job["min_nodes"], outcome.job["comment"]) == (1, "mine")
    assert "admin_comment" not in outcome.job


def test_nimod_is_left_alone_after_time_outs_here_too(hooks):
    lay(hooks)
    hooks.answer("")
    for _ in range(3):
        hooks.submit(**JOB)
    assert "admin_comment" not in hooks.submit(**SHOWN).job


SALLOC = {"type": "salloc", "nodes": "1-8", "time": "00:30:00", "comment": "mine"}


@pytest.fixture
def ahead(runtime):
    return runtime("forward_deadline = yes\nask_ahead = yes").load().load_cli_filter()


def test_a_command_that_asks_ahead_changes_nothing_and_waits_for_nothing(ahead):
    before = ahead.peer.now
    options = ahead.filter(**SALLOC, argv=["sh", "-x"])
    assert {k: options[k] for k in ("nodes", "time")} == {"nodes": "1-8", "time": "00:30:00"}
    [line] = ahead.peer.sent.values()
    ask = decode_ask(line.encode("latin-1"))
    assert (ask.op, ask.one_way, ask.command.program) == ("prepare", True, "salloc")
    assert ask.command.resolved().argv == ["sh", "-x"]
    assert is_ticket(ask.ticket)
    assert options["comment"] == f"nimo{{deadline=,ticket={ask.ticket},own=4}} mine"
    assert (ahead.peer.now, ahead.peer.closed) == (before, 1)


def test_each_command_has_a_ticket_of_its_own(ahead):
    tickets = {ahead.filter(**SALLOC)["comment"] for _ in range(5)}
    assert len(tickets) == 5


def test_where_nimod_is_not_there_the_comment_stays(ahead):
    ahead.peer.connect_problem = "connection refused"
    assert ahead.filter(**SALLOC) == SALLOC


def test_a_fixed_count_is_announced_too_and_a_component_is_not(ahead):
    assert "ticket=" in ahead.filter(**SALLOC | {"nodes": "4"})["comment"]
    assert ahead.filter(**SALLOC, offset=1)["comment"] == "mine"


def test_where_the_count_is_to_be_rewritten_the_command_waits(runtime):
    conf = "forward_deadline = yes\nask_ahead = yes\nrewrite_in_cli_filter = yes"
    both = runtime(conf).load().load_cli_filter()
    both.answer({"v": 1, "ticket": "f" * 12})
    assert "ticket=ffffffffffff" in both.filter(**SALLOC)["comment"]
    assert "one_way" not in json.loads(both.peer.sent[1])
    assert "ticket=ffffffffffff" not in both.filter(**SALLOC | {"nodes": "4"})["comment"]


def test_no_room_in_the_comment_is_checked_before_anybody_is_notified(ahead):
    own = "x" * 1000
    assert ahead.filter(**SALLOC | {"comment": own})["comment"] == own
    assert list(ahead.peer.sent.values()) == []
