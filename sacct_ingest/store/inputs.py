"""Sizes of the input files of stored runs, for those of which nobody has looked at them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from sacct_ingest.store.changes import mark_runs
from sacct_ingest.store.engine import StoreTable, writing
from sacct_ingest.store.schema import runs

_FIELDS: Final = (
    *("submit_line", "comment", "name", "work_dir", "submit_s", "start_s", "end_s"),
    "array_task_id",
)
_SET = sa.update(runs).where(runs.c.id == sa.bindparam("run_"), runs.c.inputs.is_(None))


class NotLookedAt(NamedTuple):
    """A run whose input files nobody has looked at."""

    run_id: int
    submit_line: str
    comment: str
    name: str
    work_dir: str
    submit_s: int
    start_s: int
    end_s: int
    array_task_id: int | None


class Inputs(StoreTable):
    """The column ``inputs`` of the table ``runs``."""

    def not_looked_at(self, user: str, most: int) -> list[NotLookedAt]:
        """Give runs of a user that started and ended, the last ones first."""
        query = (
            sa.select(runs.c.id, *(runs.c[name] for name in _FIELDS))
            .where(
                runs.c.user == user,
                runs.c.inputs.is_(None),
                runs.c.start_s.is_not(None),
                runs.c.end_s.is_not(None),
            )
            .order_by(runs.c.submit_s.desc(), runs.c.job_id.desc())
            .limit(most)
        )
        return [NotLookedAt(*row) for row in self._rows(query)]

    def keep(self, seen: Mapping[int, str]) -> None:
        """Keep what was seen of the input files of runs, by their ids; empty: there are none."""
        if not seen:
            return
        with writing(self._engine) as connection:
            values = [{"run_": run_id, "inputs": text} for run_id, text in seen.items()]
            connection.execute(_SET, values)
            mark_runs(connection, [run_id for run_id, text in seen.items() if text])
