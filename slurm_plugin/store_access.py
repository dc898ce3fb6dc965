"""The configured store: opening it, finding tables in it, and whose jobs may be seen in it."""

import difflib
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from predictor.job_table import part_for
from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode, head, whole_key
from sacct_ingest.errors import NoHistory, StoreError
from sacct_ingest.records import CURVE_LEVELS, Identity, KeyLevel
from sacct_ingest.runs.layout import layouts_of_run
from sacct_ingest.scripts.signature import names_of
from slurm_plugin.config.settings import Config
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.slurm.slurm_conf import PrivateDataRules, visibility

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow, Store
    from slurm_plugin.decision.lookup import PredictionLookup


_FOUND = 1024  #: identities whose tables are kept while runs are read
_SHORTEST_KEY = 6  #: a key may be cut short, but not to where it says nothing


def open_store(config: Config, *, create: bool = False) -> "Store":
    """Open the configured store; it is made where ``create`` allows and it is not there yet.

    Raises StoreError: it is missing, cannot be opened, or is of a newer release; login nodes have
        none.
    """
    controllers = config.relay.controllers
    if controllers and not (create or config.store or store_owner(config) is not None):
        raise StoreError(
            f"login nodes have no store: run this on {' or '.join(controllers)}, or name a store "
            "with --store"
        )
    with _importing():
        from sacct_ingest.store import Store  # noqa: PLC0415 - heavy, and --help needs none

    return Store.open(config.store_url, create=create)


def load_tables(store: "Store") -> list[PredictionTable]:
    """Read all prediction tables of a store."""
    return [decode(row.payload) for row in store.fits.all()]


def count_outdated(store: "Store") -> int:
    """Count the tables of a store that the models of another release made.

    Raises sacct_ingest.errors.StoreError: it cannot be read.
    """
    return store.fits.count_without(head())


def last_runs(store: "Store", table: PredictionTable, most: int = 30) -> "list[RunRow]":
    """Read the newest runs of a table, the newest last; those of a part among its identity's."""
    level = KeyLevel(table.level)
    key = whole_key(table.key)
    if key == table.key:
        return store.runs.of_key(level, key, most=most)

    own = []
    for whole in map(decode, (one.payload for one in store.fits.find([(level, key)]))):
        for row in store.runs.of_key(level, key, most=10 * most):
            part = part_for(whole, layouts_of_run(row), partial(getattr, row, "attributes"))
            own += [row] if part and part.key == table.key else []
    return own[-most:]


def matching_tables(tables: Sequence[PredictionTable], query: str) -> list[PredictionTable]:
    """Find the tables of an application by its label or name, or by the start of its key.

    Histories of a user's or a name's runs are only given where there is nothing better, or where
    their times go by numbers in the command.

    Raises NoHistory: there is none; the message proposes names that look alike.
    """
    matching = [table for table in tables if query in (*names_of(table.label), table.key)]
    if not matching and len(query) >= _SHORTEST_KEY:
        matching = [table for table in tables if table.key.startswith(query)]
    if matching:
        said = [table for table in matching if table.level in CURVE_LEVELS or table.sizes]
        return said or matching
    names = {name for table in tables for name in names_of(table.label)}
    near = difflib.get_close_matches(query, names)
    hint = f"did you mean {' or '.join(near)}?" if near else "'nimo predict --all' lists what is"
    raise NoHistory(f"there is no history of {query!r}; {hint}")


def table_finder(store: "Store") -> "Callable[[RunRow], PredictionTable | None]":
    """Give what finds the table that says most about a run; tables are read when asked for."""
    from slurm_plugin.decision.lookup import PredictionLookup  # noqa: PLC0415 - heavy

    @lru_cache(maxsize=_FOUND)
    def lookup(identity: Identity) -> "PredictionLookup":
        keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
        rows = store.fits.find(keys)
        whole = PredictionLookup((row.level, row.key, row.payload) for row in rows)
        rows += store.fits.find(whole.parts())
        return PredictionLookup((row.level, row.key, row.payload) for row in rows)

    def table_of(run: "RunRow") -> PredictionTable | None:
        found = lookup(run.identity)
        return found.find(run.identity, layouts_of_run(run), attributes=lambda: run.attributes)

    return table_of


def own_tables(tables: Sequence[PredictionTable]) -> Sequence[PredictionTable]:
    """Choose those of the user's own runs; all where there are none."""
    own = user_name()
    return [table for table in tables if table.owner == own] or tables


def visibility_for(
    config: Config, uid: int, name: str, *, own_only: bool = False
) -> PrivateDataRules:
    """Tell whose jobs a user may see in the configured store, by what Slurm says."""
    run = partial(commands.run, timeout_s=config.snapshot.timeout_s)
    return visibility(uid, name, owner_uid=store_owner(config), run=run, own_only=own_only)


@contextmanager
def _importing() -> Iterator[None]:
    """Look for no garbage meanwhile: all of a module stays, and looking is a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def store_owner(config: Config) -> int | None:
    """Find the owner of an SQLite file; None for a server, and for a file that is not there."""
    scheme, _, path = config.store_url.partition(":///")
    with suppress(OSError):
        return Path(path).stat().st_uid if scheme == "sqlite" else None
    return None
