"""A site that runs NIMO: a real Slurm with the hooks, nimod, a store, and a moldable program."""

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sacct_ingest.records import DecisionRow
from sacct_ingest.store import RunRow, Store
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import Status
from tests.cluster import SlurmCluster
from tests.cluster.nimod import Nimod, hooks_for
from tests.conftest import ClusterFactory, scratch_directory
from tests.processes import LONGEST_WAIT_S, wait_until

#: A view of the cluster may not show a job that was submitted so long before.
PROMISED_S = 0.5
#: For job scripts and their steps: when the job began, and to sleep until so many milliseconds
#: later, in whole seconds.  The begin is Slurm's: a busy machine, which starts steps late, makes no
#: job longer.  Accounting has whole seconds: the end that slurmctld takes note of may come up to
#: one later, and the run time stays the same.
BEGAN = 'export BEGAN_S=$(date -d "$(squeue -h -j $SLURM_JOB_ID -o %S)" +%s)'
SLEEP_UNTIL = """\
sleep_until() {
    left_ms=$(((BEGAN_S + ($1 + 999) / 1000) * 1000 - $(date +%s%3N)))
    [ $left_ms -le 0 ] || sleep $((left_ms / 1000)).$(printf %03d $((left_ms % 1000)))
  }"""
#: Forty-eight pieces of work, dealt out to the tasks, and then an exchange among all of them: the
#: run time comes from how many there are, and more than about eight no longer help.  How long a
#: piece takes is in a file, so that the same application can become slower.
PACE_S = 0.5
MOLDABLE = f"""\
#!/bin/bash
#SBATCH --job-name=moldable
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  pieces=$(((48 - SLURM_PROCID + SLURM_NTASKS - 1) / SLURM_NTASKS))
  sleep_until $((pieces * $(cat pace) + SLURM_NTASKS * 400))'
"""


class Site:
    """What an admin sets up beside Slurm, in one directory.

    directory: holds nimo.yaml, the store, the socket and the kill switch.
    cluster: a running cluster whose hooks are those of `tests.cluster.nimod.hooks_for(directory)`.
    """

    def __init__(self, directory: Path, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.nimod = Nimod(directory, cluster)
        self.set_pace(PACE_S)
        self.script = self.write_script("moldable.sh", MOLDABLE)

    def set_pace(self, seconds: float) -> None:
        """Make a piece of the moldable program's work take this long."""
        self.set_number("pace", round(1000 * seconds))

    def set_number(self, name: str, number: int) -> None:
        """Write a file that job scripts read as ``$(cat NAME)``: they run in its folder."""
        self.write_script(name, f"{number}\n")

    def write_script(self, name: str, text: str) -> Path:
        """Put a job script where every user can read it."""
        path = self.cluster.layout.work / name
        path.write_text(text)
        return path

    def run_nimod(self, mode: str = "enforce", **settings: Any) -> None:
        """Start nimod (anew) with these settings and wait until it has seen the cluster."""
        if self.cluster.processes.running("nimod"):
            self.nimod.stop()
        self._configure(mode, **settings)
        self.start_nimod()

    def start_nimod(self) -> None:
        """Start nimod with the settings that it has and wait until it has seen the cluster."""
        self.nimod.start()
        wait_until(self.watching, what="nimod to see the cluster")

    def read_settings(self, mode: str, **settings: Any) -> None:
        """Let the running nimod read its settings again, and wait until they hold."""
        self._configure(mode, **settings)
        self._hang_up()

    def _hang_up(self) -> None:
        """Let the running nimod read its settings and then its tables, and wait until it has."""
        before = self.status().loaded_s
        self.cluster.processes.signal("nimod", signal.SIGHUP)
        wait_until(lambda: self.status().loaded_s != before, what="nimod to read its tables")

    def _configure(self, mode: str, **settings: Any) -> None:
        self.nimod.configure({"mode": mode, "snapshot": {"interval_s": 1.0}, **settings})

    def restart_slurmctld(self) -> None:
        """Restart slurmctld and wait until it knows its nodes again, and nimod too."""
        self.cluster.restart("slurmctld")
        wait_until(self.idle, what="the nodes to be back")
        self.run_nimod("enforce")

    def idle(self) -> bool:
        """Tell whether all nodes are free; they are not for a moment after their jobs' end."""
        free = ("-h", "-N", "-p", "batch", "-t", "idle,planned", "-o", "%N")
        return len(self.cluster.run("sinfo", *free).stdout.split()) == self.cluster.settings.nodes

    def watching(self) -> bool:
        """Tell whether nimod has a view of the cluster."""
        return self.status().snapshot_age_s is not None

    def status(self) -> Status:
        """What nimod says of itself, as long as a busy machine takes for it."""
        return client.status(self.nimod.socket, timeout_s=LONGEST_WAIT_S)

    def settled(self) -> None:
        """Wait until nimod sees the cluster as it is: without what it promised to jobs before."""
        since = time.time() + PROMISED_S

        def fresh() -> bool:
            status = self.status()
            ages = (status.snapshot_age_s, status.outlook_age_s)
            return all(age is not None and time.time() - age > since for age in ages)

        wait_until(fresh, what="nimod to look at the cluster")

    def kill_nimod(self) -> None:
        """End nimod without a chance to tidy up."""
        self.cluster.processes.signal("nimod", signal.SIGKILL)

    def learn(self) -> None:
        """Ingest from the real sacct and fit; a nimod that runs has the new tables afterwards."""
        self.nimod.run("ingest")
        self.nimod.run("fit")
        if self.cluster.processes.running("nimod"):
            self._hang_up()

    def submit(self, *argv: str, script: Path | None = None) -> int:
        """``sbatch`` the moldable program (or another script) and give the job's id."""
        return self.cluster.sbatch(*argv, script or self.script)

    def run_and_learn(self, jobs: Iterable[tuple[Sequence[str], Path]], *, repeats: int) -> None:
        """Submit scripts with their options, so often; learn from the runs, and enforce.

        jobs: options of sbatch, and the script.
        """
        ids = [self.submit(*argv, script=one) for argv, one in jobs for _ in range(repeats)]
        self.cluster.wait(*ids, accounted=True)
        self.learn()
        self.run_nimod("enforce")

    def decided(self, *argv: str, script: Path | None = None) -> tuple[dict[str, str], DecisionRow]:
        """Submit a job; give it as scontrol shows it, and the decision about it."""
        since = time.time()
        job_id = self.submit(*argv, script=script)
        return self.cluster.job(job_id), self.decision(since_s=since)

    def node_count(self, job_id: int) -> int:
        """Node count of a job, waiting or running: both ends of its range are the same."""
        low, _, high = self.cluster.job(job_id)["NumNodes"].partition("-")
        assert high in ("", low), f"job {job_id} has a range of {low} to {high} nodes"
        return int(low)

    def decision(self, *, since_s: float, name: str | None = None) -> DecisionRow:
        """Give the one decision made after `since_s`, or the one about a job of that name.

        A hook that has it ready only informs nimod: sbatch may end before it is written.
        """

        def about() -> list[DecisionRow]:
            return [d for d in self.made(since_s) if name in (None, d.name)]

        wait_until(about, what="a decision")
        (result,) = about()
        return result

    def made(self, since_s: float) -> list[DecisionRow]:
        """All decisions made after `since_s`, oldest first, as soon as they are written.

        They are written in batches, and counted as waiting until then: none is on its way when
        none waits.
        """
        wait_until(lambda: self.status().decisions_pending == 0, what="decisions to be written")
        return [d for d, _ in self.decisions() if d.at_s >= since_s]

    def decisions(self) -> list[tuple[DecisionRow, RunRow | None]]:
        """All decisions, oldest first, each with its outcome where it is known."""
        with Store.open(self.nimod.store) as store:
            return sorted(store.decisions.with_outcomes(), key=lambda pair: pair[0].at_s)

    def outcome(self, decision: DecisionRow) -> RunRow | None:
        """Ingest, and give the run that came of a decision."""
        self.nimod.run("ingest")
        return {d.decision_id: run for d, run in self.decisions()}[decision.decision_id]

    def advise(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``nimo-advise``."""
        return self.cluster.run("nimo-advise", *argv, check=check)

    def empty_queue(self) -> None:
        """Cancel all jobs and wait until they are gone."""
        ids = self.cluster.run("squeue", "-h", "-o", "%A").stdout.split()
        self.cluster.run("scancel", "--me")
        self.cluster.wait(*map(int, ids))
        self.cluster.wait_for_nodes(self.idle)


@contextmanager
def site_on(slurm_cluster: ClusterFactory, *, hooks: bool = True, **options: Any) -> Iterator[Site]:
    """Run a site of one's own for a while.

    hooks: whether its Slurm asks nimod.
    options: of `SlurmCluster`.
    """
    with scratch_directory("nimo-site-") as directory:
        lua = hooks_for(directory) if hooks else None
        with slurm_cluster(lua=lua, **options) as cluster:
            yield Site(directory, cluster)
