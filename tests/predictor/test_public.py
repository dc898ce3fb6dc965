"""Public functions of the numbers refuse what they cannot answer, in one sentence.

A row of the table is a call that works.  Each number in it is replaced by NaN, an infinity, zero,
a negative one and amounts whose products overflow; each sequence is emptied, reversed and given a
value twice.  What comes back is a :class:`ValueError` of one line, or numbers without NaN: no other
exception, and no warning.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
import pytest

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
