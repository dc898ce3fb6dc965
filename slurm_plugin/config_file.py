"""``nimo.yaml`` into :class:`slurm_plugin.config.Config`; errors name file, place and mend."""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from sacct_ingest.errors import ConfigError
from slurm_plugin.config import Config

SYSTEM_FILE = Path("/etc/nimo/nimo.yaml")


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration that is in force.

    Parameters
    ----------
    path
        File named on the command line; it goes before ``$NIMO_CONFIG``, that before
        ``/etc/nimo/nimo.yaml``, that before the built-in defaults.
    environ
        Environment variables.

    Raises
    ------
    ConfigError
        The file cannot be read, is not YAML, or holds a wrong key or value.
    """
    chosen = find(path, environ)
    return Config() if chosen is None else parse(_read(chosen), name=str(chosen))


def find(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """File that :func:`load` would read, None for the built-in defaults."""
    if path is not None:
        return path
    if named := environ.get("NIMO_CONFIG"):
        return Path(named)
    return SYSTEM_FILE if SYSTEM_FILE.exists() else None


def parse(text: str, *, name: str) -> Config:
    """Make settings of the text of a file called ``name``.

    Raises
    ------
    ConfigError
        See :func:`load`.

    Examples
    --------
    >>> parse("mode: off", name="nimo.yaml").mode.value
    'off'
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with fewer types
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: {_one_line(error)}") from error
    _read_lists(data, name)
    try:
        config = msgspec.convert({} if data is None else data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_explain(str(error))}") from error
    _check_ranges(config, name)
    _check_rules(config, name)
    return config


def dump(config: Config) -> str:
    """Text of a file with these settings, all of them."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """YAML without the surprises of 1.1: ``off`` is a word, and no key may come twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Build a mapping, refusing keys that are there already."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is a word", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    letter: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
    for letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|false|True|False)$"), list("tTfF")
)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from error


def _read_lists(data: Any, name: str) -> None:
    """Put the lines of a file where a rule names one: ``user: "@/etc/nimo/opted-out"``."""
    opt_in = data.get("opt_in") if isinstance(data, dict) else None
    for section in (data, opt_in):
        rules = section.get("rules") if isinstance(section, dict) else None
        for rule in rules if isinstance(rules, list) else ():
            fields = rule.items() if isinstance(rule, dict) else ()
            for key, value in fields:
                if isinstance(value, str) and value.startswith("@"):
                    rule[key] = _lines(Path(name).parent / value[1:])


def _lines(path: Path) -> list[str]:
    """Words of a list file: one on each line, ``#`` begins a comment."""
    words = [line.partition("#")[0].split() for line in _read(path).splitlines()]
    for number, found in enumerate(words, start=1):
        if len(found) > 1:
            raise ConfigError(f"{path}: line {number}: one name or pattern on each line")
    return [word for found in words for word in found]


def _one_line(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{problem or 'not YAML'}"


def _explain(message: str) -> str:
    """Msgspec's message, with the place first and a near key where one is unknown."""
    told, _, place = message.partition(" - at ")
    path = place.strip("`").removeprefix("$").lstrip(".")
    if unknown := re.search(r"unknown field `(.+)`", told):
        place = f"{path}.{unknown[1]}".lstrip(".")
        return f"{place}: unknown key; {_mend(unknown[1], keys_at(path))}"
    if wrong := re.search(r"Invalid enum value '(.*)'", told):
        choices = [str(choice.value) for choice in _type_at(path)]
        return f"{path}: {wrong[1]!r} is no choice; {_mend(wrong[1], choices)}"
    return f"{path}: {told}" if path else told


def _mend(word: str, valid: list[str]) -> str:
    near = get_close_matches(word, valid, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(valid)}"


def keys_at(path: str) -> list[str]:
    """Keys that a mapping at ``path`` may have, such as ``policy`` or ``rules[0]``.

    >>> keys_at("deadline")
    ['missed', 'wait_factor']
    """
    return [field.encode_name for field in msgspec.structs.fields(_type_at(path))]


def _type_at(path: str) -> Any:
    kind: Any = Config
    for part in filter(None, re.sub(r"\[[^]]*\]", "", path).split(".")):
        found = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}[part]
        kind = next(iter(get_args(found)), found)
    return kind


def _check_ranges(config: Config, name: str) -> None:
    for index, rule in enumerate(config.opt_in.rules):
        low, high = rule.range
        if low > high:
            place = f"opt_in.rules[{index}].nodes"
            raise ConfigError(f"{name}: {place}: {rule.nodes}: give the lower count first")


def _check_rules(config: Config, name: str) -> None:
    for index, rule in enumerate(config.rules):
        if rule.mode is None and rule.time_limit is None and rule.trust is None:
            raise ConfigError(f"{name}: rules[{index}]: give it mode, time_limit or trust")
