"""Opening the store for a command."""

from sacct_ingest.store import Store
from slurm_plugin.config import Config


def open_store(config: Config, *, create: bool = False) -> Store:
    """Open the configured store; it is made where ``create`` allows and it is not there yet.

    Raises
    ------
    StoreError
        It is missing, cannot be opened, or is of a newer release.
    """
    return Store.open(config.store_url, create=create)
