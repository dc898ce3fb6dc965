"""Public functions of the numbers refuse what they cannot answer, in one sentence.

A row of `public_calls` is a call that works.  Each number in it is replaced by NaN, an infinity,
zero, a negative one and amounts whose products overflow; each sequence is emptied, reversed and
given a value twice.  What comes back is a :class:`ValueError` of one line, or numbers without NaN:
no other exception, and no warning.  A row of `ROWS` is a call with one value out of its range, the
values, and what the error says."""

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from math import inf, nan

import numpy as np
import pytest

from benchmarks._error_measures import mape, mse, nmae, percentage_errors
from benchmarks._parametric import Amdahl, Usl
from predictor import Curve, Point, Sample
from predictor.application.model import Application
from predictor.curves.reliability import Prior, ReliabilitySettings, around, measure
from predictor.forecasts.transfer_time import transfer_time
from predictor.level.calibration import BacktestSettings, Calibrator
from predictor.level.experts import RunRequest, typical
from predictor.level.record import PooledErrors, Record
from predictor.models import base
from predictor.models.adept import Adept
from predictor.models.adept.anomalies import AnomalySettings, diagnose
from predictor.models.adept.envelope import Bounds, envelope
from predictor.models.adept.model import JudgementSettings
from predictor.models.adept.search import SearchSettings, search
from predictor.models.averaged.model import Averaged
from predictor.models.downey import speedup
from predictor.models.selection import fit_curve
from predictor.occupancy.ranking import order_preserving_degree
from predictor.refit import RefitInput, fits_of
from predictor.tables.of_node_types import type_tables
from predictor.tables.settings import TableSettings
from predictor.waits.easy import Engine, JobShape
from predictor.waits.error_record import spread_of
from predictor.waits.estimate import WaitEstimate, certain
from predictor.waits.regression import QueueWaitModel
from tests.predictor.example_curves import curve_of, downey, drawn
from tests.predictor.public_calls import CALLS


def bad(given):
    """Give every variant of a value with one bad number or one bad sequence in it."""
    if isinstance(given, bool | str | Enum) or given is None or callable(given):
        return
    if isinstance(given, int | float):
        yield from (nan, inf, -inf, 0, -1)
        if isinstance(given, float):
            yield from (1e300, 1e-300)
    elif isinstance(given, np.ndarray):
        yield from (np.asarray(one, float) for one in bad(given.tolist()))
    elif isinstance(given, Mapping):
        yield from ({**given, key: one} for key, value in given.items() for one in bad(value))
        yield {}
    elif isinstance(given, list | tuple) and not hasattr(given, "_fields"):
        numbers = [isinstance(one, int | float) for one in given]
        if all(numbers):
            yield from (type(given)(one) for one in ([*given, *given[-1:]], given[::-1]))
        if all(numbers) or not any(numbers):
            yield type(given)()
        yield from (
            type(given)([*given[:i], one, *given[i + 1 :]])
            for i in {0, len(given) // 2}
            if given
            for one in bad(given[i])
        )


def refused_or_numbers(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            made = call()
        except (ValueError, LookupError) as error:
            text = str(error)
            assert text, "an error without a word"
            assert "\n" not in text
            assert not isinstance(error, KeyError | IndexError), text
            return
    assert not has_nan(made), made


def has_nan(made):
    if isinstance(made, float):
        return made != made
    if isinstance(made, np.ndarray):
        return made.dtype.kind == "f" and bool(np.isnan(made).any())
    if isinstance(made, Mapping):
        return any(map(has_nan, made.values()))
    if is_dataclass(made):
        return any(has_nan(getattr(made, one.name)) for one in fields(made))
    return isinstance(made, list | tuple) and any(map(has_nan, made))


def public(name):
    module, _, what = name.rpartition(".")
    return getattr(importlib.import_module(f"predictor.{module}"), what)


CASES = [
    pytest.param(name, argument, id=f"{name}-{argument}")
    for name, (_, given) in CALLS.items()
    for argument, value in given.items()
    if next(bad(value), None) is not None
]


@pytest.mark.parametrize("name", CALLS)
def test_the_call_works(name):
    call, given = CALLS[name]
    made = (call or public(name))(**given)
    assert not has_nan(made), made


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_bad_values_are_refused_in_one_sentence(name, argument):
    call, given = CALLS[name]
    for value in bad(given[argument]):
        changed = partial(call or public(name), **{**given, argument: value})
        try:
            refused_or_numbers(changed)
        except Exception as error:
            text = f"{argument}={value!r}: {type(error).__name__}: {error}"
            raise AssertionError(text) from error


NODES = [1, 2, 4, 8, 16]
CURVE = drawn(NODES, downey(24, 0.5))
TIMES = downey(24, 0.5)(np.array(NODES, float))
NOT_FINITE = (nan, inf, -inf)
NOT_POSITIVE = (*NOT_FINITE, 0.0, -1.0)
NOT_A_SHARE = (*NOT_POSITIVE, 1.0, 1.5)
NOT_NODES = ([], [0], [-4], [nan], [inf], [2.5])
POSITIVE = "must be a finite number above 0"
FINITE = "must be a finite number"
COUNT = r"no node counts|a node count is a whole number of 1 or more"
SHARE = "must be above 0 and below 1"
RISE = "they must rise, each given once"
UNORDERED = ([1, 2, 2, 4], [8, 1, 4], [4, 4, 4, 4])
OBSERVATIONS = r"must be|they must rise|two are needed"

FIT = Averaged().fit(CURVE)
FITS = [Adept().fit(CURVE), FIT, Amdahl().fit(CURVE), Usl().fit(CURVE), fit_curve(CURVE)]
NEVER = RefitInput(lambda _: [])
ENGINE = Engine(4)
MEASURES = (mape, nmae, mse, order_preserving_degree, percentage_errors)
NAMES, WAITS = ["jobs", "physics"], np.linspace(1, 900, 200)

BAD_OBSERVATIONS = (
    *((NODES, [odd, *TIMES[1:]]) for odd in NOT_POSITIVE),
    *(([odd, *NODES[1:]], TIMES) for odd in (0, nan)),
    (NODES[::-1], TIMES),
    ([1, 2, 2, 8, 16], TIMES),
    ([], []),
    ([4], [10.0]),
    (NODES, TIMES[1:]),
)


def observed(call):
    return lambda bad: call(*(np.array(one, float) for one in bad))


def searched(nodes, times):
    ranges = envelope(np.array(NODES, float), TIMES, 0.05)
    one = np.ones((1, len(nodes)))
    return search(nodes, times, one, np.array([4.0]), ranges, SearchSettings())


def waited(estimate, name="physics"):
    rows = np.column_stack([np.arange(200.0), WAITS])
    rows[7, 1] = estimate
    return QueueWaitModel(estimate=name).fit(NAMES, rows, WAITS, np.arange(200.0))


def of_settings(kind, **bad):
    return [
        ("must be", lambda value, name=name: kind(**{name: value}), values)
        for name, values in bad.items()
    ]


ROWS = [
    (POSITIVE, lambda v: Point(4, v), NOT_POSITIVE),
    (COUNT, lambda v: Point(v, 10.0), (0, -4, nan, inf, 2.5)),
    (FINITE, lambda v: Point(4, 10.0, *v), ((0, 0.0), (1, nan), (1, -0.1), (1, inf))),
    (POSITIVE, lambda v: Sample(4, v), NOT_POSITIVE),
    (COUNT, lambda v: Sample(v, 10.0), (0, -4, nan, inf, 2.5)),
    (FINITE, lambda v: Sample(4, 10.0, v), NOT_FINITE),
    (FINITE, lambda v: Sample(4, 10.0, limit_s=v), (*NOT_FINITE, -1.0)),
    (FINITE, lambda v: Sample(4, 10.0, memory_bytes=v), (*NOT_FINITE, -1.0)),
    (COUNT, lambda v: Sample(4, 10.0, asked=v), (-4, nan, inf, 2.5)),
    (COUNT, lambda v: Application([Sample(4, 10.0, asked=v)]), (0,)),
    (RISE, lambda v: curve_of(v, [100.0 / n for n in v]), UNORDERED),
    (
        RISE,
        lambda v: Curve(CURVE.points, censored=tuple(Point(n, 10.0) for n in v)),
        UNORDERED,
    ),
    ("resolution in seconds", lambda v: Curve(CURVE.points, resolution_s=v), (nan, inf, -1.0)),
    *((COUNT, fit.predict, NOT_NODES) for fit in FITS),
    *((SHARE, lambda v, fit=fit: fit.predict([4], v), NOT_A_SHARE) for fit in FITS),
    (OBSERVATIONS, observed(lambda n, t: envelope(n, t, 0.05)), BAD_OBSERVATIONS),
    (OBSERVATIONS, observed(diagnose), BAD_OBSERVATIONS),
    (OBSERVATIONS, observed(searched), BAD_OBSERVATIONS),
    (SHARE, lambda v: envelope(np.array(NODES, float), TIMES, v), NOT_A_SHARE),
    *of_settings(SearchSettings, q=(0.99, nan), v=(0.0, 1.0), steps=(1,), local=(2,), zooms=(0,)),
    *of_settings(AnomalySettings, epsilon=(0.0, nan), theta=(0.9, 10.1)),
    *of_settings(Bounds, parallelism=(0.5,), sigma=(0.9,)),
    *of_settings(JudgementSettings, error=(0.0,), noise=(nan,), rival=(0.9,), apart=(inf,)),
    *of_settings(JudgementSettings, reach=(0,)),
    *of_settings(ReliabilitySettings, reliable_factor=(0.9, 3.0), noise=(0.0,)),
    *of_settings(Prior, inside=(0.0,), growth=(nan,), weight=(-1.0,)),
    *of_settings(Adept, min_points=(2,)),
    ("must be", lambda v: speedup(v, 8, 0), ([0], [4, 0], [nan, 4])),
    ("must be", lambda v: speedup([4], v, 0), (0.5, nan)),
    ("must be", lambda v: speedup([4], 8, v), (-0.1, inf)),
    (
        SHARE,
        lambda v: base.quantiles(fit_curve(CURVE).fit, [4], v),
        ([0.0], [1.0], [nan], [0.5, 1.2]),
    ),
    (COUNT, lambda v: base.quantiles(fit_curve(CURVE).fit, v, [0.5]), ([],)),
    (COUNT, lambda v: FIT.most_informative(v, [4]), NOT_NODES),
    (COUNT, lambda v: FIT.most_informative([4], v), NOT_NODES),
    (COUNT, lambda v: around(v, np.array([10.0]), measure(CURVE, []), 0.9), ([],)),
    (SHARE, lambda v: around([4], np.array([10.0]), measure(CURVE, []), v), (1.0,)),
    *((FINITE, lambda v, of=of: of([1.0, v], [1.0, 2.0]), NOT_FINITE) for of in MEASURES),
    *((FINITE, lambda v, of=of: of([1.0, 2.0], [1.0, v]), NOT_FINITE) for of in MEASURES),
    *(("predictions for", lambda v, of=of: of(v, v), ([],)) for of in MEASURES),
    (POSITIVE, lambda v: mape([1.0, 2.0], [1.0, v]), (0.0, -1.0)),
    (POSITIVE, lambda v: percentage_errors([1.0, 2.0], [1.0, v]), (0.0, -1.0)),
    (POSITIVE, lambda v: nmae([1.0], [v]), (0.0, -1.0)),
    (POSITIVE, lambda v: RunRequest(4, v), (nan, -inf, 0.0, -1.0)),
    (COUNT, lambda v: RunRequest(v, inf), (0,)),
    ("no earlier run", lambda v: typical(RunRequest(4, inf), v), ([],)),
    (
        SHARE,
        lambda v: Calibrator((), PooledErrors(), BacktestSettings(), same=True, level=v),
        NOT_A_SHARE,
    ),
    (FINITE, lambda v: transfer_time([], v, "a", "b", now_s=0.0), NOT_FINITE),
    (FINITE, lambda v: transfer_time([], 1e6, "a", "b", now_s=v), NOT_FINITE),
    ("time of the refit is nan", lambda v: fits_of(NEVER, now_s=v), (nan,)),
    ("workers is 0", lambda v: fits_of(NEVER, now_s=0.0, workers=v), (0,)),
    ("no runs", lambda v: type_tables(v, {}, TableSettings(), Record()), ({},)),
    ("number of runs or fits is 0", lambda v: BacktestSettings(fits=v), (0,)),
    ("weight of a record is nan", lambda v: BacktestSettings(fade=v), (nan,)),
    ("0 nodes", Engine, (0,)),
    ("begin and end of a closing is nan", lambda v: Engine(4, closings=[(0.0, v, 2)]), (nan,)),
    ("0 nodes", lambda v: Engine(4, closings=[(0.0, 5.0, v)]), (0,)),
    ("do not fall", lambda v: ENGINE.run(v, lambda *_: JobShape(1, 5, 5)), ([3.0, 2.0],)),
    ("wants 5 of 4", lambda v: ENGINE.run([0.0], lambda *_: JobShape(v, 5, 5)), (5,)),
    ("a limit of 0", lambda v: ENGINE.run([0.0], lambda *_: JobShape(1, v, 5)), (0,)),
    ("a run time of", lambda v: ENGINE.run([0.0], lambda *_: JobShape(1, 5, v)), (-1, nan)),
    ("size of the regression is 0", lambda v: QueueWaitModel(blocks=v), (0,)),
    ("leaves of a tree is 1", lambda v: QueueWaitModel(leaves=v), (1,)),
    ("one at least is needed", WaitEstimate, ((), (1.0, nan))),
    ("share of jobs is 1.1", WaitEstimate((1.0,)).quantile, (1.1,)),
    ("wait is -1.0", certain, (-1.0,)),
    ("at least one is needed", spread_of, ([], [5.0, nan])),
    ("physics is", waited, (nan, inf, -1.0)),
    ("no feature is called 'other'", lambda v: waited(1.0, v), ("other",)),
    ("no range pair", lambda v: search(np.array([1.0, 2.0]), np.array([2.0, 1.0]),
     np.ones((1, 2)), np.array([4.0]), v, SearchSettings()), ((),)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "call", "value"),
    [(message, call, value) for message, call, values in ROWS for value in values],
)
def test_a_value_out_of_range_is_refused(message, call, value):
    with pytest.raises(ValueError, match=message):
        call(value)


@pytest.mark.parametrize("name", base.names())
def test_an_empty_curve_is_too_few_points(name):
    with pytest.raises(base.TooFewPoints, match="0 node counts"):
        base.create(name).fit(Curve(()))
    with pytest.raises(base.TooFewPoints, match="0 node counts"):
        fit_curve(Curve(()))


def test_settings_at_the_end_of_their_range_are_taken():
    assert SearchSettings(q=1.0, steps=2, local=3, zooms=1).local == 3
    assert [AnomalySettings(theta=theta).theta for theta in (1.0, 10.0)] == [1.0, 10.0]
    assert Bounds(parallelism=1.0, sigma=1.0).sigma == 1.0
    assert JudgementSettings(rival=1.0, apart=1.0, reach=1).reach == 1
    assert ReliabilitySettings(reliable_factor=1.0, doubtful_factor=1.0).doubtful_factor == 1.0


def test_jobs_submitted_together_are_run_in_their_order():
    schedule = Engine(1).run([2.0, 2.0], lambda *_: JobShape(1, 5, 5))
    assert schedule.start_s.tolist() == [2.0, 7.0]
