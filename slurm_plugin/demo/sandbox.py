"""The folder of the demo: history, configuration, job scripts, stand-ins for Slurm's commands."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sacct_ingest.records import JobRun
from slurm_plugin.demo import stand_ins
from slurm_plugin.demo.history import CLUSTER, CORES, Application, applications, make_runs
from slurm_plugin.demo.stand_ins import sacct_text

HISTORY = "sacct.txt"


@dataclass(frozen=True, slots=True)
class DemoSite:
    """Paths of the demo's files."""

    folder: Path
    socket: Path

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "nimo.yaml"

    @property
    def store(self) -> Path:
        """The SQLite store."""
        return self.folder / "nimo.db"

    @property
    def stand_ins(self) -> Path:
        """Folder of the commands that stand in for squeue, sinfo and scontrol."""
        return self.folder / "bin"


def prepare(site: DemoSite, *, user: str, now_s: float, rng: Random) -> list[JobRun]:
    """Write all files of the demo anew and return the made-up runs.

    ``user`` owns the applications that the demo asks about.
    """
    site.folder.mkdir(parents=True, exist_ok=True)
    for old in site.folder.glob("nimo.db*"):
        old.unlink()
    demo_applications = applications(user)
    runs = make_runs(demo_applications, end_s=int(now_s), rng=rng)
    write_history(site, HISTORY, runs)
    site.config.write_text(
        f"cluster: {CLUSTER}\nstore: sqlite:///{site.store}\nsocket: {site.socket}\n"
        'mode: enforce\nopt_in: {proven: "on"}\nsnapshot: {source: text, interval_s: 0.5}\n'
    )
    stand_ins.write(site.stand_ins, now_s=now_s)
    for application in demo_applications:
        if application.script:
            (site.folder / application.argv[0]).write_text(job_script(application))
    return runs


def write_history(site: DemoSite, name: str, runs: Iterable[JobRun]) -> None:
    """Write runs to a file of the demo's folder as sacct would print them."""
    with (site.folder / name).open("w", encoding="utf-8") as file:
        file.writelines(sacct_text(runs))


def job_script(application: Application) -> str:
    """Text of the application's batch script, which leaves the node count open."""
    lines = (
        "#!/bin/bash",
        f"#SBATCH --job-name={application.name}",
        f"#SBATCH --nodes={application.script_nodes}",
        f"#SBATCH --ntasks-per-node={CORES}",
        f"#SBATCH --time={application.script_min}",
        f"#SBATCH --partition={application.partition}",
        *application.script,
    )
    return "\n".join(lines) + "\n"
