"""What is believed about a curve, by which evidence, and how far.

One registered model is believed for every target.  By default that is the average over shapes
(:mod:`predictor.models.averaged.model`): it weighs all forms that the other models stand for by
what the observations say of each, inside the observed range as well as beyond it.  ADEPT reads the
same observations independently: what it finds about them (node counts that the application is made
for, steps, anomalies, an open end) is reported with the next count to run on.  Where it has nothing
against its own prediction, that one is a second opinion.  With fewer than three node counts there
is no curve: see :mod:`predictor.level.experts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from predictor.curves import reliability
from predictor.curves.from_runs import TWO_SIZES
from predictor.curves.reliability import ReliabilitySettings, belongs
from predictor.models import base
from predictor.models.adept import Adept, AdeptFit
from predictor.models.two_sizes import translation_of
from predictor.problems import Problem, problem
from predictor.types import Curve, Prediction, Verdict
from sacct_ingest.text.durations import duration_text

MIN_POINTS = 3
#: Model that is believed unless another one is named.
MODEL = "averaged"
#: Next observations are looked for up to so many times the largest one, among so many counts.
REACH, CANDIDATES = 2, 16


@dataclass(frozen=True, slots=True)
class Choice:
    """The fit that is believed, and ADEPT's as a second opinion on the same observations."""

    fit: base.FittedModel
    second: AdeptFit
    curve: Curve
    problems: tuple[Problem, ...] = ()
    special: str = ""  #: family of node counts, see :mod:`predictor.curves.reliability`

    def predict(self, nodes: Sequence[int], level: float = 0.9) -> list[Prediction]:
        """See :class:`predictor.models.base.FittedModel`."""
        return self.fit.predict(nodes, level)

    def judge(
        self, predictions: Sequence[Prediction], settings: ReliabilitySettings | None = None
    ) -> tuple[tuple[Verdict, ...], tuple[Problem, ...]]:
        """Verdicts on ``predictions`` of this choice, and all problems, the gravest first.

        Of the problems each names the run that would help most.
        """
        chosen = settings or ReliabilitySettings()
        curve = self.curve
        own = reliability.curve_problems(curve, chosen)
        sure = reliability.verdicts(
            curve, predictions, (*own, *self.problems), chosen, special=self.special
        )
        disputed = self._disputed(predictions, sure, chosen.reliable_factor)
        verdicts = tuple(
            Verdict.DOUBTFUL if p.nodes in disputed else verdict
            for p, verdict in zip(predictions, sure, strict=True)
        )
        open_end = self._uncertain(predictions, chosen)
        return verdicts, (*own, *disputed.values(), *open_end, *self.problems)

    def _disputed(
        self, predictions: Sequence[Prediction], verdicts: Sequence[Verdict], factor: float
    ) -> dict[int, Problem]:
        """Node counts where ADEPT disagrees although it has nothing against its own prediction.

        It disagrees where its time is outside the interval and farther off than ``factor``.
        """
        named = {reason.name for reason in self.second.problems}
        points = self.curve.points
        asked = [
            p
            for p, verdict in zip(predictions, verdicts, strict=True)
            if verdict is Verdict.RELIABLE
            and self.second.explains(p.nodes)
            and not named & reliability.downey_doubts(points, p.nodes)
        ]
        if not asked:
            return {}
        others = self.second.roughly([p.nodes for p in asked])
        return {
            p.nodes: problem(
                "disagreement",
                p.nodes,
                nodes=p.nodes,
                other=duration_text(float(other)),
                own=duration_text(p.time_s),
            )
            for p, other in zip(asked, others, strict=True)
            if not p.low_s <= other <= p.high_s and not 1 / factor <= other / p.time_s <= factor
        }

    def _uncertain(
        self, predictions: Sequence[Prediction], settings: ReliabilitySettings
    ) -> tuple[Problem, ...]:
        """Say what is uncertain up to twice the largest count, and which run would reduce that.

        Gaps between observations come first: what lies beyond them is no surer than they are.
        """
        points = self.curve.points
        first = points[0].nodes
        last = points[-1].nodes
        wide = [
            p.nodes
            for p in predictions
            if not reliability.is_sure(p, settings) and belongs(self.special, p.nodes)
        ]
        inside = [n for n in wide if first < n < last]
        targets = inside or [n for n in wide if n <= REACH * last] or wide
        if not targets:
            return ()
        candidates = self._candidates(first, last if inside else REACH * last)
        observe = base.most_informative(
            self.fit, candidates, targets[:: -(-len(targets) // CANDIDATES)]
        )
        return (reliability.wide_interval(targets, last, observe, settings),)

    def _candidates(self, first: int, last: int) -> list[int]:
        spread = {round(n) for n in np.geomspace(max(first // REACH, 1), last, CANDIDATES)}
        return sorted(n for n in spread | {last} if belongs(self.special, n)) or [last]


def fit_curve(curve: Curve, model: str = MODEL) -> Choice:
    """Fit ``curve``.

    model: registered name of the one that is believed.
    Raises predictor.models.base.UnknownModel: no model has this name;
        predictor.models.base.TooFewPoints: fewer than three node counts.
    """
    if is_of_two_sizes(curve):
        return _of_two_sizes(curve)
    curve = replace(curve, others=())
    base.need(curve, MIN_POINTS)
    adept = Adept().fit(curve)
    special = adept.diagnosis.special
    reported = adept.problems
    if special:
        curve = replace(curve, points=tuple(p for p in curve.points if belongs(special, p.nodes)))
        adept = Adept().fit(curve)
    fit = base.create(model).fit(curve)
    # The fit of Downey's model does not matter if another model is used.
    relevant = [p for p in reported if p.name not in reliability.DOWNEY_EVERYWHERE]
    # Where ADEPT itself is believed, its problems are both.
    problems = tuple(dict.fromkeys([*_cut_short(fit, curve), *fit.problems, *relevant]))
    return Choice(fit, adept, curve, problems, special)


def is_of_two_sizes(curve: Curve) -> bool:
    """Whether a curve has too few node counts of its own, and runs of other second sizes."""
    return bool(curve.others) and len(curve.points) < MIN_POINTS


def shown_of(curve: Curve) -> Curve:
    """Curve that its own second size has: of too few counts with what the others say."""
    return translation_of(curve).curve(curve) if is_of_two_sizes(curve) else curve


def _of_two_sizes(curve: Curve) -> Choice:
    """Fit runs of several second sizes; ADEPT reads them as of one."""
    shown = shown_of(curve)
    base.need(shown, MIN_POINTS)
    fit = base.create(TWO_SIZES).fit(curve)
    run = len(curve.points)
    few = problem("two_sizes", runs=f"{run} node count{'s were' if run > 1 else ' was'}")
    return Choice(fit, Adept().fit(shown), shown, (*_cut_short(fit, shown), *fit.problems, few))


def _cut_short(fit: base.FittedModel, curve: Curve) -> list[Problem]:
    """Report runs that were stopped by their limit no sooner than they might have ended."""
    bounds = curve.censored
    predictions = fit.predict([p.nodes for p in bounds]) if bounds else []
    return [
        problem("cut_short", bound.nodes, nodes=bound.nodes, limit=duration_text(bound.time_s))
        for bound, p in zip(bounds, predictions, strict=True)
        if bound.time_s >= 0.9 * p.low_s
    ]
