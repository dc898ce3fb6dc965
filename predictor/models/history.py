"""Run time without a curve: what earlier runs, the more alike the more, let expect.

Typical run time and raw interval at each node count seen, and for each limit that was asked for,
are those of :mod:`predictor.similar`.  How far such intervals are to be believed is told by what
they missed on all applications of the site: the ends are moved by the factors that would have held
the level (conformalised quantiles: Romano, Patterson and Candès, NeurIPS 2019, on the log scale).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from predictor.checks import need_share
from predictor.similar import Calibration, PastRun, Request, Sample, SimilarSettings, sample
from predictor.types import Prediction, Run

#: One residual: when the run ended, and log of actual time over the low and over the high end.
Residual = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """How histories are read.

    The ``replayed`` last runs of an identity tell what its intervals missed, the last ``residuals``
    of a level calibrate its intervals, and ``recent`` runs of an identity are looked at.  The last
    ``limits`` time limits that were asked for are told apart.  ``similar`` is for runs that may
    stand for many problems, ``same_problem`` for those of one: there, runs on other node counts
    hardly count beside any on the same.
    """

    similar: SimilarSettings = field(default_factory=SimilarSettings)
    same_problem: SimilarSettings = field(default_factory=lambda: SimilarSettings(nodes=1000.0))
    replayed: int = 20
    residuals: int = 600
    recent: int = 1000
    limits: int = 8


class History:
    """Finished runs of one identity, in the order of their ends."""

    def __init__(
        self,
        runs: Iterable[Run],
        settings: HistorySettings | None = None,
        *,
        same_problem: bool = False,
    ) -> None:
        self.settings = settings or HistorySettings()
        self._similar = self.settings.same_problem if same_problem else self.settings.similar
        kept = (run for run in runs if not run.censored and run.elapsed_s > 0)
        self.runs = sorted(kept, key=lambda run: (run.end_s, run.nodes, run.elapsed_s))
        self._past = [PastRun(_request(run), run.elapsed_s) for run in self.runs]

    @property
    def nodes(self) -> list[int]:
        """Node counts seen, in rising order."""
        return sorted({run.nodes for run in self.runs})

    @property
    def limits(self) -> list[float]:
        """Time limits told apart, in seconds, the last one asked for first; without unknown ones.

        A single one needs no telling apart.
        """
        asked = dict.fromkeys(run.limit_s for run in reversed(self.runs) if run.limit_s > 0)
        return list(asked)[: self.settings.limits] if len(asked) > 1 else []

    def expected(self, level: float, limit_s: float | None = None) -> list[Prediction]:
        """Typical run time at each node count seen, with the raw interval at ``level``.

        It is not the median, but the time with the highest expected min(p, a)/max(p, a) of
        predicted and actual run time.

        Parameters
        ----------
        limit_s
            Time limit that is asked for; None: the last one at each node count.
        """
        need_share("level", level)
        latest = {run.nodes: run.limit_s for run in self.runs}
        found = []
        for nodes in self.nodes:
            one = self.sample(nodes, latest[nodes] if limit_s is None else limit_s)
            found.append(Prediction(nodes, one.typical(), *_ends(one, level), level))
        return found

    def sample(self, nodes: int, limit_s: float) -> Sample:
        """Possible run times of a request; ``limit_s`` 0: not known."""
        return sample(Request(nodes, limit_s or math.inf), self._past, self._similar)

    def residuals(self, level: float) -> list[Residual]:
        """Replay the last runs, knowing only earlier ones: how far they were from either end."""
        need_share("level", level)
        similar, found = self._similar, []
        for i in range(max(2, len(self.runs) - self.settings.replayed), len(self.runs)):
            run, past = self.runs[i], self._past[max(0, i - similar.window) : i]
            low, high = _ends(sample(_request(run), past, similar), level)
            found.append((run.end_s, math.log(run.elapsed_s / low), math.log(run.elapsed_s / high)))
        return found


def multipliers(
    residuals: Sequence[Residual], level: float, keep: int = 600
) -> tuple[float, float]:
    """Factors on the two ends of raw intervals that hold ``level`` of new runs between them.

    From the last ``keep`` residuals; with too few for the level, the widest seen, and at least a
    factor of two either way.
    """
    last = sorted(residuals)[-keep:]
    below, above = Calibration(0.5 + level / 2), Calibration(0.5 + level / 2)
    for _, low, high in last:
        below.update(-low, below.shift)
        above.update(high, above.shift)
    if below.shift is None or above.shift is None:
        widest = max([math.log(2.0), *(abs(value) for one in last for value in one[1:])])
        return math.exp(-widest), math.exp(widest)
    return math.exp(-below.shift), math.exp(above.shift)


def _request(run: Run) -> Request:
    return Request(run.nodes, run.limit_s or math.inf)


def _ends(one: Sample, level: float) -> tuple[float, float]:
    return one.quantile(0.5 - level / 2), one.quantile(0.5 + level / 2)
