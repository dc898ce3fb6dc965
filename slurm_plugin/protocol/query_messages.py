"""What nimod answers to questions about the store (`request_messages.Ask`).

Apart from the other messages, because prediction tables and records take long to load.
"""

import msgspec

from predictor.prediction_table import PredictionTable
from sacct_ingest.records import DecisionRow, StandingRow
from sacct_ingest.store.rows import RunRow
from slurm_plugin.protocol.lines import Message


class Applications(Message, kw_only=True):
    """Nimod's answer to ``applications``: prediction tables that a user may see."""

    tables: list[PredictionTable] = msgspec.field(default_factory=list)
    standings: list[StandingRow] = msgspec.field(default_factory=list)
    left_off: int = 0  #: tables that there are besides
    own_only: bool = False  #: only of this user's runs


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a job."""

    job_id: int
    state: str
    nodes: int
    elapsed_s: float
    limit_s: int | None = None
    submit_s: int = 0
    start_s: int | None = None
    end_s: int | None = None


class Explanation(Message, kw_only=True):
    """Nimod's answer to ``explain``: one decision, and what became of its job."""

    decision: DecisionRow | None = None
    outcome: Outcome | None = None  #: None: not ended, or not read from accounting yet
    #: Where the job has no note and no run yet: decisions about jobs of its user, name and folder
    #: that were submitted with it ...
    at_that_time: int = 0
    fitting: int = 0  #: ... and those among them that are about a job with its request


def explanation_of(decision: DecisionRow, run: RunRow | None) -> Explanation:
    """Make the message of a decision and its run."""
    if run is None:
        return Explanation(decision=decision)
    values = {name: getattr(run, name) for name in Outcome.__struct_fields__}
    return Explanation(decision=decision, outcome=Outcome(**{**values, "state": run.state.value}))
