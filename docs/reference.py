"""Reference pages out of the code: every command, setting, reason, metric and limit.

The pages ``commands``, ``settings``, ``reasons``, ``metrics`` and ``threat-model`` end where these
texts begin.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec
from sphinx.application import Sphinx

from slurm_plugin.cli import advise
from slurm_plugin.cli.nimo import COMMANDS, command_parser, tables_of
from slurm_plugin.config.settings import Config
from slurm_plugin.nimod.prometheus_metrics import METRICS
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.service.accountant import LIMITS
from slurm_plugin.text.table_columns import Table

SETTINGS = Path(__file__).parents[1] / "etc" / "nimo.yaml"
_ENTRY = re.compile(r"^(?P<indent> {0,2})(?P<key>\w+):(?P<value>[^#]*)(?:# ?(?P<text>.*))?$")


def setup(app: Sphinx) -> None:
    """Add the texts to their pages (Sphinx calls this: reference is one of its extensions)."""
    app.connect("source-read", _add)


def commands() -> str:
    """Every command with its options, from the parsers."""
    parts = [_command(f"nimo {name}", command_parser(name), tables_of(name)) for name in COMMANDS]
    return "\n".join([*parts, _command("nimo-advise", advise.parser(), advise.tables())])


def reasons() -> str:
    """Table of the reasons of decisions."""
    rows = [(f"`{reason.value}`", reason.text) for reason in Reason]
    return _table(("reason", "meaning"), rows)


def metrics() -> str:
    """Table of what Prometheus is given."""
    rows = [
        (f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.text)
        for one in METRICS
    ]
    return _table(("metric", "kind", "labels", "what it says"), rows)


def limits() -> str:
    """Table of what each principal may use of nimod."""
    rows = [
        (
            one.kind.value,
            f"`{one.resource.value}`",
            one.words.format(most=one.most, per_s=one.per_s),
            f"{one.most:,.10g}" if one.per_s else "",
            "" if one.all_most == inf else f"{one.all_most:,.10g}",
            one.beyond,
        )
        for one in LIMITS
    ]
    names = ("whose", "resource", "each may use", "at once", "all together", "beyond it")
    return _table(names, rows)


def settings() -> str:
    """Every setting with its default, and the comments of the file that is shipped."""
    defaults = msgspec.to_builtins(Config())
    texts = comments(SETTINGS.read_text())
    parts = [_of_all(key, defaults[key], texts) for key in defaults]
    return "\n".join(parts)


#: The text that ends each page.
TEXTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "reasons": reasons,
    "metrics": metrics,
    "threat-model": limits,
}


def comments(text: str) -> dict[str, list[str]]:
    r"""Comments of each setting in a commented file: those above it, beside it and going on below.

    >>> comments("# Above.\nfit:\n  workers: 0  # beside\n              # and below\n")
    {'fit': ['Above.'], 'fit.workers': ['beside', 'and below']}
    """
    comments_of: dict[str, list[str]] = {}
    above: list[str] = []
    section = last = ""
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            section = section if entry["indent"] else entry["key"]
            last = f"{section}.{entry['key']}" if entry["indent"] else section
            comments_of[last] = above + ([entry["text"]] if entry["text"] else [])
            above = []
        elif re.match(r" {4,}# ", line):
            comments_of[last].append(line.strip()[2:])
        elif line.strip():
            above.append(line.strip().removeprefix("#").removeprefix(" "))
        else:
            above = []
    return comments_of


def _add(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's order
    if page in TEXTS:
        source[0] += "\n" + TEXTS[page]()


def _command(name: str, parser: argparse.ArgumentParser, tables: Sequence[Table]) -> str:
    described = (parser.description or "").strip()
    rows = [(_names(action), _help(parser, action)) for action in parser._actions]
    return "\n".join(
        [
            f"## {name}\n",
            f"{described}\n",
            _table(("option", "meaning"), rows),
            f"```text\n{(parser.epilog or '').strip()}\n```\n",
            *map(_columns, tables),
        ]
    )


def _columns(table: Table) -> str:
    """List the columns of a table, the raw value's unit in brackets."""
    head = " ".join(filter(None, (table.name and f"`{table.name}`:", table.caption)))
    rows = [(f"`{name}`", words) for name, words in table.listing()]
    return (f"{head}\n\n" if head else "") + _table(("column", "what it is"), rows)


def _names(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    return f"`{' '.join([', '.join(action.option_strings), str(value)]).strip()}`"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action)


def _of_all(name: str, default: object, texts: Mapping[str, list[str]]) -> str:
    """Part of the page for one key of the top level: a section of settings, or a setting alone."""
    if not isinstance(default, dict):
        lines = "\n".join(texts[name])
        return f"## {name}\n\n```text\n{lines}\n```\n\nDefault: `{_shown(default)}`\n"
    rows = [
        (f"`{name}.{key}`", f"`{_shown(value)}`", _joined(texts[f"{name}.{key}"]))
        for key, value in default.items()
    ]
    return f"## {name}\n\n{_joined(texts[name])}\n\n" + _table(
        ("setting", "default", "meaning"), rows
    )


def _joined(lines: list[str]) -> str:
    return " ".join(f"`{line.strip()}`" if line.strip()[:2] == "- " else line for line in lines)


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode() if value != "" else '""'


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<").replace("$", "\\$")
