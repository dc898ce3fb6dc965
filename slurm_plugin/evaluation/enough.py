"""How much of what a job ran out of would have been enough, by the other runs of its application.

Of those that took longer, or needed more, than the job had, an amount that most of them stayed
within: by the product-limit estimate, for runs that were cut off took at least as much (Kaplan and
Meier 1958).  Where too few say so it is twice what the job had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from predictor.product_limit import ProductLimit
from predictor.tables.memory_need import enough_for
from sacct_ingest.records import Says
from sacct_ingest.runs.evidence import Start, evidence_of, ran_short
from sacct_ingest.store.rows import RunRow

#: Share of the runs that were longer which the new limit holds for, and its margin on them.
_SHARE, _MARGIN = 0.95, 1.2
#: Runs beyond what the job had from which on they say how much is enough.
_FEWEST = 3
#: What a job gets where nothing else is known, and what it gets at least, over what it had.
_TWICE, _LEAST = 2.0, 1.2
_MIB: Final = 2**20


class Lack(Enum):
    """What a job ran out of."""

    TIME = "time"
    MEMORY = "memory"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Enough:
    """An amount that would have been enough, and how many runs say so; 0: it is twice the old one.

    Seconds, or bytes on each node.  ``bounded``: the partition allows no more.
    """

    amount: float
    runs: int
    bounded: bool = False


def lack_of(run: Start) -> Lack:
    """Tell what a start ran out of, by how it ended and what was measured."""
    if ran_short(run):
        return Lack.MEMORY
    return Lack.TIME if run.state.out_of_time else Lack.NOTHING


def enough_time(rows: Sequence[RunRow], had_s: float, nodes: int) -> Enough:
    """Give a time limit for a job that reached its own, ``had_s``.

    rows: starts of its application; those on as many nodes count where enough of them do.
    """
    own = [row for row in rows if row.nodes == nodes]
    for starts in (own, rows):
        said = [(one, evidence_of(one)) for one in starts]
        pairs = [
            (float(row.elapsed_s), one.run_time is Says.AT_LEAST)
            for row, one in said
            if one.run_time is not Says.NOTHING
        ]
        beyond = [value for value, cut_off in pairs if value > had_s and not cut_off]
        if len(beyond) < _FEWEST:
            continue
        # Of those that go beyond what it had.
        longer = ProductLimit.of((value, cut) for value, cut in pairs if value > had_s)
        if least_s := longer.quantile(_SHARE):
            return Enough(max(least_s * _MARGIN, had_s * _LEAST), len(beyond))
    return Enough(had_s * _TWICE, 0)


def enough_memory(rows: Sequence[RunRow], had: float) -> Enough:
    """Give the memory of a node for a job that ran out of its own, ``had`` bytes.

    rows: starts of its application, the job's own among them.
    """
    said = [evidence_of(row) for row in rows]
    needs = [
        (float(one.mem_bytes), one.memory is not Says.WHOLE)
        for one in said
        if one.memory is not Says.NOTHING
    ]
    beyond = sum(need > had and not cut_off for need, cut_off in needs)
    least = enough_for(needs, had) if beyond >= _FEWEST else None
    if least is None or least <= had:
        return Enough(had * _TWICE, 0)
    return Enough(max(least, had * _LEAST), beyond)


def within(enough: Enough, most: float | None) -> Enough:
    """Cut an amount to the most that a partition allows; None: it has no such limit."""
    if most is None or enough.amount <= most:
        return enough
    return Enough(most, enough.runs, bounded=True)


def round_time(seconds: float) -> int:
    """Round a time limit up as people write it: to minutes, above two hours to quarters of an hour.

    >>> round_time(61), round_time(7300), round_time(3600)
    (120, 8100, 3600)
    """
    step = 60 if seconds <= 7200 else 900
    return -(-int(seconds + 0.999) // step) * step


def round_memory(size: float) -> int:
    """Round bytes up to MiB, above 4 GiB to half GiB; in MiB.

    >>> round_memory(100.5 * 2**20), round_memory(5.2 * 2**30)
    (101, 5632)
    """
    mib = -(-int(size) // _MIB)
    step = 1 if mib <= 4096 else 512
    return -(-mib // step) * step
