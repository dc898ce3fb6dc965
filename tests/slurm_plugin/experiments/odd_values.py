"""YAML files in which one value is another: what people and programs write by mistake."""

from collections.abc import Iterator
from copy import deepcopy
from math import inf, nan
from typing import Any

import yaml

#: Values of all kinds.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, nan, inf, 1e300, 10**30, "", "x", "a b", "8-1", "1e999", "-5", "99h99",
    [], [1], [[]], {}, {"x": 1}, {1: 2},
)  # fmt: skip

_Path = tuple[str | int, ...]


def with_value(text: str, value: Any) -> Iterator[tuple[_Path, str]]:
    """Give a file with the value at each place in turn, and that place."""
    document = yaml.safe_load(text)
    for path in paths(document):
        changed = deepcopy(document)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
        yield path, yaml.safe_dump(changed)


def paths(value: Any, at: _Path = ()) -> Iterator[_Path]:
    """Give the place of each value in a document."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(part, (*at, key))
