"""Jobs whose start is awaited, to be compared with what was expected at their submission."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from math import inf

import msgspec

from predictor.waits.calibration import WaitClass, WaitError, error_of
from predictor.waits.estimate import WaitEstimate
from slurm_plugin.slurm.raw_state import RawJob
from slurm_plugin.slurm.snapshot import WAITS

#: Jobs whose start is awaited, at most.
_MOST = 5_000


class ExpectedWait(msgspec.Struct, frozen=True):
    """What was expected of a job at its submission."""

    submit_s: float
    draws_s: tuple[float, ...]
    of: WaitClass
    estimate: WaitEstimate


class AwaitedStarts:
    """Remembers what was expected of new jobs until they start; of an array its first start counts.

    What was in the queue at the first look is not compared: nothing was expected of it then.
    """

    def __init__(self) -> None:
        self._shown: frozenset[int] = frozenset()
        self._awaited: dict[int, ExpectedWait] = {}

    def compare(
        self, jobs: Iterable[RawJob], expected: Callable[[RawJob], ExpectedWait | None]
    ) -> list[WaitError]:
        """Note what is expected of new jobs; return by how much it was off where they started.

        jobs: all that wait or run.
        expected: says what is expected of a new one; None: nothing.
        """
        members: defaultdict[int, list[RawJob]] = defaultdict(list)
        for job in jobs:
            if job.job_id is not None:
                members[job.array_id or job.job_id].append(job)
        # The others ended between two looks, or were cancelled.
        self._awaited = {n: one for n, one in self._awaited.items() if n in members}
        for number in members.keys() - self._shown - self._awaited.keys():
            asked = expected(min(members[number], key=lambda job: job.state in WAITS))
            if asked is not None and len(self._awaited) < _MOST:
                self._awaited[number] = asked
        self._shown = frozenset(members)
        began = [(n, _began_s(members[n])) for n in self._awaited]
        started = [(self._awaited.pop(n), start_s) for n, start_s in began if start_s is not None]
        return [_error(asked, start_s) for asked, start_s in started if start_s < inf]


def _began_s(records: Iterable[RawJob]) -> float | None:
    """When the first of them started, seconds since the epoch; None: they all wait."""
    return min((job.start_s for job in records if job.state not in WAITS), default=None)


def _error(asked: ExpectedWait, start_s: float) -> WaitError:
    actual_s = max(start_s - asked.submit_s, 0.0)
    return error_of(
        asked.draws_s, asked.of, at_s=asked.submit_s, actual_s=actual_s, estimate=asked.estimate
    )
