"""Samples of NIMO out of ingested runs: users' own jobs as data on an application.

NIMO "analyzes performance histories" (ICAC 2006); `nimo learn` makes runs of its own.  Attributes
of an ingested run are its node count, its CPUs on each node, and the benchmarks of its node type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from predictor.occupancy.samples import Sample, occupancies
from sacct_ingest.probes.agreement import type_profiles
from sacct_ingest.records import JobState, NodeProfile, StepRun
from sacct_ingest.runs.usage import Usage, usage

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow

#: Newest runs that are learned from.
MOST = 500
NODES, CPUS = "nodes", "cpus"


def history_samples(
    runs: Sequence[RunRow],
    steps: Mapping[int, Sequence[StepRun]],
    profiles: Iterable[NodeProfile] = (),
) -> list[Sample]:
    """Make samples of the newest runs that completed.

    Where most runs have their CPU time (or their bytes) in the accounting, those without are left
    out; where most have none, all count as busy (or as of one byte).  Figures of the nodes are
    attributes if all samples have them; what does not differ is none, but for the node count.

    runs: of one application, the newest last.
    steps: of each run.
    profiles: benchmarks of nodes.
    """
    done = [one for one in runs if one.state is JobState.COMPLETED and _is_whole(one)][-MOST:]
    used = [usage(one, steps.get(one.run_id, ())) for one in done]
    busy = _most([one.utilisation for one in used])
    counted = _most([one.data_bytes for one in used])
    figures = {one.node_type: one.values for one in type_profiles(profiles)}
    given = [
        (one, own)
        for one, own in zip(done, used, strict=True)
        if (own.utilisation or not busy) and (own.data_bytes or not counted)
    ]
    attributes = _attributes([one for one, _ in given], figures)
    return [
        _sample(mine, own, busy=busy, counted=counted)
        for mine, (_, own) in zip(attributes, given, strict=True)
    ]


def _is_whole(run: RunRow) -> bool:
    return run.elapsed_s > 0 and run.nodes > 0 and run.cpus > 0


def _most(values: Sequence[float | None]) -> bool:
    return 2 * sum(bool(one) for one in values) > len(values)


def _sample(mine: Mapping[str, float], own: Usage, *, busy: bool, counted: bool) -> Sample:
    parts = occupancies(
        (own.utilisation or 0.0) if busy else 1.0,
        own.elapsed_s,
        float(own.data_bytes or 0) if counted else 1.0,
    )
    return Sample(mine, parts)


def _attributes(
    runs: Sequence[RunRow], figures: Mapping[str, Mapping[str, float]]
) -> list[dict[str, float]]:
    every = [
        {NODES: float(one.nodes), CPUS: one.cpus / one.nodes, **figures.get(one.node_type, {})}
        for one in runs
    ]
    names = set.intersection(*map(set, every)) if every else set()
    varying = [n for n in sorted(names) if n == NODES or len({one[n] for one in every}) > 1]
    return [{name: one[name] for name in varying} for one in every]
