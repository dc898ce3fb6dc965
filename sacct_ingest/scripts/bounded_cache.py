"""Remembering what was made of texts, in memory that no text can fill."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def bounded_cache(
    *, entries: int, characters: int
) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Cache a function of texts; of longer ones the last, which one request may need several times.

    entries: most calls that are remembered.
    characters: most characters of all arguments of one of them.
    """

    def decorate(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        cached, latest = lru_cache(maxsize=entries)(function), lru_cache(maxsize=1)(function)

        @wraps(function)
        def call(*texts: _Given.args, **options: _Given.kwargs) -> _Made:
            short = sum(map(len, texts)) <= characters  # type: ignore[arg-type]
            chosen: Callable[_Given, _Made] = cached if short else latest  # type: ignore[assignment]
            return chosen(*texts, **options)

        return call

    return decorate
