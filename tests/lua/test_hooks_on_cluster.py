"""The hooks inside a real slurmctld and real sbatch, salloc and srun; only nimod is canned."""

import json
import re
import time

import pytest

from slurm_plugin.setup.hooks import compiler_of
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.lua.canned_nimod import CannedNimod, say
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.releases]

DEADLINE_S = 2_000_000_000
LUA = "5.1"  # which Slurm is linked with, in all root directories
REPORT = """#!/bin/sh
echo "nodes=$SLURM_NNODES tasks=${SLURM_NTASKS:-none} started=$(srun hostname | wc -l)"
"""


@pytest.fixture(scope="module")
def folder():
    with scratch_directory("nimo-hooks-") as directory:
        yield directory


@pytest.fixture(scope="module")
def cluster(folder, slurm_cluster):
    with slurm_cluster(lua=hooks_for(folder)) as made:
        yield made


@pytest.fixture
def nimod(folder, cluster):
    server = CannedNimod(folder / "nimod.sock", say(b'{"v":1}\n'))
    yield server
    server.stop()


def report(cluster, *options):
    job_id = cluster.sbatch(*options, "-o", "%j.out", script=REPORT)
    cluster.wait(job_id)
    return (cluster.layout.work / f"{job_id}.out").read_text().strip()


@pytest.mark.parametrize(
    ("options", "nodes", "reported"),
    [
        (["-N", "1-8"], 4, "nodes=4 tasks=none started=4"),
        (["-N", "1-8", "--ntasks-per-node=2"], 3, "nodes=3 tasks=6 started=6"),
        (["-N", "1-8", "--ntasks-per-node=2", "-c", "2"], 2, "nodes=2 tasks=4 started=4"),
        (["-N", "2-4", "-c", "2"], 3, "nodes=3 tasks=none started=3"),
        (["-N", "1-8", "--exclusive"], 2, "nodes=2 tasks=none started=2"),
        (["--ntasks-per-node=2"], 4, "nodes=4 tasks=8 started=8"),
        ([], 2, "nodes=2 tasks=none started=2"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else str(value),
)
def test_job_starts_on_the_nodes_given_with_the_tasks_they_carry(
    cluster, nimod, options, nodes, reported
):
    nimod.give(nodes)
    assert report(cluster, *options) == reported


@pytest.mark.parametrize(
    ("options", "nodes", "reported"),
    [
        (["-n", "4", "-N", "1-4"], 3, "tasks=4 started=4"),
        (["-N", "2"], 4, "nodes=2 tasks=none started=2"),
        (["-N", "1-8", "-n", "2"], 8, "tasks=2 started=2"),
    ],
    ids=["tasks fixed", "nodes fixed", "more nodes than tasks"],
)
def test_answers_that_do_not_fit_leave_the_job_as_it_was(cluster, nimod, options, nodes, reported):
    nimod.give(nodes)
    assert report(cluster, *options).endswith(reported)


def test_salloc_and_srun_get_the_nodes_too(cluster, nimod):
    nimod.give(3)
    inside = "echo $SLURM_NNODES $(srun hostname | wc -l)"
    assert cluster.run("salloc", "-N", "1-8", "sh", "-c", inside).stdout == "3 3\n"
    assert cluster.run("srun", "-N", "1-8", "sh", "-c", "echo $SLURM_NTASKS").stdout == "3\n" * 3


@pytest.mark.parametrize("options", [["-n", "2"], ["--ntasks-per-node=2"]])
def test_srun_starts_as_many_tasks_as_it_says(cluster, nimod, options):
    if "-n" not in options and cluster.settings.version in ((24, 11), (25, 5)):
        pytest.skip("this srun waits for ever for tasks of a range's nodes, NIMO or not")
    nimod.give(8)  # would end slurmctld 22.05: more nodes than tasks
    done = cluster.run("srun", "-N", "1-8", *options, "sh", "-c", "echo $SLURM_NTASKS")
    reported = done.stdout.split()
    # srun of 22.05 counts the tasks of one node before it knows its nodes, and keeps to that.
    assert len(reported) == 2 or (len(reported) == 16 and "-n" not in options)
    assert set(reported) == {str(len(reported))}
    assert "UP" in cluster.run("scontrol", "ping").stdout


def test_decision_is_reported_in_admin_comment(cluster, nimod):
    nimod.give(4, admin_comment="NIMO1:0123456789ab:n=4")
    job = cluster.job(cluster.sbatch("-H", "-N", "1-8", script="#!/bin/sh\n"))
    assert job["AdminComment"] == "NIMO1:0123456789ab:n=4"
    assert job["NumNodes"] in ("4", "4-4")


def test_time_limit_is_raised_for_fewer_nodes(cluster, nimod):
    nimod.say(action="set", set={"min_nodes": 2, "max_nodes": 2, "time_limit": 20})
    job = cluster.job(cluster.sbatch("-H", "-N", "1-8", "-t", "10", script="#!/bin/sh\n"))
    assert job["TimeLimit"] == "00:20:00"


def test_user_is_informed_on_stderr_only(cluster, nimod):
    nimod.give(4, message="4 nodes: 100% sure\nsee nimo-advise")
    done = cluster.run("sbatch", "--parsable", "-H", "-N", "1-8", stdin="#!/bin/sh\n")
    assert done.stdout.strip().isdigit()
    assert done.stderr == "sbatch: 4 nodes: 100% sure\nsbatch: see nimo-advise\n"


def test_refused_job_tells_the_reason(cluster, nimod):
    nimod.say(action="refuse", message="ends at 10:00, 20 min after the deadline")
    done = cluster.run("sbatch", "-N", "1-8", stdin="#!/bin/sh\n", check=False)
    assert done.returncode == 1
    assert "sbatch: error: ends at 10:00, 20 min after the deadline\n" in done.stderr
    assert "time limit is invalid" in done.stderr


@pytest.mark.parametrize("comment", ["mine", "", "nimo{deadline=uts1,own=1} x", 'a "b" {c} ä %s'])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_deadline_reaches_nimod_and_the_comment_its_owner(cluster, nimod, comment, zone):
    at = cluster.run("date", "-d", f"@{DEADLINE_S}", "+%FT%T", env={"TZ": zone}).stdout.strip()
    options = ["-H", f"--deadline={at}", f"--comment={comment}"]
    job_id = cluster.sbatch(*options, script="#!/bin/sh\n", env={"TZ": zone})
    assert nimod.jobs[-1]["deadline"] == f"uts{DEADLINE_S}"
    assert nimod.jobs[-1].get("comment", "") == comment
    assert cluster.job(job_id).get("Comment", "") == comment


def test_deadline_of_other_ways_to_submit(cluster, nimod):
    at = "2033-05-18T03:33:20"
    utc = {"TZ": "UTC"}
    cluster.run("srun", f"--deadline={at}", "--comment=mine", "true", env=utc)
    cluster.run("salloc", f"--deadline={at}", "--comment=mine", "true", env=utc)
    directive = f"#!/bin/sh\n#SBATCH --deadline={at} --comment=mine\n"
    cluster.sbatch("-H", script=directive, env=utc)
    cluster.sbatch("-H", script=directive, env={**utc, "SLURM_TIME_FORMAT": "%s"})
    assert [(j["deadline"], j["comment"]) for j in nimod.jobs] == [("uts2000000000", "mine")] * 4


@pytest.fixture
def compiled(cluster):
    """Give the compiled copy that this sbatch looks for; it comes back as it was."""
    path = cluster.layout.etc / f"nimo_filter.lua{LUA}"
    if not path.exists():
        pytest.skip(f"this machine has no library of Lua {LUA} to compile with")
    sound = path.read_bytes()
    yield path
    if path.is_dir():
        path.rmdir()
    path.write_bytes(sound)


def lay(compiled, program, version=LUA):
    """Put a program in place of the module compiled, for a version of Lua."""
    compiler = compiler_of(version)
    if compiler is None:
        pytest.skip(f"this machine has no library of Lua {version}")
    module = f"return function() {program} end"
    compiled.write_bytes(compiler(module.encode(), compiled.name.encode()) or b"")


def forwarded(cluster):
    """Submit a job with a deadline and a comment; give it as slurmctld has it."""
    options = ["-H", "--deadline=2033-05-18T03:33:20", "--comment=mine"]
    return cluster.job(cluster.sbatch(*options, script="#!/bin/sh\n", env={"TZ": "UTC"}))


def test_sbatch_loads_the_compiled_copy(cluster, nimod, compiled):
    sound = compiled.read_bytes()
    lay(compiled, "return { filter = function(_, o) o.comment = 'compiled' end }")
    assert forwarded(cluster)["Comment"] == "compiled"
    assert nimod.jobs[-1].get("deadline") is None
    compiled.write_bytes(sound)
    assert forwarded(cluster)["Comment"] == "mine"
    assert nimod.jobs[-1]["deadline"] == f"uts{DEADLINE_S}"


def test_longest_comment_survives(cluster, nimod):
    own = "x" * 980
    options = ["-H", "--deadline=2033-05-18", f"--comment={own}"]
    assert cluster.job(cluster.sbatch(*options, script="#!/bin/sh\n"))["Comment"] == own
    assert "deadline" in nimod.jobs[-1]


def test_comment_comes_back_without_nimod(cluster):
    options = ["-H", "--deadline=2033-05-18", "--comment=mine"]
    assert cluster.job(cluster.sbatch(*options, script="#!/bin/sh\n"))["Comment"] == "mine"


def test_arrays_and_het_jobs_are_distinguished(cluster, nimod):
    exported = "--export=ALL,STEPS=5"
    cluster.sbatch("-H", "-a", "0-3", "-N", "1-8", exported, script="#!/bin/sh\n")
    cluster.sbatch("-H", "-N", "1-2", ":", "-N", "3", script="#!/bin/sh\n")
    array, first, second = nimod.jobs
    assert (array["array_inx"], array["export"]) == ("0-3", "ALL,STEPS=5")
    assert "export" not in first
    assert (first["het_job_offset"], second["het_job_offset"]) == (0, 1)
    assert "het_job_offset" not in array


def test_updates_pass_unasked(cluster, nimod):
    job_id = cluster.sbatch("-H", "-N", "1-8", script="#!/bin/sh\n")
    own = "comment=nimo{deadline=,own=1} x"
    cluster.run("scontrol", "update", f"jobid={job_id}", "numnodes=2-3", own)
    job = cluster.job(job_id)
    assert (job["NumNodes"], job["Comment"]) == ("2-3", own.partition("=")[2])
    assert len(nimod.jobs) == 1


def test_a_count_that_is_no_whole_segment_is_not_written(cluster, nimod):
    if cluster.settings.version < (25, 11):
        pytest.skip("job_submit sees no segments before Slurm 25.11")
    for nodes, written in ((3, "2-8"), (4, "4")):
        nimod.give(nodes)
        asked = ("-H", "-N", "2-8", "--segment=2")
        job = cluster.job(cluster.sbatch(*asked, script="#!/bin/sh\n"))
        assert nimod.jobs[-1]["segment_size"] == 2
        assert job["NumNodes"].removesuffix(f"-{written}") == written


def test_job_is_described_as_its_user_sent_it(cluster, nimod):
    cluster.sbatch("-H", "-J", "cfd", script="#!/bin/sh\n")
    job = nimod.jobs[-1]
    assert (job["name"], job["partition"]) == ("cfd", "batch")
    assert job["user_name"] == cluster.run("id", "-un").stdout.strip()
    assert job["work_dir"] == str(cluster.layout.work)
    assert job["script"] == "#!/bin/sh\n"


@pytest.fixture
def rewriting(cluster):
    settings = cluster.layout.etc / "nimo_hook.conf"
    text = settings.read_text()
    settings.write_text(f"{text}rewrite_in_cli_filter = yes\n")
    yield
    settings.write_text(text)


@pytest.mark.usefixtures("rewriting")
@pytest.mark.parametrize("name", ["cfd", "other"])
def test_a_decision_that_lies_ready_is_taken_without_asking(cluster, nimod, folder, name):
    ticket, reported = "0123456789ab", []
    ready = {"v": 1, "until_s": time.time() + 60, "user_id": 0, "fields": ["name"]}
    ready |= {"values": ["cfd"], "answer": {"v": 1, "admin_comment": "NIMO1:ready"}}

    def answer(connection, line):
        ask = json.loads(line)
        reported.append((ask["op"], ask.get("taken", False)))
        if ask["op"] == "prepare":
            (folder / "ready" / f"0-{ticket}").write_text(json.dumps(ready))
            connection.sendall(json.dumps({"v": 1, "ticket": ticket}).encode() + b"\n")
        elif not ask.get("taken"):
            connection.sendall(b'{"v":1,"admin_comment":"NIMO1:asked"}\n')

    (folder / "ready").mkdir(exist_ok=True)
    cluster.restart("slurmctld")  # it has taken nothing yet
    nimod.behave = answer
    script = cluster.layout.work / "ready.sh"
    script.write_text("#!/bin/sh\n")
    job = cluster.job(cluster.sbatch("-H", "-N", "1-8", "-J", name, "--comment=mine", script))
    wait_until(lambda: len(reported) == 2, what="the hook's word")
    assert reported == [("prepare", False), ("decide", name == "cfd")]
    assert job["AdminComment"] == ("NIMO1:ready" if name == "cfd" else "NIMO1:asked")
    assert job["Comment"] == "mine"


def test_missing_nimod_is_logged_once(cluster):
    cluster.restart("slurmctld")
    before = cluster.log("slurmctld")
    for _ in range(3):
        cluster.sbatch("-H", "-N", "1-8", script="#!/bin/sh\n")
    written = cluster.log("slurmctld").removeprefix(before)
    assert re.findall(r"error: .*nimo: jobs pass unchanged: .*", written)[1:] == []
    assert "No such file or directory" in written


def test_error_in_the_hook_rejects_nobody(cluster, nimod):
    nimod.give(4)
    shared = cluster.layout.etc / "nimo_check.lua"
    sound = shared.read_text()
    shared.write_text(
        sound.replace("\nreturn M\n", "\nM.fault = function() error('worn out') end\nreturn M\n")
    )
    cluster.restart("slurmctld")
    try:
        options = ["-H", "-N", "1-8", "--deadline=2033-05-18", "--comment=mine"]
        job = cluster.job(cluster.sbatch(*options, script="#!/bin/sh\n"))
    finally:
        shared.write_text(sound)
        cluster.restart("slurmctld")
    assert (job["NumNodes"], job["Comment"]) == ("1-8", "mine")
    assert "worn out" in cluster.log("slurmctld")
