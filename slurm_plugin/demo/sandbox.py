"""The folder of the demo: history, configuration, job scripts, stand-ins for Slurm's commands."""

import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sacct_ingest.errors import NimoError, system_errors
from sacct_ingest.records import StepRun
from sacct_ingest.text.durations import slurm_time
from slurm_plugin.demo import history
from slurm_plugin.demo.history import MadeJob
from slurm_plugin.slurm import fields
from slurm_plugin.slurm.sources import SEPARATOR, line

_HOUR_S = 3600
_LONGEST_SOCKET = 108  #: bytes of a socket's path, with the zero at the end
#: Running jobs: nodes, and hours until their limit.
RUNNING = ((6, 13), (2, 20))
#: Waiting jobs: the nodes they ask for, and hours of their limits.
WAITING = ((28, 4), (30, 2), (30, 6))
_MEBIBYTES = 192_000
_CPUS = 48
#: Lines of ``scontrol show config``.
_SETTINGS = f"ClusterName = {history.CLUSTER}\nSLURM_VERSION = 26.05.5"
DELIMITER = "\x1f"
HISTORY = "sacct.txt"


def write_stand_ins(
    folder: Path, *, now_s: float, waiting: Sequence[tuple[int, int]] = WAITING
) -> None:
    """Write the stand-ins as commands into ``folder``; ``waiting`` are the jobs in the queue."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"squeue": squeue(int(now_s), waiting), "sinfo": sinfo(), "scontrol": partitions()}
    for name in ("sbatch", "sacct"):
        _write_command(folder / name, _acting(folder, name))
    _write_command(folder / "systemctl", _systemctl(folder))
    for name, text in texts.items():
        settings = (
            f"[ \"$*\" != 'show config' ] || {{ echo '{_SETTINGS}'; exit; }}\n"
            f"[ \"$1 $2\" != 'show job' ] || {_acting(folder, name)}"
        )
        # Of the jobs that users submit here none waits: they run at once.
        none_of_users = '[ -z "$SQUEUE_FORMAT" ] || exit 0\n'
        first = {"scontrol": settings, "squeue": none_of_users}.get(name, "")
        # What follows the last colon is the separator that squeue is asked for.
        separator = "${SQUEUE_FORMAT2##*:}"
        shown = f'sed "s/{SEPARATOR}/{separator}/g"' if name == "squeue" else "cat"
        _write_command(folder / name, f"{first}{shown} <<'END'\n{text}END\n")


def _write_command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def _acting(folder: Path, name: str) -> str:
    """Line of a shell that hands over to `slurm_plugin.demo.commands`."""
    code = "import sys; from slurm_plugin.demo.commands import main; "
    code += "sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))"
    words = [sys.executable, "-c", code, name, str(folder.parent)]
    return f'exec {shlex.join(words)} "$@"\n'


def _systemctl(folder: Path) -> str:
    """Lines of a shell: nimod of the demo reads its settings anew, all else is there already."""
    pid = shlex.quote(str(folder.parent / "nimod.pid"))
    return f'[ "$1" != reload ] || kill -HUP "$(cat {pid})"\n'


def squeue(now_s: int, waiting: Sequence[tuple[int, int]] = WAITING) -> str:
    """Text of ``squeue`` at ``now_s``, seconds since the epoch."""
    text = ""
    first = 0
    for nodes, hours in RUNNING:
        text += _job(
            State="RUNNING",
            NumNodes=nodes,
            StartTime=now_s - _HOUR_S,
            EndTime=now_s + hours * _HOUR_S,
            Reason="None",
            NodeList=history.node_names(range(first, first + nodes)),
        )
        first += nodes
    for nodes, hours in waiting:
        limit = f"{hours}:00:00"
        text += _job(
            State="PENDING", NumNodes=nodes, TimeLimit=limit, Reason="Resources", NodeList=""
        )
    return text


def sinfo() -> str:
    """Text of ``sinfo``: one line for each node and partition."""
    in_use = sum(nodes for nodes, _ in RUNNING)
    return "".join(
        _node(node, partition, used=node < in_use)
        for node in range(history.NODES)
        for partition in ("batch*", "short")
    )


def _job(**words: object) -> str:
    tres = f"cpu={_CPUS * int(str(words['NumNodes']))}"
    return line(fields.JOB, {"Partition": "batch", "tres-alloc": tres, **words})


def _node(node: int, partition: str, *, used: bool) -> str:
    words = {
        "NodeList": history.node_names([node]),
        "StateComplete": "allocated" if used else "idle",
        "CPUs": _CPUS,
        "CPUsState": f"{_CPUS}/0/0/{_CPUS}" if used else f"0/{_CPUS}/0/{_CPUS}",
        "Memory": _MEBIBYTES,
        "Partition": partition,
    }
    return line(fields.NODE, words)


def partitions() -> str:
    """Text of ``scontrol show partition -o``."""
    limits = (("batch", "YES", "2-00:00:00"), ("short", "NO", "02:00:00"))
    lines = [
        f"PartitionName={name} Default={default} DefaultTime=01:00:00 MaxNodes=UNLIMITED "
        f"MaxTime={longest} MinNodes=0 State=UP"
        for name, default, longest in limits
    ]
    return "".join(f"{line}\n" for line in lines)


def sacct_text(jobs: Iterable[MadeJob]) -> Iterator[str]:
    """Lines as ``SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter=`` *FS* prints them.

    The first line names the columns; each job is followed by its steps.
    """
    yield DELIMITER.join(_COLUMNS) + "\n"
    for job in jobs:
        yield _line(job, None)
        for step in job.steps:
            yield _line(job, step)


def _job_id(job: MadeJob) -> str:
    if job.het_job_id is not None:
        return f"{job.het_job_id}+{job.het_offset}"
    if job.array_job_id is not None:
        return f"{job.array_job_id}_{job.array_task_id}"
    return str(job.job_id)


def _state(job: MadeJob) -> str:
    return f"CANCELLED by {job.cancelled_by}" if job.cancelled_by else job.state.value


#: Column of sacct -> its text for a job, its text for a step of it.
_Columns = dict[str, tuple[Callable[[MadeJob], object], Callable[[MadeJob, StepRun], object]]]
_COLUMNS: _Columns = {
    "JobID": (_job_id, lambda j, s: f"{_job_id(j)}.{s.step}"),
    "JobIDRaw": (lambda j: j.job_id, lambda j, s: f"{j.job_id}.{s.step}"),
    "Cluster": (lambda j: j.cluster, lambda j, _: j.cluster),
    "User": (lambda j: j.user, lambda *_: ""),
    "UID": (lambda j: j.uid, lambda *_: ""),
    "Account": (lambda j: j.account, lambda j, _: j.account),
    "Partition": (lambda j: j.partition, lambda *_: ""),
    "QOS": (lambda j: j.qos, lambda *_: ""),
    "State": (_state, lambda _, s: s.state.value),
    "ExitCode": (lambda j: f"{j.exit_code}:{j.exit_signal}", lambda *_: "0:0"),
    "Submit": (lambda j: j.submit_s, lambda _, s: s.start_s),
    "Eligible": (lambda j: j.eligible_s, lambda _, s: s.start_s),
    "Start": (lambda j: j.start_s, lambda _, s: s.start_s),
    "End": (lambda j: j.end_s, lambda _, s: s.end_s),
    "ElapsedRaw": (lambda j: round(j.elapsed_s), lambda _, s: round(s.elapsed_s)),
    "TimelimitRaw": (lambda j: (j.limit_s or 0) // 60, lambda *_: ""),
    "NNodes": (lambda j: j.nodes, lambda _, s: s.nodes),
    "ReqNodes": (lambda j: j.req_nodes, lambda *_: ""),
    "NCPUS": (lambda j: j.cpus, lambda _, s: s.cpus),
    "NTasks": (lambda _: "", lambda _, s: s.tasks),
    "NodeList": (lambda j: j.node_list, lambda j, _: j.node_list),
    "TotalCPU": (lambda j: slurm_time(j.cpu_s or 0), lambda _, s: slurm_time(s.cpu_s or 0)),
    "MaxRSS": (lambda _: "", lambda _, s: f"{(s.mem_bytes or 0) // 1024}K"),
    "WorkDir": (lambda j: j.work_dir, lambda *_: ""),
    "SubmitLine": (lambda j: j.submit_line, lambda *_: ""),
    "Comment": (lambda j: j.comment, lambda *_: ""),
    "AdminComment": (lambda j: j.admin_comment, lambda *_: ""),
    "JobName": (lambda j: j.name, lambda _, s: s.name),
}


def _line(job: MadeJob, step: StepRun | None) -> str:
    fields = (
        of_job(job) if step is None else of_step(job, step) for of_job, of_step in _COLUMNS.values()
    )
    return DELIMITER.join(str(field) for field in fields) + "\n"


@dataclass(frozen=True, slots=True)
class DemoSite:
    """Paths of the demo's files."""

    folder: Path
    socket: Path

    @classmethod
    def of(cls, folder: Path) -> "DemoSite":
        """Site of a folder, whose socket has a path that is short enough for one (unix(7))."""
        socket = folder / "nimod.sock"
        if len(os.fsencode(socket)) >= _LONGEST_SOCKET:
            digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
            short = Path(tempfile.gettempdir(), f"nimo-demo-{os.getuid()}-{digest}")
            with system_errors(NimoError, short):
                short.mkdir(mode=0o700, exist_ok=True)
                if short.is_symlink() or short.stat().st_uid != os.getuid():
                    raise NimoError(f"{short}: another user's; choose a shorter --directory")
            socket = short / "nimod.sock"
        return cls(folder, socket)

    @property
    def pid(self) -> Path:
        """File with the process number of the nimod that is left running."""
        return self.folder / "nimod.pid"

    @property
    def log(self) -> Path:
        """What that nimod says."""
        return self.folder / "nimod.log"

    @property
    def environment(self) -> Path:
        """File for a shell to read: with it the tutorials' commands are about this cluster."""
        return self.folder / "env"

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


def prepare(site: DemoSite, *, user: str, now_s: float, rng: Random) -> list[MadeJob]:
    """Write all files of the demo anew and return the made-up jobs.

    ``user`` owns the applications that the demo asks about.
    """
    site.folder.mkdir(parents=True, exist_ok=True)
    for old in site.folder.glob("nimo.db*"):
        old.unlink()
    demo_applications = history.applications(user)
    runs = history.make_runs(demo_applications, end_s=int(now_s), rng=rng)
    write_history(site, HISTORY, runs)
    site.config.write_text(
        f"cluster: {history.CLUSTER}\nstore: sqlite:///{site.store}\nsocket: {site.socket}\n"
        'mode: enforce\nopt_in: {proven: "on"}\nsnapshot: {source: text, interval_s: 0.5}\n'
        "ingest: {window_days: 90}\n"
    )
    write_stand_ins(site.stand_ins, now_s=now_s)
    programs = Path(sys.executable).parent
    site.environment.write_text(
        f"export NIMO_CONFIG={shlex.quote(str(site.config))}\n"
        f"export SLURM_CONF_DIR={shlex.quote(str(site.folder / 'slurm'))}\n"
        f"export PATH={shlex.quote(f'{site.stand_ins}:{programs}')}:$PATH\n"
    )
    (site.folder / "slurm").mkdir(exist_ok=True)
    for application in (*demo_applications, history.newcomer(user)):
        if application.script:
            (site.folder / application.argv[0]).write_text(job_script(application))
    return runs


def write_history(site: DemoSite, name: str, jobs: Iterable[MadeJob]) -> None:
    """Write jobs to a file of the demo's folder as sacct would print them."""
    with (site.folder / name).open("w", encoding="utf-8") as file:
        file.writelines(sacct_text(jobs))


def job_script(application: history.Application) -> str:
    """Text of the application's batch script, which leaves the node count open."""
    lines = (
        "#!/bin/bash",
        f"#SBATCH --job-name={application.name}",
        f"#SBATCH --nodes={application.script_nodes}",
        f"#SBATCH --ntasks-per-node={history.CORES}",
        f"#SBATCH --time={application.script_min}",
        f"#SBATCH --partition={application.partition}",
        *application.script,
    )
    return "\n".join(lines) + "\n"
