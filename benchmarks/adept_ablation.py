"""What each part of ADEPT is worth: the error without it, inside the observed range and beyond.

Of each strong-scaling curve (``--data``: as of ``scaling_accuracy.py``; without it curves are
generated) so many observations are shown: spread over the range, and asked for the others; or the
smallest, and asked for up to four times the largest of them.  ADEPT predicts with all its parts and
with one of them switched off:

================  =================================================================================
envelope          every instance of the model is searched (section V.A)
biased weights    all observations weigh the same for each target (section V.B)
corrected weight  anomalous observations keep their weight (section VIII.B)
phases            one model instance over the steps of a stepwise curve (section VIII.C)
diagnosis         nothing of section VIII: no anomalies, phases, declining ends, special counts
================  =================================================================================

``changed`` is the share of predictions that differ by more than 1 % from those of all parts.
Nothing is learned from the file.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import _bench
import _generated
import numpy as np
import scaling_accuracy as accuracy

from predictor.models.adept import Adept, model
from predictor.models.adept.anomalies import Diagnosis, diagnose
from predictor.models.adept.envelope import Bounds, RangePair
from predictor.models.adept.search import SearchSettings
from predictor.models.downey import VarianceMode

SHOWN = (4, 5, 6, 7)
Floats = accuracy.Floats


def everything(
    nodes: Floats, _times: Floats, _delta: float, bounds: Bounds
) -> tuple[RangePair, ...]:
    """Envelope that holds every instance."""
    last = bounds.parallelism * float(nodes.max())
    return (
        RangePair(VarianceMode.LOW, 1.0, last, 0.0, 1.0),
        RangePair(VarianceMode.HIGH, 1.0, last, 1.0, bounds.sigma),
    )


def uncorrected(result: Diagnosis) -> Diagnosis:
    """Give anomalous observations their weight back."""
    factor = tuple(1.0 if i in result.anomalies else f for i, f in enumerate(result.factor))
    return replace(result, factor=factor)


def in_one_phase(result: Diagnosis) -> Diagnosis:
    """Forget the steps."""
    return replace(result, phase=(0,) * len(result.phase))


def undiagnosed(result: Diagnosis) -> Diagnosis:
    """Forget all that was found."""
    count = len(result.factor)
    return Diagnosis(factor=(1.0,) * count, phase=(0,) * count)


@contextmanager
def diagnosed(change: Callable[[Diagnosis], Diagnosis]) -> Iterator[None]:
    """Let ADEPT go on with a changed diagnosis."""
    with mock.patch.object(model, "diagnose", lambda *data: change(diagnose(*data))):
        yield


Part = Callable[[], Any]
WITHOUT: dict[str, Part] = {
    "all parts": ExitStack,
    "no envelope": partial(mock.patch.object, model, "envelope", everything),
    "no biased weights": partial(
        mock.patch.object, model, "SearchSettings", partial(SearchSettings, q=1e6)
    ),
    "no corrected weight": partial(diagnosed, uncorrected),
    "no phases": partial(diagnosed, in_one_phase),
    "no diagnosis": partial(diagnosed, undiagnosed),
}


def cases(curves: list[accuracy.Measured], shown: int) -> Iterator[accuracy.Case]:
    """Both questions on each curve that has more observations than are shown."""
    for curve in curves:
        count = len(curve.nodes)
        if count <= shown:
            continue
        spread = sorted({round(i * (count - 1) / (shown - 1)) for i in range(shown)})
        yield from accuracy.case_of(
            "inside", curve, spread, [i for i in range(count) if i not in spread]
        )
        yield from accuracy.beyond("beyond", curve, list(range(shown)), 4)


def predictions(asked: list[accuracy.Case], part: Part) -> tuple[list[Floats], list[Floats]]:
    """Predicted times of each case, and their relative errors."""
    times = []
    with part():
        for case in asked:
            search = model.SearchSettings()
            fit = Adept(search=search).fit(case.shown)
            times.append(np.array([p.time_s for p in fit.predict(case.nodes)]))
    errors = [
        np.abs(predicted / np.array(case.actual_s) - 1)
        for predicted, case in zip(times, asked, strict=True)
    ]
    return times, errors


def measured(asked: list[accuracy.Case], shown: int) -> Iterator[dict[str, Any]]:
    """Row of each part switched off, for one number of observations."""
    whole: list[Floats] = []
    for name, part in WITHOUT.items():
        times, errors = predictions(asked, part)
        whole = whole or times
        row: dict[str, Any] = {"shown": shown, "ADEPT": name}
        for question in ("inside", "beyond"):
            own = [i for i, case in enumerate(asked) if case.protocol == question]
            flat = np.concatenate([errors[i] for i in own])
            changed = np.concatenate([np.abs(times[i] / whole[i] - 1) > 0.01 for i in own])
            row |= {
                f"{question}: family %": family_error([asked[i] for i in own], errors, own),
                f"{question}: p90 %": 100 * float(np.quantile(flat, 0.9)),
                f"{question}: changed %": 100 * float(changed.mean()),
            }
        yield row


def family_error(asked: list[accuracy.Case], errors: list[Floats], own: list[int]) -> float:
    """Mean over applications of the median error of each, in percent; an error is 10 at most."""
    groups: dict[str, list[float]] = {}
    for case, i in zip(asked, own, strict=True):
        groups.setdefault(case.family, []).extend(np.minimum(errors[i], 10.0))
    return 100 * float(np.mean([np.median(group) for group in groups.values()]))


def main() -> None:
    """Measure every part at every number of observations."""
    options = _bench.options(str(__doc__), data="CSV with strong-scaling curves").parse_args()
    curves = (
        accuracy.load(options.data)
        if options.data
        else accuracy.generated(_generated.curves(30 if options.quick else 120))
    )
    rows = [
        row
        for shown in (SHOWN[:1] if options.quick else SHOWN)
        if (asked := list(cases(curves, shown)))
        for row in measured(asked, shown)
    ]
    _bench.table(rows, title=f"Parts of ADEPT: {len(curves)} curves")
    _bench.write(options.json, ablation=rows)


if __name__ == "__main__":
    main()
