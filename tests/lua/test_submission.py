"""What the job_submit hook asks, and what it does with the answer."""

import time

import pytest

from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.lines import MAX_LINE_BYTES, encode
from slurm_plugin.protocol.request_messages import Ask, HookLevel, decode_ask

PARTITIONS = {"batch": {"flag_default": 1, "total_nodes": 8, "max_time": 60}}
MOLDABLE = {"min_nodes": 1, "max_nodes": 8, "time_limit": 30, "script": "#!/bin/sh\n"}


def change(nodes, **more):
    return {"v": 1, "action": "set", "set": {"min_nodes": nodes, "max_nodes": nodes, **more}}


def limits(**minutes):
    return {"v": 1, "action": "set", "set": minutes}


def test_request_is_what_the_protocol_decodes(hooks):
    hooks.submit(
        partitions=PARTITIONS,
        **MOLDABLE,
        name="cfd",
        comment="nimo:app=cfd",
        user_id=1000,
        default_account="physics",
        argc=2,
        argv={0: "job.sh", 1: "-x"},
    )
    job = decode_ask(hooks.peer.sent[1].encode("latin-1")).job
    assert (job.min_nodes, job.max_nodes, job.time_limit) == (1, 8, 30)
    assert (job.name, job.comment, job.user_id) == ("cfd", "nimo:app=cfd", 1000)
    assert job.named == ""
    assert (job.account, job.partition, job.argv) == ("physics", "batch", ["job.sh", "-x"])
    assert job.script == "#!/bin/sh\n"
    assert not job.script_cut


def test_names_that_the_user_gave_are_told_from_defaults(hooks):
    hooks.submit(partitions=PARTITIONS, account="a", partition="batch", default_qos="normal")
    assert hooks.asked()[0]["job"]["named"] == "account,partition"


def test_unset_fields_do_not_travel(hooks):
    hooks.submit(min_cpus=1, user_id=0)
    assert hooks.asked() == [
        {
            "v": 1,
            "op": "decide",
            "via": "job_submit",
            "job": {"min_cpus": 1, "user_id": 0, "hook": HookLevel.SIZES, "named": ""},
        }
    ]


@pytest.mark.parametrize(
    ("cron_job", "sent"), [(True, None), (1, None), (False, 0), (0, 0), (None, 0)]
)
def test_a_job_of_scrontab_is_no_component(hooks, cron_job, sent):
    hooks.submit(het_job_offset=0, **({} if cron_job is None else {"cron_job": cron_job}))
    assert hooks.asked()[0]["job"].get("het_job_offset") == sent


def test_text_that_is_not_utf8_still_reaches_nimod(hooks):
    good = "größe €😀".encode()
    bad = b"\xff\xc3(\xed\xa0\x80\xf5\xe2\x82"  # stray, cut, surrogate, too high, unfinished
    hooks.submit(comment=(good + bad + b"ok").decode("latin-1"))
    comment = decode_ask(hooks.peer.sent[1].encode("latin-1")).job.comment
    assert comment.startswith("größe €😀\ufffd\ufffd(")
    assert comment.endswith("\ufffdok")


LONG = "\xff" * 1_800_000


@pytest.mark.parametrize(
    "texts",
    [
        {"argc": 1, "argv": {0: LONG}},
        {"argc": 9, "argv": dict.fromkeys(range(9), LONG[:8_000])},
        {"comment": LONG},
        {"account": LONG},
        {"comment": LONG[:40_000], "features": LONG[:40_000]},
    ],
    ids=["argument", "arguments", "comment", "account", "together"],
)
def test_long_texts_are_not_even_encoded(hooks, texts):
    hooks.lua.execute("require('nimo_json').encode = function() error('encoded') end")
    outcome = hooks.submit(**MOLDABLE, **texts)
    assert (outcome.code, outcome.writes) == (0, [])
    assert outcome.log == ["nimo: jobs pass unchanged: request too long"]


#: Counts instructions of Lua, and the bytes that patterns look at: as many again for each pass.
STEPS = """
local counted = { instructions = 0, bytes = 0 }
for _, name in ipairs({ "find", "match", "gsub", "gmatch" }) do
  local real = string[name]
  string[name] = function(text, ...)
    counted.bytes = counted.bytes + #text
    return real(text, ...)
  end
end
debug.sethook(function() counted.instructions = counted.instructions + 10 end, "", 10)
return counted
"""
FOUR_MB = 4_000_000


@pytest.mark.parametrize(
    "job",
    [
        {"script": "\xff" * FOUR_MB},
        {"script": "\x01" * FOUR_MB},
        {"script": "\xe1\xa4\xc3\xa4" * (FOUR_MB // 4)},
        {"argc": 8, "argv": dict.fromkeys(range(8), "\xff" * 8_000)},
        {"argc": 1_000_000, "argv": {}},
        {"comment": "nimo{deadline=" + "a" * FOUR_MB},
        {"comment": "nimo:gpus=1-4" + ",a" * FOUR_MB},
        {"argc": 1_900, "argv": dict.fromkeys(range(1_900), "a")},
        {"partition": "a," * FOUR_MB},
        {"tres_bind": "gpu:per_task:" * FOUR_MB},
        {"environment": {"SLURM_GPUS_PER_NODE": "a," * FOUR_MB}},
    ],
    ids="-".join,
)
def test_the_whole_hook_takes_a_bounded_number_of_steps(hooks, job):
    asked = {"script": "x", "comment": "nimo:gpus=1-4", "tres_per_node": "gres:gpu:1"}
    hooks.answer({"v": 1, "action": "set", "set": {"tres_per_node": "gres:gpu:2"}})
    counted = hooks.lua.execute(STEPS)
    outcome = hooks.submit(**asked | job)
    hooks.lua.execute("debug.sethook()")
    assert outcome.code == 0
    assert counted.instructions < 500_000
    assert counted.bytes < 14 * 2 * 65_536


def test_time_spent_before_nimod_is_asked_counts_and_is_no_time_out_of_nimod(hooks):
    hooks.answer(encode(Answer()).decode())
    hooks.lua.execute("""
        local json, peer = require("nimo_json"), require("socket_stub")
        local encode = json.encode
        json.encode = function(value) peer.now = peer.now + 0.03; return encode(value) end""")
    for _ in range(4):
        hooks.peer.now += 60
        [line] = hooks.submit(**MOLDABLE).log
        assert "no time was left to ask nimod" in line
    assert hooks.asked() == []


@pytest.mark.parametrize("letter", ["x", "\x01"])
def test_long_scripts_are_cut_to_what_nimod_takes(runtime, letter):
    hooks = runtime("max_script_bytes = 300000").load()
    hooks.submit(script=letter * 300_000)
    assert len(hooks.peer.sent[1]) <= MAX_LINE_BYTES
    assert decode_ask(hooks.peer.sent[1].encode()).job.script_cut


def test_keep_writes_nothing(hooks):
    hooks.answer(encode(Answer()).decode())
    outcome = hooks.submit(**MOLDABLE)
    assert (outcome.code, outcome.writes, outcome.log) == (0, [], [])


def test_set_writes_all_fields(hooks):
    answer = Answer(
        action="set",
        set=Change(min_nodes=4, max_nodes=4, min_cpus=4, time_limit=45),
        admin_comment="NIMO1:0123456789ab:n=4",
        message="running on 4 nodes",
    )
    hooks.answer(encode(answer).decode())
    outcome = hooks.submit(partitions=PARTITIONS, **MOLDABLE, admin_comment="site text")
    job = outcome.job
    assert (job["min_nodes"], job["max_nodes"], job["min_cpus"]) == (4, 4, 4)
    assert job["time_limit"] == 45
    assert job["admin_comment"] == "site text NIMO1:0123456789ab:n=4"
    assert outcome.messages == ["running on 4 nodes"]
    assert (outcome.code, outcome.log) == (0, [])


def test_tasks_per_node_are_corrected_in_the_environment_too(hooks):
    hooks.answer(change(4, num_tasks=8, min_cpus=8))
    theirs = {"SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "HOME": "/root"}
    outcome = hooks.submit(num_tasks=2, ntasks_per_node=2, script="x", environment=theirs)
    assert outcome.job["num_tasks"] == 8
    assert outcome.environment == {"SLURM_NTASKS": "8", "SLURM_NPROCS": "8", "HOME": "/root"}


def test_refusal_tells_the_user_why(runtime):
    hooks = runtime("allow_refusal = yes").load()
    hooks.answer({"v": 1, "action": "refuse", "message": "ends at 10:00\n100% sure\x07"})
    outcome = hooks.submit(**MOLDABLE)
    assert outcome.code == 2051
    assert outcome.messages == ["ends at 10:00\n100% sure "]


def test_no_job_is_refused_unless_the_site_allows_it_here(hooks):
    hooks.answer({"v": 1, "action": "refuse", "message": "ends at 10:00"})
    outcome = hooks.submit(**MOLDABLE)
    assert (outcome.code, outcome.writes, outcome.messages) == (0, [], [])
    assert "allow_refusal is off" in outcome.log[0]


@pytest.mark.parametrize(
    ("conf", "least"), [("", 2), ("least_limit_share = 0.5", 15), ("least_limit_share = 9", 30)]
)
def test_a_limit_stays_above_a_share_of_the_users(runtime, conf, least):
    for minutes in {least - 1, least}:
        hooks = runtime(conf).load()
        hooks.answer(limits(time_limit=minutes))
        written = hooks.submit(partitions=PARTITIONS, **MOLDABLE).writes
        assert written == (["time_limit"] if minutes >= least else [])


@pytest.mark.parametrize("minutes", [14, 15])
def test_so_do_time_min_and_limits_below_a_default(runtime, minutes):
    hooks = runtime("least_limit_share = 0.5").load()
    hooks.answer(limits(time_limit=20, time_min=minutes))
    assert bool(hooks.submit(partitions=PARTITIONS, **MOLDABLE).writes) is (minutes == 15)
    hooks.answer(limits(time_limit=minutes))
    partitions = {"batch": {**PARTITIONS["batch"], "default_time": 30}}
    outcome = hooks.submit(partitions=partitions, min_nodes=1, max_nodes=8)
    assert bool(outcome.writes) is (minutes == 15)


WRONG = {
    "no version": {"action": "keep", "admin_comment": "x"},
    "later version": {"v": 2, "admin_comment": "x"},
    "not ok": {"v": 1, "ok": False, "error": "too long", "admin_comment": "x"},
    "unknown action": {"v": 1, "action": "hold", "admin_comment": "x"},
    "nothing to set": {"v": 1, "action": "set"},
    "set is text": {"v": 1, "action": "set", "set": "4"},
    "message is a number": {"v": 1, "message": 7, "admin_comment": "x"},
    "long admin comment": {"v": 1, "admin_comment": "x" * 1025},
    "long message": {"v": 1, "message": "x" * 5000},
    "too many nodes": change(9),
    "no nodes": change(0),
    "negative nodes": change(-4),
    "nodes as text": {"v": 1, "action": "set", "set": {"min_nodes": "4", "max_nodes": "4"}},
    "half a node": {"v": 1, "action": "set", "set": {"min_nodes": 3.5, "max_nodes": 3.5}},
    "not a number": '{"v": 1, "action": "set", "set": {"min_nodes": 1e999, "max_nodes": 1e999}}\n',
    "range instead of a count": {"v": 1, "action": "set", "set": {"min_nodes": 2, "max_nodes": 4}},
    "only one end": {"v": 1, "action": "set", "set": {"min_nodes": 4}},
    "tasks nobody asked for": change(4, num_tasks=4),
    "too few CPUs": change(4, min_cpus=2),
    "too many CPUs": change(4, min_cpus=5),
    "CPUs without nodes": {"v": 1, "action": "set", "set": {"min_cpus": 4}},
    "longer limit on the same nodes": limits(time_limit=31),
    "time_min beyond the limit": limits(time_limit=20, time_min=21),
    "time_min beyond the user's limit": limits(time_min=31),
    "both limits to plan with": limits(time_limit=20, soft_min=9, soft_until=4_000_000_000),
    "time_min of nothing": limits(time_limit=20, time_min=0),
    "limit beyond the partition's": change(4, time_limit=61),
    "a list": "[1, 2]\n",
    "text": '"keep"\n',
    "not JSON": "Traceback (most recent call last):\n",
    "empty": "\n",
    "deep": "[" * 60_000 + "\n",
    "binary": "\x00\xff\xfe\n",
    "two answers": '{"v":1}\n{"v":1}\n',
    "huge": '{"v":1,"message":"' + "x" * 100_000 + '"}\n',
    "endless": "x" * 200_000,
    "cut off": '{"v":1,"action":"se',
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG.keys())
def test_bad_answers_leave_the_job_alone(hooks, answer):
    hooks.answer(answer)
    outcome = hooks.submit(partitions=PARTITIONS, **MOLDABLE)
    assert (outcome.code, outcome.writes, outcome.messages) == (0, [], [])
    assert len(outcome.log) == 1
    assert outcome.log[0].startswith("nimo: jobs pass unchanged: ")


@pytest.mark.parametrize("nodes", [{}, {"min_nodes": 4, "max_nodes": 4}], ids=["kept", "set"])
def test_a_shorter_limit_is_written_with_and_without_nodes(hooks, nodes):
    hooks.answer(limits(**nodes, time_limit=20, time_min=15))
    outcome = hooks.submit(partitions=PARTITIONS, **MOLDABLE)
    assert (outcome.job["time_limit"], outcome.job["time_min"]) == (20, 15)
    assert outcome.job["min_nodes"] == nodes.get("min_nodes", MOLDABLE["min_nodes"])
    assert outcome.log == []


@pytest.mark.parametrize(
    ("minutes", "left_s", "job", "written"),
    [
        *((15, left_s, {}, written) for left_s, written in ((50, True), (-2, False), (70, False))),
        *((minutes, 50, {}, written) for minutes, written in ((30, True), (31, False), (1, False))),
        (15, 50, {"time_min": 20}, False),
        (15, 50, {"time_limit": 4294967295}, False),
        (15, None, {}, False),
    ],
)
def test_a_limit_to_plan_with_is_written_by_a_fresh_word_only(hooks, minutes, left_s, job, written):
    until = {} if left_s is None else {"soft_until": int(time.time()) + left_s}
    hooks.answer(limits(soft_min=minutes, **until))
    outcome = hooks.submit(partitions=PARTITIONS, **{**MOLDABLE, **job})
    assert outcome.writes == (["time_min"] if written else [])
    assert outcome.job["time_limit"] == {**MOLDABLE, **job}["time_limit"]
    if written:
        assert outcome.job["time_min"] == minutes


@pytest.mark.parametrize(
    ("partition", "minutes", "written"),
    [
        ({"default_time": 40}, 40, True),
        ({"default_time": 40}, 41, False),
        ({"default_time": 4294967294}, 60, True),
        ({"default_time": 4294967294}, 61, False),
    ],
)
def test_without_a_limit_the_partitions_default_is_the_bound(hooks, partition, minutes, written):
    hooks.answer(change(4, time_limit=minutes))
    partitions = {"batch": {**PARTITIONS["batch"], **partition}}
    outcome = hooks.submit(partitions=partitions, min_nodes=1, max_nodes=8)
    assert bool(outcome.writes) is written
    assert len(outcome.log) == (not written)


@pytest.mark.parametrize(("segment", "nodes"), [(0, 3), (65534, 3), (3, 3), (3, 6), (3, 4), (5, 3)])
def test_nodes_are_whole_segments(hooks, segment, nodes):
    hooks.answer(change(nodes))
    fields = {**MOLDABLE, "segment_size": segment, "script": None}
    outcome = hooks.submit(
        partitions=PARTITIONS, **{k: v for k, v in fields.items() if v is not None}
    )
    whole = segment in (0, 65534) or nodes % segment == 0
    assert bool(outcome.writes) is whole
    assert hooks.asked()[-1]["job"].get("segment_size") == (
        None if segment in (0, 65534) else segment
    )


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (limits(time_limit=20), True),
        (limits(time_limit=9), False),
        (limits(time_limit=20, time_min=15), False),
    ],
)
def test_the_users_own_time_min_stays(hooks, answer, written):
    hooks.answer(answer)
    outcome = hooks.submit(partitions=PARTITIONS, **MOLDABLE, time_min=10)
    assert outcome.job["time_min"] == 10
    assert bool(outcome.writes) is written


@pytest.mark.parametrize(
    ("nodes", "job"),
    [
        (8, {"min_nodes": 1, "max_nodes": 8, "num_tasks": 2, "script": "x"}),
        (2, {"min_nodes": 1, "max_nodes": 8, "num_tasks": 8, "ntasks_per_node": 2, "script": "x"}),
        (2, {"min_nodes": 4, "max_nodes": 4}),
        (9, {"partition": "batch"}),
    ],
    ids=["more nodes than tasks", "tasks do not fit", "fixed count", "more than there are"],
)
def test_nodes_that_slurm_could_not_use(hooks, nodes, job):
    hooks.answer(change(nodes))
    outcome = hooks.submit(partitions=PARTITIONS, **job)
    assert (outcome.code, outcome.writes) == (0, [])
    assert len(outcome.log) == 1


def test_interactive_clients_keep_the_tasks_they_have_counted(hooks):
    hooks.answer(change(4, num_tasks=8))
    assert hooks.submit(num_tasks=2, ntasks_per_node=2, max_nodes=8).writes == []


@pytest.mark.parametrize(
    "broken", ["min_nodes", "max_nodes", "min_cpus", "time_limit", "admin_comment"]
)
def test_failing_write_undoes_those_before_it(hooks, broken):
    hooks.answer({**change(4, min_cpus=4, time_limit=40), "admin_comment": "NIMO1:x"})
    outcome = hooks.submit(broken, PARTITIONS, **MOLDABLE, min_cpus=1)
    assert outcome.code == 0
    assert {k: outcome.job.get(k) for k in MOLDABLE} == MOLDABLE
    assert outcome.job["min_cpus"] == 1
    assert "admin_comment" not in outcome.job
    assert f"cannot write {broken}" in outcome.log[0]


def test_kill_switch_is_silent_and_works_at_once(hooks):
    hooks.answer(change(4))
    switch = hooks.folder / "off"
    switch.touch()
    off = hooks.submit(**MOLDABLE)
    assert (off.writes, off.log, hooks.asked()) == ([], [], [])
    switch.unlink()
    assert hooks.submit(**MOLDABLE).job["min_nodes"] == 4


def test_modifying_a_job_changes_nothing(hooks):
    job = hooks.stub.job_desc(hooks.lua.table_from({"comment": "nimo{deadline=,own=1} x"}))
    assert hooks.lua.globals().slurm_job_modify(job, None, None, 1000) == 0
    assert list(hooks.stub.writes.values()) == []


@pytest.mark.parametrize(
    "missing",
    [
        "nimo_submit.lua",
        *(f"nimo_{part}.lua" for part in ("link", "json", "ready", "settings", "shared")),
    ],
)
def test_missing_parts_switch_the_hook_off(runtime, missing):
    hooks = runtime()
    (hooks.folder / missing).unlink()
    hooks.load()
    assert f"'{missing.removesuffix('.lua')}' not found" in hooks.stub.log[1]
    outcome = hooks.submit(comment="nimo{deadline=uts1767261600,own=4} mine")
    assert (outcome.code, outcome.job["comment"]) == (0, "mine")


def test_hook_ask_equals_the_protocols_own(hooks):
    hooks.submit(min_cpus=1)
    assert decode_ask(hooks.peer.sent[1].encode()).v == Ask().v


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "without modules"])
def test_no_code_of_the_current_folder_runs(runtime, tmp_path, monkeypatch, installed):
    hooks = runtime("forward_deadline = yes\nask_ahead = yes")
    for path in [] if installed else hooks.folder.glob("nimo*.lua"):
        path.unlink()
    (tmp_path / "shared/socket").mkdir(parents=True)
    for name in ("nimo_submit", "nimo_filter", "socket/core", "socket/unix"):
        (tmp_path / f"shared/{name}.lua").write_text("ran = true")
    monkeypatch.chdir(tmp_path / "shared")
    before = hooks.lua.execute("""
        package.preload["socket.core"], package.preload["socket.unix"] = nil, nil
        package.path, package.cpath = "./?.lua;" .. package.path .. ";?.lua", "./?.so"
        return package.path .. package.cpath""")
    options = {
        "type": "sbatch",
        "nodes": "1-8",
        "argv": ["nimo_submit.lua"],
        "deadline": "1767261600",
    }
    left = hooks.load().load_cli_filter().filter(**options)
    assert ("comment" in left) is installed
    assert hooks.lua.globals().ran is None
    assert hooks.lua.eval("package.path .. package.cpath") == before
