"""``nimo again``, and what ``nimo why`` says of a job that did not complete; on stand-ins."""

import json
import os
import re
import sys
import time

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.slurm.job_request import user_name

NAMES = (
    *("JobIDRaw", "JobID", "Cluster", "User", "UID", "Partition", "State", "ExitCode", "Submit"),
    *(
        "Eligible",
        "Start",
        "End",
        "TimelimitRaw",
        "NNodes",
        "NCPUS",
        "ReqMem",
        "MaxRSS",
        "NodeList",
    ),
    *("SubmitLine", "WorkDir", "JobName", "ElapsedRaw"),
)
SACCT = f"""\
#!{sys.executable} -S
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
if "--batch-script" in sys.argv:
    sys.exit(print(open(here + "/script").read()) if os.path.exists(here + "/script") else 1)
if "--helpformat" in sys.argv:
    sys.exit(print({" ".join(NAMES)!r}))
given = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
names, word = given["format"].split(","), os.environ["SLURM_TIME_FORMAT"][2:]
rows = json.load(open(here + "/rows.json"))
if "jobs" in given:
    ids = given["jobs"].split(",")
    rows = [row for row in rows if str(row["JobID"]).split("_")[0] in ids]
times = ("Submit", "Start", "End", "Eligible")
text = lambda row, name: f"{{row[name]}}{{word * (name in times)}}"
lines = [names, *([text(row, name) for name in names] for row in rows)]
print("\\n".join(given["delimiter"].join(line) for line in lines))
"""
SINFO = "n1\x1f"
PARTITION = (
    "PartitionName=b AllocNodes=ALL MaxTime={} MaxMemPerNode={} Nodes=n1 State=UP TotalCPUs=4"
)


class Slurm:
    """Slurm's commands, as far as a job that has ended needs them."""

    def __init__(self, folder):
        self.folder = folder
        self.bin, self.work = folder / "bin", folder / "work"
        self.bin.mkdir()
        self.work.mkdir()
        self.rows = []
        self.script = self.work / "job.sh"
        self.script.write_text("#!/bin/sh\n#SBATCH --mem=1G\nsrun ./x\n")
        self.program("sacct", SACCT)
        self.program(
            "squeue",
            f"""\
#!/bin/sh
case "$*" in *all*) [ ! -e {folder}/queue ] || cat {folder}/queue ;;
*) echo '12 afterok:7(failed)' ;; esac
""",
        )
        self.program("sinfo", "#!/bin/sh\nexit 1\n")
        self.program(
            "scontrol",
            f"""\
#!/bin/sh
case "$*" in
"show config") echo "ClusterName = pine" ;;
*) echo "$*" >>{folder}/scontrol; exit 1 ;;
esac
""",
        )
        self.program(
            "sbatch",
            f"""\
#!{sys.executable} -S
import json, sys
json.dump(sys.argv[1:], open("{folder}/submitted", "w"))
print(77)
""",
        )

    def lets_change_jobs(self):
        """Make a scontrol that writes down the changes of jobs that it is asked for."""
        self.program(
            "scontrol",
            f"""\
#!/bin/sh
[ "$*" != "show config" ] || echo "ClusterName = pine"
echo "$*" >>{self.folder}/scontrol
""",
        )

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def job(self, job_id, state, elapsed_s=3600, **given):
        """Have a job ended; the last one as of now."""
        at_s = int(time.time()) - 100_000 + 100 * len(self.rows)
        self.rows.append({
            "JobIDRaw": job_id, "JobID": job_id, "Cluster": "pine", "User": user_name(),
            "UID": os.getuid(), "Partition": "b", "State": state, "ExitCode": "0:0",
            "Submit": at_s, "Eligible": at_s, "Start": at_s, "End": at_s + elapsed_s,
            "TimelimitRaw": 60, "NNodes": 1, "NCPUS": 4, "ReqMem": "1073741824", "MaxRSS": "",
            "NodeList": "n1", "SubmitLine": "sbatch job.sh in.dat", "WorkDir": str(self.work),
            "JobName": "job.sh", "ElapsedRaw": elapsed_s, **given,
        })  # fmt: skip
        (self.bin / "rows.json").write_text(json.dumps(self.rows))

    @property
    def submitted(self):
        return json.loads((self.folder / "submitted").read_text())


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    made = Slurm(tmp_path)
    config = tmp_path / "nimo.yaml"
    config.write_text(f"socket: {tmp_path}/none\nlocal: {{timeout_s: 3}}\n")
    for name, value in {
        "PATH": f"{made.bin}:/usr/bin:/bin",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NIMO_CONFIG": str(config),
        "OPENBLAS_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return made


def again(capsys, *words, status=0):
    assert main(["again", *words]) == status
    said = capsys.readouterr()
    return said.out if status == 0 else said.err


def where(slurm):
    return f"--chdir={slurm.work} {slurm.script} in.dat\n"


def test_a_time_limit_that_was_too_short_is_doubled_where_nothing_says_more(slurm, capsys):
    slurm.job(7, "TIMEOUT", 3610)
    assert again(capsys, "7") == f"sbatch --time=02:00:00 {where(slurm)}"


def test_longer_runs_say_how_long(slurm, capsys):
    for number in range(6):
        slurm.job(100 + number, "COMPLETED", 5000 + number, TimelimitRaw=200)
    slurm.job(7, "TIMEOUT", 3610)
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    assert said.out == f"sbatch --time=01:41:00 {where(slurm)}"
    assert "6 runs of it took longer; 19 in 20 of such need no more" in said.err


def test_memory_alone_grows_where_memory_ran_out(slurm, capsys):
    slurm.job(7, "OUT_OF_MEMORY", 10)
    assert again(capsys, "7") == f"sbatch --mem=2048M {where(slurm)}"


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "FAILED", "CANCELLED by 1000"])
def test_where_nothing_ran_out_nothing_grows(state, slurm, capsys):
    slurm.job(7, state, 10)
    assert again(capsys, "7") == f"sbatch {where(slurm)}"


def test_of_an_array_the_tasks_that_failed_each_with_what_they_lacked(slurm, capsys):
    states = ["COMPLETED", "TIMEOUT", "TIMEOUT", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT"]
    for task, state in enumerate(states):
        line = "sbatch --array=0-6%2 job.sh in.dat"
        slurm.job(f"7_{task}", state, JobIDRaw=20 + task, SubmitLine=line)
    assert again(capsys, "7").splitlines() == [
        f"sbatch --array={tasks}%2 {more}{where(slurm)}".strip()
        for tasks, more in (("1-2,6", "--time=02:00:00 "), ("3", ""), ("4", "--mem=2048M "))
    ]
    assert again(capsys, "7_2") == f"sbatch --array=2%2 --time=02:00:00 {where(slurm)}"
    assert "job 7_0 completed" in again(capsys, "7_0", status=1)


def test_it_is_submitted_and_jobs_that_waited_follow(slurm, capsys):
    slurm.job(7, "TIMEOUT")
    slurm.lets_change_jobs()
    said = again(capsys, "7", "--submit")
    assert said == (
        "Submitted batch job 77 for job 7\nJob 12 waits for the new one now: afterok:77\n"
    )
    assert slurm.submitted == [
        "--parsable", "--time=02:00:00", f"--chdir={slurm.work}", str(slurm.script), "in.dat",
    ]  # fmt: skip
    assert "update jobid=12 dependency=afterok:77" in (slurm.folder / "scontrol").read_text()


def test_what_waits_for_an_array_waits_for_its_tasks_that_still_run_too(slurm, capsys):
    for task in (1, 2):
        slurm.job(f"7_{task}", "FAILED", JobIDRaw=20 + task)
    (slurm.folder / "queue").write_text("7_1 FAILED\n7_2 FAILED\n7_3 RUNNING\n")
    slurm.lets_change_jobs()
    assert "Job 12 waits for the new one now: afterok:77:7_3\n" in again(capsys, "7", "--submit")


def test_what_waits_for_an_array_of_which_one_task_runs_again_waits_as_before(slurm, capsys):
    for task in (1, 2):
        slurm.job(f"7_{task}", "FAILED", JobIDRaw=20 + task)
    slurm.lets_change_jobs()
    assert again(capsys, "7_2", "--submit").splitlines() == [
        "Submitted batch job 77 for job 7, 1 task of it",
        "Job 12 waits as before: not all that it waits for runs again",
    ]


def test_a_job_that_slurm_does_not_let_wait_for_another_is_named(slurm, capsys):
    slurm.job(7, "TIMEOUT")
    assert main(["again", "7", "--submit"]) == 0
    said = capsys.readouterr()
    assert said.out == "Submitted batch job 77 for job 7\n"
    assert "nimo again: job 12 waits as before: " in said.err


def test_tasks_that_have_not_ended_are_left_out_and_those_that_have_are_waited_for(
    slurm, capsys, monkeypatch
):
    for task in (1, 2):
        slurm.job(f"7_{task}", "FAILED", JobIDRaw=20 + task)
    (slurm.folder / "queue").write_text(
        "7_1 FAILED\n7_2 FAILED\n7_3 RUNNING\n7_4 FAILED\n7_5 PENDING\n"
    )

    def accounted(_):
        slurm.job("7_4", "FAILED", JobIDRaw=24)

    monkeypatch.setattr("time.sleep", accounted)
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    assert said.out == f"sbatch --array=1-2,4 {where(slurm)}"
    assert "2 tasks of it still to end, and left out" in said.err


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_job_that_slurm_has_put_back_into_the_queue_is_left_to_it(state, slurm, capsys):
    """A node failed: the accounting has the start that ended there, and the job runs once more."""
    slurm.job(7, "NODE_FAIL")
    (slurm.folder / "queue").write_text(f"7 {state}\n")
    said = again(capsys, "7", "--submit", status=1)
    assert said == "nimo: job 7 is in the queue again: Slurm runs it once more by itself\n"
    assert not (slurm.folder / "submitted").exists()


def test_a_job_whose_nodes_are_not_free_yet_has_ended(slurm, capsys):
    slurm.job(7, "FAILED")
    (slurm.folder / "queue").write_text("7 COMPLETING\n")
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    assert said.out == f"sbatch {where(slurm)}"
    assert "still to end" not in said.err


def test_of_an_array_the_tasks_that_slurm_put_back_are_left_to_it(slurm, capsys):
    for task in (1, 2):
        slurm.job(f"7_{task}", "NODE_FAIL", JobIDRaw=20 + task)
    (slurm.folder / "queue").write_text("7_1 RUNNING\n7_2 NODE_FAIL\n")
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    assert said.out == f"sbatch --array=2 {where(slurm)}"
    assert "1 task of it still to end, and left out" in said.err
    assert again(capsys, "7_2") == f"sbatch --array=2 {where(slurm)}"
    assert "job 7_1 is in the queue again" in again(capsys, "7_1", status=1)


def test_an_sbatch_that_refuses(slurm, capsys):
    slurm.job(7, "TIMEOUT")
    slurm.program("sbatch", "#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n")
    assert "Invalid account" in again(capsys, "7", "--submit", status=1)


def test_words_of_a_submit_line_are_never_run(slurm, capsys):
    slurm.job(7, "FAILED", SubmitLine="sbatch --comment=$(touch${IFS}/tmp/x);x job.sh $(id) `id`")
    again(capsys, "7", "--submit")
    assert slurm.submitted[-2:] == ["$(id)", "`id`"]
    assert "'$(id)' '`id`'" in again(capsys, "7")


def test_anothers_job_is_refused(slurm, capsys):
    slurm.job(7, "TIMEOUT", User="bob", UID=os.getuid() + 1)
    assert "job 7 is bob's: only its own user can" in again(capsys, "7", status=1)
    assert "job 7 is bob's" in again(capsys, "7", "--submit", status=1)
    assert not (slurm.folder / "submitted").exists()


@pytest.mark.parametrize(
    ("given", "words", "status"),
    [
        ({"state": "COMPLETED"}, "job 7 completed", 1),
        ({"state": "REQUEUED"}, "is in the queue again", 1),
        ({"SubmitLine": "salloc -N 2"}, "was no batch job but one of salloc", 1),
        ({"SubmitLine": "srun ./x"}, "was no batch job but one of srun", 1),
        ({"SubmitLine": ""}, "its submit line is not kept", 1),
        ({"SubmitLine": "sbatch gone.sh"}, "gone.sh is not there: submit", 66),
        ({"SubmitLine": "sbatch --wrap sleep 5"}, "no file is named", 66),
        ({"SubmitLine": "sbatch"}, "no file is named", 66),
        ({"SubmitLine": "sbatch /dev/stdin"}, "no file is named", 66),
        ({"SubmitLine": "sbatch /proc/self/cmdline"}, "no file is named", 66),
        ({"SubmitLine": "sbatch ."}, "is not there", 66),
        ({"state": "OUT_OF_MEMORY", "ReqMem": "0"}, "does not say how much it had", 1),
    ],
)
def test_what_cannot_be_run_again(given, words, status, slurm, capsys):
    slurm.job(7, given.pop("state", "FAILED"), **given)
    assert words in again(capsys, "7", status=status)


def test_a_job_that_is_not_there(slurm, capsys):
    slurm.job(8, "FAILED")
    assert "no job 7 that has ended" in again(capsys, "7", status=3)


@pytest.mark.parametrize(
    "text",
    ["#!/bin/sh\nexec sleep 60\n", "#!/bin/sh\necho 'sacct: error: no slurmdbd' >&2\nexit 1\n"],
)
def test_a_sacct_that_does_not_answer(text, slurm, capsys):
    slurm.program("sacct", text)
    assert re.search("no slurmdbd|said nothing|cannot run sacct", again(capsys, "7", status=1))


def test_the_script_that_slurm_kept_where_its_file_changed_or_went(slurm, capsys):
    slurm.job(7, "FAILED")
    slurm.job(8, "FAILED", SubmitLine="sbatch --wrap sleep 5", JobName="wrap")
    kept = f"Batch Script for 7\n{'-' * 80}\n#!/bin/sh\n#SBATCH --mem=2G\nsrun ./y\n\n"
    (slurm.bin / "script").write_text(kept)
    file = slurm.folder / "data" / "nimo" / "again" / "7.sh"
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    expected = f"sbatch --job-name=job.sh --chdir={slurm.work} {file} in.dat\n"
    assert (said.out, "its file has changed since" in said.err) == (expected, True)
    assert file.read_text() == "#!/bin/sh\n#SBATCH --mem=2G\nsrun ./y\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "again/8.sh" in again(capsys, "8")
    (slurm.bin / "script").write_text(f"Batch Script for 7\n{'-' * 80}\nNONE\n")
    assert str(slurm.script) in again(capsys, "7")


def test_no_more_than_the_partition_allows(slurm, capsys, monkeypatch):
    slurm.job(7, "TIMEOUT")
    monkeypatch.setattr("slurm_plugin.cli.failed_job._most", lambda *_: 5400.0)
    assert main(["again", "7"]) == 0
    said = capsys.readouterr()
    assert "--time=01:30:00" in said.out
    assert "partition b allows no more" in said.err
    monkeypatch.setattr("slurm_plugin.cli.failed_job._most", lambda *_: 3600.0)
    assert "partition b allows no longer time limit than" in again(capsys, "7", status=1)


def test_why_says_what_happened_and_how_to_run_it_again(slurm, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.commands.why.own_history_is_meant", lambda _: True)
    slurm.job(7, "FAILED", 12, ExitCode="3:0")
    (slurm.work / "slurm-7.out").write_text("reading in.dat\nin.dat: \x1b[31mno such file\n")
    assert main(["why", "7"]) == 0
    user = user_name()
    assert (
        capsys.readouterr().out.replace(str(slurm.work), "/home/ada")
        == f"""\
Job 7 ({user}/job.sh) failed after 12 s (exit 3).
The end of its output (slurm-7.out):
  | reading in.dat
  | in.dat:  [31mno such file
To run it again:
  sbatch --chdir=/home/ada /home/ada/job.sh in.dat
'nimo again 7 --submit' does so.
"""
    )


@pytest.mark.parametrize(
    ("state", "now", "happened", "again"),
    [
        (
            *("NODE_FAIL", "RUNNING", "was on a node that failed after 12 s. Its nodes were n1."),
            "Slurm has put it back into the queue, and it runs again.",
        ),
        (
            *("PREEMPTED", "RUNNING", "was preempted by a job of higher priority after 12 s."),
            "Slurm has put it back into the queue, and it runs again.",
        ),
        (
            *("NODE_FAIL", "PENDING", "was on a node that failed after 12 s. Its nodes were n1."),
            "Slurm has put it back into the queue, where it waits to run again.",
        ),
    ],
)
def test_why_says_that_slurm_runs_a_job_again(
    state, now, happened, again, slurm, capsys, monkeypatch
):
    monkeypatch.setattr("slurm_plugin.cli.commands.why.own_history_is_meant", lambda _: True)
    slurm.job(7, state, 12)
    (slurm.folder / "queue").write_text(f"7 {now}\n")
    shown = f"JobId=7 JobName=job.sh\n   JobState={now} Requeue=1 Restarts=1 Reason=None\n"
    slurm.program(
        "scontrol",
        f"""\
#!/bin/sh
case "$*" in
"show config") echo "ClusterName = pine" ;;
"show job 7") echo "{shown}" ;;
*) exit 1 ;;
esac
""",
    )
    assert main(["why", "7"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Job 7 ({user_name()}/job.sh) {happened} {again}" in told
    assert told.count(happened) == 1
    assert "To run it again" not in told
    assert told.startswith("Job 7 (")
    assert ("Job 7 (job.sh) waits: " in told) is (now == "PENDING")


def test_why_of_an_array_of_which_slurm_put_tasks_back(slurm, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.commands.why.own_history_is_meant", lambda _: True)
    for task, state in enumerate(["NODE_FAIL", "NODE_FAIL", "TIMEOUT"], 1):
        slurm.job(f"7_{task}", state, JobIDRaw=20 + task)
    (slurm.folder / "queue").write_text("7_1 RUNNING\n7_2 PENDING\n")
    assert main(["why", "7"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Slurm has put 2 tasks back into the queue: 1 runs again, 1 waits to." in told
    assert "reached its time limit of 1 h." in told
    assert "sbatch --time=02:00:00 --array=3 " in told


def test_why_of_a_completed_job_is_as_before(slurm, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.commands.why.own_history_is_meant", lambda _: True)
    slurm.job(7, "COMPLETED", 12)
    assert main(["why", "7"]) == 0
    assert "again" not in capsys.readouterr().out


def test_why_where_it_cannot_run_again_and_the_output_is_a_pipe(slurm, capsys, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.commands.why.own_history_is_meant", lambda _: True)
    os.mkfifo(slurm.work / "slurm-7.out")
    slurm.job(7, "OUT_OF_MEMORY", 12, SubmitLine="sbatch gone.sh", MaxRSS="1073000000")
    assert main(["why", "7"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ran out of memory after 12 s with 1024 MiB on a node, 1023 MiB measured." in said
    assert "NIMO does not run it again: Slurm keeps no script of job 7" in said
