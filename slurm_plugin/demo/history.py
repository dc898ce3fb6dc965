"""Two months of accounting of a made-up cluster: seeded, so that the same call gives the same.

Jobs arrive on working days more than at weekends, start in the order in which they came as soon
as enough nodes are free, and end as jobs do: completed, failed, cancelled, out of memory, at
their limit.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from sacct_ingest.records import JobState, StepRun

CLUSTER = "pine"
NODES = 32
CORES = 48
_DAY_S = 86_400
_FIRST_UID = 1001
_SHUFFLED_HOURS = (9, 10, 11, 13, 14, 15, 16, 17, 18, 20, 22, 2)
_TROUBLES = (JobState.FAILED, JobState.CANCELLED, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL)
_TROUBLE_WEIGHTS = (6, 4, 1, 1)


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


def newcomer(user: str) -> Application:
    """Give an application that never ran."""
    return Application(
        "heat", user, "heat.sh", {}, 4_800, serial_s=900, comm_s=60, trouble=0.0,
        script=("srun ./heat input.dat",), script_nodes="1-8", script_min=240,
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is submitted."""

    submit_s: int
    application: Application
    nodes: int
    array_task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeJob:
    """A job that ran on the made-up cluster, as its ``sacct`` prints it (`demo.sandbox`).

    Fields are named as those of the rows that `sacct_ingest` reads: benchmarks print these, too.
    """

    job_id: int
    submit_s: int
    state: JobState
    user: str
    uid: int
    name: str
    account: str
    partition: str
    start_s: int
    end_s: int
    elapsed_s: float
    limit_s: int | None
    nodes: int
    req_nodes: int
    cpus: int
    cpu_s: float | None
    node_list: str
    submit_line: str
    work_dir: str
    cluster: str = CLUSTER
    qos: str = "normal"
    eligible_s: int | None = None
    cancelled_by: str = ""
    exit_code: int = 0
    exit_signal: int = 0
    comment: str = ""
    admin_comment: str = ""
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    steps: tuple[StepRun, ...] = ()


def make_runs(
    applications: Sequence[Application], *, end_s: int, rng: Random, days: int = 60
) -> list[MadeJob]:
    """Make the jobs of ``days`` days that ended before ``end_s``, in the order of submission.

    applications: what the users of the cluster run.
    end_s: end of the history, seconds since the epoch.
    rng: the only source of chance.
    """
    arrivals = _arrivals(applications, end_s - days * _DAY_S, days, rng)
    uids = {user: _FIRST_UID + i for i, user in enumerate(sorted({a.user for a in applications}))}
    free = [0] * NODES
    runs = [
        start_run(
            arrival, job_id=1000 + i, uid=uids[arrival.application.user], free_s=free, rng=rng
        )
        for i, arrival in enumerate(arrivals)
    ]
    marked = (
        run
        if (task := arrival.array_task) is None
        else replace(run, array_job_id=run.job_id - task, array_task_id=task)
        for run, arrival in zip(runs, arrivals, strict=True)
    )
    return [run for run in marked if run.end_s < end_s]


def start_run(
    arrival: Arrival, *, job_id: int, uid: int, free_s: list[int], rng: Random
) -> MadeJob:
    """Place one job on the nodes that fall free first and run it to its end.

    ``free_s`` holds for each node when it falls free, and is updated.
    """
    application = arrival.application
    nodes = arrival.nodes
    submit_s = arrival.submit_s
    chosen = sorted(range(len(free_s)), key=free_s.__getitem__)[:nodes]
    start_s = max(submit_s + rng.randint(1, 4), free_s[chosen[-1]])
    state, elapsed_s = _ending(application, nodes, rng)
    for node in chosen:
        free_s[node] = start_s + elapsed_s
    tasks = f" --array=0-{application.array - 1}" if application.array else ""
    job = MadeJob(
        job_id=job_id,
        submit_s=submit_s,
        eligible_s=submit_s,
        state=state,
        cancelled_by=str(uid) if state is JobState.CANCELLED else "",
        exit_code=int(state is JobState.FAILED),
        exit_signal=9 if state is JobState.OUT_OF_MEMORY else 0,
        user=application.user,
        uid=uid,
        name=application.name,
        account=application.account,
        partition=application.partition,
        start_s=start_s,
        end_s=start_s + elapsed_s,
        elapsed_s=elapsed_s,
        limit_s=application.limit_min * 60,
        nodes=nodes,
        req_nodes=nodes,
        cpus=nodes * CORES,
        cpu_s=round(elapsed_s * nodes * CORES * 0.93),
        node_list=node_names(chosen),
        submit_line=f"sbatch -N {nodes}{tasks} {application.command}",
        work_dir=f"/scratch/{application.user}/{job_id}",
        comment=application.comment,
    )
    return replace(job, steps=_steps(job, application))


def node_names(indexes: Iterable[int]) -> str:
    """Slurm's short form of node indexes, ``pine[01-04,09]``."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    parts = [f"{a + 1:02}" if a == b else f"{a + 1:02}-{b + 1:02}" for a, b in ranges]
    single = len(parts) == 1 and "-" not in parts[0]
    return f"{CLUSTER}{parts[0]}" if single else f"{CLUSTER}[{','.join(parts)}]"


def _arrivals(
    applications: Sequence[Application], begin_s: int, days: int, rng: Random
) -> list[Arrival]:
    arrivals: list[Arrival] = []
    for application in applications:
        for day in range(days):
            # Counted from the end: the same seed makes the same history on every day of the week.
            weekend = (days - day) % 7 in (0, 1)
            mean = application.per_day * (0.4 if weekend else 1.24)
            # Poisson variate: unit-rate arrivals before the mean.
            count = 0
            at = rng.expovariate(1.0)
            while at < mean:
                count = count + 1
                at = at + rng.expovariate(1.0)
            for _ in range(count):
                submit_s = begin_s + day * _DAY_S + rng.choice(_SHUFFLED_HOURS) * 3600
                submit_s += rng.randrange(3600)
                counts = list(application.nodes)
                weights = list(application.nodes.values())
                nodes = rng.choices(counts, weights)[0]
                tasks = range(application.array) if application.array else (None,)
                arrivals += [Arrival(submit_s, application, nodes, task) for task in tasks]
    return sorted(arrivals, key=lambda arrival: arrival.submit_s)


def _ending(application: Application, nodes: int, rng: Random) -> tuple[JobState, int]:
    elapsed_s = application.run_s(nodes, rng)
    if rng.random() < application.trouble:
        state = rng.choices(_TROUBLES, _TROUBLE_WEIGHTS)[0]
        return state, max(1, round(elapsed_s * rng.random()))
    limit_s = application.limit_min * 60
    if elapsed_s > limit_s:
        return JobState.TIMEOUT, limit_s + rng.randint(0, 20)
    return JobState.COMPLETED, round(elapsed_s)


def _steps(run: MadeJob, application: Application) -> tuple[StepRun, ...]:
    """Make the batch step on the first node, and one step of the whole job."""
    rss = round(application.mem_gib * 2**30 / (run.nodes * CORES))
    batch = StepRun(
        step="batch",
        name="batch",
        state=run.state,
        nodes=1,
        tasks=1,
        cpus=CORES,
        start_s=run.start_s,
        end_s=run.end_s,
        elapsed_s=run.elapsed_s,
        cpu_s=2,
        disk_read_bytes=None,
        disk_write_bytes=None,
        mem_bytes=9 * 2**20,
    )
    tasks = run.nodes * CORES
    return batch, structs.replace(
        batch,
        step="0",
        name=application.command.split()[0].removesuffix(".sh"),
        nodes=run.nodes,
        tasks=tasks,
        cpus=tasks,
        cpu_s=run.cpu_s,
        mem_bytes=rss,
    )
