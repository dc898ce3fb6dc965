"""How near estimates of the queue's waits came, by partition: from the records in the store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from predictor.waits.estimate import WaitError, log_error
from predictor.waits.workload import QueuePast, decode

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from collections.abc import Iterable, Iterator

    from sacct_ingest.store import DecisionSelection, Store

_FEWEST = 5  #: jobs; of fewer nothing is said
#: Who made the estimates: nimod at submissions, or a refit that went through the past.
SUBMISSIONS, HISTORY = "submissions", "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEstimates:
    """Estimated waits of a partition's jobs, compared with the real ones."""

    cluster: str
    partition: str
    of: str  #: :data:`SUBMISSIONS` or :data:`HISTORY`
    jobs: int
    waited: int  #: of them longer than a minute
    within: float  #: half of the waits are within this factor of the estimate, a minute added
    inside: float | None  #: share inside their 90 % interval


def queue_estimates(store: Store, chosen: DecisionSelection) -> tuple[QueueEstimates, ...]:
    """Judge the recorded estimates of a selection; a record names no users.

    chosen: where it names users, accounts or applications there is nothing to judge.
    """
    if chosen.user or chosen.account or chosen.key or chosen.only_user is not None:
        return ()
    from sacct_ingest.store.fits import QUEUE, WAITS  # noqa: PLC0415 - heavy

    made: list[QueueEstimates] = []
    for of, level in ((SUBMISSIONS, WAITS), (HISTORY, QUEUE)):
        for cluster, payload in sorted(store.records.of_level(level).items()):
            if chosen.cluster in ("", cluster):
                try:
                    errors = (
                        decode(payload, list[WaitError])
                        if of == SUBMISSIONS
                        else decode(payload, QueuePast).waits.errors
                    )
                except ValueError:  # nimod or the next refit writes it anew
                    continue
                made += _by_partition(cluster, of, _selected(errors, chosen))
    return tuple(made)


def _selected(errors: Iterable[WaitError], chosen: DecisionSelection) -> Iterator[WaitError]:
    for error in errors:
        late_enough = chosen.since_s is None or error.at_s >= chosen.since_s
        early_enough = chosen.until_s is None or error.at_s < chosen.until_s
        if late_enough and early_enough and chosen.partition in ("", error.of.partition):
            yield error


def _by_partition(cluster: str, of: str, errors: Iterable[WaitError]) -> Iterator[QueueEstimates]:
    partitions: dict[str, list[WaitError]] = defaultdict(list)
    for error in errors:
        partitions[error.of.partition].append(error)
    for partition, members in sorted(partitions.items()):
        if len(members) >= _FEWEST:
            noted = [one.inside for one in members if one.inside is not None]
            yield QueueEstimates(
                cluster=cluster,
                partition=partition,
                of=of,
                jobs=len(members),
                waited=sum(one.actual_s > 60.0 for one in members),
                within=10 ** median(map(log_error, members)),
                inside=fmean(noted) if noted else None,
            )
