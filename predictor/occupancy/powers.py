"""A run time that is a constant and a power of each attribute: ``T = a + b·x^p·y^q``.

It is not in the papers of NIMO, whose functions are sums.  Work that is shared out (``1/(n·c)``),
costs that grow faster than the data and imperfect speedups are products of powers; of many
attributes a sum has too many of these to learn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from predictor.checks import comparable
from predictor.occupancy.fit import Alternative, Form, OccupancyFit, judged_by
from predictor.occupancy.functions import Function, Shape, Term
from predictor.occupancy.samples import Sample, checked, from_the_others

Floats = NDArray[np.float64]
#: Name of the form.
POWERS = "a constant and a power of each attribute"
#: Shares of the shortest run time that the constant may be.
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
#: Prior standard deviation of an exponent, and relative noise of a run.
_EXPONENT, _NOISE = 1.0, 0.05


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Learns run time as a whole: occupancies have the same share of it in all runs."""

    def fit(
        self, samples: Sequence[Sample], reference: Mapping[str, float] | None = None
    ) -> OccupancyFit:
        """Learn the constant and the exponents.

        Raises ValueError: no sample, or one whose attributes or occupancies cannot be learned from.
        """
        base = checked(samples, reference)
        form = _form(samples, base)
        others = from_the_others(samples, lambda rest: _form(rest, base))
        predicted = [
            made.occupancies(one.attributes)[0] for made, one in zip(others, samples, strict=True)
        ]
        made = judged_by(OccupancyFit((form,), 1, 0.0, len(samples)), samples, predicted)
        left_out = float(np.median(np.abs(made.left_out)))
        return replace(made, tried=(Alternative(POWERS, left_out),))


def _form(samples: Sequence[Sample], base: Mapping[str, float]) -> Form:
    times = np.array([one.measured.time_s for one in samples])
    names = [name for name in sorted(base) if len({one.attributes[name] for one in samples}) > 1]
    logs = np.log([[one.attributes[name] / base[name] for name in names] for one in samples])
    design = np.column_stack([np.ones(len(samples)), logs.reshape(len(samples), len(names))])
    tried = [_regressed(design, times, share * float(times.min())) for share in _SHARES]
    constant_s, theta, _ = min(tried, key=lambda one: comparable(one[2]))
    term: Term | None = None
    for name, exponent in zip(names, theta[1:].tolist(), strict=True):
        term = Term(name, Shape.POWER, exponent, times=term)
    scale = float(np.exp(theta[0]))
    terms = (term,) if term else ()
    constant = constant_s / scale + (0.0 if term else 1.0)
    reference = {name: base[name] for name in names}

    def part(name: str) -> Function:
        share = _share(samples, name)
        return Function(reference, share * scale, constant, terms, (1.0,) * len(terms))

    return Form(part("compute_s"), part("network_s"), part("disk_s"), Function({}, 1.0, 1.0))


def _share(samples: Sequence[Sample], part: str) -> float:
    """Mean share of the run time that one occupancy is."""
    return float(np.mean([getattr(one.measured, part) / one.measured.each_s for one in samples]))


def _regressed(design: Floats, times: Floats, constant_s: float) -> tuple[float, Floats, float]:
    """Regress the log of what exceeds the constant; with the error of left-out run times."""
    rest = times - constant_s
    # An error of the whole time is as large a share of it everywhere.
    weights = rest / times
    prior = np.full(design.shape[1], (_NOISE / _EXPONENT) ** 2)
    prior[0] = 0.0
    weighted = design * weights[:, None]
    inverse = np.linalg.pinv(weighted.T @ weighted + np.diag(prior))
    theta: Floats = inverse @ (weighted.T @ (weights * np.log(rest)))
    leverage = np.einsum("ij,jk,ik->i", weighted, inverse, weighted)
    missed = weights * (np.log(rest) - design @ theta) / np.maximum(1 - leverage, 0.05)
    return constant_s, theta, float(np.sqrt(np.mean(missed**2)))
