"""YAML files into typed structures; errors name file, place and fix."""

import re
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import yaml

from sacct_ingest.errors import ConfigError
from slurm_plugin.text.formatting import did_you_mean

_Made = TypeVar("_Made")


def read_text(path: Path) -> str:
    """Read a file of settings. Raises ConfigError: it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from error


def load_yaml(text: str, *, name: str) -> Any:
    """Read the text of a file called ``name``.

    Raises ConfigError: it is not YAML, or has a key twice.
    """
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader with fewer types
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{name}: {place}{problem or 'not YAML'}") from error


def convert(data: Any, kind: type[_Made], *, name: str) -> _Made:
    """Make a structure of what a file called ``name`` holds.

    Raises ConfigError: a key is unknown, or a value wrong.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_explain(str(error), kind)}") from error


class Loader(yaml.SafeLoader):
    """YAML without the surprises of 1.1: ``off`` is a word, and no key may come twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Build a mapping, refusing keys that are there already."""
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is a word", problem_mark=key.start_mark)
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {
    letter: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
    for letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|false|True|False)$"), list("tTfF")
)


def _explain(message: str, kind: type) -> str:
    """Msgspec's message, with the place first and a near key where one is unknown."""
    reason, _, place = message.partition(" - at ")
    path = place.strip("`").removeprefix("$").lstrip(".")
    if unknown := re.search(r"unknown field `(.+)`", reason):
        place = f"{path}.{unknown[1]}".lstrip(".")
        keys = [field.encode_name for field in msgspec.structs.fields(_type_at(path, kind))]
        return f"{place}: unknown key; {did_you_mean(unknown[1], keys)}"
    if wrong := re.search(r"Invalid enum value '(.*)'", reason):
        choices = [str(choice.value) for choice in _type_at(path, kind)]
        return f"{path}: {wrong[1]!r} is no choice; {did_you_mean(wrong[1], choices)}"
    return f"{path}: {reason}" if path else reason


def _type_at(path: str, kind: Any) -> Any:
    for part in filter(None, re.sub(r"\[[^]]*\]", "", path).split(".")):
        field_type = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}[part]
        kind = next(iter(get_args(field_type)), field_type)
    return kind
