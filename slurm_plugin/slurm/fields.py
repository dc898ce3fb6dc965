"""One table for each kind of record: field, Slurm's word in text, places in JSON, converter.

Text and JSON of all releases, and PySlurm's objects, go through the same rows and the same
:mod:`converters <slurm_plugin.slurm.converters>`, so that the same cluster gives the same records
from each source.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slurm_plugin.slurm import converters as to

_QUICK = frozenset({to.text, to.count, to.number, to.some_id})


@dataclass(frozen=True, slots=True)
class SlurmField:
    """Where a field of a record comes from."""

    name: str
    text: str  #: squeue's, sinfo's or scontrol's word
    json: tuple[str, ...]  #: first place that is there, ``a.b`` inside of ``a``
    read: Callable[[Any], Any]
    py: str = ""  #: attribute of PySlurm's object; empty: it has none
    by_user: bool = False  #: users write into it what they like


NODE = (
    SlurmField("name", "NodeList", ("name",), to.text, "name"),
    SlurmField("state", "StateComplete", ("state",), to.flags, "state"),
    SlurmField("cpus", "CPUs", ("cpus",), to.count, "total_cpus"),
    SlurmField("cpus_used", "CPUsState", ("alloc_cpus",), to.allocated, "allocated_cpus"),
    SlurmField("threads_core", "Threads", ("threads",), to.least, "threads_per_core"),
    SlurmField("mem_mib", "Memory", ("real_memory",), to.count, "real_memory"),
    SlurmField("mem_used_mib", "AllocMem", ("alloc_memory",), to.count, "allocated_memory"),
    SlurmField("gres", "Gres", ("gres",), to.gres, "configured_gres"),
    SlurmField("gpu_type", "Gres", ("gres",), to.gpu_type, "configured_gres"),
    SlurmField("gres_used", "GresUsed", ("gres_used",), to.gres, "allocated_gres"),
    SlurmField(
        "features", "Features", ("active_features", "features"), to.name_set, "active_features"
    ),
    SlurmField("partitions", "Partition", ("partitions",), to.words, "partitions"),
)
JOB = (
    SlurmField("jobs", "JobArrayID", ("array_task_string",), to.array_tasks, "array_tasks_waiting"),
    SlurmField("job_id", "JobID", ("job_id",), to.number, "id"),
    SlurmField("array_id", "ArrayJobID", ("array_job_id",), to.some_id, "array_id"),
    SlurmField(
        "tasks",
        "ArrayTaskID",
        ("array_task_string", "array_task_id"),
        to.indexes,
        "array_tasks_waiting",
    ),
    SlurmField(
        "at_once", "ArrayTaskID", ("array_task_string",), to.throttle, "array_tasks_waiting"
    ),
    SlurmField("het_id", "HetJobID", ("het_job_id",), to.some_id, "heterogeneous_id"),
    SlurmField("state", "State", ("job_state",), to.state, "state"),
    SlurmField("partitions", "Partition", ("partition",), to.words, "partition"),
    SlurmField("nodes", "NumNodes", ("node_count",), to.count, "num_nodes"),
    SlurmField("max_nodes", "MaxNodes", ("max_nodes",), to.some_id, "max_nodes"),
    SlurmField("start_s", "StartTime", ("start_time",), to.moment, "start_time"),
    SlurmField("end_s", "EndTime", ("end_time",), to.moment, "end_time"),
    SlurmField("reason", "Reason", ("state_reason",), to.reason, "state_reason"),
    SlurmField("reserved", "Reason", ("state_description",), to.is_reserved, "state_description"),
    SlurmField("planned_names", "SchedNodes", ("scheduled_nodes",), to.hosts, "scheduled_nodes"),
    SlurmField("tres", "tres-alloc", ("tres_alloc_str", "tres_req_str"), to.tres),
    SlurmField("licences", "Licenses", ("licenses",), to.licences, "licenses"),
    SlurmField("reservation", "Reservation", ("resv_name",), to.text, "reservation"),
    SlurmField("node_names", "NodeList", ("nodes",), to.hosts, "allocated_nodes"),
    SlurmField("alone", "OverSubscribe", ("shared",), to.is_alone, "resource_sharing"),
    # squeue(1) says AdminComment, which prints nothing on any release.
    SlurmField("admin_comment", "admin_comment", ("admin_comment",), to.text, "admin_comment"),
    SlurmField("priority", "PriorityLong", ("priority",), to.count, "priority"),
    SlurmField("submit_s", "SubmitTime", ("submit_time",), to.moment, "submit_time"),
    SlurmField("limit_s", "TimeLimit", ("time_limit",), to.minutes, "time_limit"),
    SlurmField("least_s", "MinTime", ("time_minimum",), to.some_minutes, "time_limit_min"),
    SlurmField("user", "UserName", ("user_name",), to.text, "user_name"),
    SlurmField("account", "Account", ("account",), to.text, "account"),
    SlurmField("qos", "QOS", ("qos",), to.text, "qos"),
    SlurmField("features", "Feature", ("features",), to.text),
    SlurmField("dependency", "Dependency", ("dependency",), to.text),
    SlurmField("name", "Name", ("name",), to.text, "name", by_user=True),
    SlurmField("comment", "Comment", ("comment",), to.text, "comment", by_user=True),
    SlurmField("command", "Command", ("command",), to.text, "command", by_user=True),
    SlurmField(
        "work_dir",
        "WorkDir",
        ("current_working_directory",),
        to.text,
        "working_directory",
        by_user=True,
    ),
)
#: Partitions, reservations and licences are few: their text is the same in all releases, where
#: JSON has them from 23.02 on only, and without the default partition before 25.05.
PARTITION = (
    SlurmField("name", "PartitionName", (), to.text),
    SlurmField("default", "Default", (), to.yes),
    SlurmField("up", "State", (), to.is_up),
    SlurmField("max_nodes", "MaxNodes", (), to.number),
    SlurmField("min_nodes", "MinNodes", (), to.least),
    SlurmField("max_time_s", "MaxTime", (), to.seconds),
    SlurmField("default_time_s", "DefaultTime", (), to.seconds),
    SlurmField("max_cpus_node", "MaxCPUsPerNode", (), to.number),
    SlurmField("mem_cpu_mib", "DefMemPerCPU", (), to.number),
    SlurmField("mem_node_mib", "DefMemPerNode", (), to.number),
    SlurmField("max_mem_cpu_mib", "MaxMemPerCPU", (), to.number),
    SlurmField("max_mem_node_mib", "MaxMemPerNode", (), to.number),
    SlurmField("exclusive", "OverSubscribe", (), to.is_exclusive),
    SlurmField("exclusive", "Exclusive", (), to.takes_nodes),  # since 26.05
    SlurmField("qos", "QoS", (), to.text),
    SlurmField("tier", "PriorityTier", (), to.count),
    SlurmField("groups", "AllowGroups", (), to.some),
    SlurmField("accounts", "AllowAccounts", (), to.some),
    SlurmField("denied_accounts", "DenyAccounts", (), to.name_set),
    SlurmField("allowed_qos", "AllowQos", (), to.some),
    SlurmField("denied_qos", "DenyQos", (), to.name_set),
)
RESERVATION = (
    SlurmField("name", "ReservationName", (), to.text),
    SlurmField("start_s", "StartTime", (), to.moment),
    SlurmField("end_s", "EndTime", (), to.moment),
    SlurmField("node_names", "Nodes", (), to.hosts),
    SlurmField("flags", "Flags", (), to.name_set),
)


def read(fields: Iterable[SlurmField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record from Slurm's words and what it says for them; missing ones stay out."""
    record: dict[str, Any] = {}
    for field in fields:
        if field.text in values:
            value = _converted(field.read, values[field.text])
            record[field.name] = record.get(field.name, False) or value
    return record


def words_reader(fields: Sequence[SlurmField]) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Make a reader of records: fields from as many words, in their order; none comes twice.

    A look at a large cluster reads more than a million of them, most of them again and again: each
    word is converted once.

    The reader raises :exc:`ValueError` where words are missing, or one cannot be read.
    """
    names = [field.name for field in fields]
    readers = [
        field.read if field.read in _QUICK else lru_cache(maxsize=None)(field.read)
        for field in fields
    ]

    def read(words: Sequence[str]) -> dict[str, Any]:
        values = [reader(word) for reader, word in zip(readers, words, strict=True)]
        return dict(zip(names, values, strict=True))

    return read


def read_json(fields: Iterable[SlurmField], item: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record from an object of JSON."""
    values: dict[str, Any] = {}
    for field in fields:
        value = next((item[place] for place in field.json if item.get(place)), None)
        if value is not None:
            values[field.name] = _converted(field.read, value)
    return values


def _converted(reader: Callable[[Any], Any], value: Any) -> Any:
    """Value of a field; the same text over and over is read once, where reading takes long."""
    if reader in _QUICK or not isinstance(value, str):
        return reader(value)
    return _from_text(reader, value)


@lru_cache(maxsize=16_384)
def _from_text(reader: Callable[[Any], Any], value: str) -> Any:
    return reader(value)


def read_object(fields: Iterable[SlurmField], item: Any) -> dict[str, Any]:
    """Fields of a record from an object of PySlurm."""
    values = ((field, getattr(item, field.py, None)) for field in fields if field.py)
    return {field.name: field.read(value) for field, value in values if value}
