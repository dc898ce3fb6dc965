"""Manual pages and shell completion of all commands, out of their parsers.

The packages have them; ``python -m packages.manual /usr/local/share`` writes them after pip.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from sacct_ingest.files import atomic_file
from sacct_ingest.scripts.job_script import OPTIONS, Value
from slurm_plugin.cli import advise, nimo
from slurm_plugin.text.table_columns import Table

_PROJECT = "NIMO for Slurm"
_PURPOSE = "predict run times of Slurm jobs from job history"
_EXPERIMENTS = "experiments: trial runs, workflows, probes, forecasts, transfers"
_ADVICE = "predict run time over node counts for a job script, and recommend a count"
#: Part of an epilog: its head, and lines that stand under it.
_PART = re.compile(r"^(?P<head>[a-z][a-z ]*):\n(?P<text>(?:(?: .*)?\n)*)", re.MULTILINE)


def write(folder: Path) -> list[Path]:
    """Write manual pages and completion for bash and zsh below a folder ``share``."""
    texts = {Path("man", "man1", name): text for name, text in (*pages(), *old_names())}
    for name, parser in completions().items():
        texts[Path("bash-completion", "completions", name)] = completion(parser, "bash")
        texts[Path("zsh", "site-functions", f"_{name}")] = completion(parser, "zsh")
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(folder / path, text.encode(), mode=0o644)
    return [folder / path for path in texts]


def pages() -> Iterator[tuple[str, str]]:
    """Give file names and texts of all manual pages, in section 1."""
    overview = nimo.top_parser()
    yield "nimo.1", _page(overview, "nimo", _PURPOSE)
    yield f"nimo-{nimo.LAB}.1", _page(nimo.lab_parser(), f"nimo-{nimo.LAB}", _EXPERIMENTS)
    for words, text in nimo.COMMANDS.items():
        parser = nimo.command_parser(words)
        name = page_of(words)
        yield f"{name}.1", _page(parser, name, text, nimo.tables_of(words))
    yield "nimo-advise.1", _page(advise.parser(), "nimo-advise", _ADVICE, advise.tables())


def old_names() -> Iterator[tuple[str, str]]:
    """Give pages of experiments by the names that they still have without ``lab``."""
    for name in nimo.EXPERIMENTS:
        yield f"nimo-{name}.1", f".so man1/{page_of(f'{nimo.LAB} {name}')}.1\n"


def page_of(words: str) -> str:
    """Name of the page of a command.

    >>> page_of("lab learn")
    'nimo-lab-learn'
    """
    return f"nimo-{words.replace(' ', '-')}"


def completions() -> dict[str, argparse.ArgumentParser]:
    """Give for each program a parser for all its arguments."""
    together = nimo.top_parser()
    commands = together.add_subparsers(metavar="COMMAND")
    experiments = commands.add_parser(nimo.LAB, help=_EXPERIMENTS).add_subparsers()
    for words, text in nimo.COMMANDS.items():
        parser = nimo.command_parser(words)
        *lab, name = words.split()
        place = experiments if lab else commands
        place.add_parser(name, parents=[parser], add_help=False, help=text)
    return {"nimo": together, "nimo-advise": _with_options_of_sbatch(advise.parser())}


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Text of a completion file; arguments without a list of values are file names."""
    for each in _all_parsers(parser):
        for action in each._actions:
            if action.nargs != 0 and not action.choices:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return text


def _all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _all_parsers(one)


def _with_options_of_sbatch(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("script", nargs="?")
    declared = parser._option_string_actions
    for name, kind in sorted(set(OPTIONS["sbatch"].values())):
        if f"--{name}" not in declared:
            nargs = {"nargs": "?"} if kind is Value.ATTACHED else {}
            how = {"action": "store_true"} if kind is Value.NONE else nargs
            parser.add_argument(f"--{name}", **how, help="as sbatch has it")  # type: ignore[arg-type]
    return parser


def _page(
    parser: argparse.ArgumentParser, name: str, text: str, tables: Sequence[Table] = ()
) -> str:
    epilog = f"{parser.epilog or ''}\n"
    parser.epilog = None
    page = Manpage(parser)
    page.prog, page.source = name, f"nimo-slurm {version('nimo-slurm')}"
    page.manual, page.description, page.date = _PROJECT, text, ""
    page.synopsis = [parser.prog, *page.synopsis[len(parser.prog.split()) :]]
    if tables:
        page.add_section("columns", "=", "\n".join(map(_columns, tables)))
    for part in _PART.finditer(epilog):
        page.add_section(part["head"], "=", f".nf\n{_roff(part['text'].rstrip())}\n.fi")
    if rest := _PART.sub("", epilog).strip():
        page.add_section("notes", "=", _roff(rest))
    page.add_section("see also", "=", ".BR nimo (1),\n.BR nimo-advise (1),\n.BR sbatch (1)")
    return str(page)


def _columns(table: Table) -> str:
    """List the columns of a table."""
    head = " ".join(filter(None, (table.name and f"--table {table.name}:", table.caption)))
    lines = [f".SS {_roff(head)}"] if head else []
    for name, words in table.listing():
        lines += [".TP", f"\\fB{_roff(name)}\\fR", _roff(words)]
    return "\n".join(lines)


def _roff(text: str) -> str:
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
