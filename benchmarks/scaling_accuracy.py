"""How well run time over nodes is predicted from three or four observations, beside baselines.

Reads strong-scaling curves from a CSV with the columns ``source_repo, app, system, problem, unit,
n, runtime_s, family`` (one row a run; without ``--data`` curves are generated, see
``_generated.py``) and asks each method for node counts that it has not seen:

==========  ======================================  =============================================
protocol    observed                                asked
==========  ======================================  =============================================
interp      first, last and two spread between      all others
ext2, ext4  the four smallest                       beyond, to twice (four times) the largest seen
adept3, 4   the three (four) smallest without n=1   beyond, to eight times the largest seen
==========  ======================================  =============================================

Beside that: how well intervals of T(n)/T(asked) hold after three runs of one job, with noise, and
those of run times between counts that ran.

Error: distance of prediction and actual time over the actual time, in percent.  ``family`` is the
mean over applications of the median of each, so that many curves of one application do not outvote
the others.  A failure or a time that is not positive counts as infinite.  Nothing is learned from
the file: no method has seen a curve before it is asked about it.
"""

import csv
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _bench
import _generated
import numpy as np
from _between_counts import between
from _parametric import Amdahl, AmdahlLog, Usl
from _programs import read_programs
from numpy.typing import NDArray

from predictor.application.count_changes import end
from predictor.application.model import Application
from predictor.application.request import REACH
from predictor.models import selection
from predictor.models.adept import Adept
from predictor.models.base import Model
from predictor.sample import Sample
from predictor.types import Curve, Point, Prediction, Verdict

try:
    import _extrap
except ImportError:
    _extrap = None

Floats = NDArray[np.float64]
#: Predictions and, where the method judges itself, verdicts.
Answer = tuple[list[Prediction], Sequence[Verdict]]
Method = Callable[[Curve, Sequence[int]], Answer]
KEYS = ("source_repo", "app", "system", "problem", "unit")
NOISES = (0.03, 0.1, 0.3)
PROTOCOLS = ("interp", "ext2", "ext4", "adept3", "adept4")
#: Models that NIMO does not choose, as peers: ADEPT alone, and parametric forms.
MODELS: dict[str, Model] = {
    "ADEPT": Adept(),
    "Amdahl": Amdahl(),
    "Amdahl + log": AmdahlLog(),
    "USL": Usl(),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One strong-scaling curve of the file; medians of repeats, rising node counts."""

    family: str
    nodes: tuple[int, ...]
    times_s: tuple[float, ...]
    unit: str = "nodes"  #: what ``nodes`` count


@dataclass(frozen=True, slots=True)
class Case:
    """What is shown of one curve under one protocol, and what is asked."""

    protocol: str
    family: str
    shown: Curve
    nodes: tuple[int, ...]
    actual_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """One predicted time beside the actual one."""

    family: str
    error: float  #: relative, infinite for a failure
    covered: bool | None  #: None for methods without intervals
    verdict: Verdict | None
    seconds: float


def load(path: Path, min_points: int = 6) -> list[Measured]:
    """Read curves with at least ``min_points`` distinct node counts."""
    runs: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    families: dict[tuple[str, ...], str] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            key = tuple(row[name] for name in KEYS)
            runs[key][int(row["n"])].append(float(row["runtime_s"]))
            families[key] = row["family"]
    return [
        Measured(families[key], tuple(sorted(times)), _medians(times), _unit(key[-1]))
        for key, times in sorted(runs.items())
        if len(times) >= min_points
    ]


def of_c3o(path: Path, min_points: int = 4) -> list[Measured]:
    """Read curves of C3O's runs: of each program, machine type and set of sizes."""
    return [
        Measured(program.name, tuple(sorted(times)), _medians(times))
        for program in read_programs(path)
        for times in program.times.values()
        if len(times) >= min_points
    ]


def _unit(name: str) -> str:
    """Give the unit of a curve as NIMO has it: ranks, threads and cores are all CPUs."""
    return name if name in ("nodes", "gpus") else "cpus"


def cases(curves: Sequence[Measured]) -> Iterator[Case]:
    """All five protocols of all curves, without those that have nothing to ask."""
    for curve in curves:
        count = len(curve.nodes)
        spread = sorted({round(i * (count - 1) / 3) for i in range(4)})
        yield from case_of("interp", curve, spread, [i for i in range(count) if i not in spread])
        yield from beyond("ext2", curve, [0, 1, 2, 3], 2)
        yield from beyond("ext4", curve, [0, 1, 2, 3], 4)
        parallel = [i for i, n in enumerate(curve.nodes) if n > 1]
        for size in (3, 4):
            if len(parallel) > size:
                yield from beyond(f"adept{size}", curve, parallel[:size], 8)


def methods() -> dict[str, Method]:
    """Every method by the name of its row; Extra-P only where it is installed."""
    result: dict[str, Method] = {"nimo": _nimo, "joint model": _joint}
    result |= {name: _model(model) for name, model in MODELS.items()}
    result |= {name: _plain(formula) for name, formula in FORMULAS.items()}
    if _extrap is not None:
        result["Extra-P"] = _plain(_extra_p)
    return result


def score(method: Method, asked: Sequence[Case]) -> dict[str, list[Scored]]:
    """Ask ``method`` for all cases; a list of scores for each protocol."""
    scores: dict[str, list[Scored]] = {name: [] for name in PROTOCOLS}
    for case in asked:
        start = time.perf_counter()
        try:
            predictions, verdicts = method(case.shown, case.nodes)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            predictions, verdicts = [], ()
        seconds = time.perf_counter() - start
        scores[case.protocol] += _scored(case, predictions, verdicts, seconds)
    return scores


def summary(name: str, scores: Sequence[Scored]) -> dict[str, Any]:
    """One row of the table."""
    errors = np.array([s.error for s in scores])
    families = defaultdict(list)
    for one in scores:
        families[one.family].append(min(one.error, 10.0))
    return {
        "method": name,
        "median %": 100 * float(np.median(errors)),
        "family %": 100 * float(np.mean([np.median(group) for group in families.values()])),
        "p90 %": _p90(errors),
        "failures": int(np.isinf(errors).sum()),
        "cover %": _share([s.covered for s in scores]),
        "ms": 1e3 * float(np.median([s.seconds for s in scores])),
    }


def trust(protocol: str, scores: Sequence[Scored]) -> list[dict[str, Any]]:
    """How good predictions of each verdict are."""
    return [
        {
            "protocol": protocol,
            "verdict": verdict.value,
            "share %": 100 * len(errors) / len(scores),
            "median %": 100 * float(np.median(errors)),
            "p90 %": _p90(errors),
            "within 20 %": 100 * float(np.mean(errors <= 0.2)),
        }
        for verdict in Verdict
        if len(errors := np.array([s.error for s in scores if s.verdict is verdict]))
    ]


def main() -> None:
    """Score all methods under all protocols."""
    parser = _bench.options(str(__doc__), data="CSV with strong-scaling curves")
    parser.add_argument(
        "--sizes", type=Path, nargs="*", default=[], metavar="FILE", help="C3O's runs, as sizes.py"
    )
    arguments = parser.parse_args()
    curves = load(arguments.data) if arguments.data else generated(_generated.curves(120))
    curves = curves[:: 4 if arguments.quick else 1]
    asked = list(cases(curves))
    scores = {name: score(method, asked) for name, method in methods().items()}
    figures = {
        protocol: [summary(name, by[protocol]) for name, by in scores.items() if by[protocol]]
        for protocol in PROTOCOLS
    }
    for protocol, rows in figures.items():
        points = len(scores["nimo"][protocol])
        kind = "curves" if arguments.data else "generated curves"
        _bench.table(rows, title=f"{protocol}: {points} points of {len(curves)} {kind}")
    judged = scores["nimo"]
    beyond = [s for name in PROTOCOLS[1:] for s in judged[name]]
    verdicts = [row for name in PROTOCOLS for row in trust(name, judged[name])]
    verdicts += trust("all beyond", beyond)
    _bench.table(verdicts, title="Verdicts of nimo")
    units = by_unit(curves)
    _bench.table(units, title="nimo by the unit of the curve")
    sources = {"curves": curves, "C3O": [one for path in arguments.sizes for one in of_c3o(path)]}
    changes = [
        {"of": name, "curves": len(own)} | change(own, noise)
        for name, own in sources.items()
        if own
        for noise in NOISES
    ]
    _bench.table(changes, title="Change of count after three runs")
    times = [dict(zip(one.nodes, one.times_s, strict=True)) for one in curves]
    inner = [between(times, noise) for noise in NOISES]
    _bench.table(inner, title="Counts between four that ran, six runs each")
    figures_of = {"units": units, "changes": changes, "between": inner}
    _bench.write(arguments.json, accuracy=figures, verdicts=verdicts, **figures_of)


def by_unit(curves: Sequence[Measured]) -> list[dict[str, Any]]:
    """Score NIMO under all protocols, apart for the curves over nodes, CPUs and GPUs."""
    rows = []
    for unit in ("nodes", "cpus", "gpus"):
        own = [curve for curve in curves if curve.unit == unit]
        for protocol, scores in score(_nimo, list(cases(own))).items():
            if scores:
                head = {"unit": unit, "protocol": protocol, "points": len(scores)}
                rows.append(head | summary("nimo", scores))
    return rows


def change(curves: Sequence[Measured], noise: float) -> dict[str, Any]:
    """Score 90 % intervals of log T(n)/T(asked) on the counts not run; means over the curves.

    Run are the largest count, which is asked for, and two others.  Counts are those within the
    reach of a change.
    """
    rng, rows = random.Random(1), []
    for one in curves:
        times, asked = dict(zip(one.nodes, one.times_s, strict=True)), one.nodes[-1]
        ran = [asked, *rng.sample(one.nodes[:-1], 2)]
        given = (one.nodes[0], asked)
        noisy = {n: times[n] * math.exp(rng.gauss(0, noise)) for n in ran}
        runs = [Sample(n, noisy[n], asked=asked, asked_range=given) for n in ran]
        made = Application(runs).paths()
        scored = []
        reached = [n for n in one.nodes if asked <= n * 2**REACH]
        for n in (n for n in reached if n not in ran):
            paths = np.sort(
                [
                    np.interp(math.log2(n / (base or asked)), made.doublings, path)
                    - np.interp(math.log2(asked / (base or asked)), made.doublings, path)
                    for path, base in zip(made.logs, made.reference, strict=True)
                ]
            )
            low, high = (end(paths.tolist(), share, len(runs)) for share in (0.05, 0.95))
            actual = math.log(times[n] / times[asked])
            width, outside = high - low, max(low - actual, actual - high, 0.0)
            error = abs(float(np.median(paths)) - actual)
            scored.append((not outside, width + 20 * outside, width, error))
        if scored:
            rows.append(np.mean(scored, axis=0))
    inside, score, width, error = np.mean(rows, axis=0).tolist()
    return {
        "noise": noise,
        "inside %": 100 * inside,
        "interval score": score,
        "width": width,
        "error of the median": error,
    }


def generated(curves: Sequence[_generated.GeneratedCurve]) -> list[Measured]:
    """Give generated curves as measured ones."""
    return [Measured(one.family, one.nodes, one.times_s) for one in curves]


def _medians(times: Mapping[int, Sequence[float]]) -> tuple[float, ...]:
    return tuple(float(np.median(times[n])) for n in sorted(times))


def beyond(protocol: str, curve: Measured, shown: Sequence[int], factor: int) -> Iterator[Case]:
    """Ask for what is beyond the last count shown, up to so many times it."""
    last = curve.nodes[shown[-1]]
    asked = [i for i, n in enumerate(curve.nodes) if last < n <= factor * last]
    yield from case_of(protocol, curve, shown, asked)


def case_of(
    protocol: str, curve: Measured, shown: Sequence[int], asked: Sequence[int]
) -> Iterator[Case]:
    """Show some observations of a curve and ask for others; nothing where none are asked."""
    if asked:
        points = tuple(Point(curve.nodes[i], curve.times_s[i]) for i in shown)
        nodes = tuple(curve.nodes[i] for i in asked)
        actual = tuple(curve.times_s[i] for i in asked)
        yield Case(protocol, curve.family, Curve(points), nodes, actual)


def _scored(
    case: Case, predictions: Sequence[Prediction], verdicts: Sequence[Verdict], seconds: float
) -> Iterator[Scored]:
    for i, actual in enumerate(case.actual_s):
        predicted = predictions[i] if i < len(predictions) else None
        if predicted is None or not 0 < predicted.time_s < math.inf:
            yield Scored(case.family, math.inf, covered=None, verdict=None, seconds=seconds)
            continue
        judged = predicted.low_s < predicted.high_s
        yield Scored(
            case.family,
            abs(predicted.time_s / actual - 1),
            covered=predicted.low_s <= actual <= predicted.high_s if judged else None,
            verdict=verdicts[i] if i < len(verdicts) else None,
            seconds=seconds,
        )


def _p90(errors: Floats) -> float:
    return 100 * float(np.quantile(errors, 0.9, method="higher"))


def _share(reported: Sequence[bool | None]) -> float | None:
    recorded = [one for one in reported if one is not None]
    return 100 * sum(recorded) / len(recorded) if recorded else None


def _nimo(curve: Curve, nodes: Sequence[int]) -> Answer:
    """Choose, predict and judge as a refit does."""
    choice = selection.fit_curve(curve)
    predictions = choice.predict(nodes)
    return predictions, choice.judge(predictions)[0]


def _joint(curve: Curve, nodes: Sequence[int]) -> Answer:
    """Ask the model of sizes and counts, which learned the counts that ran as one job's."""
    points, asked = curve.points, curve.points[-1].nodes
    given = (points[0].nodes, asked)
    runs = [Sample(p.nodes, p.time_s, asked=asked, asked_range=given) for p in points]
    made = Application(runs).paths()
    predictions = []
    for n in nodes:
        logs = [
            np.interp(math.log2(n / (base or asked)), made.doublings, path)
            - np.interp(math.log2(asked / (base or asked)), made.doublings, path)
            for path, base in zip(made.logs, made.reference, strict=True)
        ]
        low, middle, high = (
            points[-1].time_s * math.exp(value) for value in np.quantile(logs, (0.05, 0.5, 0.95))
        )
        predictions.append(Prediction(n, middle, low, high, 0.9))
    return predictions, ()


def _model(model: Model) -> Method:
    return lambda curve, nodes: (model.fit(curve).predict(nodes), ())


def _plain(formula: Callable[[Floats, Floats, Floats], Floats]) -> Method:
    def answer(curve: Curve, nodes: Sequence[int]) -> Answer:
        shown = np.array([float(p.nodes) for p in curve.points])
        times = np.array([p.time_s for p in curve.points])
        predicted = formula(shown, times, np.asarray(nodes, dtype=float))
        return [
            Prediction(n, float(t), float(t), float(t), 0.9)
            for n, t in zip(nodes, predicted, strict=True)
        ], ()

    return answer


def _perfect(shown: Floats, times: Floats, nodes: Floats) -> Floats:
    """Perfect scaling from the largest run."""
    return np.asarray(times[-1] * shown[-1] / nodes)


def _power(shown: Floats, times: Floats, nodes: Floats) -> Floats:
    """T = a·n^b."""
    return np.asarray(
        np.exp(np.polyval(np.polyfit(np.log(shown), np.log(times), 1), np.log(nodes)))
    )


def _segments(shown: Floats, times: Floats, nodes: Floats) -> Floats:
    """Log-log interpolation, the last segment continued."""
    x, y, at = np.log(shown), np.log(times), np.log(nodes)
    left = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    slope = (y[left + 1] - y[left]) / (x[left + 1] - x[left])
    return np.asarray(np.exp(y[left] + slope * (at - x[left])))


def _blend(shown: Floats, times: Floats, nodes: Floats) -> Floats:
    """Geometric mean of Amdahl and of the last segment continued."""
    points = tuple(Point(int(n), float(t)) for n, t in zip(shown, times, strict=True))
    predictions = Amdahl().fit(Curve(points)).predict([int(n) for n in nodes])
    amdahl = np.array([p.time_s for p in predictions])
    return np.sqrt(amdahl * _segments(shown, times, nodes))


def _extra_p(shown: Floats, times: Floats, nodes: Floats) -> Floats:
    assert _extrap is not None
    model = _extrap.fitted(shown.tolist(), times.tolist())
    return np.array([model(float(n)) for n in nodes])


FORMULAS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "perfect": _perfect,
    "power": _power,
    "log-log": _segments,
    "blend": _blend,
}


if __name__ == "__main__":
    main()
