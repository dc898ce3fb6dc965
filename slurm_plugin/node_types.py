"""Which node is of which type, for those who look tables up."""

from sacct_ingest.store import Store


def node_types_of(store: Store) -> dict[tuple[str, str], str]:
    """Type of each node that was measured, by cluster and name.

    Raises
    ------
    sacct_ingest.errors.StoreError
        The store cannot be read.
    """
    return {
        (one.cluster, one.node): one.node_type for one in store.profiles.latest() if one.node_type
    }
