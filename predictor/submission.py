"""What a submission has that no run had: another folder, changed inputs, an edited script."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from math import copysign, exp, hypot, log
from statistics import NormalDist
from typing import TypeVar

from predictor.job_table import of_kind
from predictor.prediction_table import AtLimit, ByType, PredictionTable
from predictor.problems import problem
from predictor.table import doubtful
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.input_sizes import NAMES as INPUT_SIZES
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.scripts.engines import folder_template

_Table = TypeVar("_Table", PredictionTable, ByType)
_Columns = TypeVar("_Columns", PredictionTable, ByType, AtLimit)
#: Standard deviation of the log of what an edit does to the run time: a prior, as next to no
#: accounting keeps scripts.
_EDIT_SD = 0.25
#: Levels at which the command decides; a tag names the problem whatever the directory.
_BY_COMMAND = (KeyLevel.SCRIPT, KeyLevel.LINE)


def folder_digest(work_dir: str) -> str:
    """Short digest of a working directory, without what is volatile in it."""
    return digest_of_folder(folder_template(work_dir))


def digest_of_folder(folder: str) -> str:
    """Short digest of a working directory that has nothing volatile in it any more."""
    return blake2b(folder.rstrip("/").encode(errors="replace"), digest_size=6).hexdigest()


def for_submission(
    table: PredictionTable, *, work_dir: str, changed_s: float | None, script: str, warned: bool
) -> PredictionTable:
    """Table for a job as it comes in: of this folder, inputs and script.

    work_dir, changed_s: as of `for_inputs`.
    script: as of `for_script`.
    warned: whether the script asks for a signal before its limit; such jobs save their state,
        and the accounting has the options of the command line alone.
    """
    made = for_inputs(table, work_dir, changed_s)
    if warned and made.kind is JobKind.WORK and made.to_limit is not None:
        made = of_kind(made, JobKind.UNTIL_LIMIT)
    return for_script(made, script)


@lru_cache(maxsize=1024)
def for_inputs(table: PredictionTable, work_dir: str, changed_s: float | None) -> PredictionTable:
    """Table for a job that starts in ``work_dir``: doubtful at best where its input may be new.

    work_dir: where the job is to start; empty: unknown.
    changed_s: when its input files were changed last, seconds since the epoch; None: unknown.
    """
    if table.level not in _BY_COMMAND:
        return table
    differences = []
    if table.work_dirs and work_dir and folder_digest(work_dir) not in table.work_dirs:
        differences.append(problem("new_work_dir"))
    # Where run time goes by how large inputs are, the table is one for those of the job.
    by_inputs = any(one.name in INPUT_SIZES for one in table.sizes)
    if changed_s is not None and table.last_s and changed_s > table.last_s and not by_inputs:
        differences.append(problem("new_input"))
    if not differences:
        return table
    types = tuple(doubtful(one, differences) for one in table.by_type)
    return replace(doubtful(table, differences), by_type=types)


@lru_cache(maxsize=1024)
def for_script(table: PredictionTable, script: str) -> PredictionTable:
    """Table for a job whose script may have been edited: at the level of its runs, less sure.

    script: its key (:class:`sacct_ingest.records.Identity`); empty: unknown.
    """
    if not table.script or not script or script == table.script:
        return table
    until_limit = table.kind is JobKind.UNTIL_LIMIT
    edited = [problem("edited_script:until_limit" if until_limit else "edited_script")]
    reach = _EDIT_SD * NormalDist().inv_cdf(0.5 + table.confidence / 2)
    types = tuple(doubtful(_with_tails(one, reach), edited) for one in table.by_type)
    limits = tuple(_widened(one, reach) for one in table.at_limits)
    return replace(doubtful(_with_tails(table, reach), edited), by_type=types, at_limits=limits)


def _with_tails(table: _Table, reach: float) -> _Table:
    """Give a table whose intervals and tails reach farther, by an error of their own."""
    tails = (replace(one, time_s=_ends(one.time_s, table, reach)) for one in table.tails)
    return replace(_widened(table, reach), tails=tuple(tails))


def _widened(columns: _Columns, reach: float) -> _Columns:
    low_s, high_s = (_ends(times, columns, reach) for times in (columns.low_s, columns.high_s))
    return replace(columns, low_s=low_s, high_s=high_s)


def _ends(
    times_s: Iterable[float], columns: PredictionTable | ByType | AtLimit, reach: float
) -> tuple[float, ...]:
    pairs = zip(times_s, columns.median_s, strict=True)
    return tuple(_farther(time_s, median_s, reach) for time_s, median_s in pairs)


def _farther(time_s: float, median_s: float, reach: float) -> float:
    away = log(time_s / median_s)
    return median_s * exp(copysign(hypot(away, reach), away)) if away else time_s
