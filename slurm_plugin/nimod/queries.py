"""What users ask of the store, which only nimod can read: applications, decisions and reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from predictor.prediction_table import PredictionTable
from predictor.stored_table import decode
from sacct_ingest.errors import NimoError
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.store import Store
from sacct_ingest.store.shown_job import alike, decision_of
from slurm_plugin.config.settings import Config
from slurm_plugin.protocol.lines import bounded, bounded_rows, encode
from slurm_plugin.protocol.query_messages import Applications, Explanation, explanation_of
from slurm_plugin.protocol.request_messages import Ask, Selection
from slurm_plugin.protocol.status_messages import Reported
from slurm_plugin.slurm.slurm_conf import is_own

_TABLES = 1000  #: in one answer, at most


@dataclass(slots=True)
class StoreQueries:
    """Answers questions about the store, one after the other."""

    url: str  #: SQLAlchemy URL of the store
    config: Callable[[], Config]  #: gives the site's settings
    most_decisions: int = 20_000  #: in a report, at a multiple of two thousand: more take seconds
    _store: Store | None = None

    def answer(self, ask: Ask, user: str | None, *, private: bool) -> bytes:
        """Answer a question.

        user: who asks; None: somebody who may see everything.
        private: whether users must not see each other's jobs.
        Raises NimoError: the store cannot be read, or the report is of too many decisions;
            AnswerTooLong: the answer is.
        """
        store = self.opened()
        if ask.op == "explain":
            return bounded(encode(explain(store, ask, user, cluster=self.config().cluster)))
        if ask.op == "report":
            only = user if private else None
            return bounded(encode(self._report(store, ask.selection, only)))
        return encode(_applications(store, ask, user, private=private))

    def opened(self) -> Store:
        """Give the store, opened once. Raises StoreError: it cannot be read."""
        if self._store is None:
            self._store = Store.open(self.url, create=False)
        return self._store

    def _report(self, store: Store, asked: Selection, only: str | None) -> Reported:
        """Sum up the decisions about the jobs of one user, or of all where ``only`` is None."""
        from slurm_plugin.evaluation.report_data import (  # noqa: PLC0415 - seldom asked for
            collect,
            selection_of,
        )

        read = 0

        def count_decisions(more: int) -> None:
            nonlocal read
            read += more
            if read > self.most_decisions:
                most = self.most_decisions
                raise NimoError(f"these are more than {most} decisions; ask for fewer with -S")

        report = collect(
            store,
            selection_of(asked, only_user=only),
            config=self.config(),
            application=asked.application,
            least_node_hours=asked.least_node_hours,
            report_progress=count_decisions,
        )
        return Reported(own_only=only is not None, report=msgspec.Raw(msgspec.json.encode(report)))


def _applications(store: Store, ask: Ask, user: str | None, *, private: bool) -> Applications:
    if ask.name:
        rows = [
            row
            for row in store.fits.named(ask.name)
            if user is None or not private or is_own(row.level, row.key, row.label, user)
        ]
    elif user is None:
        rows = store.fits.all()
    else:
        rows = store.fits.of_user(user)
    levels = tuple(KeyLevel) if ask.every or ask.name else CURVE_LEVELS
    listed = [row for row in rows if row.level in levels]
    keys: set[tuple[str, str]] = set()
    tables = bounded_rows(
        (decode(row.payload) for row in listed[:_TABLES]),
        lambda table: keys.add((table.level, table.key)),
        cut=True,
    )
    return Applications(
        tables=cast("list[PredictionTable]", tables),
        standings=[row for row in store.standings.all() if (row.level.value, row.key) in keys],
        left_off=len(listed) - len(tables),
        own_only=user is not None and (private or not ask.name),
    )


def explain(store: Store, ask: Ask, user: str | None, *, cluster: str = "") -> Explanation:
    """Find the decision about a job of the user, or of anybody for those who may see all.

    A job that has no note, and whose run was not read yet, is compared with the decisions of its
    time.  Where several fit that say different things, none is given.

    cluster: the job's, where the site's settings name it: a store may hold several.
    """
    found = store.decisions.of_job(
        ask.job_id or 0, decision_id=ask.decision_id, user=user or "", cluster=cluster
    )
    if found is not None:
        return explanation_of(*found)
    shown = ask.shown
    if ask.decision_id or shown is None or user not in {None, shown.user}:
        return Explanation()
    decisions = store.decisions.about_when(shown, cluster=cluster)
    fitting = [one for row in decisions if (one := decision_of(row, shown)) is not None]
    explanation = Explanation(at_that_time=len(decisions), fitting=len(fitting))
    if fitting and all(alike(one) == alike(fitting[0]) for one in fitting):
        explanation.decision = fitting[-1]
    return explanation
