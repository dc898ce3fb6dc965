"""Whether a job has the input that the runs of its command had.

A prediction holds for the same problem.  The command alone does not say that: its input lies in
the working directory, or in a file whose content changes.
"""

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from predictor.table import doubtful
from predictor.types import PredictionTable, problem
from sacct_ingest.records import KeyLevel
from sacct_ingest.scripts.templates import folder_template

#: Levels at which the command decides; a tag names the problem whatever the directory.
_BY_COMMAND = (KeyLevel.SCRIPT, KeyLevel.LINE)


def digest(work_dir: str) -> str:
    """Short digest of a working directory, without what is volatile in it."""
    return blake2b(
        folder_template(work_dir.rstrip("/")).encode(errors="replace"), digest_size=6
    ).hexdigest()


@lru_cache(maxsize=1024)
def for_inputs(table: PredictionTable, work_dir: str, changed_s: float | None) -> PredictionTable:
    """Table for a job that starts in ``work_dir``: doubtful at best where its input may be new.

    work_dir: where the job is to start; empty: unknown.
    changed_s: when its input files were changed last, seconds since the epoch; None: unknown.
    """
    if table.level not in _BY_COMMAND:
        return table
    differences = []
    if table.work_dirs and work_dir and digest(work_dir) not in table.work_dirs:
        differences.append(problem("new_work_dir"))
    if changed_s is not None and table.last_s and changed_s > table.last_s:
        differences.append(problem("new_input"))
    if not differences:
        return table
    types = tuple(doubtful(one, differences) for one in table.by_type)
    return replace(doubtful(table, differences), by_type=types)
