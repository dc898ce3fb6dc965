"""Why jobs wait, on a real Slurm with accounting: each state that can be had, and its sentence."""

import json
import re
import sys
import time

import pytest

from tests.environments import PROJECT
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.releases]
#: Who asks, and whose jobs are in the way.
ADA, BOB = "games", "daemon"
CONF = (
    "SelectTypeParameters=CR_Core_Memory", "DefMemPerCPU=100", "MaxMemPerNode=1900",
    "AccountingStorageEnforce=limits,qos", "Licenses=solver:4",
    "AccountingStorageTRES=gres/gpu,gres/gpu:A100,gres/gpu:H100",
    "PriorityType=priority/multifactor", "PriorityWeightAge=0", "PriorityWeightQOS=1000",
    "PartitionName=tiny Nodes=n1 MaxTime=10 MaxNodes=1 DefaultTime=5",
    "PartitionName=closed Nodes=n1 State=DOWN",
    "PartitionName=other Nodes=n3,n4 MaxTime=2:00:00 DefaultTime=10",
    "PartitionName=barred Nodes=n1 AllowAccounts=poor MaxTime=1:00:00",
)  # fmt: skip
QOS = {
    "one": "MaxJobsPerUser=1", "grp": "GrpTRES=node=1", "wall": "MaxWall=10",
    "pernode": "MaxTRESPerJob=node=1", "users": "MaxTRESPerUser=cpu=2",
    "minutes": "MaxTRESMinsPerJob=cpu=10", "least": "MinTRESPerJob=cpu=3",
    "quota": "GrpTRES=cpu=4", "urgent": "Priority=100", "grpjobs": "GrpJobs=1",
    "peracct": "MaxJobsPerAccount=1", "acctcpu": "MaxTRESPerAccount=cpu=2",
    "grpmem": "GrpTRES=mem=150", "usermem": "MaxTRESPerUser=mem=150",
}  # fmt: skip
#: Accounts of their own limits.
ACCOUNTS = {
    "poor": "GrpTRES=cpu=1", "few": "GrpJobs=1", "small": "MaxTRESPerJob=node=1",
    "brief": "MaxWall=10", "ahead": "GrpTRESRunMins=cpu=10",
}  # fmt: skip
#: Name of a job -> options of sbatch, Slurm's reason, the sentence, what ends the wait.
STATES = {
    "dependency": (
        "-d afterok:{filler}", "Dependency", "job {filler} has to end well first", "others",
    ),
    "never": (
        "-d afterok:{failed}", "DependencyNeverSatisfied",
        "job {failed} had to end well, and cannot any more", "never",
    ),
    "held": ("-H", "JobHeldUser", "its user holds it", "somebody"),
    "begin": (
        "-b now+1hour", "BeginTime", r"begin later \(--begin\): not before \d\d-\d\d ", "others",
    ),
    "nodes": ("-N2 -p tiny", "PartitionNodeLimit", "2 nodes, and tiny gives 1 to a job", "never"),
    "time": ("-p tiny -t 20", "PartitionTimeLimit", "is 20 min, and tiny allows 10 min", "never"),
    "down": ("-p closed", "PartitionDown", "closed starts no jobs now", "somebody"),
    "one": (
        "-q one", "QOSMaxJobsPerUserLimit", "QOS one lets 1 job of a user run at once, and 1 run",
        "others",
    ),
    "grp": ("-q grp", "QOSGrpNodeLimit", "gives 1 node at once, and 1 are", "others"),
    "wall": ("-q wall -t 20", "QOSMaxWallDurationPerJobLimit", "and QOS wall allows 10", "never"),
    "pernode": ("-N2 -q pernode", "QOSMaxNodePerJobLimit", "pernode gives 1 node to", "never"),
    "users": ("-n3 -q users", "QOSMaxCpuPerUserLimit", "gives 2 CPUs to a user", "never"),
    "minutes": (
        "-n3 -q minutes -t 5", "QOSMaxCpuMinutesPerJobLimit",
        "15 CPU-minutes, and QOS minutes gives 10 CPU-minutes to a job", "never",
    ),
    "least": ("-n1 -q least", "QOSMinCpuNotSatisfied", "QOS least wants 3 CPUs at least", "never"),
    "quota": ("-n4 -q quota", "QOSGrpCpuLimit", "gives 4 CPUs at once, and 1", "others"),
    "poor": ("-A poor", "AssocGrpCpuLimit", "account poor.* 1 CPU", "others"),
    "jobs": ("-A few", "AssocGrpJobsLimit", "few lets 1 job run at", "others"),
    "licences": (
        "-L solver:2 -q urgent", "Licenses", "2 licences of solver, and 1 of 4 are free",
        "others",
    ),
    "reservation": (
        "--reservation=course", "Reservation", r"its reservation course begins \d\d-\d\d ",
        "others",
    ),
    "maintenance": (
        "-t 120 -w n1", "ReqNodeNotAvail",
        r"its time limit \(2 h\) reaches into the maintenance upgrade, which begins \d\d-\d\d ",
        "others",
    ),
    "grpjobs": ("-q grpjobs", "QOSGrpJobsLimit", "grpjobs lets 1 job run at once, and 1", "others"),
    "peracct": (
        "-q peracct", "MaxJobsPerAccount", "peracct lets 1 job of an account run at once", "others",
    ),
    "acctcpu": ("-n3 -q acctcpu", "MaxCpuPerAccount", "gives 2 CPUs to an account at", "never"),
    "grpmem": ("-n2 -q grpmem", "QOSGrpMem.*", "200 MiB.*gives 150 MiB of memory at once", "never"),
    "usermem": (
        "-n2 -q usermem", "QOSMaxMemoryPerUser", "gives 150 MiB of memory to a user", "never",
    ),
    "small": ("-N2 -A small", "AssocMaxNodePerJobLimit", "2 nodes, and .* gives 1", "never"),
    "brief": ("-t 20 -A brief", "AssocMaxWallDurationPerJobLimit", "is 20 min, and .* 10", "never"),
    "ahead": ("-n3 -A ahead", "AssocGrpC.*Run.*Minutes.*", "15 CPU-minutes; .* 10 CPU", "never"),
    "drained": (
        "-w n5", "ReqNodeNotAvail", "nodes that it needs are down(, drained or res| or dr).*: n5",
        "others",
    ),
    "resources": (
        "-N4 --exclusive -t 20 -q urgent", "Resources",
        "it is the next for 4 nodes in batch; .* of 4 nodes are idle", "turn",
    ),
    "priority": (
        "-N3 --exclusive -t 20", "Priority", r"\d+ jobs? before it in batch asks? for", "turn",
    ),
}  # fmt: skip


#: Takes a user's rights once it is loaded: users may not enter where the interpreter is.  With
#: patience, since slurmctld takes longer on a busy machine.  Further arguments are the command, or
#: ``--each`` and jobs, each of which is asked about: modules are loaded once.
AS_USER = """\
import os, pwd, sys
import slurm_plugin.cli.options.why
import slurm_plugin.cli.commands.why, slurm_plugin.cli.waiting_jobs, slurm_plugin.config.loader
import slurm_plugin.cli.slurm_estimates, slurm_plugin.config.settings, slurm_plugin.nimod.client
import slurm_plugin.cli.own_history, encodings.idna, hashlib, json, zoneinfo, concurrent.futures
import slurm_plugin.cli.failed_job
from slurm_plugin.cli.nimo import main
slurm_plugin.cli.slurm_questions.PATIENCE_S = 60.0
user = pwd.getpwnam(sys.argv[1])
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
if sys.argv[2] == "--each":
    sys.exit(max(main(["why", job, "--json"]) for job in sys.argv[3:]))
sys.exit(main(sys.argv[2:]))
"""


class Site:
    """A cluster with accounts and limits, and jobs that wait for each reason."""

    def __init__(self, cluster):
        self.cluster, self.jobs = cluster, {}
        self.accounts()
        self.submit()

    def accounts(self):
        for words in (
            "add account physics", f"add user {ADA} account=physics",
            f"add user {BOB} account=physics",
        ):  # fmt: skip
            self.manage(words)
        for name, limits in ACCOUNTS.items():
            self.manage(f"add account {name}")
            self.manage(f"modify account {name} set {limits}")
            self.manage(f"add user {ADA} account={name}")
        for name, limits in QOS.items():
            self.manage(f"add qos {name}")
            self.manage(f"modify qos {name} set {limits}")
        self.manage(f"modify user {ADA} set qos+={','.join(QOS)}")
        wait_until(
            lambda: "QOS=urgent" in self.slurm("scontrol show assoc_mgr flags=qos"), what="limits"
        )

    def manage(self, words):
        self.cluster.run("sacctmgr", "-i", *words.split())

    def slurm(self, words, user=None, check=True):
        return self.cluster.run(*words.split(), user=user, check=check).stdout

    def add(self, name, options, user=ADA, script="#!/bin/sh\nsleep 900\n"):
        words = options.format(**self.jobs).split()
        words = ["-J", name, "-t", "5", *words] if "-t" not in words else ["-J", name, *words]
        self.jobs[name] = self.cluster.sbatch(*words, user=user, script=script)

    def submit(self):
        self.add("failed", "", script="#!/bin/sh\nexit 1\n")
        self.cluster.wait(self.jobs["failed"])
        self.add("filler", "-N1 --exclusive -t 60 -w n4", BOB)
        fillers = {"grpjobs": "-q grpjobs -w n2", "peracct": "-q peracct -w n2"}
        fillers |= {"one": "-q one", "grp": "-q grp", "quota": "-q quota", "poor": "-A poor"}
        fillers |= {"few": "-A few -w n2", "solver": "-L solver:3 -w n2"}
        for name, options in fillers.items():
            place = options if "-w" in options else f"-n1 -w n3 {options}"
            self.add(f"fill-{name}", f"-t 15 {place}")
        self.reserve("course", f"starttime=now+20minutes duration=10 users={ADA} nodes=n2")
        self.reserve(
            "upgrade", "starttime=now+40minutes duration=60 users=root flags=maint nodes=n1"
        )
        self.slurm("scontrol update nodename=n5 state=drain reason=test")
        wait_until(lambda: self.running() >= 9, what="jobs to run")
        for name, (options, *_) in STATES.items():
            self.add(name, options)
        self.add("admin", "-H")
        self.slurm(f"scontrol hold {self.jobs['admin']}")
        self.add("array", "--array=1-3%1 -n1")
        self.add("deleted", "--reservation=course -n1")
        wait_until(self.settled, timeout_s=60, what="Slurm to name its reasons")

    def reserve(self, name, words):
        self.slurm(f"scontrol create reservation reservationname={name} {words}")

    def running(self):
        return len(self.slurm("squeue -h -a -t R -o %A").split())

    def reasons(self):
        rows = self.slurm("squeue -h -a -t PD -o %A|%r").splitlines()
        return dict(row.split("|") for row in rows)

    def settled(self):
        seen = self.reasons()
        wrong = {
            name: seen.get(str(self.jobs[name]))
            for name, (_, reason, *_) in STATES.items()
            if not re.match(reason, seen.get(str(self.jobs[name]), ""))
        }
        self.wrong = wrong
        return not wrong

    def nimo(self, *words, user=ADA, check=True, stdin=""):
        env = {"NIMO_CONFIG": "", "PYTHONPATH": str(PROJECT), "HOME": str(self.cluster.layout.work)}
        env["XDG_DATA_HOME"] = str(self.cluster.layout.work / f"data-{user}")
        argv = (sys.executable, "-c", AS_USER, user, *words)
        return self.cluster.run(*argv, env=env, check=check, stdin=stdin, timeout_s=120)

    def waiting(self, name):
        return self.all_waiting([name])[name]

    def all_waiting(self, names):
        """What is said of each of these jobs."""
        printed = self.nimo("--each", *(str(self.jobs[name]) for name in names)).stdout
        decoder, said = json.JSONDecoder(), {}
        for name in names:
            answer, end = decoder.raw_decode(printed)
            said[name] = answer["waiting"][0]
            printed = printed[end:].lstrip()
        assert not printed
        return said


@pytest.fixture(scope="module")
def site(slurm_cluster):
    with slurm_cluster(nodes=5, conf=CONF, gpus=2, gpu_types=("A100", "H100")) as cluster:
        made = Site.__new__(Site)
        made.wrong = {}
        try:
            made.__init__(cluster)
        except Exception as error:
            raise AssertionError(f"{error}; {made.wrong}") from error
        yield made


@pytest.fixture(scope="module")
def all_said(site):
    """What is said of the job in each state."""
    return site.all_waiting(STATES)


@pytest.mark.parametrize("name", STATES)
def test_each_state_is_said_with_its_limit(site, all_said, name):
    _, reason, words, ends = STATES[name]
    said = all_said[name]
    assert re.fullmatch(reason, said["slurm_reason"])
    assert re.search(words.format(**site.jobs), said["sentence"])
    assert said["ends"] == ends
    assert said["troubles"] == []


def test_who_holds_a_job_and_what_throttles_an_array(site):
    assert site.waiting("admin")["sentence"] == "an administrator holds it"
    array = site.waiting("array")
    assert array["slurm_reason"] in ("JobArrayTaskLimit", "Priority", "Resources")


def test_all_waiting_jobs_of_a_user_those_that_never_start_first(site):
    said = site.nimo("why").stdout
    first = said.index("can never start as it is")
    assert first < said.index(" waits: ")
    assert BOB not in said
    assert "'nimo wait' lists all." in said


def test_a_job_that_has_left_is_said(site):
    site.add("leaving", "-H")
    job = site.jobs["leaving"]
    site.slurm(f"scancel {job}")
    time.sleep(1)
    done = site.nimo("why", str(job), "--apply", check=False)
    assert "waits" not in done.stdout
    assert f"nothing is known that would start job {job} sooner" in done.stderr
    assert "Traceback" not in done.stderr


#: Seconds by which a start that was named may be off: nodes are free, but Slurm takes its time.
LATE_S = 120
#: Name of a job -> its options, and what its user changes, on a cluster with free nodes.
CHANGED = {
    "held": ("-H", "release"),
    "never": ("-d afterok:{failed}", "Dependency="),
    "begin": ("-b now+1hour", "StartTime=now"),
    "nodes": ("-N2 -p tiny", "NumNodes=1-1"),
    "time": ("-p tiny -t 20", "TimeLimit=00:10:00"),
    "down": ("-p closed", "Partition="),
    "wall": ("-q wall -t 20", "TimeLimit=00:10:00"),
    "pernode": ("-N2 -q pernode", "NumNodes=1-1"),
    "minutes": ("-n3 -q minutes -t 5", "TimeLimit=00:03:00"),
    "users": ("-n3 -q users", "QOS="),
    "poor": ("-n2 -A poor", "Account="),
    "maintenance": ("-t 120 -w n1", "TimeLimit="),
    "throttled": ("--array=1-2%1 -n1", "ArrayTaskThrottle=0"),
}


@pytest.fixture(scope="module")
def idle(site):
    """The cluster once all nodes are free."""
    site.slurm(f"scancel -u {ADA}")
    site.slurm(f"scancel -u {BOB}")
    site.slurm("scontrol delete reservationname=course")
    wait_until(lambda: not site.slurm("squeue -h -a -o %A").split(), what="no jobs")
    return site


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_that_is_applied_starts_the_job(idle, name):
    options, change = CHANGED[name]
    idle.add(name, options)
    job = idle.jobs[name]
    pattern = f"^{job}(_\\S*)? PENDING (?!None|Priority)"
    wait_until(
        lambda: re.search(pattern, idle.slurm("squeue -h -a -o %i@%T@%r").replace("@", " "), re.M),
        what="a reason",
    )
    edits = idle.waiting(name)["edits"]
    lines = [" ".join(edit["argv"]) for edit in edits]
    number = next(n for n, line in enumerate(lines, 1) if change in line)
    done = idle.nimo("why", str(job), "--apply", stdin=f"{number}\n").stdout
    assert f"Done: {lines[number - 1]}" in done

    def started():
        states = idle.slurm(f"squeue -h -a -r -j {job} -o %T").split()
        return set(states) == {"RUNNING"}

    wait_until(started, timeout_s=60, what="the job to run")
    expected_s = edits[number - 1]["start_s"]
    assert expected_s is None or abs(expected_s - time.time()) < LATE_S
    idle.slurm(f"scancel {job}")


def test_another_type_of_gpu_where_slurm_changes_it_in_the_queue(idle):
    idle.add("gpus", "-N2 --gres=gpu:A100:2 -t 15", BOB)
    wait_until(lambda: idle.running() == 1, what="a job on all GPUs of a type")
    idle.add("a100", "--gres=gpu:A100:2")
    job = idle.jobs["a100"]
    wait_until(lambda: idle.reasons().get(str(job)) == "Resources", what="a reason")
    edits = idle.waiting("a100")["edits"]
    number, edit = next((n, one) for n, one in enumerate(edits, 1) if "H100" in one["what"])
    if idle.cluster.settings.version < (23, 2):  # it would add the type to the other one
        assert edit["argv"] == []
        assert "submit it anew with --gres=gpu:H100:2" in edit["caution"]
        tested = idle.cluster.run("sbatch", "--test-only", "--gres=gpu:H100:2", "--wrap", "true")
        assert "on nodes n2 in partition batch" in tested.stdout + tested.stderr
    else:
        assert edit["argv"][2:] == [f"JobId={job}", "TresPerNode=gres/gpu:H100:2"]
        done = idle.nimo("why", str(job), "--apply", stdin=f"{number}\n").stdout
        assert f"Done: {' '.join(edit['argv'])}" in done
        wait_until(lambda: str(job) not in idle.reasons(), what="the job to run")
    assert edit["agreed"]
    idle.slurm(f"scancel {job} {idle.jobs['gpus']}")


def test_another_s_job_is_not_changed(idle):
    idle.add("others", "-H", BOB)
    job = idle.jobs["others"]
    done = idle.nimo("why", str(job), "--apply", stdin="1\n", check=False)
    assert done.returncode != 0
    assert "another user's: only that user and admins may change it" in done.stderr
    assert "What would start it sooner" not in done.stdout
    assert "JobHeldUser" in idle.slurm(f"squeue -h -j {job} -o %r")


def test_of_others_jobs_that_slurm_hides_nothing_is_said(idle):
    conf = idle.cluster.layout.slurm_conf
    before = conf.read_text()
    conf.write_text(f"{before}\nPrivateData=jobs,usage\n")
    try:
        idle.cluster.reconfigure()
        idle.add("secret", "-N3 --exclusive -t 20", BOB)
        secret = idle.jobs["secret"]
        wait_until(lambda: str(secret) not in idle.reasons(), what="the other's job to run")
        idle.add("own", "-N3 --exclusive -t 5")
        wait_until(lambda: str(idle.jobs["own"]) in idle.reasons(), what="a reason")
        assert str(secret) not in idle.slurm("squeue -h -a -o %A", user=ADA)
        said = idle.waiting("own")
        assert (said["ends"], said["troubles"]) == ("turn", [])
        shown = idle.nimo("why", str(idle.jobs["own"])).stdout
        asked = idle.nimo("why", str(secret), check=False)
        assert asked.returncode != 0
        for text in (shown, asked.stdout, asked.stderr.replace(str(secret), "")):
            assert not re.search(rf"{BOB}|secret|{secret}", text)
    finally:
        conf.write_text(before)
        idle.cluster.reconfigure()
