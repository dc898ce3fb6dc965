"""Durations of steps, and their uncertainty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from statistics import NormalDist

#: Bytes that a program asks for at a time where it reads over the network.
_REQUEST_BYTES = 2.0**20
#: Standard deviation of log time of a run time that somebody gave, and of a rule of thumb.
GIVEN, GUESSED = 0.1, 0.35
#: Share of the runs beyond which one is overdue, and what is then expected of its time to follow.
_HARDLY_ANY, _OVERDUE = 0.95, 0.2
_LONGEST = 0.99


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """Median time of a step, and the standard deviations of log time below and above it.

    ``common`` is the part that all steps of ``group`` have together: the error of one curve makes
    all runs of its application late at once.  ``doubt`` says why it is not to be relied on.
    """

    time_s: float
    down: float = 0.0
    up: float = 0.0
    common: float = 0.0
    group: str = ""
    doubt: str = ""

    def times(self, factor: float) -> "TaskEstimate":
        """Estimate of something that takes ``factor`` times as long."""
        return replace(self, time_s=self.time_s * factor)

    def left(self, elapsed_s: float) -> "TaskEstimate":
        """Estimate the remaining time of a step that has run for ``elapsed_s``.

        The median of the runs that take longer than that; once hardly any was expected to, what was
        known of it is worth little, and a share of what it has taken is expected to follow.

        >>> round(TaskEstimate(100.0, 0.1, 0.1).left(100.0).time_s)
        7
        >>> round(TaskEstimate(100.0, 0.1, 0.1).left(500.0).time_s)
        100
        """
        sd = self.up if elapsed_s > self.time_s else self.down
        z = log(elapsed_s / self.time_s) / sd if sd and elapsed_s > 0 else -inf
        gone = NormalDist().cdf(z) if sd else float(elapsed_s >= self.time_s)
        left_s = _OVERDUE * elapsed_s
        if gone < _HARDLY_ANY:
            left_s = self.quantile((1 + gone) / 2) - elapsed_s if sd else self.time_s - elapsed_s
        return TaskEstimate(left_s, GUESSED, GUESSED)

    @property
    def longest_s(self) -> float:
        """Time that hardly any run exceeds: the least a time limit has to allow."""
        return self.quantile(_LONGEST)

    def quantile(self, share: float) -> float:
        """Time in seconds that ``share`` of the cases stay below.

        >>> round(TaskEstimate(100.0, 0.1, 0.1).quantile(0.95), 1)
        117.9
        """
        z = NormalDist().inv_cdf(share)
        return self.time_s * exp(z * (self.up if z > 0 else self.down))


def of_interval(
    time_s: float, low_s: float, high_s: float, level: float, common: float = 0.0, group: str = ""
) -> TaskEstimate:
    """Estimate whose interval at ``level`` is from ``low_s`` to ``high_s``."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    down, up = log(time_s / low_s) / z, log(high_s / time_s) / z
    return TaskEstimate(time_s, max(down, 0.0), max(up, 0.0), common, group)


@dataclass(frozen=True, slots=True)
class TransferPath:
    """Way over which a task reads a file in place; None: nobody gave it and nothing measured it."""

    size_bytes: float
    bandwidth_bytes_per_s: float | None
    latency_s: float | None
    link: str = ""  #: name of the way


def with_remote(local: TaskEstimate, remote: Sequence[TransferPath]) -> TaskEstimate:
    """Run time of a task whose inputs are read once over the network.

    Each byte occupies the network for the latency of its request and for its share of the
    bandwidth, o_n = latency / request + 1 / bandwidth, and nothing of that is hidden behind
    computing: what is expected where no occupancy model was learned.
    """
    if not remote:
        return local
    stall_s = sum(
        path.size_bytes
        * ((path.latency_s or 0.0) / _REQUEST_BYTES + 1 / (path.bandwidth_bytes_per_s or inf))
        for path in remote
    )
    total_s = local.time_s + stall_s
    share = stall_s / total_s
    return replace(
        local,
        time_s=total_s,
        down=(1 - share) * local.down + share * GUESSED,
        up=(1 - share) * local.up + share * GUESSED,
        common=(1 - share) * local.common,
    )


def of_run_times(run_times_s: Mapping[int, float], nodes: int, group: str) -> TaskEstimate | None:
    """Run time from the workflow's own table; between two counts log time is linear in log nodes.

    >>> round(of_run_times({1: 100.0, 4: 25.0}, 2, "").time_s)
    50
    """
    if nodes in run_times_s:
        return TaskEstimate(run_times_s[nodes], GIVEN, GIVEN, GIVEN / 2, group)
    low = max((n for n in run_times_s if n < nodes), default=None)
    high = min((n for n in run_times_s if n > nodes), default=None)
    if low is None or high is None:
        return None
    share = log(nodes / low) / log(high / low)
    mixed = (1 - share) * log(run_times_s[low]) + share * log(run_times_s[high])
    return TaskEstimate(exp(mixed), GIVEN, GIVEN, GIVEN / 2, group)
