"""The job that an application's runs usually were: the request that a page of it advises on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from predictor.application.request import usual
from predictor.job_table import part_for
from predictor.prediction_table import PredictionTable
from sacct_ingest.records import Component
from sacct_ingest.runs.layout import Layout, Unit, layouts_of_run
from sacct_ingest.scripts.job_script import CommandLine
from sacct_ingest.store import RunRow
from sacct_ingest.text.durations import slurm_time
from slurm_plugin.decision.other_layouts import layout_options
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.footprint import memory_bytes
from slurm_plugin.slurm.job_request import JobFields, Submitter, job_fields, make_job

_Value = TypeVar("_Value")
_MIB = 2**20
#: A batch job; what its script says the store does not have.
_SCRIPT = "#!/bin/sh\n"


class UsualJob(NamedTuple):
    """What runs asked for, as options of sbatch, and one of the runs that asked for it."""

    options: dict[str, str]
    run: RunRow
    components: tuple[dict[str, str], ...] = ()  #: of a heterogeneous job, behind the first
    user: str = ""  #: who would submit it; empty: whose run it is

    @property
    def words(self) -> str:
        """The options as they are typed."""
        every = (self.options, *self.components)
        typed = (" ".join(f"--{name}={value}" for name, value in one.items()) for one in every)
        return " : ".join(typed)

    def fields(self) -> JobFields:
        """Fields of such a job's request."""
        run = self.run
        tag = self.run.tag.split("/")[1:]
        options: dict[str, str | None] = {**self.options}
        if tag:
            words = [f"app={tag[0]}", *(f"problem={one}" for one in tag[1:])]
            options["comment"] = f"nimo:{','.join(words)}"
        submitter = Submitter(self.user or run.user, None, run.work_dir)
        line = CommandLine("sbatch", options, components=self.components)
        fields = job_fields(line, _SCRIPT, submitter, now_s=0.0)
        return fields | {"name": run.name, "inputs": run.inputs or ""}


def usual_job(table: PredictionTable, runs: Sequence[RunRow]) -> UsualJob | None:
    """Find the job that runs usually were; None: none of them has finished.

    Of the runs on the count that most were asked for on, what most of them asked for, or the newest
    of as many.

    runs: the latest ones of the table, the newest last.
    """
    own = usual(table)
    if own is None or not runs:
        return None
    alike = [row for row in runs if _asked(row, table.unit) == own.nodes] or list(runs)
    newest = alike[-1]
    layout = table.layout
    if table.parts:
        part = part_for(table, layouts_of_run(newest), lambda: newest.attributes)
        layout = part.layout if part else layout
    sizes = [_component_size(one) for one in newest.components]
    options = sizes[0] if sizes else _size(layout, table.unit, own.nodes, alike)
    if limit_s := _most(filter(None, (row.asked_limit_s or row.limit_s for row in alike))):
        options["time"] = slurm_time(limit_s)
    mem_mib = _most(filter(None, map(_node_mib, alike)))
    if mem_mib and not sizes:
        options["mem"] = f"{mem_mib}M"
    for name in ("partition", "account"):
        if value := _most(getattr(row, name) for row in alike):
            options[name] = value
    said = {name: value for name, value in options.items() if name in ("time", "partition")}
    return UsualJob(options, newest, tuple({**one, **said} for one in sizes[1:]))


def without_default_memory(usual: UsualJob, cluster: Cluster) -> UsualJob:
    """Leave out memory that Slurm gives a job which asks for none.

    The accounting has the same figure for a job that asks for so much and for one that does not.
    """
    rules = cluster.partitions.get(usual.options.get("partition") or cluster.default_partition)
    memory = usual.options.get("mem")
    if rules is None or memory is None:
        return usual
    options = {name: value for name, value in usual.options.items() if name != "mem"}
    asks_none = usual._replace(options=options)
    given_bytes = memory_bytes(make_job(asks_none.fields()), rules) or rules.node_mem_bytes
    if given_bytes is None or memory != f"{-(-given_bytes // _MIB)}M":
        return usual
    return asks_none


def _component_size(component: Component) -> dict[str, str]:
    """Give the options for what a component of a heterogeneous job had."""
    nodes = max(component.nodes, 1)
    options = {"nodes": str(nodes)}
    cpus = component.req_cpus or component.cpus
    if cpus > nodes:
        options["ntasks-per-node"] = str(cpus // nodes)
    if component.gpus:
        options["gpus-per-node"] = str(component.gpus // nodes)
    return options


def _asked(row: RunRow, unit: Unit) -> int:
    """Size that a run asked for: NIMO may have changed it."""
    return row.asked_size if row.asked_size and row.asked_unit == unit else unit.size_of(row)


def _node_mib(row: RunRow) -> int:
    """Memory that a run asked for on each node, MiB; 0: not known."""
    return -(-(row.req_mem_bytes or 0) // (_MIB * max(row.nodes, 1)))


def _most(values: Iterable[_Value]) -> _Value | None:
    """Find the most frequent value, the last of as many; None: there is none."""
    listed = list(values)[::-1]
    return Counter(listed).most_common(1)[0][0] if listed else None


def _size(layout: Layout, unit: Unit, size: int, runs: Sequence[RunRow]) -> dict[str, str]:
    """Give the options for a size with this layout; a range of nodes where runs asked for one."""
    if layout.in_all:
        counts = {"ntasks": layout.tasks, "gpus": layout.gpus or 0}
        options = {"nodes": str(size)} | {name: str(n) for name, n in counts.items() if n}
    else:
        words = layout_options(layout, unit, size).split()
        options = dict(one.removeprefix("--").split("=", 1) for one in words)
    if not options:
        options = {"nodes": str(runs[-1].nodes), "ntasks": str(size)}
        if unit is Unit.GPUS:
            options = {"gpus": str(size)}
    ends = _most((row.asked_low or 0, row.asked_high or 0) for row in runs)
    if unit is Unit.NODES and ends and 0 < ends[0] < ends[1]:
        options["nodes"] = f"{ends[0]}-{ends[1]}"
    return options
