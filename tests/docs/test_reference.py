"""The reference has every command, option, setting, reason and metric, and tells of each."""

import argparse
import doctest
import importlib.util
import re

import msgspec
import pytest

from sacct_ingest.errors import NimoError
from slurm_plugin.cli import advise
from slurm_plugin.cli.exit_status import EXIT_STATUSES
from slurm_plugin.cli.nimo import COMMANDS, command_parser
from slurm_plugin.config.settings import Config
from slurm_plugin.nimod.prometheus_metrics import METRICS
from slurm_plugin.protocol.reasons import Reason
from tests.docs.pages import ROOT

_SPEC = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)

PARSERS = {
    **{f"nimo {name}": command_parser(name)[0] for name in COMMANDS},
    "nimo-advise": advise.parser(),
}


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
    def below(error):
        return {error, *(result for child in error.__subclasses__() for result in below(child))}

    rows = re.findall(
        r"^\| ([\d, ]+) \|", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE
    )
    reported = {int(number) for row in rows for number in row.split(",")}
    assert {error.exit_status for error in below(NimoError)} <= reported
    numbers = re.findall(r"^  ([\d, ]+?)  ", EXIT_STATUSES, re.MULTILINE)
    assert {int(number) for row in numbers for number in row.split(",")} == reported


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_lists_them(name):
    assert EXIT_STATUSES in command_parser(name)[0].format_help()
