"""From one type of node to another: how run time changes, by which reasoning, and how surely.

Each of :data:`WAYS` gives the log of run time on the target type over that on the reference type.
Which is believed is decided by leaving node types out: each type that was observed is predicted
without its own runs.  What a way was off by there is what it is believed to be off by on the next
type; with few types, a prior counts, too.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable, need_nodes
from predictor.node_types.product_form import ProductFit, ProductForm, Sums, TooFewObservations
from predictor.occupancy.application_model import occupancies

Floats = NDArray[np.float64]
#: How many left-out types the prior of a way counts as.
PRIOR_WEIGHT = 0.3
#: Share of what a way is off by that differs between node counts, and how far apart these are (in
#: log nodes) before they say nothing of each other.
_SHAPE, _LENGTH = 0.25, 1.0
#: A gigabyte for a job of unknown data flow: it cancels in a ratio of times.
_ANY_BYTES = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeEvidence:
    """Data of an application besides its run times on the reference type.

    reference: the node type that others are compared with.
    figures: amounts of the resources of each node type.
    utilisation: pairs of node count and share of the CPU time that was used there, on the reference
        type.
    sums: aprof's sums by node type and form.
    tasks_node: tasks on each node.
    load: usual size of the problem, as tags have it; None: they name none.
    """

    reference: str
    figures: Mapping[str, Mapping[str, float]]
    utilisation: Sequence[tuple[int, float]] = ()
    sums: Mapping[str, Mapping[str, Sums]] = field(default_factory=dict)
    tasks_node: float = 1.0
    load: float | None = None

    def amount(self, node_type: str, resource: str) -> float | None:
        """Amount of a resource on each node of a type, where it was measured."""
        return self.figures.get(node_type, {}).get(resource)


@dataclass(frozen=True, slots=True)
class ObservedRatios:
    """Log run times on a type over those predicted for the reference, with their variance."""

    nodes: tuple[int, ...]
    log_ratio: tuple[float, ...]
    variance: tuple[float, ...]


#: Log of the run time on the target over that on the reference, at node counts, without looking at
#: runs on the types left out; None where the way gives none.
Way = Callable[[TypeEvidence, str, Collection[str], Sequence[int]], Floats | None]


def _unchanged(
    _: TypeEvidence, __: str, ___: Collection[str], nodes: Sequence[int]
) -> Floats | None:
    """Ask nothing: all types are alike."""
    return np.zeros(len(nodes))


def _scaled(
    resource: str, evidence: TypeEvidence, target: str, _: Collection[str], nodes: Sequence[int]
) -> Floats | None:
    """Everything goes as fast as this resource does."""
    here = evidence.amount(evidence.reference, resource)
    there = evidence.amount(target, resource)
    return None if not here or not there else np.full(len(nodes), log(here / there))


def _meant(
    resources: Sequence[str],
    evidence: TypeEvidence,
    target: str,
    without: Collection[str],
    nodes: Sequence[int],
) -> Floats | None:
    """Run time goes with the mean of what these resources say: Lotaru.

    J. Bader, F. Lehmann, L. Thamsen, U. Leser, O. Kao, *Lotaru: Locally predicting workflow task
    runtimes for resource management on heterogeneous infrastructures*, Future Generation Computer
    Systems 150, 2024.  No program is like the one that measures a resource.
    """
    each = [_scaled(resource, evidence, target, without, nodes) for resource in resources]
    ratios = [np.exp(logs) for logs in each if logs is not None]
    return np.log(np.mean(ratios, axis=0)) if len(ratios) == len(resources) else None


def _occupied(
    stall: str, evidence: TypeEvidence, target: str, without: Collection[str], nodes: Sequence[int]
) -> Floats | None:
    """NIMO: compute occupancy goes with the CPU, stalls with another resource or not at all."""
    compute = _scaled("cpu", evidence, target, without, [1])
    stalls = _scaled(stall, evidence, target, without, [1]) if stall else np.zeros(1)
    if compute is None or stalls is None or not evidence.utilisation:
        return None
    counts, shares = zip(*sorted(evidence.utilisation), strict=True)
    used = np.interp(np.log(nodes), np.log(counts), shares)
    times = []
    for share in used:
        own = occupancies(float(share), 1.0, _ANY_BYTES)
        stalled_s = (own.network_s + own.disk_s) * np.exp(stalls[0])
        times.append(own.data_bytes * (own.compute_s * np.exp(compute[0]) + stalled_s))
    ratio: Floats = np.log(np.array(times))
    return ratio


def _product(
    form: str, evidence: TypeEvidence, target: str, without: Collection[str], nodes: Sequence[int]
) -> Floats | None:
    """Ask aprof: its product form, fitted to all other types' runs."""
    fit = _fitted(form, evidence, without)
    if fit is None:
        return None
    of_job = {"tasks": evidence.tasks_node}
    if evidence.load is not None:
        of_job["load"] = evidence.load
    try:
        times = [
            [fit.predict({**figures, **of_job, "nodes": float(n)}).time_s for n in nodes]
            for figures in (evidence.figures.get(k, {}) for k in (target, evidence.reference))
        ]
    except ValueError:
        return None
    over, under = np.log(np.array(times))
    ratio: Floats = over - under
    return ratio


def _fitted(form: str, evidence: TypeEvidence, without: Collection[str]) -> ProductFit | None:
    """Fit a form to the sums of all types but some; None where these are all alike."""
    given = {
        kind: sums[form]
        for kind, sums in evidence.sums.items()
        if kind not in without and form in sums
    }
    if len(given) < 2:
        return None
    merged, *others = given.values()
    for one in others:
        merged = merged.merge(one)
    try:
        return ProductForm().fit(merged)
    except TooFewObservations:
        return None


#: Ways by name, each with what it is believed to be off by (standard deviation of log time) before
#: any data.
WAYS: dict[str, tuple[Way, float]] = {
    "CPU and disk": (partial(_meant, ("cpu", "disk")), 0.20),
    "occupancy": (partial(_occupied, ""), 0.25),
    "occupancy, disk": (partial(_occupied, "disk"), 0.35),
    "occupancy, network": (partial(_occupied, "network"), 0.35),
    "aprof": (partial(_product, "cpu"), 0.25),
    "aprof, tasks": (partial(_product, "cpu_tasks"), 0.30),
    "aprof, load": (partial(_product, "load"), 0.25),
    "aprof, memory": (partial(_product, "memory"), 0.30),
    "aprof, CPU and memory": (partial(_product, "cpu_memory"), 0.30),
    "aprof, CPU and network": (partial(_product, "cpu_network"), 0.30),
    "CPU speed": (partial(_scaled, "cpu"), 0.30),
    "memory speed": (partial(_scaled, "memory"), 0.40),
    "unchanged": (_unchanged, 0.60),
}


@dataclass(frozen=True, slots=True)
class Believed:
    """The way that is believed; ``off`` is what it is off by on a new type (log time).

    ``left_out`` counts the types on which that was seen, ``observed_error`` is what it was there.
    """

    name: str
    way: Way
    off: float
    left_out: int
    observed_error: float | None


def believe(
    evidence: TypeEvidence, observed: Mapping[str, ObservedRatios], target: str
) -> Believed:
    """Choose the way that was off least where node types were left out; for ``target``."""
    judged = [
        _judged(name, way, prior, evidence, observed)
        for name, (way, prior) in WAYS.items()
        if way(evidence, target, (), [1]) is not None
    ]
    return min(judged, key=lambda one: comparable(one.off))


def _judged(
    name: str,
    way: Way,
    prior: float,
    evidence: TypeEvidence,
    observed: Mapping[str, ObservedRatios],
) -> Believed:
    squares = []
    for left_out, one in observed.items():
        said = way(evidence, left_out, (left_out,), one.nodes)
        if said is not None:
            squares.append(float(np.mean((np.array(one.log_ratio) - said) ** 2)))
    total = PRIOR_WEIGHT * prior**2 + sum(squares)
    off = sqrt(total / (PRIOR_WEIGHT + len(squares)))
    error = sqrt(sum(squares) / len(squares)) if squares else None
    return Believed(name, way, off, len(squares), error)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Log of run time on a type over that on the reference, with its standard deviation."""

    mean: Floats
    sd: Floats
    press: float | None  #: root mean square, each observation predicted from the others


def ratio_at(
    believed: Believed,
    evidence: TypeEvidence,
    target: str,
    own: ObservedRatios | None,
    nodes: Sequence[int],
) -> Ratio:
    """Log ratio at node counts: what is believed, corrected by the runs on the target itself.

    The way is off by something that most node counts share (a Gaussian process of log nodes):
    without a run there all of ``believed.off`` is open, with every run less.
    """
    need_nodes(nodes)
    mean = _said(believed, evidence, target, nodes)
    if own is None or not own.nodes:
        return Ratio(mean, np.full(len(nodes), believed.off), None)
    inverse = np.linalg.inv(_kernel(own.nodes, own.nodes, believed.off) + np.diag(own.variance))
    cross = _kernel(nodes, own.nodes, believed.off)
    rest = np.array(own.log_ratio) - _said(believed, evidence, target, own.nodes)
    variance = believed.off**2 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    sd = np.sqrt(np.maximum(variance, 0.0))
    # What is believed may have been learned from these very runs: not so where it is judged.
    held_out = np.array(own.log_ratio) - _said(believed, evidence, target, own.nodes, (target,))
    # Leaving one out needs no other fit (Rasmussen and Williams 2006, equation 5.12).
    press = (inverse @ held_out) / np.diag(inverse)
    return Ratio(mean + cross @ (inverse @ rest), sd, sqrt(float(np.mean(press**2))))


def _said(
    believed: Believed,
    evidence: TypeEvidence,
    target: str,
    nodes: Sequence[int],
    without: Collection[str] = (),
) -> Floats:
    said = believed.way(evidence, target, without, nodes)
    return np.zeros(len(nodes)) if said is None else said


def _kernel(one: Sequence[int], other: Sequence[int], off: float) -> Floats:
    apart = np.log(np.array(one, float))[:, None] - np.log(np.array(other, float))[None, :]
    near = np.exp(-0.5 * (apart / _LENGTH) ** 2)
    kernel: Floats = off**2 * ((1 - _SHAPE) + _SHAPE * near)
    return kernel
