"""aprof's sums over the runs of each application on each node type: how they grow.

HᵀH and Hᵀx of the product form (:mod:`predictor.node_types.product_form`) are stored for each of
:data:`FORMS`.  Sums of several node types, or hosts, are merged where they are used.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from predictor.node_types.product_form import Sums
from predictor.node_types.recognition import NodeType, NodeTypes
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.submission import SIZE
from sacct_ingest.store import Store
from sacct_ingest.store.rows import Contribution, RunRow

#: Resources of each form.  Which form is believed is decided where node types are left out.
FORMS: dict[str, tuple[str, ...]] = {
    "nodes": ("nodes",),
    "cpu": ("nodes", "cpu"),
    "memory": ("nodes", "memory"),
    "cpu_tasks": ("nodes", "tasks", "cpu"),
    "cpu_memory": ("nodes", "cpu", "memory"),
    "cpu_network": ("nodes", "cpu", "network"),
    "load": ("nodes", "cpu", "load"),
}

#: What a contribution has from its run as it is.
_OF_RUN = ("cluster", "submit_s", "job_id", "digest", "tag", "script", "line", "nodes")
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(Sums).decode
_figures = msgspec.json.Decoder(dict[str, float]).decode


def basis_of(node_type: NodeType) -> str:
    """Digest of a node type with its figures: what a contribution is made of."""
    return blake2b(_encode([node_type.name, node_type.figures]), digest_size=16).hexdigest()


def contribution_of(run: RunRow, types: NodeTypes) -> Contribution:
    """Tell what a run adds to the sums of its application; nothing if it did not complete."""
    node_type = types.types.get(types.of_run(run.cluster, run.node_list, run.partition))
    return Contribution(
        **{name: getattr(run, name) for name in _OF_RUN},
        basis=basis_of(node_type) if node_type else "",
        node_type=node_type.name if node_type else "",
        tasks_node=(run.tasks or run.nodes) / run.nodes,
        time_s=float(run.elapsed_s) if run.state == JobState.COMPLETED else 0.0,
        figures=_encode({**node_type.figures, **_load(run)}).decode() if node_type else "",
    )


def _load(run: RunRow) -> dict[str, float]:
    """Give the load that a run's tag names, its ``size`` (section 2.3); nothing without one."""
    return {"load": run.numbers[SIZE]} if SIZE in run.numbers else {}


def fold(
    text: str, form: str, added: Iterable[Contribution], removed: Iterable[Contribution]
) -> str:
    """Text of sums after runs came in and went out; empty where no run is left in them."""
    sums = decode(text) if text else Sums.none(FORMS[form])
    sums = sums.add_all(_observed(form, added)).add_all(_observed(form, removed), times=-1)
    return _encode(sums).decode() if sums.count > 0 else ""


def decode(text: str) -> Sums:
    """Read sums from the text that the store keeps."""
    return _decode(text)


def _observed(
    form: str, given: Iterable[Contribution]
) -> Sequence[tuple[Mapping[str, float], float]]:
    """Amounts and times of the runs to which a form applies: all its figures are there."""
    observations = []
    for one in given:
        amounts = _figures(one.figures) | {"nodes": float(one.nodes), "tasks": one.tasks_node}
        if all(name in amounts for name in FORMS[form]):
            observations.append((amounts, one.time_s))
    return observations


def node_types(store: Store) -> NodeTypes:
    """Give the node types of the profiles in a store."""
    profiles = store.profiles.latest()
    return NodeTypes.of(profiles, store.sums.partition_types()) if profiles else NodeTypes()


def add_runs(store: Store, types: NodeTypes) -> int:
    """Add the runs that are not in the sums, each once; gives how many came in or changed.

    Where it was stopped the next call goes on.

    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    if not types.types:
        return 0
    measured = {"nodes", "tasks"}.union(*(one.figures for one in types.types.values()))
    store.sums.fill([form for form, needed in FORMS.items() if measured.issuperset(needed)], fold)
    # Runs on nodes of unknown type are examined again: they have the empty basis.
    bases = [basis_of(one) for one in types.types.values()]
    return sum(
        store.sums.take([contribution_of(run, types) for run in runs], tuple(FORMS), fold)
        for runs in store.sums.unknown(bases)
    )


def texts(
    store: Store, level: KeyLevel, keys: Sequence[str]
) -> dict[str, dict[str, dict[str, str]]]:
    """Texts of the sums of some applications of this level: by key, node type and form."""
    by_key: dict[str, dict[str, dict[str, str]]] = {}
    for key, rows in store.sums.of_level(level, keys).items():
        for row in rows:
            by_key.setdefault(key, {}).setdefault(row.node_type, {})[row.form] = row.payload
    return by_key


def merge(into: Store, given: Iterable[list[Contribution]]) -> int:
    """Add the runs of another store's sums that this one's lack; gives how many came in.

    Order does not matter, and merging twice is merging once: a run of this store's own accounting
    stays as it is here, and of two versions of a foreign one always the same is taken.

    given: the other's, in batches.
    Raises sacct_ingest.errors.StoreError: a store cannot be read or written.
    """
    into.sums.fill(tuple(FORMS), fold)
    return sum(into.sums.take(batch, tuple(FORMS), fold, fresh=False) for batch in given)
