"""The guided tour of the demo: its steps, their order, and the text beside them.

Submissions go without Slurm: the tour sends the hook's requests to nimod, and runs the jobs.
"""

import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TextIO

from sacct_ingest.errors import NimoError
from slurm_plugin.decision.explore import UNLISTED_S
from slurm_plugin.demo import history
from slurm_plugin.demo import sandbox as sites
from slurm_plugin.demo.nimod_process import MODULES, PATIENCE_S, reload, start, stop
from slurm_plugin.demo.sandbox import DemoSite
from slurm_plugin.demo.submissions import DemoSubmission, run, submit
from slurm_plugin.nimod import client
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.text.formatting import table

_AFTER = "sacct-after.txt"
#: What a report begins with: in four sentences all that follows.
_REPORT_LINES = 8
_WORDS = {reason.value: reason.text for reason in Reason}
_FIRST_ID = 900_000  #: job ids of the demo's own submissions
_BEGINNING = """\
NIMO for Slurm on a simulated cluster of 32 nodes.  Made up: two months of accounting
({folder}/sacct.txt), Slurm's commands ({folder}/bin), and how jobs run."""
_INGEST = "1. Read the history.  On a cluster 'nimo ingest' asks sacct for it."
_FIT = "2. Fit run time over node counts, for each application."
_PREDICT = "   The prediction for one application:"
_SERVE = "3. nimod has the tables in memory, and answers sbatch's hooks and nimo-advise."
_ADVISE = "4. Ask before submitting.  What should this job ask for?"
_DEADLINE = "   No node count meets this deadline.  The exit status says so to scripts:"
_UNSURE = "   This application ran on two node counts only, which is enough for advice:"
_SUBMIT = """\
5. Submit twelve jobs, on a quiet day.  NIMO may change jobs that leave the node count open, and
   those whose user completed a better count (mode: enforce; a site begins with 'observe')."""
_OUTCOME = "6. The jobs run.  The next ingest compares each with what was predicted."
_REPORT = "7. What did it bring, and how far off were the predictions?"
_LEARN = """\
8. An application that never ran; its script asks for a range of nodes.  After each job the
   accounting is read and fitted again, as timers do at a site.  What sbatch prints:"""
_LEARNT = "   After four submissions it is known what each count means:"
_END = """\
nimod goes on for eight hours ('nimo demo --stop --directory {folder}' ends it).  Try it, or the
tutorials (docs/tutorial-user.md, docs/tutorial-admin.md), whose commands all work there:

  . {environment}; cd {folder}
  nimo-advise membrane.sh       what should it ask for?
  sbatch heat.sh                four times: it learns a new application
  nimo demo --all               every step of this tour; 'make cluster' has a real Slurm"""


@dataclass(frozen=True, slots=True)
class Narrator:
    """Runs commands in the demo's folder and prints each before its output."""

    site: DemoSite
    out: TextIO
    every: bool = False  #: show every step

    def say(self, text: str) -> None:
        """Print a paragraph."""
        print(f"\n{text}", file=self.out, flush=True)

    def show(self, *command: str, statuses: Sequence[int] = (0,)) -> None:
        """Print a command, run it, and let its output through.

        Raises NimoError: it ended with a status that is not among ``statuses``.
        """
        self.say(f"$ {shlex.join(command)}")
        done = subprocess.run(
            _argv(command),
            cwd=self.site.folder,
            env=self.environment(),
            stdout=self.out,
            check=False,
        )
        if done.returncode not in statuses:
            raise NimoError(f"{shlex.join(command)} ended with status {done.returncode}")
        if done.returncode:
            self.say(f"(exit status {done.returncode})")

    def head(self, lines: int, *command: str) -> None:
        """Print a command and the first lines of its output."""
        self.say(f"$ {shlex.join(command)} | head -{lines}")
        done = subprocess.run(
            _argv(command),
            cwd=self.site.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        shown = "\n".join(done.stdout.splitlines()[:lines])
        print(shown.rstrip(), file=self.out, flush=True)

    def quietly(self, *lines: str) -> None:
        """Run commands of nimo, in one process, and show nothing of them.

        Raises NimoError: one of them failed.
        """
        code = f"import sys; from {MODULES['nimo']} import main; "
        code += "sys.exit(any(main(one.split()) for one in sys.argv[1:]))"
        argv = [sys.executable, "-c", code, *lines]
        quiet = subprocess.DEVNULL
        if subprocess.call(argv, cwd=self.site.folder, env=self.environment(), stdout=quiet):
            raise NimoError(f"{', '.join(lines)}: failed")

    def await_view(self, since_s: float, later_s: float = 0.5) -> None:
        """Wait until nimod looked at the cluster so much later and wrote its decisions."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            now = client.status(self.site.socket, timeout_s=5.0)
            seen = now.snapshot_age_s is not None and time.time() - now.snapshot_age_s
            if seen and seen > since_s + later_s and not now.decisions_pending:
                return
            time.sleep(0.1)
        raise NimoError("nimod does not look at the cluster any more: see what it says above")

    def environment(self) -> dict[str, str]:
        """Variables of the commands that run in the demo's folder."""
        return os.environ | {
            "NIMO_CONFIG": str(self.site.config),
            "PATH": f"{self.site.stand_ins}{os.pathsep}{os.environ.get('PATH', '')}",
        }


def _argv(command: Sequence[str]) -> list[str]:
    call = f"import sys; from {MODULES[command[0]]} import main; sys.exit(main())"
    return [sys.executable, "-c", call, *command[1:]]


def tour(
    narrator: Narrator, *, user: str, uid: int, clock: Callable[[], float], rng: Random
) -> None:
    """Show the main job from history to report, and leave nimod running.

    narrator: runs the commands and prints what they are for.
    user, uid: who submits the demo's jobs.
    clock: seconds since the epoch; the made-up history ends when the tour begins.
    rng: source of all chance.
    """
    site = narrator.site
    folder = _shortest(narrator.site.folder)
    with suppress(client.Unreachable):
        client.status(site.socket, timeout_s=1.0)
        raise NimoError(f"nimod of an earlier demo still runs ({site.socket}): stop it first")
    narrator.say(_BEGINNING.format(folder=folder))
    sites.prepare(site, user=user, now_s=clock(), rng=rng)
    narrator.say(_INGEST)
    narrator.show("nimo", "ingest", sites.HISTORY)
    narrator.say(_FIT)
    narrator.show("nimo", "fit")
    if narrator.every:
        narrator.say(_PREDICT)
        narrator.show("nimo", "predict", "wrf-d02")
    narrator.say(f"{_SERVE}\n\n$ nimo serve &")
    start(site, narrator.environment())
    try:
        _with_nimod(narrator, user=user, uid=uid, clock=clock, rng=rng)
    except BaseException:
        stop(site)
        raise
    where = _shortest(site.environment)
    narrator.say(_END.format(folder=folder, environment=f"./{where}" if where[0] != "/" else where))


def _with_nimod(
    narrator: Narrator, *, user: str, uid: int, clock: Callable[[], float], rng: Random
) -> None:
    site = narrator.site
    narrator.say(_ADVISE)
    narrator.show("nimo-advise", "wrf.sh", "d02")
    if narrator.every:
        narrator.say(_DEADLINE)
        narrator.show("nimo-advise", "--deadline=now+15minutes", "wrf.sh", "d02", statuses=(4,))
        narrator.say(_UNSURE)
        narrator.show("nimo-advise", "capsid.sh")
    sites.write_stand_ins(site.stand_ins, now_s=clock(), waiting=())
    stop(site)  # which still counts on jobs that waited
    start(site, narrator.environment())
    narrator.say(_SUBMIT)
    planned, answers = _submit(narrator, user=user, uid=uid)
    runs = [
        run(one, answer, job_id=_FIRST_ID + number, submit_s=int(clock()), uid=uid, rng=rng)
        for number, (one, answer) in enumerate(zip(planned, answers, strict=True))
    ]
    narrator.say(_OUTCOME)
    sites.write_history(site, _AFTER, runs)
    narrator.show("nimo", "ingest", _AFTER)
    narrator.say(_REPORT)
    if not narrator.every:
        narrator.head(_REPORT_LINES, "nimo", "report")
        return
    narrator.show("nimo", "report")
    narrator.say(_LEARN)
    _learn(narrator, user=user, uid=uid, clock=clock, rng=rng)
    narrator.say(_LEARNT)
    narrator.show("nimo-advise", "heat.sh")


def plan(demo_applications: Sequence[history.Application]) -> list[DemoSubmission]:
    """List what is submitted: jobs that may be changed, and some that must not be."""
    by_name = {application.name: application for application in demo_applications}
    wrf = by_name["wrf-d02"]
    membrane = by_name["membrane"]
    capsid = by_name["capsid"]
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
    """Show the submissions with nimod's answers as a table, those that are alike once."""
    told = Counter(
        (
            one.line,
            f"set --nodes={answer.set.min_nodes}" if answer.set else answer.action,
            _WORDS.get(answer.reason, answer.reason),
        )
        for one, answer in zip(planned, answers, strict=True)
    )
    rows = [[str(number), *cells] for cells, number in told.items()]
    titles = ["jobs", "submitted", "nimod's answer", "because"]
    return table(titles, rows, left=frozenset({1, 2, 3}))


def _submit(
    narrator: Narrator, *, user: str, uid: int
) -> tuple[list[DemoSubmission], list[Answer]]:
    planned = plan(history.applications(user))
    answers = list[Answer]()
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
        reload(site)
        narrator.await_view(decided_s, UNLISTED_S + 0.5)


def _shortest(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
