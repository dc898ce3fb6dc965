"""ADEPT as a model: anomalies, envelope, search and judgement in the order of figure 2.

It judges its own fit, and says where to observe next (section IX, Table 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_finite, need_nodes, need_positive, need_share
from predictor.curves.reliability import Uncertainty, around, belongs, deviations, measure
from predictor.models.adept.anomalies import AnomalySettings, Diagnosis, diagnose
from predictor.models.adept.envelope import (
    Bounds,
    RangePair,
    envelope,
    everything,
    need_observations,
)
from predictor.models.adept.search import Instances, SearchSettings, best_for, search, weights
from predictor.models.base import need, register
from predictor.models.downey import max_useful, speedup
from predictor.problems import Problem, problem
from predictor.types import Curve, Prediction
from sacct_ingest.text.durations import duration_text

Floats = NDArray[np.float64]
#: δ is guessed, tested and raised (section V.A).
DELTA_FIRST, DELTA_STEP, DELTA_LAST = 0.05, 2.0, 0.9


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
    return tuple(reason for reason in problems if reason is not None)


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
    n = int(beyond[at])
    where = beyond[at : at + 1]
    times = (_over(instance, where).item(), _over(others, where)[apart][rival].item())
    shorter, longer = map(duration_text, sorted(times))
    return problem("alternative_fit", n, n, nodes=n, shorter=shorter, longer=longer)


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


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of Downey's model: A, σ and T(1)."""

    parallelism: float
    sigma: float
    serial_s: float

    @property
    def max_useful(self) -> float:
        """Nodes beyond which speedup no longer grows."""
        return max_useful(self.parallelism, self.sigma)

    def times(self, nodes: Floats) -> Floats:
        """Run time in seconds."""
        return self.serial_s / speedup(nodes, self.parallelism, self.sigma)


@dataclass(frozen=True, slots=True)
class AdeptFit:
    """Observations, what was found about them, and the envelope; targets are searched later."""

    nodes: tuple[float, ...]
    times: tuple[float, ...]
    diagnosis: Diagnosis
    envelope: tuple[RangePair, ...]
    delta: float
    settings: SearchSettings
    curve: Curve
    problems: tuple[Problem, ...]
    instances: tuple[Instance, ...]  #: those that predict each observation
    model: str = "adept"

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """See :class:`predictor.models.base.FittedModel`."""
        need_nodes(nodes)
        need_share("level", level)
        targets = np.asarray(nodes, dtype=float)
        searched, back = np.unique(self._shared(targets), return_inverse=True)
        medians = self._search(searched).chosen(back).times(targets)
        return around(nodes, medians, self.uncertainty, level)

    def roughly(self, nodes: Sequence[int]) -> Floats:
        """Run time in seconds by the instance of the closest observation, without a search."""
        need_nodes(nodes)
        targets = np.asarray(nodes, dtype=float)
        observed = np.array(self.nodes)
        closest = np.abs(targets[:, None] - observed).argmin(axis=1)
        every = np.stack([instance.times(targets) for instance in self.instances])
        times: Floats = every[closest, np.arange(len(targets))]
        return times

    def explains(self, nodes: int) -> bool:
        """Whether the model has a say on ``nodes``: nothing on what it leaves out.

        That is what lies at or beyond the start of a decline, other node counts than those that
        the application is made for, and anomalous observations.
        """
        declining = self.diagnosis.declining_from
        if declining is not None and nodes >= declining:
            return False
        out = zip(self.nodes, self.diagnosis.factor, strict=True)
        odd = {self.nodes[i] for i in self.diagnosis.anomalies} | {n for n, f in out if f == 0}
        return belongs(self.diagnosis.special, nodes) and nodes not in odd

    def instance(self, target: int) -> Instance:
        """Return the instance of Downey's model that predicts ``target``."""
        need_nodes((target,))
        return _listed(self._search(np.array([float(target)])))[0]

    @property
    def uncertainty(self) -> Uncertainty:
        """By how much each observation is missed where the others predict it; searched anew."""
        observed = self._observed
        errors = np.log(observed.left_out(self.envelope, self.settings) / observed.times)
        return measure(self.curve, errors.tolist())

    @property
    def _observed(self) -> "ObservedTimes":
        return ObservedTimes(np.array(self.nodes), np.array(self.times), self.diagnosis)

    def _shared(self, targets: Floats) -> Floats:
        """Shared targets, but the target itself where rounding would lead to another phase."""
        shared = shared_targets(targets)
        own, other = (self._observed.weights(t, self.settings.q) > 0 for t in (targets, shared))
        return np.where((own == other).all(axis=1), shared, targets)

    def _search(self, targets: Floats) -> Instances:
        observed = self._observed
        weight = observed.weights(targets, self.settings.q)
        return search(observed.nodes, observed.times, weight, targets, self.envelope, self.settings)


@register("adept")
@dataclass(frozen=True, slots=True)
class Adept:
    """ADEPT, by default with the paper's settings."""

    search: SearchSettings = field(default_factory=SearchSettings)
    anomalies: AnomalySettings = field(default_factory=AnomalySettings)
    judgement: JudgementSettings = field(default_factory=JudgementSettings)
    bounds: Bounds = field(default_factory=Bounds)
    min_points: int = 3

    def __post_init__(self) -> None:
        need_finite("fewest node counts of ADEPT", self.min_points, least=3)

    def fit(self, curve: Curve) -> AdeptFit:
        """See :class:`predictor.models.base.Model`."""
        need(curve, self.min_points)
        nodes = np.array([float(p.nodes) for p in curve.points])
        times = np.array([p.time_s for p in curve.points])
        diagnosis = diagnose(nodes, times, self.anomalies, deviations(curve))
        observed = ObservedTimes(nodes, times, diagnosis)
        delta, ranges, fitted = self._consistent(observed)
        return AdeptFit(
            nodes=tuple(nodes.tolist()),
            times=tuple(times.tolist()),
            diagnosis=diagnosis,
            envelope=ranges,
            delta=delta,
            settings=self.search,
            curve=curve,
            problems=(*diagnosis.problems, *self._judge(observed, fitted, ranges)),
            instances=_listed(fitted.instances),
        )

    def _consistent(
        self, observed: "ObservedTimes"
    ) -> "tuple[float, tuple[RangePair, ...], _Fitted]":
        """Raise δ until the fit is within δ of all observations that are not anomalous."""
        delta = DELTA_FIRST
        normal = observed.normal
        nodes = observed.nodes[normal]
        times = observed.times[normal]
        while True:
            ranges = envelope(nodes, times, delta, self.bounds)
            if ranges:
                fitted = observed.fitted(ranges, self.search)
                if fitted.error <= delta:
                    return delta, ranges, fitted
            if delta * DELTA_STEP > DELTA_LAST:
                ranges = everything(float(observed.nodes.max()), self.bounds)
                return DELTA_LAST, ranges, observed.fitted(ranges, self.search)
            delta *= DELTA_STEP

    def _judge(
        self, observed: "ObservedTimes", fitted: "_Fitted", ranges: tuple[RangePair, ...]
    ) -> tuple[Problem, ...]:
        phase = np.array(observed.diagnosis.phase)
        normal = observed.normal
        own: NDArray[np.bool_] = normal & (phase == phase[normal].max())
        return judge(
            observed.nodes[own],
            observed.times[own],
            fitted.own[own],
            fitted.beyond,
            ranges,
            self.judgement,
        )


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What the instances predict: each observation, and what lies beyond."""

    own: Floats
    instances: Instances  #: for each observation
    beyond: Instances
    error: float  #: largest relative error over the observations that are not anomalous


@dataclass(frozen=True, slots=True)
class ObservedTimes:
    """Observations with their diagnosis; all have the shape ``(observations,)``."""

    nodes: Floats
    times: Floats
    diagnosis: Diagnosis

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Observations that count."""
        return np.array(self.diagnosis.factor) > 0

    @property
    def normal(self) -> NDArray[np.bool_]:
        """Observations that the model has to explain: they count, and are not anomalous."""
        own = self.counts
        own[list(self.diagnosis.anomalies)] = False
        return own

    def weights(
        self, targets: Floats, q: float, without: NDArray[np.bool_] | None = None
    ) -> Floats:
        """W' of each observation (columns) for each target (rows); section V.B and VIII.

        ``without`` marks what must not count although it does.  A target has the phase of the
        closest observation.  Between two phases its phase is unknown: all count.
        """
        counts = np.broadcast_to(self.counts, (len(targets), len(self.nodes)))
        counts = counts if without is None else counts & ~without
        distance = np.abs(targets[:, None] - self.nodes)
        closest = np.where(counts, distance, np.inf).argmin(axis=1)
        phase = np.array(self.diagnosis.phase)
        own = counts & (phase == phase[closest][:, None])
        first = np.where(own, self.nodes, np.inf).min(axis=1)
        last = np.where(own, self.nodes, -np.inf).max(axis=1)
        counted = self.nodes[self.counts]
        inside = (targets > counted.min()) & (targets < counted.max())
        between: NDArray[np.bool_] = inside & ((targets < first) | (targets > last))
        counts = np.where(between[:, None], counts, own)
        return np.where(counts, weights(targets, self.nodes, q) * self.diagnosis.factor, 0.0)

    def fitted(self, ranges: tuple[RangePair, ...], settings: SearchSettings) -> _Fitted:
        """Search for all observations and for twice the largest at once."""
        count = len(self.nodes)
        targets = np.append(self.nodes, 2 * self.nodes[self.counts].max())
        weight = self.weights(targets, settings.q)
        instances = search(self.nodes, self.times, weight, targets, ranges, settings)
        own = instances.times(targets)[:count]
        error = np.abs(own / self.times - 1)[self.normal].max()
        ahead = instances.chosen(np.arange(count))
        last = instances.chosen(np.array([count]))
        return _Fitted(own, ahead, last, float(error))

    def left_out(self, ranges: tuple[RangePair, ...], settings: SearchSettings) -> Floats:
        """Predict each observation from the others."""
        weight = self.weights(self.nodes, settings.q, np.eye(len(self.nodes), dtype=bool))
        instances = search(self.nodes, self.times, weight, self.nodes, ranges, settings)
        return instances.times(self.nodes)


def _listed(instances: Instances) -> tuple[Instance, ...]:
    parts = (instances.parallelism, instances.sigma, instances.serial_time)
    return tuple(Instance(*map(float, one)) for one in zip(*parts, strict=True))


def shared_targets(targets: Floats) -> Floats:
    """Round targets so that near ones share one search.

    Weights hardly differ within a sixteenth of an octave.  Counts up to 16 stay as they are.

    targets: node counts to predict, shape ``(targets,)``.
    """
    return np.where(targets <= 16, targets, np.round(2 ** (np.round(np.log2(targets) * 8) / 8), 3))
