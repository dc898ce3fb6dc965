"""The store: runs, prediction tables, decisions and how far ingests have come."""

from typing import TYPE_CHECKING

from sacct_ingest.store.rows import (
    ArrayRow,
    DecisionSelection,
    FitRow,
    RecordRow,
    RejectRow,
    RunRow,
    Stored,
    SumsRow,
)

if TYPE_CHECKING:
    from sacct_ingest.store.store import Store

__all__ = [
    "ArrayRow",
    "DecisionSelection",
    "FitRow",
    "RecordRow",
    "RejectRow",
    "RunRow",
    "Store",
    "Stored",
    "SumsRow",
]


def __getattr__(name: str) -> object:
    # The database is heavy; the records are light, and --help of a command needs no more of it.
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sacct_ingest.store.store import Store  # noqa: PLC0415

    return Store
