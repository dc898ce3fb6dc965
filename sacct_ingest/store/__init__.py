"""The store: runs, prediction tables, decisions and how far ingests have come."""

from sacct_ingest.store.rows import FitRow, RejectRow, RunRow, Selection, Stored, SumsRow
from sacct_ingest.store.store import Store

__all__ = ["FitRow", "RejectRow", "RunRow", "Selection", "Store", "Stored", "SumsRow"]
