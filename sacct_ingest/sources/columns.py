"""What each column of sacct means: one row a column and field.

To read another column, add a row here and a field to `JobRun` or `StepRun`.

Required is what identifies and times a job (`REQUIRED_VALUES`): a row where such a value cannot be
read is set aside.  All other values are optional: what cannot be read is unknown, and counted by
its column.  Each converter checks the unit of its column as far as one value shows it; what the
values of a row have to be to each other, `row_checks` says.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final

from sacct_ingest.records import JobState
from sacct_ingest.text import admin_comment, slurm_text

Converter = Callable[[str], Any]
_DAY_S: Final = 86_400
#: Words that Slurm shows in a state's place while a job goes on (JOB_STATE_FLAGS in its slurm.h).
_PASSING: Final = frozenset(
    (
        *("COMPLETING", "CONFIGURING", "EXPEDITING", "LAUNCH_FAILED", "POWER_UP_NODE"),
        *("RECONFIG_FAIL", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SIGNALING"),
        *("SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "UPDATE_DB"),
    )
)
#: What the name of GPUs of one type begins with.
_TYPED: Final = "gres/gpu:"
#: Columns without which a table says nothing of use.
REQUIRED: Final = ("JobID", "State", "Submit")
#: What identifies and times a job: without a value that can be read the row is set aside.
REQUIRED_VALUES: Final = frozenset(
    ("JobIDRaw", "JobID", "Cluster", "State", "Submit", "Start", "End", "ElapsedRaw", "Elapsed")
)


@dataclass(frozen=True, slots=True)
class Column:
    """One use of a column of sacct.

    ``job`` and ``step`` are the fields that it fills in the row of a job and of a step, empty for
    none.  Names with an underscore are for `runs_from_rows`, which makes other fields of them.
    """

    name: str
    convert: Converter
    job: str = ""
    step: str = ""


def text(value: str) -> str:
    """Text as it is."""
    return value


def count(value: str) -> int | None:
    """Whole number; None where sacct says nothing."""
    if value.lower() in slurm_text.NOTHING:
        return None
    number = slurm_text.whole_number(value)
    if number.isdecimal():
        return slurm_text.storable(int(number))
    # Counts without --noconvert have a letter: 2K tasks.
    if number[-1].isalpha():
        with suppress(ValueError):
            if (size := slurm_text.parse_size(number)) is not None:
                return size
    raise ValueError(f"not a count: {value!r}")


def counted(value: str) -> int:
    """Whole number; 0 where sacct says nothing."""
    return count(value) or 0


def seconds(value: str) -> float | None:
    """Duration in seconds."""
    return slurm_text.parse_duration(value) if value else None


def elapsed(value: str) -> float | None:
    """Duration in seconds; None where the accounting does not say."""
    if value.isdecimal():
        return slurm_text.possible_duration(float(value))
    return slurm_text.parse_duration(value)


def epoch(value: str) -> int | None:
    """Time in seconds since the epoch; Slurm's 0, in whatever time zone, is none."""
    seconds = slurm_text.parse_epoch(value)
    if seconds is None or abs(seconds) <= _DAY_S:
        return None
    return slurm_text.in_life(seconds)


def relative(value: str) -> int | None:
    """Time in seconds since some moment: a log that does not say when it began."""
    return slurm_text.storable(int(value)) if value else None


def limit_of_minutes(value: str) -> int | None:
    """Time limit in seconds from minutes."""
    number = slurm_text.whole_number(value)
    if number.isdecimal():
        return slurm_text.storable(int(number) * 60)
    if "." in number and ":" not in number:
        raise ValueError(f"not a number of minutes: {value!r}")
    return limit(value)


def memory_request(value: str) -> tuple[int, str] | None:
    """Bytes that were asked for, and of what."""
    return slurm_text.parse_memory_request(value)


def limit(value: str) -> int | None:
    """Time limit in seconds."""
    seconds = slurm_text.parse_duration(value)
    return None if seconds is None else round(seconds)


def state(value: str) -> JobState:
    """Read the base state, also out of ``CANCELLED by 1000`` and the cut ``OUT_OF_ME+``."""
    words = value.replace(",", " ").split()
    word = words[0] if words else ""
    if word in JobState.__members__:
        return JobState(word)
    if word in _PASSING:
        return JobState.UNKNOWN
    cut = word[:-1] if word.endswith("+") else ""
    states = [state for state in JobState if cut and state.startswith(cut)]
    if len(states) != 1:
        raise ValueError(f"not a state: {value!r}")
    return states[0]


def cancelled_by(value: str) -> str:
    """User id (or name) out of ``CANCELLED by 1000``."""
    return value.partition(" by ")[2]


def exit_code(value: str) -> int | None:
    """Exit code out of ``1:0``."""
    return count(value.partition(":")[0])


def exit_signal(value: str) -> int | None:
    """Signal out of ``0:9``."""
    return count(value.partition(":")[2])


def node_list(value: str) -> str:
    """Nodes; sacct says ``None assigned`` for a job that never started."""
    return "" if value == "None assigned" else value


def _tres_count(name: str, value: str) -> int | None:
    """Count of one resource out of a list of them; None where it has none."""
    return count(slurm_text.parse_tres(value).get(name, "")) if f"{name}=" in value else None


#: Bytes of all tasks out of TRESUsageInTot or TRESUsageOutTot.
disk_total = partial(_tres_count, "fs/disk")
#: CPUs out of ReqTRES.
requested_cpus = partial(_tres_count, "cpu")


def lustre_total(value: str) -> int | None:
    """Bytes of all tasks: acct_gather_filesystem/lustre counts in MiB."""
    mebibytes = _tres_count("fs/lustre", value)
    return None if mebibytes is None else slurm_text.storable(mebibytes << 20)


def network_total(value: str) -> int | None:
    """Bytes of all tasks over ``ic/ofed`` and ``ic/sysfs``."""
    if "ic/" not in value:
        return None
    counts = [
        count(text) for name, text in slurm_text.parse_tres(value).items() if name.startswith("ic/")
    ]
    counted = [bytes_ for bytes_ in counts if bytes_ is not None]
    return slurm_text.storable(sum(counted)) if counted else None


def gpus(value: str) -> int | None:
    """GPUs out of AllocTRES, all types together; None where it has none.

    Slurm lists ``gres/gpu`` beside ``gres/gpu:TYPE`` unless only types are accounted.
    """
    if "gres/gpu" not in value:
        return None
    listed = slurm_text.parse_tres(value)
    if "gres/gpu" in listed:
        return count(listed["gres/gpu"])
    typed = [counted(text) for name, text in listed.items() if name.startswith("gres/gpu:")]
    return slurm_text.storable(sum(typed)) if typed else None


def gpu_types(value: str) -> str:
    """GPUs of each type out of AllocTRES or ReqTRES, sorted; empty where it has no types.

    >>> gpu_types("cpu=8,gres/gpu:V100=1,gres/gpu:a100=3,gres/gpu=4")
    'a100=3,v100=1'
    """
    if _TYPED not in value:
        return ""
    typed = {
        name.removeprefix(_TYPED).lower(): counted(text)
        for name, text in slurm_text.parse_tres(value).items()
        if name.startswith(_TYPED)
    }
    return ",".join(f"{name}={number}" for name, number in sorted(typed.items()) if number)


def gpu_percent(value: str) -> float | None:
    """Highest use of GPUs, summed over tasks; 100 is one whole GPU (gres/gpuutil)."""
    used = _tres_count("gres/gpuutil", value)
    return None if used is None else float(used)


def gpu_memory(value: str) -> int | None:
    """Highest memory on GPUs in bytes, summed over tasks (gres/gpumem)."""
    return (
        slurm_text.parse_size(slurm_text.parse_tres(value).get("gres/gpumem", ""))
        if "gres/gpumem=" in value
        else None
    )


def energy(value: str) -> int | None:
    """Joules; None where the node says nothing."""
    return count(value) or None


#: Where several rows fill one field, the first whose column is there counts.
COLUMNS: Final = (
    Column("JobIDRaw", text, job="_raw_id"),
    Column("JobID", text, job="_id", step="_id"),
    Column("Cluster", text, job="cluster"),
    Column("User", text, job="user"),
    Column("UID", count, job="uid"),
    Column("Account", text, job="account"),
    Column("Partition", text, job="partition"),
    Column("QOS", text, job="qos"),
    Column("State", state, job="state", step="state"),
    Column("State", cancelled_by, job="cancelled_by"),
    Column("ExitCode", exit_code, job="exit_code"),
    Column("ExitCode", exit_signal, job="exit_signal"),
    Column("Submit", epoch, job="submit_s"),
    Column("Eligible", epoch, job="eligible_s"),
    Column("Start", epoch, job="start_s", step="start_s"),
    Column("End", epoch, job="end_s", step="end_s"),
    Column("TimelimitRaw", limit_of_minutes, job="limit_s"),
    Column("Timelimit", limit, job="limit_s"),
    Column("NNodes", counted, job="nodes", step="nodes"),
    Column("AllocNodes", counted, job="nodes", step="nodes"),
    Column("ReqNodes", count, job="req_nodes"),
    Column("NCPUS", counted, job="cpus", step="cpus"),
    Column("AllocCPUS", counted, job="cpus", step="cpus"),
    Column("NTasks", count, job="tasks", step="tasks"),
    Column("AllocTRES", gpus, job="gpus"),
    Column("AllocTRES", gpu_types, job="gpu_types"),
    Column("ReqTRES", gpus, job="gpus"),
    Column("ReqTRES", gpu_types, job="gpu_types"),
    Column("ReqTRES", gpus, job="req_gpus"),
    Column("ReqTRES", gpu_types, job="req_gpu_types"),
    Column("ReqCPUS", count, job="req_cpus"),
    Column("ReqTRES", requested_cpus, job="req_cpus"),
    Column("NodeList", node_list, job="node_list"),
    Column("ReqMem", memory_request, job="_req_mem"),
    Column("TotalCPU", seconds, job="cpu_s", step="cpu_s"),
    Column("MaxRSS", slurm_text.parse_size, job="mem_bytes", step="mem_bytes"),
    Column("TRESUsageInTot", disk_total, step="disk_read_bytes"),
    Column("TRESUsageOutTot", disk_total, step="disk_write_bytes"),
    Column("TRESUsageInTot", lustre_total, step="lustre_read_bytes"),
    Column("TRESUsageOutTot", lustre_total, step="lustre_write_bytes"),
    Column("TRESUsageInTot", network_total, step="net_in_bytes"),
    Column("TRESUsageOutTot", network_total, step="net_out_bytes"),
    Column("TRESUsageInTot", gpu_percent, step="gpu_percent"),
    Column("TRESUsageInTot", gpu_memory, step="gpu_mem_bytes"),
    Column("UserCPU", seconds, step="user_cpu_s"),
    Column("SystemCPU", seconds, step="system_cpu_s"),
    Column("ConsumedEnergyRaw", energy, step="energy_j"),
    Column("AveDiskRead", slurm_text.parse_size, step="_disk_read_mean"),
    Column("AveDiskWrite", slurm_text.parse_size, step="_disk_write_mean"),
    Column("AdminComment", text, job="admin_comment"),
    Column("AdminComment", admin_comment.measured_in, job="_measured"),
    Column("Reservation", text, job="reservation"),
    # From here on what users write: all else stands before it.
    Column("Constraints", text, job="constraints"),
    Column("SubmitLine", text, job="submit_line"),
    Column("WorkDir", text, job="work_dir"),
    Column("Comment", text, job="comment"),
    Column("JobName", text, job="name", step="name"),
    # Last: a number never holds a newline, so that where it stands the record ends.
    Column("ElapsedRaw", elapsed, job="elapsed_s", step="elapsed_s"),
    Column("Elapsed", elapsed, job="elapsed_s", step="elapsed_s"),
)  # fmt: skip


def names() -> list[str]:
    """Give the names of all columns, each once, in the order to ask for them."""
    return list(dict.fromkeys(column.name for column in COLUMNS))


def useful(offered: Collection[str]) -> list[str]:
    """Select the columns that fill a field, of several for one field the best that is offered."""
    used = {
        column.name for kind in ("job", "step") for column in best_columns(offered, kind).values()
    }
    return [name for name in names() if name in used]


def canonical_name(name: str) -> str:
    """Spell a column as the table does: sacct prints names as the user typed them."""
    return _SPELLED.get(name.strip().lower(), name.strip())


_SPELLED = {column.name.lower(): column.name for column in COLUMNS}


def best_columns(offered: Collection[str], kind: str) -> dict[str, Column]:
    """Choose the column of each field for the rows of ``kind``, of those that are offered."""
    chosen: dict[str, Column] = {}
    for column in COLUMNS:
        field = attrgetter(kind)(column)
        if field and column.name in offered:
            chosen.setdefault(field, column)
    return chosen
