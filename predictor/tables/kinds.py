"""Which applications run as long as they are given: by their texts, and by how they ended."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median

from predictor.facts import ToLimit
from sacct_ingest.records import JobState
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.store.rows import RunRow

#: The latest starts that are looked at, and the fewest that say something.
_LATEST, _FEWEST = 20, 3
#: A start ran to its limit that used so much of it; a warned one ends a little before.
_ALL, _WARNED_S = 0.95, 300.0
#: Share of starts that ran to their limit: of those that ask for a warning, and of any.
_OF_WARNED, _OF_ANY = 0.5, 0.75
#: Limits that differ by so much, with so many starts that ran to each.
_APART, _EACH = 1.5, 2
#: Share of the starts that used less of their limit than is said of them.
_LESS = 0.05
#: Options of jobs that save their state before their limit, or go on in the next job.
_SAVING = ("signal", "dependency")


def kind_of_runs(rows: Sequence[RunRow]) -> tuple[JobKind, ToLimit | None]:
    """Give the kind of an application, and how many of its latest starts ran to their limit.

    A job runs until its limit by design where most starts did so that ask Slurm for a warning or
    wait for another job, or where its run time grew with the limit.

    rows: runs of one identity, the newest last.
    """
    starts = list(islice(_latest_first(rows), _LATEST))[::-1]
    if not starts:
        return JobKind.WORK, None
    kinds = Counter(row.submission.kind for row in rows[-_LATEST:])
    kind, often = kinds.most_common(1)[0]
    if kind is not JobKind.WORK and 2 * often >= kinds.total():
        return kind, None
    limited = [row for row in starts if row.limit_s]
    reached = [row for row in limited if _to_limit(row)]
    if len(reached) < _FEWEST:
        return JobKind.WORK, None
    told = ToLimit(len(reached), len(starts), _cpu_share(reached), _least_share(limited))
    saving = sum(any(name in row.submission.options for name in _SAVING) for row in starts)
    by_design = 2 * saving >= len(starts) and len(reached) >= _OF_WARNED * len(starts)
    if by_design or (len(reached) >= _OF_ANY * len(starts) and _grows(reached)):
        return JobKind.UNTIL_LIMIT, told
    return JobKind.WORK, told if len(reached) >= _OF_WARNED * len(starts) else None


def _latest_first(rows: Sequence[RunRow]) -> Iterator[RunRow]:
    """Give the starts that ran, the newest first."""
    for row in reversed(rows):
        yield from filter(_ran, reversed(row.each_start()))


def _ran(row: RunRow) -> bool:
    return row.state.ended and row.elapsed_s > 0 and row.state is not JobState.FAILED


def _to_limit(row: RunRow) -> bool:
    limit_s = float(row.limit_s or 0)
    if row.state is JobState.TIMEOUT:
        return True
    warned = limit_s > 2 * _WARNED_S and row.elapsed_s >= limit_s - _WARNED_S
    return row.elapsed_s >= _ALL * limit_s or warned


def _grows(reached: Sequence[RunRow]) -> bool:
    """Whether starts ended by themselves just before limits that are far apart.

    What its limit ended, and the next, longer one too, may only be longer work.
    """
    by_itself = [row for row in reached if row.state is not JobState.TIMEOUT]
    counts = Counter(float(row.limit_s or 0) for row in by_itself)
    limits = [limit_s for limit_s, often in counts.items() if often >= _EACH]
    return len(limits) > 1 and max(limits) >= _APART * min(limits)


def _least_share(limited: Sequence[RunRow]) -> float:
    """Share of their limit that nearly all of these used at least."""
    shares = sorted(row.elapsed_s / row.limit_s for row in limited if row.limit_s)
    return min(shares[int(_LESS * len(shares))], 1.0)


def _cpu_share(rows: Sequence[RunRow]) -> float | None:
    """Share of their CPUs that these used, at the median; None: the accounting does not say."""
    shares = [row.cpu_s / (row.elapsed_s * row.cpus) for row in rows if row.cpu_s and row.cpus]
    return median(shares) if shares else None
