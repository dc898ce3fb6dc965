"""The reference has every command, option, setting, reason and metric, and tells of each."""

import argparse
import ast
import doctest
import importlib.util
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from sacct_ingest.errors import NimoError
from slurm_plugin.cli import advise
from slurm_plugin.cli.exit_status import BROKEN_PIPE, INTERRUPTED, listed, statuses
from slurm_plugin.cli.nimo import COMMANDS, EXPERIMENTS, command_module, command_parser
from slurm_plugin.config.settings import Config
from slurm_plugin.nimod.prometheus_metrics import METRICS
from slurm_plugin.protocol.reasons import Reason
from tests.docs.pages import ROOT

_SPEC = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)

PACKAGES = ("sacct_ingest", "predictor", "slurm_plugin")
PARSERS = {
    **{f"nimo {name}": command_parser(name) for name in COMMANDS},
    "nimo-advise": advise.parser(),
}
#: Every command by its last word.
NAMES = [*(name.split()[-1] for name in COMMANDS), "advise"]


def test_its_examples_hold():
    assert doctest.testmod(reference).failed == 0


def test_every_command_has_its_options_there():
    parts = dict(part.split("\n", 1) for part in reference.commands().split("## ")[1:])
    assert list(parts) == list(PARSERS)
    missing = [
        (name, option)
        for name, parser in PARSERS.items()
        for action in parser._actions
        for option in action.option_strings
        if f"{option}" not in parts[name]
    ]
    assert missing == []


def test_every_option_says_what_it_does():
    silent = [
        (name, action.dest)
        for name, parser in PARSERS.items()
        for action in parser._actions
        if not action.help or action.help == argparse.SUPPRESS
    ]
    assert silent == []


def test_every_setting_is_there_with_its_default_and_meaning():
    text = reference.settings()
    reported = reference.comments((ROOT / "etc" / "nimo.yaml").read_text())
    for name, value in msgspec.to_builtins(Config()).items():
        assert f"## {name}\n" in text
        keys = [f"{name}.{key}" for key in value] if isinstance(value, dict) else []
        assert [key for key in keys if f"| `{key}` | " not in text] == []
        assert [key for key in [name, *keys] if not any(reported[key])] == []


def test_every_reason_is_there():
    rows = [f"| `{reason.value}` | {reason.text} |" for reason in Reason]
    assert [row for row in rows if row not in reference.reasons()] == []


def test_every_metric_is_there():
    heads = [f"| `{one.name}` | {one.kind} | " for one in METRICS]
    assert [head for head in heads if head not in reference.metrics()] == []


def test_every_text_has_its_page():
    pages = (ROOT / "docs" / f"{name}.md" for name in reference.TEXTS)
    assert all(page.exists() for page in pages)


def test_every_exit_status_is_in_the_table():
    rows = re.findall(
        r"^\| ([\d, ]+) \|", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE
    )
    reported = {int(number) for row in rows for number in row.split(",")}
    assert {error.exit_status for error in kinds()} <= reported
    assert {status for name in NAMES for status in statuses(name)} == reported


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_every_command_lists_the_statuses_that_it_can_end_with(name):
    words = f"lab {name}" if name in EXPERIMENTS else name
    parser = PARSERS["nimo-advise" if name == "advise" else f"nimo {words}"]
    assert listed(name) in parser.format_help()
    own = importlib.import_module(module(name))
    errors = {error.__name__: error.exit_status for error in kinds()}
    raised = {errors[call] for call in code(own.__name__)[1] if call in errors}
    possible = {errors[call] for one in reached(own.__name__) for call in code(one)[1] & {*errors}}
    returned = {value for key, value in vars(own).items() if key.isupper() and type(value) is int}
    assert raised <= {*statuses(name)}
    assert {*statuses(name)} - {0, 1, 2, INTERRUPTED, BROKEN_PIPE} <= possible | returned


def module(name):
    """The module of a command."""
    if name == "advise":
        return "slurm_plugin.cli.advice_requests"
    return command_module(name).__name__


def kinds(error=NimoError):
    """Every kind of error that users see, once all modules that have one are loaded."""
    return {error, *(found for child in error.__subclasses__() for found in kinds(child))}


def reached(name):
    """The modules that one imports, at once or when it needs them."""
    found, left = set(), {name}
    while left:
        found |= left
        left = {other for one in left for other in code(one)[0]} - found
    return found


@cache
def code(name):
    """What a module imports of the packages, and the names that it calls."""
    spec = importlib.util.find_spec(name) if name.split(".")[0] in PACKAGES else None
    if spec is None or spec.origin is None:
        return frozenset(), frozenset()
    nodes = [*ast.walk(ast.parse(Path(spec.origin).read_text()))]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    places = {name for node in froms for name in (node.module, *_members(node))}
    called = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    calls = {n.func.id for n in called}
    # `system_errors` raises the error that it is given.
    calls |= {n.args[0].id for n in called if n.func.id == "system_errors"}
    return frozenset(place for place in places if place.split(".")[0] in PACKAGES), frozenset(calls)


def _members(node):
    """Imported names that are modules themselves."""
    folder = ROOT.joinpath(*node.module.split("."))
    return [f"{node.module}.{a.name}" for a in node.names if (folder / f"{a.name}.py").exists()]
