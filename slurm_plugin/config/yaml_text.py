"""YAML and JSON files into typed structures; errors name file, place and fix."""

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from sacct_ingest.errors import ConfigError
from slurm_plugin.text.formatting import did_you_mean

_Made = TypeVar("_Made")
_DEEP = "its values are nested too deeply to be read"
#: What msgspec calls kinds of values -> what people do.
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
#: A step of a place: a field, an index of a list, or ``...`` for some value of a mapping.
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


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
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{name}: {place}{problem or 'not YAML'}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: {_DEEP}") from error


def load_json(text: str | bytes, *, name: str) -> Any:
    """Read the text of a file called ``name``.

    Raises ConfigError: it is not JSON, or has a key twice.
    """
    twice: list[tuple[dict[str, Any], str]] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.append((made, next(key for key in keys if keys.count(key) > 1)))
        return made

    try:
        msgspec.json.decode(text)  # stricter than what follows
        document = json.loads(text, object_pairs_hook=mapping)
    except RecursionError as error:
        raise ConfigError(f"{name}: {_DEEP}") from error
    except ValueError as error:
        raise ConfigError(f"{name}: {json_fault(error, text)}") from error
    if twice:
        # Of mappings within each other the outer one is the last, and no other has replaced it.
        held, key = twice[-1]
        path = next(path for path, part in _parts(document, "") if part is held)
        place = f"{path}.{key}".lstrip(".")
        raise ConfigError(f"{name}: {place}: it is given twice")
    return document


def json_fault(error: Exception, text: str | bytes) -> str:
    """Say what is wrong with JSON, and where: msgspec does not say where a text was cut off."""
    why = str(error)
    if "truncated" in why or "invalid number" in why:  # a number may be cut as well
        data = text.encode() if isinstance(text, str) else text
        return f"cut off at byte {len(data)}"
    return why


def convert(data: Any, kind: type[_Made], *, name: str, at: str = "") -> _Made:
    """Make a structure of what a file called ``name`` holds, at a place in it.

    Raises ConfigError: a key is unknown, or a value wrong.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_explain(str(error), data, kind, at)}") from error


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Give all that a document holds, and where."""
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _parts(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _parts(part, f"{path}[{index}]")


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


def _explain(message: str, data: Any, kind: Any, at: str) -> str:
    """Msgspec's message in words, with the place first and what there is where a word is wrong."""
    reason, _, place = message.partition(" - at ")
    of_key = place.startswith("`key` in ")
    path, value, kinds = _resolve(place.removeprefix("`key` in ").strip("`"), data, kind)
    path = (at + path).lstrip(".")
    if of_key:
        mappings = [one for one in kinds if get_origin(one) is dict]
        key_kind = get_args(mappings[0])[0] if mappings else str
        key = next(key for key in value if not _fits(key, key_kind))
        return f"{path}: {key!r} is no key here; {_in_words(reason)}".lstrip(": ")
    if unknown := re.search(r"unknown field `(.+)`", reason):
        fields = msgspec.structs.fields(_only(kinds, msgspec.Struct))
        left = [field.encode_name for field in fields if field.encode_name not in value]
        return f"{path}.{unknown[1]}: unknown key; {did_you_mean(unknown[1], left)}".lstrip(".")
    if missing := re.search(r"missing required field `(.+)`", reason):
        return f"{path}.{missing[1]}: it is missing: give it".lstrip(".")
    if wrong := re.search(r"Invalid enum value '(.*)'", reason):
        choices = [str(choice.value) for choice in _only(kinds, Enum)]
        return f"{path}: {wrong[1]!r} is no choice; {did_you_mean(wrong[1], choices)}"
    return f"{path}: {_in_words(reason)}" if path else _in_words(reason)


def _in_words(reason: str) -> str:
    """Say what to give.

    >>> _in_words("Expected `int | array`, got `str`")
    'give a whole number or a list, not text'
    """

    def kinds(match: re.Match[str]) -> str:
        return " or ".join(_KINDS.get(kind, kind) for kind in match[1].split(" | "))

    text = re.sub(r"`([^`]+)`", kinds, reason)
    return text.replace("Expected ", "give ", 1).replace(", got ", ", not ", 1)


def _resolve(place: str, value: Any, kind: Any) -> tuple[str, Any, list[Any]]:
    """Give a place with the keys of mappings, the value there, and the types that it may have."""
    path = ""
    kinds = [*_alternatives(kind)]
    for name, index in _STEP.findall(place):
        if name:
            fields = msgspec.structs.fields(_only(kinds, msgspec.Struct))
            kind = {field.encode_name: field.type for field in fields}[name]
            path = f"{path}.{name}"
            value = value[name]
        elif index == "...":
            kind = get_args(_only(kinds, dict))[1]
            key = next(key for key, part in value.items() if not _fits(part, kind))
            path = f"{path}.{key}"
            value = value[key]
        else:
            kind = get_args(_only(kinds, tuple))[0]
            path = f"{path}[{index}]"
            value = value[int(index)]
        kinds = [*_alternatives(kind)]
    return path, value, kinds


def _alternatives(kind: Any) -> Iterator[Any]:
    """Give the types of which a value may be any."""
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _alternatives(part)
    else:
        yield kind


def _only(kinds: Iterable[Any], base: type) -> Any:
    """Give the first of some types that is of a kind."""
    return next(kind for kind in kinds if issubclass(get_origin(kind) or kind, base))


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
