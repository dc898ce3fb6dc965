import os
import pwd
import re
from functools import partial

import pytest

from sacct_ingest.errors import ScriptError, SlurmError
from sacct_ingest.scripts.job_script import OPTIONS, parse_command_line
from slurm_plugin.cli.sbatch_request import options_of
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.job_request import Submitter, check_times, job_fields, make_job
from slurm_plugin.slurm.slurm_conf import PrivateDataRules, visibility

NOW_S = 1_790_000_000.0
ADA = Submitter("ada", 1001, "/home/ada")
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2-16
#SBATCH --ntasks-per-node=48
#SBATCH -t 1-02:00:00 -J 'my wrf'
#SBATCH --comment="nimo:app=wrf"
srun ./wrf.exe
#SBATCH --nodes=99
"""


def fields(*words, script=SCRIPT):
    command = parse_command_line(["sbatch", *words])
    return job_fields(command, script, ADA, now_s=NOW_S)


def job(*words, script=SCRIPT):
    return make_job(fields(*words, script=script))


def test_directives_of_the_script():
    made = job("run/wrf.sh", "d02")
    assert (made.min_nodes, made.max_nodes) == (2, 16)
    assert made.ntasks_per_node == 48
    assert made.time_limit == 26 * 60
    assert made.name == "my wrf"
    assert made.comment == "nimo:app=wrf"
    assert made.argv == ["run/wrf.sh", "d02"]
    assert (made.user_name, made.user_id, made.work_dir) == ("ada", 1001, "/home/ada")
    assert made.script == SCRIPT


def test_the_command_line_goes_before_the_script():
    made = job("-N4", "--time", "90", "-J", "other", "wrf.sh")
    assert (made.min_nodes, made.max_nodes, made.time_limit, made.name) == (4, 4, 90, "other")
    assert made.ntasks_per_node == 48


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-n", "96"], "num_tasks", 96),
        (["-c4"], "cpus_per_task", 4),
        (["--mem=4G"], "min_mem_per_node", 4096),
        (["--mem=3000"], "min_mem_per_node", 3000),
        (["--mem-per-cpu", "1.5G"], "min_mem_per_cpu", 1536),
        (["--deadline=now+1hour"], "deadline", "now+1hour"),
        (["-b", "now+60"], "begin_time", int(NOW_S) + 60),
        (["-a", "0-7"], "array_inx", "0-7"),
        (["-d", "afterok:17"], "dependency", "afterok:17"),
        (["-w", "n[1-4]"], "req_nodes", "n[1-4]"),
        (["-x", "n9"], "exc_nodes", "n9"),
        (["-C", "ib"], "features", "ib"),
        (["--exclusive"], "shared", 0),
        (["--contiguous"], "contiguous", 1),
        (["--switches=2@1:00:00"], "req_switch", 2),
        (["--gpus-per-node=4"], "tres_per_node", "gres/gpu:4"),
        (["--gres=gpu:2"], "tres_per_node", "gres/gpu:2"),
        (["--gres=gres:gpu:2,gres/nic:1,fpga"], "tres_per_node", "gres/gpu:2,gres/nic:1,gres/fpga"),
        (["-G", "8"], "tres_per_job", "gres/gpu:8"),
        (["-D", "/tmp"], "work_dir", "/tmp"),
        (["--time-min=10:30"], "time_min", 11),
        (["--segment=4"], "segment_size", 4),
        (["-A", "physics"], "account", "physics"),
        (["-p", "long"], "partition", "long"),
        (["-q", "high"], "qos", "high"),
        (["--reservation=maint"], "reservation", "maint"),
        (["-L", "matlab:2"], "licenses", "matlab:2"),
        ([":", "-N1"], "het_job_offset", 0),
    ],
)
def test_options_fill_the_fields_that_slurmctld_would(words, field, value):
    assert getattr(job(*words, "a.sh"), field) == value


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("4", (4, 4)), ("2-8", (2, 8)), ("1k", (1024, 1024)), ("4,2,16", (2, 16)), ("2-8:2", (2, 8))],
)
def test_node_counts(text, nodes):
    made = job("-N", text, "a.sh")
    assert (made.min_nodes, made.max_nodes) == nodes


def test_no_limit_is_no_field():
    assert job("-t", "UNLIMITED", "a.sh").time_limit is None


@pytest.mark.parametrize(
    ("words", "name", "argv"),
    [
        (["dir/run.sh", "x"], "run.sh", ["dir/run.sh", "x"]),
        (["-"], "sbatch", []),
        ([], "sbatch", []),
        (["--wrap=hostname"], "wrap", []),
    ],
)
def test_a_job_without_a_name_is_called_as_sbatch_does(words, name, argv):
    made = job(*words, script="#!/bin/sh\nhostname\n")
    assert (made.name, made.argv) == (name, argv)


def test_a_heterogeneous_script_is_reported_as_one():
    script = "#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N4\nsrun a\n"
    made = job("a.sh", script=script)
    assert (made.het_job_offset, made.min_nodes) == (0, 1)
    assert [one.min_nodes for one in made.components] == [4]


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ((), [(1, 10), (2, 20)]),
        (("-t", "5"), [(1, 5), (2, 5)]),
        (("-t", "5", ":", "-t", "7"), [(1, 5), (2, 7)]),
        (("-N1", ":", "-N1", ":", "-N3"), [(1, 10), (1, 20), (3, None)]),
    ],
)
def test_components_have_the_options_that_slurm_gives_them(words, sizes):
    """As Slurm 22.05 was seen to read them."""
    script = "#!/bin/sh\n#SBATCH -N1 -t 10\n#SBATCH hetjob\n#SBATCH -N2 -t 20\nsrun a\n"
    made = job(*words, "a.sh", script=script)
    parts = (made, *made.components)
    assert [(one.min_nodes, one.time_limit) for one in parts] == sizes


@pytest.mark.parametrize(
    "words",
    [
        *(["-N", nodes] for nodes in ("many", "4-2", "1-", "0", "")),
        *(["-n", tasks] for tasks in ("-1", "0")),
        ["-c", "0"],
        ["-t", "soon"],
        ["--mem=big"],
        ["-b", "never"],
        ["--deadline=someday"],
    ],
)
def test_what_sbatch_would_not_take_names_the_option(words):
    with pytest.raises(
        ScriptError, match=r"--(nodes|time|mem|ntasks|cpus-per-task|begin|deadline)="
    ):
        job(*words, "a.sh")


def test_an_option_that_is_longer_than_nimod_takes_is_refused():
    command = parse_command_line(["sbatch", "-p", "p," * 2049, "a.sh"])
    with pytest.raises(ScriptError, match="length <= 4096"):
        make_job(job_fields(command, SCRIPT, ADA, now_s=NOW_S))


def test_variables_go_before_the_script_and_after_the_command_line():
    environ = {
        "SBATCH_PARTITION": "long",
        "SBATCH_TIMELIMIT": "2:00:00",
        "SBATCH_JOB_NAME": "theirs",
        "SBATCH_EXCLUSIVE": "",
        "SBATCH_MEM_PER_NODE": "4G",
        "SBATCH_ARRAY_INX": "1-9",
        "SBATCH_GPUS_PER_NODE": "2",
        "SBATCH_REQ_SWITCH": "1",
        "SBATCH_NOTHING": "x",
        "SLURM_JOB_ID": "7",
    }
    command = parse_command_line(["sbatch", "-J", "mine", "wrf.sh"])
    made = make_job(
        job_fields(command, SCRIPT, ADA._replace(environment=options_of(environ)), now_s=NOW_S)
    )
    assert (made.partition, made.time_limit, made.name) == ("long", 120, "mine")
    assert (made.shared, made.min_mem_per_node, made.array_inx) == (0, 4096, "1-9")
    assert (made.tres_per_node, made.req_switch) == ("gres/gpu:2", 1)
    assert (made.min_nodes, made.max_nodes) == (2, 16)


def test_every_variable_names_an_option_of_sbatch():
    variables = {f"SBATCH_{name.upper().replace('-', '_')}": "1" for name in OPTIONS["sbatch"]}
    recorded = options_of(variables | {"SBATCH_TIMELIMIT": "1", "SBATCH_ARRAY_INX": "1"})
    assert {"time", "array", "partition", "account"} <= recorded.keys() <= OPTIONS["sbatch"].keys()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["-N", "0"], "no node at all"),
        (["-N", "4-2"], "Maximum node count 2 is less than minimum node count 4"),
        (["-n", "0"], 'Invalid numeric value "0"'),
        (["-c", "0"], 'Invalid numeric value "0"'),
        (["--ntasks-per-node=0"], 'Invalid numeric value "0"'),
        (["-t", "10", "--time-min=20"], "Invalid time-min specification"),
        (["--deadline=2020-01-01"], "Requested time limit is invalid"),
        (["--deadline=soon"], "--deadline=soon: "),
        (["-b", "now+2hours", "--deadline=now+1hour"], "Incompatible begin and deadline"),
    ],
)
def test_what_slurm_refuses_is_refused_with_its_words(words, reported):
    with pytest.raises(ScriptError, match=re.escape(reported)):
        check_times(fields(*words, "a.sh", script="#!/bin/sh\n"), now_s=NOW_S)


def test_a_deadline_ahead_and_a_begin_that_is_over_are_taken():
    made = fields("-b", "2020-01-01", "--deadline=now+1hour", "--time-min=10", "-t", "10", "a.sh")
    check_times(made, now_s=NOW_S)
    assert (made["time_limit"], made["time_min"]) == (10, 10)


@pytest.mark.parametrize(("text", "listed"), [("2,4,8", True), ("2-8:2", True), ("2-8", False)])
def test_a_list_of_node_counts_is_distinguished_from_a_range(text, *, listed):
    made = job("-N", text, "a.sh")
    assert (made.min_nodes, made.max_nodes, made.node_sizes) == (2, 8, listed)


CONFIG = "PrivateData             = {}\nSlurmUser               = slurm(64030)\n"


def visible(uid, private, user="", owner=None):
    def run(argv):
        return CONFIG.format(private) if argv[0] == "scontrol" else user

    return visibility(uid, "ada", owner_uid=owner, run=run)


@pytest.mark.parametrize(
    ("uid", "private", "user"),
    [
        (0, "jobs", ""),
        (64030, "jobs", ""),
        (1001, "none", ""),
        (1001, "accounts,nodes", ""),
        (1001, "jobs", "Operator|\n"),
        (1001, "all", "Administrator|\n"),
    ],
)
def test_who_sees_all(uid, private, user):
    assert visible(uid, private, user) == PrivateDataRules()


def test_who_owns_the_store_sees_all():
    assert visible(1001, "jobs", "None|\n", owner=1001) == PrivateDataRules()
    assert visible(1001, "jobs", "None|\n", owner=1002).only_user == "ada"


@pytest.mark.parametrize("private", ["jobs", "usage", "users,all"])
def test_others_see_their_own_and_those_they_coordinate(private):
    result = visible(1001, private, "None|bio,hpc\n")
    assert (result.only_user, result.accounts) == ("ada", ("bio", "hpc"))
    assert visible(1001, private, "").only_user == "ada"


def test_without_an_answer_only_ones_own_are_visible():
    def run(argv):
        raise SlurmError("scontrol: not found on PATH")

    result = visibility(1001, "ada", owner_uid=None, run=run)
    assert result.only_user == "ada"
    assert "scontrol: not found" in result.why


@pytest.mark.parametrize("private", ["none", "jobs"])
def test_a_site_may_hide_more_than_slurm_does(private):
    def run(argv):
        return CONFIG.format(private) if argv[0] == "scontrol" else "None|bio\n"

    result = visibility(1001, "ada", owner_uid=None, run=run, own_only=True)
    assert (result.only_user, result.accounts) == ("ada", ("bio",))
    assert visibility(64030, "slurm", owner_uid=None, run=run, own_only=True) == PrivateDataRules()


def test_whom_only_a_name_tells_is_neither_root_nor_owner():
    def run(argv):
        raise SlurmError("scontrol: not found on PATH")

    for owner in (None, 0, 1001):
        assert visibility(-1, "root", owner_uid=owner, run=run).only_user == "root"


@pytest.fixture
def physics(slurm, monkeypatch):
    """A real slurmdbd that has nobody as a user of an account, and Slurm's commands on PATH."""
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    slurm.run("sacctmgr", "-i", "add", "account", "physics")
    slurm.run("sacctmgr", "-i", "add", "user", "nobody", "account=physics")
    yield slurm
    slurm.run("sacctmgr", "-i", "delete", "user", "nobody")
    slurm.run("sacctmgr", "-i", "delete", "account", "physics")


def test_slurmdbd_tells_who_coordinates_and_who_is_above(physics):
    def reported():
        run = partial(commands.run, timeout_s=60)
        return visibility(
            pwd.getpwnam("nobody").pw_uid, "nobody", owner_uid=0, run=run, own_only=True
        )

    assert (reported().only_user, reported().accounts) == ("nobody", ())
    physics.run("sacctmgr", "-i", "add", "coordinator", "account=physics", "names=nobody")
    assert (reported().only_user, reported().accounts) == ("nobody", ("physics",))
    physics.run("sacctmgr", "-i", "modify", "user", "nobody", "set", "adminlevel=operator")
    assert reported() == PrivateDataRules()
