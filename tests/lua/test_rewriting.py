"""cli_filter that has the node count chosen, and the ticket's way to job_submit."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_plugin.protocol.request_messages import HookLevel, decode_ask
from slurm_plugin.text import local_time

CONF = "forward_deadline = yes\nrewrite_in_cli_filter = yes\n"
TICKET = "0123456789ab"
SRUN = {"type": "srun", "nodes": "1-8", "ntasks-per-node": "2", "time": "00:30:00"}


@pytest.fixture
def both(runtime):
    return runtime(CONF).load().load_cli_filter()


def notified(**change):
    return {"v": 1, "action": "set", "set": change, "ticket": TICKET}


def test_the_options_become_what_was_chosen(both):
    both.answer(notified(min_nodes=4, max_nodes=4, time_limit=45, time_min=20))
    options = both.filter(**SRUN, comment="mine", argv=["solve", "-x"])
    assert {name: options[name] for name in ("nodes", "time", "time-min", "comment")} == {
        "nodes": "4",
        "time": "45",
        "time-min": "20",
        "comment": f"nimo{{deadline=,ticket={TICKET},own=4}} mine",
    }
    ask = decode_ask(both.peer.sent[1].encode("latin-1"))
    command = ask.command.resolved()
    assert (ask.op, command.program, command.argv) == ("prepare", "srun", ["solve", "-x"])
    assert command.options["nodes"] == "1-8"
    assert both.peer.closed == 1


def test_job_submit_shows_the_ticket_and_gives_the_comment_back(both):
    both.answer(notified(min_nodes=4, max_nodes=4))
    options = both.filter(**SRUN, comment="mine", deadline="1767261600")
    both.answer({"v": 1})
    outcome = both.submit(comment=options["comment"], min_nodes=4, max_nodes=4)
    asked = both.asked()[-1]["job"]
    assert outcome.job["comment"] == asked["comment"] == "mine"
    assert (asked["ticket"], asked["deadline"]) == (TICKET, "uts1767261600")


def test_an_unchanged_count_has_its_ticket_too(both):
    both.answer({"v": 1, "ticket": TICKET})
    options = both.filter(**SRUN)
    assert options == {**SRUN, "comment": f"nimo{{deadline=,ticket={TICKET},own=0}} "}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "<+13>-13"])
def test_the_users_local_time_is_sent(both, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        both.answer({"v": 1})
        both.filter(**SRUN)
        ask = decode_ask(both.peer.sent[1].encode("latin-1"))
        assert ask.utc_offsets == local_time.utc_offsets(ask.utc_offsets[0][0])
    finally:
        monkeypatch.undo()
        time.tzset()


def test_times_are_sent_as_seconds(both):
    both.filter(**SRUN, deadline="1767261600", begin="1767250000")
    sent = decode_ask(both.peer.sent[1].encode("latin-1")).command.resolved().options
    assert (sent["deadline"], sent["begin"]) == ("uts1767261600", "uts1767250000")


WRONG = {
    "more nodes": notified(min_nodes=9, max_nodes=9),
    "no nodes": notified(min_nodes=0, max_nodes=0),
    "a range": notified(min_nodes=2, max_nodes=4),
    "text": notified(min_nodes="4", max_nodes="4"),
    "half a node": notified(min_nodes=2.5, max_nodes=2.5),
    "limits alone": notified(time_limit=20),
    "absurd limit": notified(min_nodes=4, max_nodes=4, time_limit=121),
    "limit of a minute": notified(min_nodes=4, max_nodes=4, time_limit=1),
    "time_min of a minute": notified(min_nodes=4, max_nodes=4, time_min=1),
    "time_min beyond the limit": notified(min_nodes=4, max_nodes=4, time_min=31),
    "no ticket": {"v": 1, "action": "set", "set": {"min_nodes": 4, "max_nodes": 4}},
    "odd ticket": {**notified(min_nodes=4, max_nodes=4), "ticket": "x,own=9} "},
    "other version": {**notified(min_nodes=4, max_nodes=4), "v": 2},
    "not ok": {**notified(min_nodes=4, max_nodes=4), "ok": False},
    "no set": {"v": 1, "action": "set", "ticket": TICKET},
    "not JSON": "Traceback\n",
    "nothing": "",
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_believed_leaves_the_options_alone(both, answer):
    both.answer(answer)
    assert both.filter(**SRUN, comment="mine") == {**SRUN, "comment": "mine"}


ELSEWHERE = {
    "one count": {"type": "srun", "nodes": "4"},
    "no count": {"type": "srun", "nodes": "-2"},
    "later component": {**SRUN, "offset": 1},
    "standard input": {**SRUN, "type": "sbatch"},
    "unreadable script": {**SRUN, "type": "sbatch", "argv": ["/nowhere/job.sh"]},
    "long argument": {**SRUN, "argv": ["\xff" * 1_800_000]},
}


@pytest.mark.parametrize("request_", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_other_requests_are_left_to_job_submit(both, request_):
    both.answer(notified(min_nodes=4, max_nodes=4))
    left = {k: v for k, v in request_.items() if k not in ("argv", "offset")}
    assert both.filter(**request_) == left
    assert both.asked() == []


@pytest.mark.parametrize("conf", ["", "rewrite_in_cli_filter = yes", "forward_deadline = yes"])
def test_both_settings_are_needed(runtime, conf):
    hooks = runtime(conf).load_cli_filter()
    hooks.answer(notified(min_nodes=4, max_nodes=4))
    assert hooks.filter(**SRUN) == SRUN
    assert hooks.asked() == []


def test_the_kill_switch_holds_here_too(both):
    both.answer(notified(min_nodes=4, max_nodes=4))
    (both.folder / "off").touch()
    assert both.filter(**SRUN) == SRUN


def test_steps_are_not_asked_about(both):
    both.lua.execute("os.getenv = function(name) return name == 'SLURM_JOB_ID' and '7' or nil end")
    assert both.filter(**SRUN) == SRUN
    assert both.asked() == []


def test_without_room_for_the_ticket_nothing_is_rewritten(both):
    both.answer(notified(min_nodes=4, max_nodes=4))
    options = {**SRUN, "comment": "x" * 1000}
    assert both.filter(**options) == options


def test_scripts_are_read_and_fifos_are_not(both, tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsolve\n")
    os.mkfifo(tmp_path / "fifo")
    for name in ("job.sh", "fifo"):
        both.filter(**{**SRUN, "type": "sbatch"}, argv=[str(tmp_path / name)])
    (only,) = both.asked()
    assert only["command"]["script"] == "#!/bin/sh\nsolve\n"
    assert (tmp_path / "job.sh").read_text() == "#!/bin/sh\nsolve\n"


@pytest.mark.parametrize(
    ("comment", "text"),
    [("nimo:tasks=2-8", "numberOfSubdomains 16\nKPAR = 4\nNCORE=2"), ("nimo:app=foam", "")],
)
def test_input_files_are_read_where_a_size_may_be_chosen(both, tmp_path, comment, text):
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsolve\n")
    (tmp_path / "system").mkdir()
    decomposed = "// numberOfSubdomains 4;\nnumberOfSubdomains 16;\nmethod scotch;\n"
    (tmp_path / "system" / "decomposeParDict").write_text(decomposed)
    (tmp_path / "INCAR").write_text("# KPAR = 9\n KPAR = 4\nNCORE=2 ! per band\n")
    both.filter(
        type="sbatch",
        nodes="1-8",
        comment=comment,
        chdir=str(tmp_path),
        argv=[str(tmp_path / "job.sh")],
    )
    (only,) = both.asked()
    assert only["command"]["input_text"] == text


def test_an_input_file_that_is_a_fifo_is_left_out(both, tmp_path):
    os.mkfifo(tmp_path / "INCAR")
    both.filter(**SRUN, comment="nimo:tasks=2-8", chdir=str(tmp_path))
    (only,) = both.asked()
    assert only["command"]["input_text"] == ""


def test_the_first_component_is_identified_by_the_command_line(tmp_path):
    code = f"""if True:
        from pathlib import Path
        from tests.lua.hooks import Hooks
        hooks = Hooks("lua51", Path({str(tmp_path)!r}), {CONF!r}).load_cli_filter()
        hooks.filter(type="srun", nodes="1-8")
        print(len(hooks.asked()))"""
    pytest.importorskip("lupa.lua51")
    asked = [
        subprocess.run(
            [sys.executable, "-c", code, "a", between, "b"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout.split()
        for between in ("::", ":")
    ]
    assert asked == [["1"], ["0"]]


VALUE = st.one_of(st.integers(), st.floats(), st.text(max_size=3), st.booleans(), st.none())


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(change=st.dictionaries(st.sampled_from(["min_nodes", "max_nodes", "time_limit"]), VALUE))
def test_no_answer_leaves_the_users_range(both, change):
    both.answer(notified(**change))
    options = both.filter(**SRUN)
    assert options["nodes"] == "1-8" or 1 <= int(options["nodes"]) <= 8
    assert options["time"] == "00:30:00" or 1 <= int(options["time"]) <= 240
    assert len(options) == len(SRUN) + ("comment" in options)


SALLOC = {
    "type": "salloc", "nodes": "1-1", "time": "00:30:00", "cpus-per-task": "2",
    "comment": "nimo:cpus=1-8",
}  # fmt: skip
TASKS = {"type": "srun", "ntasks": "2", "comment": "nimo:tasks=2-8", "time": "00:30:00"}
GPUS = {"type": "salloc", "gpus": "a100:1", "comment": "nimo:gpus=1-4"}


def sizes_of(both, request_, **change):
    """What a command's options become, but for the comment, where nimod answers so."""
    both.answer(notified(**change))
    options = both.filter(**request_)
    return {name: value for name, value in options.items() if request_.get(name) != value}


@pytest.mark.parametrize(
    ("request_", "change", "options"),
    [
        (SALLOC, {"cpus_per_task": 8}, {"cpus-per-task": "8"}),
        (SALLOC, {"cpus_per_task": 1, "time_limit": 90}, {"cpus-per-task": "1", "time": "90"}),
        (TASKS, {"num_tasks": 8}, {"ntasks": "8"}),
        (
            {**TASKS, "ntasks-per-node": "2", "nodes": "1"},
            {"num_tasks": 4, "ntasks_per_node": 4},
            {"ntasks": "4", "ntasks-per-node": "4"},
        ),
        (GPUS, {"tres_per_job": "gres/gpu:a100:4"}, {"gpus": "a100:4"}),
        (
            {**GPUS, "cpus-per-task": "4"},
            {"tres_per_job": "gres/gpu:a100:2", "cpus_per_task": 8},
            {"gpus": "a100:2", "cpus-per-task": "8"},
        ),
        (
            {"type": "srun", "gres": "gres:gpu:1", "comment": "nimo:gpus=1-4"},
            {"tres_per_node": "gres/gpu:4"},
            {"gres": "gpu:4"},
        ),
        (
            {"type": "srun", "gpus-per-node": "1", "gres": "nic:1", "comment": "nimo:gpus=1-4"},
            {"tres_per_node": "gres/gpu:2"},
            {"gpus-per-node": "2"},
        ),
        (
            {"type": "srun", "gpus-per-task": "1", "gres": "unset", "comment": "nimo:gpus=1-4"},
            {"tres_per_task": "gres/gpu:2"},
            {"gpus-per-task": "2"},
        ),
    ],
)
def test_sizes_are_written_as_options(both, request_, change, options):
    became = sizes_of(both, request_, **change)
    assert became.pop("comment").startswith(f"nimo{{deadline=,ticket={TICKET},own=")
    assert became == options
    assert both.asked()[-1]["command"]["hook"] == HookLevel.COMMANDS


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        (SALLOC, {"cpus_per_task": 9}),
        (SALLOC, {"cpus_per_task": "4"}),
        (SALLOC, {"cpus_per_task": 4, "min_nodes": 1, "max_nodes": 1}),
        (SALLOC, {"cpus_per_task": 4, "max_nodes": 2}),
        (SALLOC, {"num_tasks": 4}),
        (SALLOC, {"cpus_per_task": 4, "time_limit": 61}),  # no longer on more CPUs
        (SALLOC, {"cpus_per_task": 1, "time_limit": 121}),
        (SALLOC, {"cpus_per_task": 4, "time_limit": 1}),
        (SALLOC, {"time_limit": 20}),
        (SALLOC, {"min_nodes": 1, "max_nodes": 1}),  # it leaves no range
        ({**SALLOC, "comment": "nimo:cpus=1-8,tasks=1-2 nimo:app=x"}, {"cpus_per_task": 4}),
        (TASKS, {"num_tasks": 1}),
        (TASKS, {"num_tasks": 4, "ntasks_per_node": 3}),
        (GPUS, {"tres_per_job": "gres/gpu:v100:2"}),
        (GPUS, {"tres_per_job": "gres/gpu:a100:5"}),
        (GPUS, {"tres_per_job": "gres/nic:2"}),
        (GPUS, {"tres_per_job": 2}),
        ({**GPUS, "gpus": "a100"}, {"tres_per_job": "gres/gpu:v100:2"}),
    ],
)
def test_a_size_that_the_tag_does_not_ask_for_leaves_the_options_alone(both, request_, change):
    assert sizes_of(both, request_, **change) == {}


def test_without_a_tag_only_the_site_lets_a_command_wait_for_a_size(runtime):
    plain = {**SALLOC, "comment": "nimo:app=x for y,cpu=3"}
    for conf, options in (("", {}), ("allow_sizes = yes\n", {"cpus-per-task": "4"})):
        hooks = runtime(CONF + conf).load().load_cli_filter()
        became = sizes_of(hooks, plain, cpus_per_task=4)
        became.pop("comment", None)
        assert (became, len(hooks.asked())) == (options, len(options))


def test_a_command_that_does_not_wait_leaves_its_size_to_job_submit(runtime):
    hooks = runtime("forward_deadline = yes\nask_ahead = yes\n").load().load_cli_filter()
    became = sizes_of(hooks, SALLOC, cpus_per_task=4)
    assert set(became) == {"comment"}
    assert hooks.asked()[-1]["command"]["hook"] == HookLevel.SIZES


def test_what_a_command_wrote_is_not_written_again(both):
    options = {**SALLOC, **sizes_of(both, SALLOC, cpus_per_task=8)}
    both.answer({"v": 1, "action": "set", "set": {}, "admin_comment": "NIMO1:x"})
    outcome = both.submit(comment=options["comment"], cpus_per_task=8, min_cpus=8)
    assert (outcome.writes, outcome.log) == (["comment", "admin_comment"], [])


def test_what_other_tools_wrote_into_admin_comment_stays(both):
    both.answer({"v": 1, "admin_comment": "NIMO1:x"})
    assert both.submit(admin_comment="JS1:H4sI=").job["admin_comment"] == "JS1:H4sI= NIMO1:x"


NODE = {"script": "#!/bin/sh\n", "min_mem_per_node": 4000}
CPU = {"script": "#!/bin/sh\n", "min_mem_per_cpu": 1000}
DEFAULT = {"script": "#!/bin/sh\n"}


def memory(**fields):
    return {"v": 1, "action": "set", "set": fields}


@pytest.mark.parametrize(
    ("job", "field"),
    [(NODE, "min_mem_per_node"), (CPU, "min_mem_per_cpu"), (DEFAULT, "min_mem_per_node")],
)
def test_memory_is_lowered(hooks, job, field):
    hooks.answer(memory(**{field: 800}))
    outcome = hooks.submit(**job)
    assert (outcome.job[field], outcome.log) == (800, [])


def test_memory_is_written_last(hooks):
    """What was not set before cannot be taken back."""
    hooks.answer(memory(min_mem_per_node=800, time_limit=10) | {"admin_comment": "NIMO1:x"})
    outcome = hooks.submit(**DEFAULT, time_limit=20)
    assert outcome.writes[-1] == "min_mem_per_node"
    broken = hooks.submit(broken="min_mem_per_node", **DEFAULT, time_limit=20)
    assert (broken.job["time_limit"], broken.job.get("admin_comment")) == (20, None)


@pytest.mark.parametrize(
    ("job", "field", "name"),
    [
        (NODE, "min_mem_per_node", "SLURM_MEM_PER_NODE"),
        (CPU, "min_mem_per_cpu", "SLURM_MEM_PER_CPU"),
    ],
)
def test_the_environment_stays_true(hooks, job, field, name):
    hooks.answer(memory(**{field: 800}))
    assert hooks.submit(**job, environment={name: "9999"}).environment == {name: "800"}
    assert hooks.submit(**job, environment={"HOME": "/"}).environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("job", "change", "why"),
    [
        (NODE, {"min_mem_per_node": 4000}, "4000 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 4001}, "4001 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 199}, "199 MiB is not allowed"),
        (NODE, {"min_mem_per_node": 0}, "bad min_mem_per_node"),
        (NODE, {"min_mem_per_node": "800"}, "bad min_mem_per_node"),
        (NODE, {"min_mem_per_cpu": 800}, "its memory is not chosen"),
        (NODE, {"min_mem_per_node": 800, "min_mem_per_cpu": 800}, "its memory is not chosen"),
        (NODE | {"min_mem_per_node": 0}, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (NODE | {"script": ""}, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (CPU, {"min_mem_per_node": 800}, "its memory is not chosen"),
        (CPU, {"min_mem_per_cpu": 1000}, "1000 MiB is not allowed"),
        (DEFAULT, {"min_mem_per_cpu": 800}, "its memory is not chosen"),
        (DEFAULT, {"min_mem_per_node": 3000}, "3000 MiB is not allowed"),
        (DEFAULT | {"mem_per_tres": "gres:gpu:9"}, {"min_mem_per_node": 800}, "is not chosen"),
    ],
)
def test_nothing_else_is_written(hooks, job, change, why):
    hooks.answer(memory(**change))
    partitions = {"batch": {"flag_default": 1, "def_mem_per_node": 3000}}
    outcome = hooks.submit(partitions=partitions, **job)
    assert outcome.writes == []
    assert why in outcome.log[0]


@pytest.mark.parametrize("name", ["SLURM_MEM_PER_GPU", "SLURM_MEM_PER_CPU"])
def test_what_srun_takes_only_one_of_is_left_alone(hooks, name):
    hooks.answer(memory(min_mem_per_node=800))
    outcome = hooks.submit(**DEFAULT, environment={name: "100"})
    assert outcome.writes == []
    assert f"{name} is there" in outcome.log[0]


@pytest.mark.parametrize(("mib", "written"), [(256, True), (255, False)])
def test_memory_has_a_least_where_the_hook_cannot_see_what_the_job_would_have(hooks, mib, written):
    """Its partition has DefMemPerCPU, or it gets all of its node."""
    hooks.answer(memory(min_mem_per_node=mib))
    outcome = hooks.submit(partitions={"batch": {"flag_default": 1}}, **DEFAULT)
    assert bool(outcome.writes) is written
    # A job that names its memory has its own share of it.
    hooks.answer(memory(min_mem_per_node=250))
    assert hooks.submit(**NODE).job["min_mem_per_node"] == 250


@pytest.mark.parametrize(
    ("job", "change"),
    [
        ({"partition": "slow,fast"}, {"partition": "fast,slow"}),
        ({"features": "a&ib|b"}, {"prefer": "a&ib"}),
    ],
)
def test_a_place_is_put_first(hooks, job, change):
    hooks.answer(memory(**change))
    outcome = hooks.submit(**job)
    assert outcome.log == []
    assert outcome.job == {**outcome.job, **job, **change}
    assert hooks.asked()[-1]["job"]["places"] is True


@pytest.mark.parametrize(
    ("job", "change", "why"),
    [
        ({"partition": "slow,fast"}, {"partition": "fast"}, "its partitions are others"),
        ({"partition": "slow,fast"}, {"partition": "fast,slow,gpu"}, "its partitions are others"),
        ({"partition": "slow"}, {"partition": "fast"}, "its partitions are others"),
        ({}, {"partition": "fast,slow"}, "its partitions are others"),
        ({"partition": "slow,fast"}, {"partition": 7}, "bad partition"),
        ({"features": "a|b"}, {"prefer": "c"}, "its features are others"),
        ({"features": "a|b"}, {"prefer": "a|b"}, "its features are others"),
        ({"features": "a|b"}, {"prefer": ""}, "its features are others"),
        ({"features": "a|b", "prefer": "a"}, {"prefer": "b"}, "its features are others"),
        ({"features": "a.|b"}, {"prefer": ".."}, "its features are others"),
        ({}, {"prefer": "b"}, "its features are others"),
    ],
)
def test_a_place_that_the_job_does_not_name_is_not_written(hooks, job, change, why):
    hooks.answer(memory(**change))
    outcome = hooks.submit(**job)
    assert outcome.writes == []
    assert why in outcome.log[0]
