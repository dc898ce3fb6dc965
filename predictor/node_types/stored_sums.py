"""Keeps the sums of applications on node types up to date in a store, and merges two stores'."""

from collections.abc import Iterable, Sequence

from predictor.node_types.recognition import NodeTypes
from predictor.node_types.sums import FORMS, basis_of, contribution_of, fold
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.store.rows import Contribution


def node_types(store: Store) -> NodeTypes:
    """Give the node types of the profiles in a store."""
    profiles = store.profiles.latest()
    return NodeTypes.of(profiles, store.sums.partition_types() if profiles else ())


def add_runs(store: Store, types: NodeTypes) -> int:
    """Add the runs that are not in the sums, each once; gives how many came in or changed.

    Where it was stopped the next call goes on.

    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    if not types.types:
        return 0
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
    return sum(into.sums.take(batch, tuple(FORMS), fold, fresh=False) for batch in given)
