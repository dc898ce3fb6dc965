"""Whether an application's predictions still hold: what its runs took over what was predicted.

The median of log(realised / predicted) over the last runs has to lie in a band: the site's, or that
of the predictions' own intervals where these are wider.  A median bears a few runs that went
wrong; that it takes a narrower band to come back than to leave keeps the switch from flapping.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median


@dataclass(frozen=True, slots=True)
class PredictionOutcome:
    """One run that was predicted; times in seconds.

    A run that was stopped (``cut``) would have taken longer than ``realised_s``.
    """

    ended_s: float
    realised_s: float
    predicted_s: float
    low_s: float  #: interval of the prediction
    high_s: float
    cut: bool = False


@dataclass(frozen=True, slots=True)
class AccuracyBand:
    """Ratios (at least 1) beyond which an application leaves, and within which it comes back."""

    ratio: float = 1.5
    back: float = 1.25
    runs: int = 6  #: the last ones, whose median counts
    least: int = 3  #: fewer say nothing


@dataclass(frozen=True, slots=True)
class Standing:
    """What the last runs say; ``ratio`` is realised over predicted, in the middle."""

    off: bool
    ratio: float
    runs: int
    low: float  #: the band that the ratio had to be in
    high: float


def judge(
    outcomes: Sequence[PredictionOutcome], band: AccuracyBand, *, off: bool
) -> Standing | None:
    """Judge an application by its last runs.

    outcomes: in any order; runs that were cut short before their predicted time say nothing.
    off: whether it is switched off now.
    Returns Standing or None: none with fewer than ``band.least`` runs that say something.
    """
    conclusive = [one for one in outcomes if not one.cut or one.realised_s > one.predicted_s]
    last = sorted(conclusive, key=lambda one: one.ended_s)[-band.runs :]
    if len(last) < band.least:
        return None
    middle = median(log(one.realised_s / one.predicted_s) for one in last)
    wide = log(band.ratio)
    # Narrowed for the way back in the same proportion as the site's own band.
    share = log(min(band.back, band.ratio)) / wide if off and wide else 1.0
    low = share * min(-wide, median(log(one.low_s / one.predicted_s) for one in last))
    high = share * max(wide, median(log(one.high_s / one.predicted_s) for one in last))
    return Standing(not low <= middle <= high, exp(middle), len(last), exp(low), exp(high))
