"""Every public function of the numbers refuses what it cannot answer, in one sentence.

A row of the table is a call that works.  Each number in it is replaced by NaN, an infinity, zero,
a negative one and amounts whose products overflow; each sequence is emptied, reversed and given a
value twice.  What comes back is a :class:`ValueError` of one line, or numbers without NaN: no other
exception, and no warning.
"""

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import predictor
from tests.predictor.public_calls import CALLS


def bad(given: Any) -> Iterator[Any]:
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


def refused_or_numbers(call: Callable[[], Any]) -> None:
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


def has_nan(made: Any) -> bool:
    if isinstance(made, float):
        return made != made
    if isinstance(made, np.ndarray):
        return made.dtype.kind == "f" and bool(np.isnan(made).any())
    if isinstance(made, Mapping):
        return any(map(has_nan, made.values()))
    if is_dataclass(made):
        return any(has_nan(getattr(made, one.name)) for one in fields(made))
    return isinstance(made, list | tuple) and any(map(has_nan, made))


def public(name: str) -> Callable[..., Any]:
    module, _, what = name.rpartition(".")
    result: Callable[..., Any] = getattr(importlib.import_module(f"predictor.{module}"), what)
    return result


CASES = [
    pytest.param(name, argument, id=f"{name}-{argument}")
    for name, (_, given) in CALLS.items()
    for argument, value in given.items()
    if next(bad(value), None) is not None
]


#: Public functions that get no number, or only from functions above that have looked at it.
NOT_CALLED = {
    "models.two_sizes": "Translation.deviation",
    "occupancy.active.design": "Informative.choose",
    "occupancy.active.learner": "Learner.is_unused",
    "checks": "comparable need_finite need_nodes need_positive need_rising need_share",
    "waits.easy": "Queue.append Queue.fitting Queue.request_at Queue.take",
    "forecasts.forecasters": "Adaptive.update Forecaster.update RunningMean.update"
    " Sliding.update Smoothed.update trimmed_mean",  # their bank has looked
    "models.adept.envelope": "need_observations",
    "models.adept.fluctuation": "Metric.of_pair Metric.rises explain",
    "models.adept.model": "as_good high_fitting_error linear_section alternative_fit "
    "Instance.times ObservedTimes.weights shared_targets",
    "models.adept.search": "Instances.times EnvelopeLimits.clipped EnvelopeLimits.nearest "
    "EnvelopeLimits.steps variation_ranges",
    "forecasts.adrm": "PastErrors.add PastErrors.around fading_line line mean_transfer "
    "plain_line proportion",
    "models.base": "FittedModel.predict",  # a protocol
    "occupancy.bottleneck": "Bottleneck.stall_s Demand.longest_s Demand.stall_s "
    "DemandRuns.criterion DemandRuns.fitted DemandRuns.learned candidate_terms",
    "models.downey": "parallelism_of serial_time_of sigma_of terms",
    "occupancy.fit": "Form.doubts Form.occupancies OccupancyFit.predict joined",
    "node_types.product_form": "add criterion distinguishable",
    "tables.parts": "tables_of",
    "tables.resource_use": "had_whole_nodes",
    "waits.backtest": "PastRunTimes.end PastRunTimes.of PastRunTimes.submit",
    "types": "problem",
    "waits.simulation": "normal_cdf",
    "level.record": "Record.with_new PooledErrors.units_of class_of points quantiles",
    "refit": "refit",
    "curves.reliability": "downey_doubts wide_interval",
    "models.averaged.model": "Residuals.covariance Residuals.evidence Residuals.gain",
    "table": "for_sizes round_time within_cluster",
    "tables.build": "mixture tabulate unfinished",
    "waits.correction": "corrected_forward",
    "waits.estimate": "WaitGrid.draws",
    "waits.features": "GroupLoad.rows QueueLoad.rows",
    "level.backtest": "curve_of",
    "level.calibration": "JudgedPrediction.fell",
    "level.experts": "Mixture.quantiles Mixture.scores Mixture.share_below believed "
    "calibrated mixture samples",
    "level.sizes": "choose log_factor",
}
MODULES = sorted(
    one.name.removeprefix("predictor.")
    for one in pkgutil.walk_packages(predictor.__path__, "predictor.")
)


def defined_in(module: str) -> Iterator[tuple[str, Any]]:
    """Public functions of a module, and public methods of its public classes."""
    whole = f"predictor.{module}"
    for name, one in vars(importlib.import_module(whole)).items():
        if name.startswith("_") or getattr(one, "__module__", "") != whole:
            continue
        if inspect.isclass(one):
            for method, each in vars(one).items():
                if inspect.isfunction(each) and not method.startswith("_"):
                    yield f"{name}.{method}", each
        elif callable(one):
            yield name, one


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_of_numbers_is_called_or_named(module: str) -> None:
    called = {name.rpartition(".")[2] for name in CALLS if name.rpartition(".")[0] == module}
    listed = {*NOT_CALLED.get(module, "").split()}
    defined = dict(defined_in(module))
    numbers = {name for name, one in defined.items() if takes_numbers(one)}
    assert {name for name in numbers if name.partition(".")[0] not in called} <= listed
    assert listed <= {*defined}
    assert {name for name in called if name[0].islower()} <= {*defined}


def takes_numbers(function: Callable[..., Any]) -> bool:
    given = inspect.signature(function).parameters.values()
    return any(
        re.search(r"\b(float|int|float64|ArrayLike)\b", str(one.annotation)) for one in given
    )


@pytest.mark.parametrize("name", CALLS)
def test_the_call_works(name: str) -> None:
    call, given = CALLS[name]
    made = (call or public(name))(**given)
    assert not has_nan(made), made


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_bad_values_are_refused_in_one_sentence(name: str, argument: str) -> None:
    call, given = CALLS[name]
    for value in bad(given[argument]):
        changed = partial(call or public(name), **{**given, argument: value})
        try:
            refused_or_numbers(changed)
        except Exception as error:
            text = f"{argument}={value!r}: {type(error).__name__}: {error}"
            raise AssertionError(text) from error
