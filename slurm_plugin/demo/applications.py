"""The applications of the made-up cluster: what their run times truly are.

The truth is Amdahl's law with a communication term that grows with the logarithm of the node
count, which is what many MPI codes show; noise is log-normal.
"""

import math
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Application:
    """One application on one problem, and how its users run it.

    ``nodes`` maps each node count in use to how often it is chosen, relative to the others.
    """

    name: str  #: the job's name
    user: str
    command: str  #: script and arguments, or what srun runs
    nodes: dict[int, float]
    work_s: float  #: perfectly parallel part on one node
    serial_s: float = 30.0
    comm_s: float = 0.0  #: added for each doubling of the node count
    noise: float = 0.03  #: standard deviation of log run time
    limit_min: int = 720
    per_day: float = 1.0
    trouble: float = 0.04  #: share of runs that fail, are cancelled, run out of memory …
    mem_gib: float = 60.0  #: of the whole job
    account: str = "physics"
    partition: str = "batch"
    comment: str = ""
    array: int = 0  #: tasks of one array, 0 for none
    script: tuple[str, ...] = ()  #: lines of the job script, for those that the demo submits
    script_nodes: str = ""  #: its --nodes
    script_min: int = 0  #: its --time

    @property
    def argv(self) -> list[str]:
        """Script and its arguments."""
        return self.command.split()

    def time_s(self, nodes: int) -> float:
        """Run time on ``nodes`` nodes in seconds, without noise."""
        return self.serial_s + self.work_s / nodes + self.comm_s * math.log2(nodes)

    def run_s(self, nodes: int, rng: Random) -> float:
        """Run time of one run on ``nodes`` nodes in seconds, with noise."""
        return self.time_s(nodes) * math.exp(rng.gauss(0.0, self.noise))


def applications(user: str) -> tuple[Application, ...]:
    """All applications of the made-up cluster; ``user`` owns those that the demo asks about."""
    return (*_of_user(user), *_of_others())


def _of_user(user: str) -> tuple[Application, ...]:
    return (
        Application(
            "wrf-d02", user, "wrf.sh d02", {1: 1, 2: 2, 4: 4, 8: 5, 16: 3}, 27_000,
            serial_s=150, comm_s=18, per_day=2.5, account="climate",
            script=("srun ./wrf.exe namelist.$1",), script_nodes="2-16", script_min=240,
        ),
        Application(
            "membrane", user, "membrane.sh", {1: 2, 2: 2, 3: 1, 4: 4, 6: 1, 8: 2}, 14_400,
            serial_s=40, comm_s=95, noise=0.05, per_day=2.0, account="biology",
            script=("srun gmx_mpi mdrun -s membrane.tpr -maxh 5",), script_nodes="1-8",
            script_min=300,
        ),
        Application(
            "capsid", user, "capsid.sh", {4: 1, 8: 2}, 96_000,
            comm_s=120, per_day=0.15, account="biology",
            script=("srun gmx_mpi mdrun -s capsid.tpr -maxh 11",), script_nodes="4-16",
            script_min=720,
        ),
    )  # fmt: skip


def _of_others() -> tuple[Application, ...]:
    return (
        Application(
            "motorbike", "lena", "foam.sh motorbike", {2: 1, 4: 2, 8: 2, 12: 1}, 40_000,
            serial_s=400, comm_s=60, noise=0.04, per_day=6.0, account="engineering",
        ),
        Application(
            "melt", "ravi", "lmp.sh in.melt", {1: 1, 2: 1, 4: 1, 8: 1, 16: 1, 32: 0.3}, 21_600,
            comm_s=8, per_day=5.0, comment="nimo:app=lammps,problem=melt",
        ),
        Application(
            "vasp relax", "chen", "relax.sh", {1: 2, 2: 3, 4: 1}, 9_000,
            comm_s=200, noise=0.6, per_day=12.0,
        ),
        Application(
            "ocean", "sofia", "ocean.sh --resolution 0.25", {2: 1, 4: 1, 8: 2, 16: 1}, 86_400,
            serial_s=300, comm_s=30, limit_min=480, per_day=4.0, account="climate",
        ),
        Application(
            "blast", "omar", "blast.sh", {1: 1}, 2_400,
            noise=0.25, per_day=0.8, array=24, limit_min=120, account="biology",
        ),
        Application(
            "tür | final,\tv2 (kopie)", "jürgen", "./run 'final v2.sh'", {1: 3, 2: 1}, 1_800,
            noise=0.3, partition="short", limit_min=60, trouble=0.2,
        ),
    )  # fmt: skip
