"""Decisions that are only in the notes of their jobs, put back into the store.

nimod answers first and records afterwards: where it is killed in between, or the store is lost, the
job's admin_comment still has the short copy.  Only the hooks can write that field, users cannot.
"""

import logging
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.store.decision_outcomes import KEYS
from sacct_ingest.store.schema import decisions, runs, watermarks
from sacct_ingest.text.admin_comment import Note, parse
from sacct_ingest.text.slurm_text import seconds_of

#: What `DecisionRow.via` says of such a decision.
FROM_NOTE: Final = "note"
#: Mark of the time before which decisions were deleted on purpose.
PRUNED: Final = "decisions pruned"
_SAME = ("cluster", "uid", "user", "name", "work_dir", "account", "partition", "qos")
_log = logging.getLogger(__name__)


def rebuild(connection: Connection) -> list[DecisionRow]:
    """Give the decisions that runs have a note of, and the store has not.

    What the note does not say stays unknown: the count that the job would have had, the waits, the
    identity that predicted.
    """
    rebuilt: dict[str, DecisionRow] = {}
    for run in connection.execute(_unrecorded(connection)):
        note = parse(run.admin_comment)
        if note is not None and note.decision_id == run.decision_id not in rebuilt:
            rebuilt[note.decision_id] = _decision(note, run)
    if rebuilt:
        _log.warning("%d decisions were not recorded: read from their jobs' notes", len(rebuilt))
    return list(rebuilt.values())


def _unrecorded(connection: Connection) -> Any:
    """Select runs with a note of a decision that is not there, the last start of a job first."""
    pruned = connection.execute(
        select(watermarks.c.epoch_s).where(watermarks.c.source == PRUNED)
    ).scalar()
    recorded = select(decisions.c.decision_id).where(decisions.c.decision_id == runs.c.decision_id)
    return (
        select(
            *(runs.c[name] for name in (*_SAME, *KEYS)),
            *(runs.c.decision_id, runs.c.admin_comment, runs.c.submit_s, runs.c.req_nodes),
        )
        .where(
            # An index is read from here on: most runs have no note.
            runs.c.decision_id > "",
            ~recorded.exists(),
            runs.c.submit_s >= (pruned or 0),
            runs.c.state != JobState.REQUEUED.value,
        )
        .order_by(runs.c.decision_id, runs.c.submit_s.desc(), runs.c.job_id)
    )


def _decision(note: Note, run: Row[Any]) -> DecisionRow:
    chosen = note.low < note.high and run.req_nodes == note.nodes
    set_otherwise = note.limit_min is not None or note.mem_mib is not None
    applied = note.mode == "enforce" and (chosen or set_otherwise)
    return DecisionRow(
        decision_id=note.decision_id,
        at_s=float(run.submit_s),
        mode=note.mode,
        via=FROM_NOTE,
        action="set" if applied else "keep",
        reason=note.reason,
        verdict=note.verdict,
        min_nodes=note.low,
        max_nodes=note.high,
        nodes=note.nodes,
        applied=applied,
        predicted_s=float(note.time_s),
        low_s=float(note.low_s),
        high_s=float(note.high_s),
        given_limit_s=seconds_of(note.limit_min),
        given_min_s=seconds_of(note.least_min),
        soft_s=seconds_of(note.soft_min),
        limit_s=seconds_of(note.own_min),
        given_mem_mib=note.mem_mib,
        **{name: getattr(run, name) for name in (*_SAME, *KEYS)},
    )
