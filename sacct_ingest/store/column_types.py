"""Column types that mean the same on SQLite, PostgreSQL and MariaDB.

Migrations use them too, so they never change: a new kind of column is a new function.
"""

from functools import lru_cache
from typing import Any, Final

from sqlalchemy import BigInteger, Integer, String, Text
from sqlalchemy.types import UserDefinedType

NAME_LENGTH: Final = 255  #: users, job names, clusters; slurmdbd's own tinytext
KEY_LENGTH: Final = 560  #: the longest key: user/name


class _LongText(UserDefinedType[str]):
    """MariaDB's LONGTEXT; SQLAlchemy's own comes with all of that dialect, which takes 40 ms."""

    cache_ok = True

    def get_col_spec(self, **options: object) -> str:
        """Its name in SQL."""
        del options
        return "LONGTEXT"


def short(length: int = NAME_LENGTH) -> String:
    """Text that may be indexed."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def long() -> Text:
    """Text of any length."""
    return Text().with_variant(_LongText(), "mysql", "mariadb")


def number() -> BigInteger:
    """64 bits: bytes, epochs, ids."""
    return BigInteger().with_variant(Integer(), "sqlite")


OPTIONS: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


@lru_cache(maxsize=4096)
def indexed(text: str, length: int = NAME_LENGTH) -> str:
    """Text for a short, indexed column.

    PostgreSQL takes no NUL, and MariaDB holds ``a`` and ``a␠`` for equal.
    """
    return text.replace("\0", "").strip()[:length].rstrip()


def prose(text: str) -> str:
    """Text for a column of any length: PostgreSQL takes no NUL."""
    return text.replace("\0", "") if "\0" in text else text
