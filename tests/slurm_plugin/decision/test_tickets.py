"""Decisions made for cli_filter: taken up by the job that comes of them, and by no other."""

import itertools

import msgspec
import pytest

from sacct_ingest.errors import ScriptError
from sacct_ingest.runs.layout import Each, Layout, Unit
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import ModeRule
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.tickets import job_of
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.request_messages import Command, HookLevel, decode_ask
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool
from tests.slurm_plugin.made import NOW, cluster, partition, stored, table, thrifty

SRUN = {"job-name": "solve", "nodes": "1-16", "ntasks-per-node": "2", "time": "02:00:00"}


def advisor(publish=lambda _key, _decision: None, **settings):
    ids = itertools.count(1)
    made = DecisionService(
        thrifty(**{"mode": Mode.ENFORCE, **settings}),
        new_id=lambda: f"{next(ids):012x}",
        publish=publish,
    )
    made.tables, made.cluster = stored(table()), cluster()
    return made


def command(program="srun", **options):
    return Command(program=program, options=SRUN | options, argv=["solve", "-x"])


def asked(made=None, **options):
    return in_batch(job_of(made or command(**options), user="alice", uid=1001, now_s=NOW))


def in_batch(job):
    """The job in the default partition, which job_submit names where the command does not."""
    return job and msgspec.structs.replace(job, partition=job.partition or "batch")


def arriving(answer, **changed):
    """The job that srun makes of its options, as slurmctld shows it to job_submit."""
    given = answer.set
    nodes = given.min_nodes
    fields = {
        "min_nodes": nodes,
        "max_nodes": nodes,
        "num_tasks": 2 * nodes,
        "min_cpus": 2 * nodes,
        "time_limit": given.time_limit or 120,
        "time_min": given.time_min,
        "ticket": answer.ticket,
    }
    return msgspec.structs.replace(asked(), **fields | changed)


def test_one_decision_for_a_job_that_passes_both():
    made = advisor()
    prepared = made.prepare(asked(), now_s=NOW)
    assert 1 <= prepared.set.min_nodes < 16
    assert (prepared.admin_comment, prepared.message) == ("", "")
    answer, row = made.submit(arriving(prepared), via="job_submit", now_s=NOW + 1)
    assert row.decision_id == prepared.ticket in answer.admin_comment
    assert (row.via, row.reason, row.applied) == ("cli_filter", "cheapest", True)
    assert (row.min_nodes, row.max_nodes, row.nodes) == (1, 16, prepared.set.min_nodes)
    assert (answer.set.min_nodes, answer.set.num_tasks) == (row.nodes, None)
    assert (answer.set.time_limit, answer.set.time_min) == (None, None)


def test_the_decision_is_that_of_job_submit():
    options = {"ntasks-per-node": "1"}
    prepared = advisor().prepare(asked(**options), now_s=NOW)
    answer, _ = advisor().submit(asked(**options), via="job_submit", now_s=NOW)
    assert prepared.set.min_nodes == answer.set.min_nodes
    assert prepared.set.time_limit == answer.set.time_limit


def test_nothing_is_booked_before_the_job_arrives():
    made = advisor()
    before = made.bookings.view("alice").partitions["batch"].profile
    prepared = made.prepare(asked(), now_s=NOW)
    assert made.bookings.view("alice").partitions["batch"].profile == before
    made.submit(arriving(prepared), via="job_submit", now_s=NOW)
    assert made.bookings.view("alice").partitions["batch"].profile != before


def test_a_command_that_only_tests_books_and_records_nothing():
    made = advisor()
    before = made.bookings.view("alice").partitions["batch"].profile
    prepared = made.prepare(asked(), now_s=NOW, comes=False)
    answer, row = made.submit(arriving(prepared), via="job_submit", now_s=NOW)
    assert (answer.action, row) == ("set", None)
    assert made.bookings.view("alice").partitions["batch"].profile == before


def test_a_user_has_so_many_tickets():
    made = advisor()
    of_bob = msgspec.structs.replace(asked(), user_name="bob", user_id=1002)
    first = made.prepare(asked(), now_s=NOW)
    of_bobs = [made.prepare(of_bob, now_s=NOW) for _ in range(500)]
    early, late = (
        msgspec.structs.replace(of_bob, ticket=one.ticket) for one in (of_bobs[0], of_bobs[-1])
    )
    assert made.redeem(early, now_s=NOW) is None
    assert made.redeem(late, now_s=NOW) is not None
    assert made.submit(arriving(first), via="job_submit", now_s=NOW)[1].decision_id == first.ticket


def test_a_job_of_long_texts_gets_no_ticket():
    long = msgspec.structs.replace(asked(), work_dir="/" + "x" * 100_000)
    assert advisor().prepare(long, now_s=NOW).ticket == ""


def test_a_ticket_is_for_one_job():
    made = advisor()
    prepared = made.prepare(asked(), now_s=NOW)
    first, second = (
        made.submit(arriving(prepared), via="job_submit", now_s=NOW)[1] for _ in range(2)
    )
    assert first.decision_id != second.decision_id
    assert (second.reason, second.applied) == ("fixed_count", False)


@pytest.mark.parametrize(
    "changed",
    [
        {"user_id": 1002},
        {"min_nodes": 16, "max_nodes": 16},
        {"min_nodes": 1, "max_nodes": 16},
        {"name": "other"},
        {"time_limit": 6000},
        {"ticket": "ffffffffffff"},
        {"array_inx": "0-9"},
        {"ntasks_per_node": 4},
    ],
    ids=str,
)
def test_a_forged_ticket_brings_what_the_job_asks_for(changed):
    made = advisor()
    job = arriving(made.prepare(asked(), now_s=NOW), **changed)
    forged = made.submit(job, via="job_submit", now_s=NOW)[0]
    plain = msgspec.structs.replace(job, ticket="")
    honest = advisor().submit(plain, via="job_submit", now_s=NOW)[0]
    assert (forged.action, forged.set) == (honest.action, honest.set)


def test_a_ticket_is_good_for_a_minute_and_for_the_nimod_that_gave_it():
    made = advisor()
    prepared = made.prepare(asked(), now_s=NOW)
    late = made.submit(arriving(prepared), via="job_submit", now_s=NOW + 61)
    other = advisor().submit(arriving(prepared), via="job_submit", now_s=NOW)
    assert [(a.action, row.reason) for a, row in (late, other)] == [("keep", "fixed_count")] * 2


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_modes_that_change_nothing_have_nothing_rewritten(mode):
    made = advisor(mode=mode)
    prepared = made.prepare(asked(), now_s=NOW)
    assert (prepared.action, prepared.set) == ("keep", None)
    job = msgspec.structs.replace(asked(), ticket=prepared.ticket, num_tasks=2)
    answer, row = made.submit(job, via="job_submit", now_s=NOW)
    assert (row.decision_id, row.applied) == (prepared.ticket, False)
    assert bool(answer.message) is (mode is Mode.ADVISE)


def test_no_ticket_where_the_site_says_off_or_only_slurmctld_knows():
    rules = ModeRule(account="physics", mode=Mode.OFF)
    by_qos = ModeRule(qos="low", mode=Mode.OFF)
    for settings in ({"mode": Mode.OFF}, {"rules": (rules,)}, {"rules": (by_qos,)}):
        prepared = advisor(**settings).prepare(asked(), now_s=NOW)
        assert (prepared.action, prepared.ticket) == ("keep", "")
    named = advisor(rules=(rules,)).prepare(asked(account="chemistry"), now_s=NOW)
    assert named.ticket


@pytest.mark.parametrize("option", ["jobid", "uid", "wrap", "ntasks-per-core", "distribution"])
def test_options_that_say_more_are_left_to_job_submit(option):
    assert asked(**{option: "1"}) is None


def test_sbatch_without_a_script_is_left_to_job_submit():
    assert asked(Command(program="sbatch", options=SRUN)) is None


def test_salloc_is_called_as_slurm_calls_it():
    bare = Command(program="salloc", options={"nodes": "1-8"}, argv=["sh"])
    assert asked(bare).name == "interactive"
    assert asked(Command(program="salloc", options={"no-shell": ""})).name == "no-shell"


def test_values_that_cannot_be_read_are_named():
    with pytest.raises(ScriptError, match="--nodes=x"):
        asked(nodes="x")


MINE = "0123456789ab"


def published():
    """A service to which a job was announced, and what lies ready then by user and ticket."""
    ready = {}
    made = advisor(publish=lambda key, decision: ready.update({key: decision}))
    made.prepare(asked(), now_s=NOW, ticket=MINE)
    return made, ready


def test_an_announced_job_is_decided_as_it_would_be_by_job_submit():
    [(key, ready)] = published()[1].items()
    answer, _ = advisor().submit(asked(), via="job_submit", now_s=NOW)
    assert key == (1001, MINE)
    assert ready.answer.set == answer.set
    assert ready.until_s == NOW + 60
    reported = dict(zip(ready.fields, ready.values, strict=True))
    assert (
        reported["user_id"],
        reported["name"],
        reported["min_nodes"],
        reported["max_nodes"],
    ) == (*(1001, "solve", 1, 16),)
    assert (reported["array_inx"], reported["time_limit"]) == (None, 120)


def test_it_is_booked_once_when_job_submit_says_that_it_was_taken():
    made, ready = published()
    job = msgspec.structs.replace(asked(), ticket=MINE)
    answer, book = made.redeem(job, now_s=NOW + 1)
    row = book()
    assert (row.via, row.decision_id in answer.admin_comment) == ("cli_filter", True)
    assert ready == {(1001, MINE): None}
    assert made.redeem(job, now_s=NOW + 1) is None


@pytest.mark.parametrize(
    "changed",
    [
        *({"user_id": 1002}, {"name": "other"}, {"max_nodes": 8}, {"num_tasks": 9}),
        *({"time_limit": 600}, {"array_inx": "1-9"}, {"ticket": "ffffffffffff"}),
        *({"het_job_offset": 0}, {"partition": "other"}, {"account": "b"}, {"qos": "high"}),
        *({"min_mem_per_node": 9}, {"deadline": "uts9999999999"}),
    ],
    ids=str,
)
def test_what_lies_ready_is_for_no_other_job(changed):
    named = asked(account="A", qos="low", mem="8", deadline=f"uts{NOW + 9e5:.0f}")
    made = advisor()
    made.prepare(named, now_s=NOW, ticket=MINE)
    job = msgspec.structs.replace(named, **{"ticket": MINE} | changed)
    assert made.redeem(job, now_s=NOW) is None


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, True),
        ({"named": "partition"}, True),
        ({"named": "partition", "account": "default", "qos": "normal"}, True),
        ({"named": "qos,partition", "qos": "high"}, False),
        ({"named": "account,partition", "account": "rich"}, False),
        *(({name: 9}, False) for name in ("min_mem_per_node", "min_mem_per_cpu", "begin_time")),
        *(({name: "x"}, False) for name in ("features", "licenses", "reservation", "req_nodes")),
        ({"shared": 0}, False),
    ],
    ids=str,
)
def test_what_the_command_did_not_name_the_job_must_not_have(changed, taken):
    made, _ = published()
    job = msgspec.structs.replace(asked(), ticket=MINE, **changed)
    assert (made.redeem(job, now_s=NOW) is not None) is taken


def test_nothing_lies_ready_for_long():
    made, ready = published()
    made.prepare(asked(**{"job-name": "later"}), now_s=NOW + 61, ticket="a" * 12)
    assert ready[1001, MINE] is None
    assert ready[1001, "a" * 12] is not None


def test_a_second_announcement_under_a_ticket_takes_the_place_of_the_first():
    made, ready = published()
    made.prepare(asked(**{"job-name": "other"}), now_s=NOW, ticket=MINE)
    values = dict(zip(ready[1001, MINE].fields, ready[1001, MINE].values, strict=True))
    assert values["name"] == "other"


def test_options_as_slurm_gives_them_are_read():
    line = (
        b'{"op":"prepare","command":{"program":"sbatch","script":"#!/bin/sh\\n","work_dir":"/a",'
        b'"times":{"begin":"uts17"},"given":{"nodes":"1-8","begin":"2026-01-01T00:00:00",'
        b'"chdir":"/b","hold":true,"argv":["job.sh","-x"]}}}'
    )
    command = decode_ask(line).command.resolved()
    assert command.options == {"nodes": "1-8", "begin": "uts17", "chdir": "/b"}
    assert (command.argv, command.work_dir) == (["job.sh", "-x"], "/b")
    assert command.resolved() is command


@pytest.mark.parametrize("given", ["[]", "1", '{"argv":["a",1]}', '{"argv":{}}', '{"argv":"sh"}'])
def test_options_of_another_kind_are_refused(given):
    command = decode_ask(f'{{"op":"prepare","command":{{"given":{given}}}}}'.encode()).command
    with pytest.raises(msgspec.DecodeError):
        command.resolved()


SALLOC = {"job-name": "solve", "nodes": "1", "time": "02:00:00"}
THREADS, RANKS = Layout(1, each=Each.JOB, nodes=1), Layout(cpus=1, each=Each.TASK, nodes=1)
DEVICES = Layout(cpus=1, gpus=None, each=Each.JOB, nodes=1)
SIZED = {
    "cpus": ({"cpus-per-task": "2", "comment": "nimo:cpus=1-8"}, THREADS, Unit.CPUS),
    "tasks": ({"ntasks": "2", "comment": "nimo:tasks=1-8"}, RANKS, Unit.CPUS),
    "gpus": ({"gpus": "1", "comment": "nimo:gpus=1-4"}, DEVICES, Unit.GPUS),
}


def sized_advisor(layout, unit):
    made = advisor()
    pool = NodePool(
        now_s=NOW,
        groups={
            NodeGroup(
                cpus=16,
                mem_mib=16_000,
                gres=(("gpu", 16),),
                steps=((NOW, 16, 16_000, (("gpu", 16),)),),
            ): ("n1", "n2")
        },
    )
    made.cluster = cluster(
        partition(nodes=2, node_cpus=16, mem_cpu_mib=500, pool=pool, node_mem_bytes=16_000 * 2**20)
    )
    made.tables = stored(table(unit=unit, layout=layout, key="alice/solve"))
    return made


def sized_command(options, *, hook=HookLevel.COMMANDS):
    line = Command(program="salloc", options=SALLOC | options, hook=hook)
    return in_batch(job_of(line, user="alice", uid=1001, now_s=NOW))


@pytest.mark.parametrize("name", SIZED)
def test_a_command_is_given_its_size_and_the_job_takes_the_decision_up(name):
    options, layout, unit = SIZED[name]
    made = sized_advisor(layout, unit)
    request = sized_command(options)
    prepared = made.prepare(request, now_s=NOW)
    given = msgspec.structs.asdict(prepared.set)
    given = {field: value for field, value in given.items() if value is not None}
    field = {"cpus": "cpus_per_task", "tasks": "num_tasks", "gpus": "tres_per_job"}[name]
    assert set(given) == {field}  # what depends on it the command works out itself
    # Releases do not spell devices alike.
    spelled = {k: v.replace("/", ":") if isinstance(v, str) else v for k, v in given.items()}
    arrives = msgspec.structs.replace(request, hook=1, ticket=prepared.ticket, **spelled)
    answer, row = made.submit(arrives, via="job_submit", now_s=NOW + 1)
    assert (row.via, row.applied, row.unit) == ("cli_filter", True, unit.value)
    assert row.nodes > 1
    assert answer.set == Change()
    assert row.decision_id == prepared.ticket in answer.admin_comment


@pytest.mark.parametrize("name", SIZED)
def test_a_ticket_is_for_a_job_of_the_size_that_was_given(name):
    options, layout, unit = SIZED[name]
    made = sized_advisor(layout, unit)
    request = sized_command(options)
    prepared = made.prepare(request, now_s=NOW)
    other = msgspec.structs.replace(request, hook=1, ticket=prepared.ticket)
    _, row = made.submit(other, via="job_submit", now_s=NOW + 1)
    assert (row.via, row.reason, row.applied) == ("job_submit", "interactive", False)


def test_an_older_command_hook_is_given_no_size():
    options, layout, unit = SIZED["cpus"]
    request = sized_command(options, hook=HookLevel.SIZES)
    prepared = sized_advisor(layout, unit).prepare(request, now_s=NOW)
    assert (prepared.action, prepared.set) == ("keep", None)
    batch = msgspec.structs.replace(request, script="#!/bin/sh\n")
    prepared = sized_advisor(layout, unit).prepare(batch, now_s=NOW)
    assert (prepared.action, prepared.set) == ("keep", None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("numberOfSubdomains 2", "fixed_by_script"), ("KPAR = 3", "cheapest"), ("", "cheapest")],
)
def test_input_files_that_a_command_has_read_bind_its_tasks(text, reason):
    options, layout, unit = SIZED["tasks"]
    made = sized_advisor(layout, unit)
    line = Command(
        program="sbatch",
        options=SALLOC | options | {"ntasks": "3"},
        argv=["job.sh"],
        script="#!/bin/sh\nsrun solve\n",
        input_text=text,
        hook=HookLevel.COMMANDS,
    )
    request = in_batch(job_of(line, user="alice", uid=1001, now_s=NOW))
    prepared = made.prepare(request, now_s=NOW)
    given = prepared.set.num_tasks if prepared.set else None
    assert given is None if reason == "fixed_by_script" else given > 3
    assert text != "KPAR = 3" or given % 3 == 0
    ticket = {"hook": 1, "ticket": prepared.ticket, "num_tasks": given or 3, "input_text": ""}
    arrives = msgspec.structs.replace(request, **ticket)
    _, row = made.submit(arrives, via="job_submit", now_s=NOW + 1)
    assert (row.via, row.reason) == ("cli_filter", reason)
