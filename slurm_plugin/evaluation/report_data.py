"""One report out of the store: decisions with their outcomes, and diagnoses from the curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from predictor.table import decode
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.sharing import is_shared
from sacct_ingest.store import DecisionSelection
from sacct_ingest.store.fits import NODE_CPUS
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.diagnoses import problems, records_of
from slurm_plugin.evaluation.outcomes import OutcomeReport, OutcomeTally, select
from slurm_plugin.evaluation.queue_waits import queue_estimates
from slurm_plugin.protocol.request_messages import Selection

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

_BATCH = 200
_ARRAYS = 200  #: newest ones that are listed
_STEP = 2000  #: decisions between two reports of progress


def selection_of(
    asked: Selection, *, only_user: str | None, only_accounts: tuple[str, ...] = ()
) -> DecisionSelection:
    """Decisions that somebody asks for, among those that he may see; see `DecisionSelection`."""
    return DecisionSelection(
        since_s=asked.since_s,
        until_s=asked.until_s,
        cluster=asked.cluster,
        partition=asked.partition,
        account=asked.account,
        user=asked.user,
        only_user=only_user,
        only_accounts=only_accounts,
    )


def collect(
    store: Store,
    chosen: DecisionSelection,
    *,
    config: Config,
    application: str = "",
    least_node_hours: float = 100.0,
    report_progress: Callable[[int], None] = lambda _: None,
) -> OutcomeReport:
    """Sum up the selected decisions in one pass.

    config: has the nominal level of intervals without one of their own, and prices.
    application: this one alone; empty: all.
    least_node_hours: the report names no user with fewer of them beyond the knee, and no account
        with fewer unused CPU-hours.
    report_progress: called with the number of decisions read since the last call.
    """
    node_cpus = msgspec.json.decode(store.records.find(*NODE_CPUS) or "{}")
    tally = OutcomeTally(config.fit.confidence, config.energy, node_cpus)
    for number, pair in enumerate(select(store.decisions.with_outcomes(chosen), application)):
        tally.add(*pair)
        if number % _STEP == _STEP - 1:
            report_progress(_STEP)
    keys = [
        (KeyLevel(level), key)
        for level, key in tally.asked
        if chosen.only_user is None or not is_shared(key)
    ]
    tables = {}
    for start in range(0, len(keys), _BATCH):
        for row in store.fits.find(keys[start : start + _BATCH]):
            tables[row.level.value, row.key] = decode(row.payload)
    diagnoses = problems(tables.values(), tally.asked)
    return tally.report(
        store.standings.all(),
        problems=diagnoses,
        drift=tuple(one for one in diagnoses if one.problem == "drift"),
        records=records_of(tables.values(), tally.asked),
        waste=tally.usage.waste(tables, least_node_hours=least_node_hours),
        queue_waits=() if application else queue_estimates(store, chosen),
        unused=tally.unused.result(least_cpu_hours=least_node_hours),
        arrays=()
        if application or _of_decisions(chosen)
        else tuple(store.runs.newest_arrays(chosen, _ARRAYS)),
    )


def _of_decisions(chosen: DecisionSelection) -> bool:
    """Whether a selection is about decisions, of which an array says nothing."""
    return bool(chosen.mode or chosen.reason or chosen.decision_id or chosen.key)
