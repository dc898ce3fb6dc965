"""Other clusters of one slurmdbd among the places where a job may run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from predictor.forecasts.transfer_time import TransferTime, transfer_time
from predictor.types import Verdict
from sacct_ingest.records import Probe
from sacct_ingest.runs.input_sizes import from_text
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.config.setting_types import Objective
from slurm_plugin.decision.places import Choice, kinds_of_nodes, measure_of, partitions_of
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.slurm.cluster_state import Cluster, ClusterViews
from slurm_plugin.text.formatting import printable

_GB, _MB = 1e9, 1e6


def asked_clusters(
    others: ClusterViews, clusters: Sequence[str]
) -> tuple[dict[str, Cluster], dict[str, str]]:
    """Give the clusters to compare, and those that cannot be compared with the reason.

    clusters: those that the job names; none: all.
    """
    every = not clusters or "all" in clusters

    def asked(name: str) -> bool:
        return every or name in clusters

    views = {name: view for name, view in others.views.items() if asked(name)}
    return views, {name: why for name, why in others.silent.items() if asked(name)}


def seen_from_home(
    choice: Choice, there: Cluster, home: Cluster | None, case: Situation, *, names_partition: bool
) -> Choice:
    """Give a place of another cluster as it is seen from the job's own.

    home: the job's own cluster; None: it is not known.
    """
    is_typed = bool(choice.advice.node_type)
    is_unlike = home is None or _is_unlike_there(home, case, there, choice.partition)
    return replace(
        choice,
        cluster=there.name,
        default=not names_partition and choice.partition == there.default_partition,
        own=False,
        unlike=is_unlike and not is_typed,
        untried=not is_typed,
    )


def _is_unlike_there(home: Cluster, case: Situation, there: Cluster, partition: str) -> bool:
    """Whether a partition of another cluster has nodes of another kind than the job would get."""
    own = kinds_of_nodes(home, partitions_of(case))
    return not own or not kinds_of_nodes(there, [partition]) <= own


def best_of_each_kind(choices: Sequence[Choice], objective: Objective) -> list[Choice]:
    """Keep one place for each type of node of a cluster: many partitions have the same nodes.

    Where they are as good the one that a job comes to without naming it is kept.
    """
    best: dict[tuple[str, str], Choice] = {}
    measure = measure_of(choices, objective)
    for choice in sorted(choices, key=lambda one: (one.rank(measure), not one.default)):
        best.setdefault((choice.advice.node_type, choice.gpu_type), choice)
    return list(best.values())


def not_told_apart(advice: Advice) -> Advice:
    """Say of an advice for another cluster where its run times are not of its own nodes."""
    if advice.rows and not advice.node_type:
        name = printable(advice.cluster)
        text = f"Nobody measured the nodes of {name}: its run times are those of all runs."
        advice.place_text = " ".join(filter(None, (advice.place_text, text)))
    return advice


def of_one_cluster(name: str) -> str:
    """Say why a job is not advised on for another cluster: it names what is there alone.

    >>> of_one_cluster("oak")
    'dependencies, reservations, nodes and licences of oak are known there alone: ask on oak itself'
    """
    where = printable(name)
    known = f"dependencies, reservations, nodes and licences of {where} are known there alone"
    return f"{known}: ask on {where} itself"


def not_compared(silent: Mapping[str, str]) -> str:
    """Say which clusters are not compared.

    >>> not_compared({"oak": "no answer"})
    'Not compared: the cluster oak (no answer).'
    """
    which = ", ".join(f"{printable(name)} ({why})" for name, why in sorted(silent.items()))
    return f"Not compared: the cluster{'s' if len(silent) > 1 else ''} {which}."


def copying(
    inputs: str, link: Sequence[Probe], hosts: tuple[str, str], *, now_s: float
) -> TransferTime | None:
    """Predict how long a job's files take to another cluster; None: that is not known.

    inputs: their sizes, as `sacct_ingest.runs.input_sizes` has them; empty: not known.
    link: what was measured between the hosts through which they are copied.
    """
    size_bytes = _size_bytes(inputs)
    if not (size_bytes and link):
        return None
    made = transfer_time(link, size_bytes, *hosts, now_s=now_s)
    return None if made.verdict is Verdict.REFUSED else made


def after_copying(advice: Advice, copied: TransferTime) -> Advice:
    """Advice for a job that begins to wait once its files are copied."""
    rows = [
        replace(
            row,
            wait_s=_later(row.wait_s, copied.time_s),
            wait_low_s=_later(row.wait_low_s, copied.low_s),
            wait_high_s=_later(row.wait_high_s, copied.high_s),
            end_s=_later(row.end_s, copied.time_s),
            end_low_s=_later(row.end_low_s, copied.low_s),
            end_high_s=_later(row.end_high_s, copied.high_s),
        )
        for row in advice.rows
    ]
    return replace(advice, rows=rows)


def _later(moment_s: float | None, by_s: float) -> float | None:
    return None if moment_s is None else moment_s + by_s


def files_text(inputs: str, copied: TransferTime | None = None) -> str:
    """Say whether copying a job's files is counted in what another cluster would give.

    inputs: their sizes, as `sacct_ingest.runs.input_sizes` has them; empty: not known.
    copied: None: nothing was measured on the way.
    """
    size_bytes = _size_bytes(inputs)
    if not size_bytes:
        return "Its files and programs have to be there."
    files = f"Its input files ({_amount(size_bytes)}) have to be there"
    if copied is None:
        return f"{files}; copying is not counted, as nothing was measured on the way."
    took = f"{duration_text(copied.time_s)} ({duration_range(copied.low_s, copied.high_s)})"
    return f"{files}; copying takes {took}, which is counted."


def _size_bytes(inputs: str) -> int:
    """Bytes of input files; 0: not known, or there are none."""
    sizes = from_text(inputs) if inputs else None
    return sizes.bytes if sizes else 0


def _amount(size: int) -> str:
    """Write bytes as people say them.

    >>> _amount(3_200_000_000)
    '3.2 GB'
    """
    if size >= _GB:
        return f"{size / _GB:.3g} GB"
    return f"{max(size / _MB, 0.1):.3g} MB"
