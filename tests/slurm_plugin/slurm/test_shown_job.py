"""What ``scontrol show job`` says of a job, on each release."""

import pytest

from sacct_ingest.scripts.signature import identity_of_request
from slurm_plugin.slurm.shown_job import read_shown_job

OLD = """JobId=17 JobName=my job
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState=PENDING Reason=Priority Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=00:05:00 TimeMin=00:02:00
   SubmitTime=1790000000 EligibleTime=1790000000
   StartTime=Unknown EndTime=Unknown Deadline=1790010800
   Partition=batch,big AllocNode:Sid=login:1
   NumNodes=2-8 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Command=/home/ada/run 1/wrf.sh d01 --y z
   WorkDir=/home/ada/run 1
   Comment=nimo:app=wrf NumNodes=9
"""
NEW = OLD.replace("wrf.sh d01 --y z", "wrf.sh").replace(
    "   WorkDir", "   SubmitLine=/usr/bin/sbatch -N2-8 wrf.sh d01 --y z\n   WorkDir"
)


def line_of(*argv):
    script = "#!/bin/sh\nsrun wrf\n"
    about = {"user": "ada", "name": "my job", "comment": "nimo:app=wrf", "script": script}
    return identity_of_request(argv=argv, work_dir="/home/ada/run 1", **about).line


def test_a_job_that_waits():
    shown = read_shown_job(NEW)
    assert (shown.user, shown.name, shown.work_dir) == ("ada", "my job", "/home/ada/run 1")
    assert (shown.low_nodes, shown.high_nodes, shown.started, shown.tasks) == (2, 8, False, 2)
    assert (shown.limit_s, shown.least_limit_s) == (300, 120)
    assert (shown.submit_s, shown.deadline_s) == (1790000000, 1790010800.0)
    assert shown.partitions == ("batch", "big")
    assert shown.line == line_of("/home/ada/run 1/wrf.sh", "d01", "--y", "z")
    assert shown.line != line_of("/home/ada/run 1/wrf.sh", "d02")


def test_arguments_stand_after_the_script_where_there_is_no_submit_line():
    plain = OLD.replace("/run 1", "")
    about = {"user": "ada", "name": "my job", "comment": "nimo:app=wrf", "script": "#!/bin/sh\nx\n"}
    argv = ["/home/ada/wrf.sh", "d01", "--y", "z"]
    expected = identity_of_request(argv=argv, work_dir="/home/ada", **about).line
    assert read_shown_job(plain).line == expected
    # A release that shows the path alone says nothing of arguments.
    assert read_shown_job(plain.replace(" d01 --y z", "")).line == ""
    assert read_shown_job(plain.replace("BatchFlag=1", "BatchFlag=0")).line == ""


def test_a_job_that_runs_has_its_nodes():
    shown = read_shown_job(OLD.replace("PENDING", "RUNNING").replace("NumNodes=2-8", "NumNodes=5"))
    assert (shown.low_nodes, shown.high_nodes, shown.started) == (5, 5, True)


def test_what_a_user_writes_into_a_name_is_no_field():
    shown = read_shown_job(NEW.replace("my job", "x NumNodes=9 TimeLimit=99 SubmitTime=5"))
    assert (shown.low_nodes, shown.limit_s, shown.submit_s) == (2, 300, 1790000000)


@pytest.mark.parametrize(
    "text", ["", "slurm_load_jobs error: Invalid job id specified", NEW.replace("NumNodes=2-8", "")]
)
def test_what_cannot_be_read_is_no_job(text):
    assert read_shown_job(text) is None


def test_no_limit_and_no_deadline():
    shown = read_shown_job(
        NEW.replace("TimeLimit=00:05:00 TimeMin=00:02:00", "TimeLimit=UNLIMITED TimeMin=N/A")
        .replace("Deadline=1790010800", "Deadline=N/A")
        .replace("NumNodes=2-8", "NumNodes=1")
    )
    assert (shown.limit_s, shown.least_limit_s, shown.deadline_s) == (None, None, None)
    assert (shown.low_nodes, shown.high_nodes) == (1, None)
