"""ADEPT's judgement of its own fit, with where to observe next (section IX, Table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_positive
from predictor.models.adept.envelope import RangePair, need_observations
from predictor.models.adept.search import Instances, best_for
from predictor.problems import problem
from predictor.types import Problem
from sacct_ingest.text.slurm_text import time_span

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JudgementSettings:
    """Thresholds of Table 3.

    ``error`` is the relative fitting error that is high, ``rival`` the factor on the WSSRE up to
    which another instance explains the input as well, ``apart`` the factor between two A that are
    significantly different.  ``noise`` is the relative error that any measurement has: without it
    no instance would rival a perfect fit.  ``reach`` is how far beyond the largest observation the
    next one is looked for.
    """

    error: float = 0.10
    rival: float = 1.1
    apart: float = 1.5
    noise: float = 0.005
    reach: int = 4

    def __post_init__(self) -> None:
        need_positive("a threshold of judgement", self.error, self.noise)
        need_finite("a factor of judgement", self.rival, self.apart, self.reach, least=1)


def judge(
    nodes: Floats,
    times: Floats,
    fitted: Floats,
    instance: Instances,
    envelope: Sequence[RangePair],
    settings: JudgementSettings | None = None,
) -> tuple[Problem, ...]:
    """Every problem of Table 3.

    nodes, times: observations that take part.
    fitted: what the instance made for each of them predicts.
    instance: the instance for targets beyond the observations.
    """
    need_observations(nodes, times)
    chosen = settings or JudgementSettings()
    others = as_good(nodes, times, envelope, chosen)
    problems = (
        high_fitting_error(nodes, times, fitted, chosen),
        linear_section(nodes, instance, others) or alternative_fit(nodes, instance, others, chosen),
    )
    return tuple(problem for problem in problems if problem is not None)


def high_fitting_error(
    nodes: Floats, times: Floats, fitted: Floats, settings: JudgementSettings
) -> Problem | None:
    """Report an application that deviates greatly from Downey's model."""
    error = np.abs(fitted / times - 1)
    worst = int(error.argmax())
    if error[worst] <= settings.error:
        return None
    return problem("high_fitting_error", error=error[worst], nodes=nodes[worst])


def linear_section(nodes: Floats, instance: Instances, others: Instances) -> Problem | None:
    """Report observations that all lie where speedup is still linear in low variance.

    Without T(1) such observations are on the first section of the high-variance mode as well,
    which has no linear one: what counts is that no instance as good as the best sees its end.  The
    next observation is asked for at A of the fitted instance.
    """
    last = nodes.max()
    if others.high.all() or others.end.min() <= last:
        return None
    return problem("linear_section", ceil(max(instance.parallelism[0], last + 1)))


def alternative_fit(
    nodes: Floats, instance: Instances, others: Instances, settings: JudgementSettings
) -> Problem | None:
    """Report another instance of very different A that explains the observations as well."""
    beyond = np.geomspace(nodes.max() + 1, settings.reach * nodes.max(), 24).round()
    own = float(instance.parallelism[0])
    apart = np.maximum(others.parallelism / own, own / others.parallelism) > settings.apart
    differ = np.abs(np.log(_over(others, beyond) / _over(instance, beyond)))[apart]
    if not apart.any() or differ.max() <= settings.error:
        return None
    rival = int(differ.max(axis=1).argmax())
    at = np.argmax(differ[rival] >= 0.8 * differ[rival].max())
    n, where = int(beyond[at]), beyond[at : at + 1]
    times = (_over(instance, where).item(), _over(others, where)[apart][rival].item())
    shorter, longer = map(time_span, sorted(times))
    return problem("alternative_fit", n, nodes=n, shorter=shorter, longer=longer)


def as_good(
    nodes: Floats, times: Floats, envelope: Sequence[RangePair], settings: JudgementSettings
) -> Instances:
    """Find the instances that fit nearly as well as the best of the envelope, equally weighted."""
    every = Instances.joined([
        best_for(nodes, times, mode, envelope, 48)
        for mode in {pair.mode: None for pair in envelope}
    ])  # fmt: skip
    enough = settings.rival * every.wssre.min() + len(nodes) * settings.noise**2
    return every.chosen(every.wssre <= enough)


def _over(instances: Instances, nodes: Floats) -> Floats:
    """T of each instance (rows) at each of ``nodes`` (columns)."""
    rows = np.arange(len(instances.end)).repeat(len(nodes))
    times = instances.chosen(rows).times(np.tile(nodes, len(instances.end)))
    return times.reshape(-1, len(nodes))
