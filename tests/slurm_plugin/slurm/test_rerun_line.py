"""The line that runs a job again: as it was submitted, with more of only what ran out."""

from pathlib import Path

import pytest

from sacct_ingest.records import JobState
from slurm_plugin.slurm.ended_job import EndedJob, command_line_of
from slurm_plugin.slurm.rerun_line import (
    More,
    ScriptFile,
    Successors,
    dependents,
    rerun_line,
    successors,
)

FILE = ScriptFile(Path("/scratch/job.sh"), "#!/bin/sh\nsrun x\n")


def line(submit_line, more=More(), script=FILE, **given):  # noqa: B008 - it is frozen
    values = {"nodes": 1, "cpus": 4, "name": "job.sh", "work_dir": "/scratch", **given}
    job = EndedJob(job_id=1, submit_s=0, state=JobState.FAILED, submit_line=submit_line, **values)
    made = rerun_line(job, command_line_of(job), script, more)
    return made.text.removeprefix("sbatch ").replace("--chdir=/scratch /scratch/job.sh", "…")


@pytest.mark.parametrize(
    ("submit_line", "more", "expected"),
    [
        ("sbatch -N2 -t 9 job.sh x", More(limit="00:20:00"), "--nodes=2 --time=00:20:00 … x"),
        ("sbatch job.sh", More(limit="00:20:00"), "--time=00:20:00 …"),
        ("sbatch --mem=1G job.sh", More(memory_mib=3000), "--mem=3000M …"),
        ("sbatch job.sh", More(memory_mib=3000), "--mem=3000M …"),
        ("sbatch --mem-per-cpu=512 job.sh", More(memory_mib=3000), "--mem-per-cpu=750M …"),
        ("sbatch --mem-per-cpu=1G job.sh", More(memory_mib=3000), "--mem-per-cpu=1024M …"),
        ("sbatch -a 0-99%5 job.sh", More(tasks=(1, 2, 3, 9)), "--array=1-3,9%5 …"),
        ("sbatch --parsable --hold --wait --begin=now+1 job.sh", More(), "…"),
        ("sbatch --deadline=now+1hour --test-only -D /tmp job.sh", More(), "…"),
        ("sbatch -d afterok:7 job.sh", More(), "…"),
        ("sbatch -d afterok:7,singleton job.sh", More(), "--dependency=singleton …"),
        ("sbatch --exclusive -O job.sh", More(), "--exclusive --overcommit …"),
    ],
)  # fmt: skip
def test_options(submit_line, more, expected):
    assert line(submit_line, more) == expected


def test_what_the_script_asks_for_is_raised_in_its_own_words():
    text = "#!/bin/sh\n#SBATCH --mem-per-cpu=100M --array=1-9%2\n#SBATCH -d afterok:3\n"
    script = ScriptFile(Path("/scratch/job.sh"), text)
    more = More(memory_mib=1000, tasks=(3,))
    expected = "--dependency= --mem-per-cpu=250M --array=3%2 …"
    assert line("sbatch job.sh", more, script) == expected


def test_values_whose_quotes_are_lost_are_the_accountings():
    made = line("sbatch -J my job --comment for x nimo:app=a job.sh", name="my job")
    assert made.startswith("'--job-name=my job' '--comment=for x nimo:app=a' ")


def test_a_script_that_is_written_keeps_the_jobs_name():
    script = ScriptFile(Path("/home/x y/1.sh"), "#!/bin/sh\n", write=True)
    made = line("sbatch job.sh", script=script)
    assert made == "--job-name=job.sh --chdir=/scratch '/home/x y/1.sh'"


def test_jobs_that_wait_for_it():
    listing = "\n".join(
        [
            "8 afterok:2_*(unfulfilled)",
            "9 afterany:2(unfulfilled)?afterok:22(failed)",
            "10 (null)",
            "11 aftercorr:2_*(unfulfilled)",
            "12 afterok:5:2(failed)",
            "13 singleton(unfulfilled)",
        ]
    )
    assert dependents(listing, 2, Successors("31:32", each="31")) == {
        "8": "afterok:31:32",
        "9": "afterany:31:32?afterok:22",
        "11": "aftercorr:31",
        "12": "afterok:5:31:32",
    }


def test_jobs_that_wait_for_tasks_of_an_array():
    listing = "\n".join(
        [
            "8 afterok:2_4(failed),afterok:2_40(unfulfilled)",
            "9_[2,4] aftercorr:2_*(failed)",
            "10 afterany:2_*(unfulfilled)+10",
            "11 afterok:2_5(unfulfilled)",
        ]
    )
    some = successors(2, {"31": [3], "32": [4]}, unfinished=[5, 40], lost=False)
    assert dependents(listing, 2, some) == {
        "8": "afterok:32_4,afterok:2_40",
        "9_[2,4]": None,  # two jobs have its tasks
        "10": "afterany:31:32:2_5:2_40+10",
        "11": None,
    }
    every = successors(2, {"31": [2, 4]}, unfinished=[], lost=False)
    assert dependents(listing, 2, every)["9_[2,4]"] == "aftercorr:31"
    one = successors(2, {"31": [4]}, unfinished=[], lost=True)
    assert dependents(listing, 2, one) == {
        "8": "afterok:31_4,afterok:2_40",
        "9_[2,4]": None,
        "10": None,  # other tasks failed, too
        "11": None,
    }
