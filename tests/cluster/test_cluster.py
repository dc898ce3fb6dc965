"""The throw-away Slurm itself: it runs and accounts jobs, and nothing outlives it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import SlurmCluster
from tests.conftest import scratch_directory
from tests.guardian import start_time
from tests.processes import ProcessError, Processes, wait_until

ROOT = Path(__file__).parents[2]


def test_tests_with_a_cluster_are_marked(slurm, request):
    assert request.node.get_closest_marker("cluster") is not None


def test_a_job_runs_over_two_nodes_and_is_accounted(slurm):
    job_id = slurm.sbatch(
        "-N2", "--comment=two of them, n=2", "--wrap=srun -l printenv SLURMD_NODENAME"
    )
    slurm.wait(job_id, accounted=True)
    job = slurm.job(job_id)
    assert (job["JobState"], job["NumNodes"]) == ("COMPLETED", "2")
    assert job["Comment"] == "two of them, n=2"
    output = Path(job["StdOut"]).read_text().splitlines()
    assert len({line.split(": ")[1] for line in output}) == 2
    rows = slurm.sacct("-j", str(job_id), fields=("JobID", "State", "NNodes", "Comment"))
    assert [row["JobID"] for row in rows] == [str(job_id), f"{job_id}.batch", f"{job_id}.0"]
    assert rows[0]["State"] == "COMPLETED"
    assert rows[0]["Comment"] == "two of them, n=2"
    assert rows[2]["NNodes"] == "2"


def test_a_name_with_a_newline_stays_one_row(slurm):
    job_id = slurm.sbatch("-J", "two\nlines|", "--wrap=true")
    slurm.wait(job_id, accounted=True)
    rows = slurm.sacct("-X", "-j", str(job_id), fields=("JobName", "State"))
    assert rows == [{"JobName": "two\nlines|", "State": "COMPLETED"}]


def test_an_array_is_waited_for_to_its_last_task(slurm):
    job_id = slurm.sbatch("--array=0-3%2", "--wrap=sleep 0.5")
    slurm.wait(job_id)
    assert slurm.run("squeue", "-h").stdout == ""


def test_a_command_that_fails_tells_what_slurm_said(slurm):
    with pytest.raises(ProcessError, match="Maximum node count 2 is less than minimum"):
        slurm.sbatch("-N", "4-2", "--wrap=true")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may submit as somebody else")
def test_a_job_can_belong_to_another_user(slurm):
    job_id = slurm.sbatch("--wrap=id -un", user="nobody")
    slurm.wait(job_id)
    job = slurm.job(job_id)
    assert job["UserId"].startswith("nobody(")
    assert Path(job["StdOut"]).read_text() == "nobody\n"


def test_wrappers_work_from_any_shell(slurm):
    done = subprocess.run(
        ["sinfo", "-h", "-p", "small", "-o", "%D"],
        env={"PATH": f"{slurm.bin}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "2"


def test_slurmctld_restarts_and_keeps_its_jobs(slurm):
    job_id = slurm.sbatch("--hold", "--wrap=true")
    slurm.restart("slurmctld")
    assert slurm.job(job_id)["JobState"] == "PENDING"
    slurm.run("scancel", str(job_id))
    slurm.wait(job_id)


HOOK = """
function slurm_job_submit(job, partition, uid)
  slurm.log_user("{said}")
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
"""


def test_hooks_configuration_and_a_second_life(slurm_cluster, tmp_path):
    (tmp_path / "job_submit.lua").write_text(HOOK.format(said="hook asked"))
    extra = ["SchedulerParameters=bf_interval=7", "PartitionName=debug Nodes=n1"]
    with slurm_cluster(nodes=2, cpus=3, lua=tmp_path, conf=extra) as cluster:
        done = cluster.run("sbatch", "--job-name=kept", "--wrap=true")
        assert "sbatch: hook asked" in done.stderr
        cluster.wait(1, accounted=True)
        shown = cluster.run("scontrol", "show", "config").stdout
        assert "bf_interval=7\n" in shown
        assert "CliFilterPlugins        = (null)" in shown
        assert cluster.run("sinfo", "-h", "-o", "%R %D %c").stdout.split("\n")[0] == "batch 2 3"
        cluster.down()
        cluster.up()
        rows = cluster.sacct("-X", "-a", "-S", "now-1hours", fields=("JobID", "JobName"))
        assert rows == [{"JobID": "1", "JobName": "kept"}]


def test_a_daemon_that_cannot_start_is_shown_with_its_log(slurm_cluster):
    with scratch_directory("nimo-broken-") as directory:
        cluster = SlurmCluster(directory, nodes=1, conf=["SelectType=select/nonsense"])
        with pytest.raises(ProcessError, match="nonsense") as caught:
            cluster.up()
        assert str(directory) in str(caught.value)
        assert processes_of(directory) == []


# Brings a cluster up with a job on it, and then waits to be killed.
VICTIM = """
import sys, time
from pathlib import Path
from tests.cluster import SlurmCluster
cluster = SlurmCluster(Path(sys.argv[1]), nodes=1)
cluster.up()
cluster.sbatch("--wrap=exec sleep 1000")
print("up", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("moment", ["during set-up", "with a job running"])
def test_nothing_outlives_a_killed_test(slurm_cluster, moment):
    with scratch_directory("nimo-killed-") as directory:
        with subprocess.Popen(
            [sys.executable, "-c", VICTIM, directory], cwd=ROOT, stdout=subprocess.PIPE
        ) as victim:
            if moment == "during set-up":
                wait_until(lambda: len(processes_of(directory)) > 2, what="daemons")
            else:
                assert victim.stdout.readline() == b"up\n"
                wait_until(
                    lambda: "sleep" in map(command, processes_of(directory)),
                    what="the job to run",
                )
            victim.send_signal(signal.SIGKILL)
        wait_until(lambda: processes_of(directory) == [], what="all to end")


def test_a_killed_guardian_is_cleaned_up_after(slurm_cluster):
    with scratch_directory("nimo-killed-") as directory:
        cluster = SlurmCluster(directory, nodes=1)
        cluster.up()
        guardian = next(p for p in processes_of(directory) if "guardian" in arguments(p))
        os.kill(guardian, signal.SIGKILL)
        wait_until(lambda: not cluster.processes.up, what="the guardian to die")
        cluster.down()
        wait_until(lambda: processes_of(directory) == [], what="all to end")
        assert not cluster.processes.up


def test_a_recycled_pid_is_not_taken_for_ours(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as stranger:
        born = start_time(stranger.pid)
        assert born is not None
        record = {"slurmctld": (stranger.pid, born - 1)}
        (tmp_path / "processes.json").write_text(json.dumps(record))
        Processes(tmp_path).end_orphans()
        assert stranger.poll() is None
        stranger.kill()


def test_the_command_line_leaves_a_cluster_with_nimo_running(slurm_cluster):
    def command(*argv: str) -> str:
        program = [sys.executable, "-m", "tests.cluster", *argv, "--directory", str(directory)]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    with scratch_directory("nimo-play-") as directory:
        try:
            assert f"export PATH={directory}/bin:$PATH" in command("up", "--with-nimo")
            assert "nimod      running" in command("status")
            assert "already up" in command("up")
            asked = [str(directory / "bin" / "nimo"), "status"]
            assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
        finally:
            assert "down after" in command("down")
        # nimod that had to be killed leaves its second process to notice that.
        wait_until(lambda: not processes_of(directory), what="end of all processes")
        assert "cluster    down" in command("status")


def processes_of(directory: Path) -> list[int]:
    """List the living processes that belong to a cluster: by argument, environment or folder."""
    result = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            pid = int(entry.name)
            if str(directory) in arguments(pid) + environment(pid) and start_time(pid):
                result.append(pid)
    return [pid for pid in result if VICTIM not in arguments(pid)]


def arguments(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")


def environment(pid: int) -> str:
    return _read(pid, "environ")


def command(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
