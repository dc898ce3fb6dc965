"""What the pages show in code: command lines, settings, YAML."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^( *)```+(?P<language>[^\n`]*)\n(?P<text>.*?)^\1```+$", re.M | re.S)
_INDENTED = re.compile(r"(?:^ {4,}\S.*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"^(?:\$ )?(?:sudo -u nimo )?((?:nimo|nimo-advise|sbatch|make) .*)$")
#: Where the shell takes over: a comment, a pipe, a redirection, the background.
_SHELL = re.compile(r"\s+(?:#|\||>|<|2>|&|&&|;)(?:\s|$).*$|\s+[<>]\S.*$")


@dataclass(frozen=True, slots=True)
class Shown:
    """Something that a page shows in code."""

    page: str
    text: str


def command_lines() -> list[Shown]:
    """Command lines of NIMO, sbatch and make, in blocks and in the middle of sentences."""
    result = [
        Shown(page.name, _SHELL.sub("", command[1]))
        for page in PAGES
        for line in _code(page.read_text())
        if (command := _COMMAND.match(line))
    ]
    return list(dict.fromkeys(result))


def inline() -> list[Shown]:
    """What stands in backticks."""
    return [
        Shown(page.name, " ".join(text.split()))
        for page in PAGES
        for text in _INLINE.findall(_FENCE.sub("", page.read_text()))
    ]


def blocks(language: str) -> list[Shown]:
    """Fenced blocks in this language."""
    return [
        Shown(page.name, dedent(fence["text"]))
        for page in PAGES
        for fence in _FENCE.finditer(page.read_text())
        if fence["language"].strip() == language
    ]


def _code(text: str) -> Iterator[str]:
    for fence in _FENCE.finditer(text):
        yield from (line.strip() for line in fence["text"].splitlines())
    rest = _FENCE.sub("", text)
    for block in _INDENTED.findall(rest):
        yield from (line.strip() for line in block.splitlines())
    yield from (" ".join(code.split()) for code in _INLINE.findall(rest))
