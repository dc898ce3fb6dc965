"""The guided tour of the demo: its steps, their order, and the text beside them.

Submissions go without Slurm: the tour sends the hook's requests to nimod, and runs the jobs.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TextIO

from predictor.waits.easy import Engine, JobShape
from sacct_ingest.errors import NimoError
from slurm_plugin.decision.explore import UNLISTED_S
from slurm_plugin.demo import history
from slurm_plugin.demo import sandbox as sites
from slurm_plugin.demo.sandbox import RUNNING, DemoSite, job_script
from slurm_plugin.nimod import client
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Ask, Job
from slurm_plugin.text.formatting import table

_TIMEOUT_S = 5.0
#: Shares of their limits that the other jobs take, from and to.
_USED = 0.3, 0.9
#: The scheduler itself takes so long.
_STARTING_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSubmission:
    """One made-up sbatch: the application, the requested nodes, and other options."""

    application: history.Application
    nodes: str = ""  #: instead of the script's own
    array: str = ""
    deadline: str = ""
    place: str = ""  #: directory that it is submitted from; empty: the user's own

    def job(self, uid: int) -> Job:
        """Make the fields that job_submit.lua reads of the job."""
        return Job(
            user_id=uid,
            user_name=self.application.user,
            name=self.application.name,
            account=self.application.account,
            partition=self.application.partition,
            min_nodes=self.low,
            max_nodes=self.high,
            ntasks_per_node=history.CORES,
            time_limit=self.application.script_min,
            array_inx=self.array,
            deadline=self.deadline,
            work_dir=self.work_dir,
            comment=self.application.comment,
            argv=self.application.argv,
            script=job_script(self.application),
        )

    @property
    def work_dir(self) -> str:
        """Directory that it is submitted from."""
        return self.place or f"/scratch/{self.application.user}"

    @property
    def range(self) -> str:
        """Requested node counts, ``2-16`` or ``4``."""
        return self.nodes or self.application.script_nodes

    @property
    def low(self) -> int:
        """Fewest nodes requested."""
        return int(self.range.partition("-")[0])

    @property
    def high(self) -> int:
        """Most nodes requested: Slurm gives them where they are free."""
        return int(self.range.rpartition("-")[2])

    @property
    def line(self) -> str:
        """Command line of sbatch."""
        options = (("-N ", self.nodes), ("--array=", self.array), ("--deadline=", self.deadline))
        arguments = [name + value for name, value in options if value]
        return " ".join(["sbatch", *arguments, self.application.command])


def submit(socket: Path, job: Job) -> Answer:
    """Ask nimod about a job as the hook does.

    Raises slurm_plugin.nimod.client.Unreachable: nimod does not answer.
    """
    return client.exchange(socket, Ask(op="decide", via="job_submit", job=job), Answer, _TIMEOUT_S)


def run(
    submission: DemoSubmission, answer: Answer, *, job_id: int, submit_s: int, uid: int, rng: Random
) -> history.MadeJob:
    """Run a job beside those of the made-up cluster, and return its accounting.

    EASY backfilling starts it, on the node count that it was given.
    """
    change = answer.set
    nodes = (change.min_nodes if change else None) or submission.high
    own = submission.application
    arrival = history.Arrival(submit_s, replace(own, trouble=0.0, limit_min=own.script_min), nodes)
    done = history.start_run(arrival, job_id=job_id, uid=uid, free_s=[0] * history.NODES, rng=rng)
    shapes = [
        JobShape(count, 3600.0 * hours, 3600.0 * (hours * rng.uniform(*_USED)))
        for count, hours in RUNNING
    ]
    shapes.append(JobShape(nodes, 60.0 * submission.application.script_min, done.elapsed_s))
    schedule = Engine(history.NODES).run([0.0] * len(shapes), lambda job, _: shapes[job])
    start_s = submit_s + round(schedule.start_s[-1]) + _STARTING_S
    return replace(
        done,
        start_s=start_s,
        end_s=start_s + round(done.elapsed_s),
        admin_comment=answer.admin_comment,
        submit_line=submission.line,
        work_dir=submission.work_dir,
    )


_PATIENCE_S = 60.0
_MODULES = {"nimo": "slurm_plugin.cli.nimo", "nimo-advise": "slurm_plugin.cli.advise"}


@dataclass(frozen=True, slots=True)
class Narrator:
    """Runs commands in the demo's folder and prints each before its output."""

    site: DemoSite
    out: TextIO

    def say(self, text: str) -> None:
        """Print a paragraph."""
        print(f"\n{text}", file=self.out, flush=True)

    def show(self, *command: str, statuses: Sequence[int] = (0,)) -> None:
        """Print a command, run it, and let its output through.

        Raises NimoError: it ended with a status that is not among ``statuses``.
        """
        self.say(f"$ {shlex.join(command)}")
        done = subprocess.run(
            _argv(command), cwd=self.site.folder, env=self._env(), stdout=self.out, check=False
        )
        if done.returncode not in statuses:
            raise NimoError(f"{shlex.join(command)} ended with status {done.returncode}")
        if done.returncode:
            self.say(f"(exit status {done.returncode})")

    def quietly(self, *lines: str) -> None:
        """Run commands of nimo, in one process, and show nothing of them.

        Raises NimoError: one of them failed.
        """
        code = f"import sys; from {_MODULES['nimo']} import main; "
        code += "sys.exit(any(main(one.split()) for one in sys.argv[1:]))"
        argv, quiet = [sys.executable, "-c", code, *lines], subprocess.DEVNULL
        if subprocess.call(argv, cwd=self.site.folder, env=self._env(), stdout=quiet):
            raise NimoError(f"{', '.join(lines)}: failed")

    @contextmanager
    def background(self, *command: str) -> Iterator[None]:
        """Print a command and keep it running for as long as the block lasts."""
        self.say(f"$ {shlex.join(command)} &")
        process = subprocess.Popen(_argv(command), cwd=self.site.folder, env=self._env())
        try:
            self._await_nimod(process)
            yield
        finally:
            process.terminate()
            process.wait(timeout=_PATIENCE_S)

    def _await_nimod(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until nimod has read the tables and the state of the cluster."""
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            with suppress(client.Unreachable):
                status = client.status(self.site.socket, timeout_s=1.0)
                if status.loaded_s is not None and status.snapshot_age_s is not None:
                    return
            if process.poll() is not None or time.monotonic() > end_s:
                raise NimoError("nimod did not start: see what it says above")
            time.sleep(0.05)

    def await_view(self, since_s: float, later_s: float = 0.5) -> None:
        """Wait until nimod looked at the cluster so much later and wrote its decisions."""
        end_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            now = client.status(self.site.socket, timeout_s=5.0)
            seen = now.snapshot_age_s is not None and time.time() - now.snapshot_age_s
            if seen and seen > since_s + later_s and not now.decisions_pending:
                return
            time.sleep(0.1)
        raise NimoError("nimod does not look at the cluster any more: see what it says above")

    def reload(self) -> None:
        """Have nimod read the tables that were fitted, and wait until it has."""
        since_s, end_s = time.time(), time.monotonic() + _PATIENCE_S
        now = client.status(self.site.socket, reload=True, timeout_s=5.0)
        while (now.loaded_s or 0.0) <= since_s:
            if time.monotonic() > end_s:
                raise NimoError("nimod does not read the tables: see what it says above")
            time.sleep(0.05)
            now = client.status(self.site.socket, timeout_s=5.0)

    def _env(self) -> dict[str, str]:
        return os.environ | {
            "NIMO_CONFIG": str(self.site.config),
            "PATH": f"{self.site.stand_ins}{os.pathsep}{os.environ.get('PATH', '')}",
        }


def _argv(command: Sequence[str]) -> list[str]:
    call = f"import sys; from {_MODULES[command[0]]} import main; sys.exit(main())"
    return [sys.executable, "-c", call, *command[1:]]


_AFTER = "sacct-after.txt"
_WORDS = {reason.value: reason.text for reason in Reason}
_FIRST_ID = 900_000  #: job ids of the demo's own submissions

_BEGINNING = """\
NIMO for Slurm, shown on a simulated cluster of 32 nodes: no Slurm runs here.
The demo generates two months of accounting ({folder}/sacct.txt), the answers of squeue, sinfo and
scontrol ({folder}/bin), and later the runs of submitted jobs.  Everything else is the real product:
the commands below, the store, the fits, nimod and its socket."""
_INGEST = (
    "1. Read the history.  Here it is a saved file; on a cluster 'nimo ingest' runs sacct itself."
)
_FIT = """\
2. Fit run time over node counts.  An application that users tag has two curves: one by its tag, one
   by its command line."""
_PREDICT = "3. Show the prediction for one application."
_SERVE = "4. nimod holds the tables in memory and answers the hooks and nimo-advise."
_ADVISE = "5. A user asks before submitting.  This application has many runs:"
_DEADLINE = "   No node count meets this deadline.  The exit status says so to scripts:"
_UNSURE = "   This application ran on two node counts only, which is enough for advice:"
_SUBMIT = """\
6. Submissions.  The demo sends nimod what job_submit.lua would send at each sbatch (mode: enforce,
   as {folder}/nimo.yaml says; a site begins with 'observe').  They come one at a time, on days when
   nobody waits.  Jobs of one count get a better one that their user completed (opt_in.proven)."""
_OUTCOME = """\
7. The jobs run (simulated, beside those that run, on the nodes that they were given).  The next
   ingest reads their accounting and joins each outcome with its decision."""
_REPORT = "8. Compare predictions and decisions with outcomes."
_LEARN = """\
9. An application that never ran; its script asks for a range of nodes.  After each job the
   accounting is read and fitted again, as timers do at a site.  What sbatch prints:"""
_LEARNT = "   After four submissions it is known what each count means:"
_END = """\
Next:
  export NIMO_CONFIG={config}
  export PATH={programs}:{stand_ins}:$PATH
  nimo predict                  all applications with a prediction
  nimo serve &                  then ask: nimo-advise {folder}/membrane.sh
  make cluster                  the same with a real, throw-away Slurm
  docs/tutorial-admin.md        first steps on your cluster: observe, read the report, enforce"""


def tour(
    narrator: Narrator, *, user: str, uid: int, clock: Callable[[], float], rng: Random
) -> None:
    """Show the main job from history to report.

    narrator: runs the commands and prints what they are for.
    user, uid: who submits the demo's jobs.
    clock: seconds since the epoch; the made-up history ends when the tour begins.
    rng: source of all chance.
    """
    site, folder = narrator.site, _shortest(narrator.site.folder)
    with suppress(client.Unreachable):
        client.status(site.socket, timeout_s=1.0)
        raise NimoError(f"nimod of an earlier demo still runs ({site.socket}): stop it first")
    narrator.say(_BEGINNING.format(folder=folder))
    sites.prepare(site, user=user, now_s=clock(), rng=rng)
    narrator.say(_INGEST)
    narrator.show("nimo", "ingest", sites.HISTORY)
    narrator.say(_FIT)
    narrator.show("nimo", "fit")
    narrator.say(_PREDICT)
    narrator.show("nimo", "predict", "wrf-d02")
    narrator.say(_SERVE)
    with narrator.background("nimo", "serve"):
        narrator.say(_ADVISE)
        narrator.show("nimo-advise", "wrf.sh", "d02")
        narrator.say(_DEADLINE)
        narrator.show("nimo-advise", "--deadline=now+15minutes", "wrf.sh", "d02", statuses=(4,))
        narrator.say(_UNSURE)
        narrator.show("nimo-advise", "capsid.sh")
    sites.write_stand_ins(site.stand_ins, now_s=clock(), waiting=())
    narrator.say(_SUBMIT.format(folder=folder))
    with narrator.background("nimo", "serve"):
        planned, answers = _submit(narrator, user=user, uid=uid)
    runs = [
        run(one, answer, job_id=_FIRST_ID + number, submit_s=int(clock()), uid=uid, rng=rng)
        for number, (one, answer) in enumerate(zip(planned, answers, strict=True))
    ]
    narrator.say(_OUTCOME)
    sites.write_history(narrator.site, _AFTER, runs)
    narrator.show("nimo", "ingest", _AFTER)
    narrator.say(_REPORT)
    narrator.show("nimo", "report")
    narrator.say(_LEARN)
    with narrator.background("nimo", "serve"):
        _learn(narrator, user=user, uid=uid, clock=clock, rng=rng)
        narrator.say(_LEARNT)
        narrator.show("nimo-advise", "heat.sh")
    programs = Path(sys.executable).parent
    where = {"config": site.config, "stand_ins": site.stand_ins, "programs": programs}
    narrator.say(_END.format(folder=folder, **where))


def plan(demo_applications: Sequence[history.Application]) -> list[DemoSubmission]:
    """List what is submitted: jobs that may be changed, and some that must not be."""
    by_name = {application.name: application for application in demo_applications}
    wrf, membrane, capsid = by_name["wrf-d02"], by_name["membrane"], by_name["capsid"]
    return [
        DemoSubmission(application=wrf, deadline="now+5hours"),
        DemoSubmission(application=membrane),
        *[DemoSubmission(application=wrf), DemoSubmission(application=membrane, nodes="2")] * 3,
        DemoSubmission(application=wrf, nodes="4"),
        DemoSubmission(application=membrane, array="0-3"),
        DemoSubmission(application=membrane, nodes="2"),
        DemoSubmission(application=capsid),
    ]


def answers_table(planned: Sequence[DemoSubmission], answers: Sequence[Answer]) -> str:
    """Show the submissions with nimod's answers as a table."""
    rows = [
        [
            one.line,
            f"set --nodes={answer.set.min_nodes}" if answer.set else answer.action,
            _WORDS.get(answer.reason, answer.reason),
        ]
        for one, answer in zip(planned, answers, strict=True)
    ]
    return table(["submitted", "nimod's answer", "because"], rows, left=frozenset({0, 1, 2}))


def _submit(
    narrator: Narrator, *, user: str, uid: int
) -> tuple[list[DemoSubmission], list[Answer]]:
    planned, answers = plan(history.applications(user)), list[Answer]()
    for one in planned:
        answers.append(submit(narrator.site.socket, one.job(uid)))
        narrator.await_view(time.time())
    narrator.say(answers_table(planned, answers))
    return planned, answers


def _learn(
    narrator: Narrator, *, user: str, uid: int, clock: Callable[[], float], rng: Random
) -> None:
    site = narrator.site
    one = DemoSubmission(application=history.newcomer(user), place=str(site.folder))
    for number in range(4):
        answer = submit(site.socket, one.job(uid))
        decided_s = time.time()
        narrator.await_view(decided_s)
        job_id = _FIRST_ID + 100 + number
        job = run(one, answer, job_id=job_id, submit_s=int(clock()), uid=uid, rng=rng)
        told = answer.message or f"(nothing: Slurm gives it {job.nodes} nodes)"
        print(f"$ {one.line}\n{told}", file=narrator.out, flush=True)
        sites.write_history(site, _AFTER, [job])
        narrator.quietly(f"ingest {_AFTER}", "fit --workers 1")
        narrator.reload()
        narrator.await_view(decided_s, UNLISTED_S + 0.5)


def _shortest(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
