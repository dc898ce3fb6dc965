"""Text as all three databases take it."""

from functools import lru_cache

from sacct_ingest.store.column_types import NAME_LENGTH


@lru_cache(maxsize=4096)
def indexed(text: str, length: int = NAME_LENGTH) -> str:
    """Text for a short, indexed column.

    PostgreSQL takes no NUL, and MariaDB holds ``a`` and ``a␠`` for equal.
    """
    return text.replace("\0", "").strip()[:length].rstrip()


def prose(text: str) -> str:
    """Text for a column of any length: PostgreSQL takes no NUL."""
    return text.replace("\0", "") if "\0" in text else text
