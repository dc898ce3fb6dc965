"""Columns that several tables of the report have, and how their values are written."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.accuracy import LEVELS
from slurm_plugin.text.formatting import clock, percent
from slurm_plugin.text.table_columns import FACTOR, FINE_SHARE, Column, Quantity

CLOCK: Final = Quantity("seconds since the epoch", clock)
DAY: Final = Quantity(
    "seconds since the epoch", lambda value: datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d")
)
GIB: Final = Quantity("bytes", lambda value: f"{value / 2**30:.1f} GiB")
ONE_DIGIT: Final = Quantity("", lambda value: f"{value:.1f}".removesuffix(".0"))
SPAN: Final = Quantity("hours", lambda value: duration_text(3600 * value))
TIMES: Final = Quantity("a factor", "{:.2f} x".format)


class NamedRow(NamedTuple):
    """A row that has its name from elsewhere."""

    name: str
    of: Any


def of(path: str) -> Callable[[Any], Any]:
    """Get the value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


def words(name: str, title: str = "", path: str = "", **fields: Any) -> Column:
    """Column of words; title and path default to the name."""
    get = of(path) if path else None
    return Column(name, title or name, get, left=True, cuts=True, **fields)


def number(
    name: str, title: str = "", path: str = "", as_text: Quantity | None = None, **fields: Any
) -> Column:
    """Column of numbers; title and path default to the name."""
    return Column(name, title or name, of(path) if path else None, as_text, **fields)


def accuracy_columns(at: str, left_out: str = "") -> list[Column]:
    """Columns of the accuracy that stands at a path of the row.

    left_out: names of those that a page has no room for.
    """
    coverage = of(f"{at}.coverage")

    def inside(level: float) -> Column:
        def get(row: Any) -> float | None:
            return {one.nominal: one.inside for one in coverage(row) or ()}.get(level)

        return Column(f"inside_{100 * level:.0f}", f"in {percent(level)}", get, FINE_SHARE)

    columns = [
        number("mape", "MAPE", f"{at}.mape", FINE_SHARE),
        number("bias", "actual/predicted", f"{at}.bias", FACTOR),
        *map(inside, LEVELS),
        number("pa", "PA", f"{at}.pa", FINE_SHARE),
        number("longer", "under-predicted", f"{at}.longer", FINE_SHARE),
        number("beyond", "beyond interval", f"{at}.beyond", FINE_SHARE),
    ]
    off = {"inside_95", "pa", "beyond", left_out}
    return [replace(one, on_page=one.name not in off) for one in columns]


def otherwise_columns(key: str, title: str, as_text: Quantity) -> list[Column]:
    """Columns of an amount of effects, and of what it would have been otherwise."""
    other = f"other_{key}"
    return [
        number(key, title, f"of.{key}", as_text),
        number(other, f"{title} otherwise", f"of.{other}.value", as_text),
        number(f"{other}_low", f"{title} otherwise at least", f"of.{other}.low", as_text),
        number(f"{other}_high", f"{title} otherwise at most", f"of.{other}.high", as_text),
    ]
