"""The curve of the store that new runs join: its runs, and the tag or script that they share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from predictor.types import PredictionTable, Run
from sacct_ingest.errors import ConfigError
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from slurm_plugin.experiments.learn.description import Description


@dataclass(frozen=True, slots=True)
class StoredCurve:
    """A description whose runs join a curve: by their tag, or else by their script."""

    description: Description
    runs: tuple[Run, ...] = ()
    tagged: bool = True


def joined(
    description: Description, tables: Sequence[PredictionTable], scripts: Iterable[str]
) -> StoredCurve:
    """Find the curve that runs of a description can join.

    tables: prediction tables of the application in the store.
    scripts: script keys of the runs that the description makes; only looked at where it matters.
    Raises ConfigError: no run of the description would be taken for a run of that application, or
        several applications have this name.
    """
    table = _most_specific(tables)
    runs = tuple(Run(point.nodes, point.time_s) for point in table.observed)
    if table.level == KeyLevel.TAG:
        app, _, problem = table.key.partition("/")[2].partition("/")
        return StoredCurve(replace(description, application=app, problem=problem), runs)
    if table.level == KeyLevel.SCRIPT:
        if set(scripts) != {table.key}:
            raise ConfigError(
                f"{table.label} is recognised by its script, and the description runs another one: "
                "give the same script, with the same arguments"
            )
        return StoredCurve(description, runs, tagged=False)
    raise ConfigError(
        f"{table.label} is recognised neither by a tag nor by its script, so runs of 'nimo learn' "
        "cannot join it; tag its jobs (--comment=nimo:app=NAME) and name the tag"
    )


def _most_specific(tables: Sequence[PredictionTable]) -> PredictionTable:
    """Give the table of the first level that has one, whichever is first in CURVE_LEVELS."""
    order = [level.value for level in CURVE_LEVELS]
    ranked = sorted(
        tables, key=lambda one: order.index(one.level) if one.level in order else len(order)
    )
    best = [one for one in ranked if one.level == ranked[0].level]
    if len(best) > 1:
        keys = ", ".join(one.key for one in best)
        raise ConfigError(f"several applications have this name; choose one by its key: {keys}")
    return best[0]
