"""How marks look, read off the style sheet of the pages: for files, and for other renderers."""

import re
from collections.abc import Mapping
from functools import cache

from slurm_plugin.reports.html import template

_PALETTE = re.compile(r"--(\w+): (#\w{6})")
_VARIABLE = re.compile(r"var\(--(\w+)\)")
_RULE = re.compile(r"([^{}]+)\{([^}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@cache
def style_of_files() -> str:
    """Rules with the colours of light screens: many programs read no variables from a style."""
    light = template("style.css").partition("}")[0]
    colours = dict(_PALETTE.findall(light))
    rules = _COMMENT.sub("", template("chart.css")).strip()
    return _VARIABLE.sub(lambda name: colours[name[1]], rules) + "\n"


@cache
def look_of(element: str, look: str) -> Mapping[str, str]:
    """Properties of an element (``rect``, ``path``, ``circle``, ``text``) with a look.

    >>> look_of("path", "spread")["stroke-width"]
    '1.2'
    """
    words = {element, *(f".{word}" for word in look.split())}
    properties: dict[str, str] = {}
    for selectors, body in _RULE.findall(style_of_files()):
        if any(_selected(selector, words) for selector in selectors.split(",")):
            pairs = (one.split(":", 1) for one in body.split(";") if ":" in one)
            properties |= {name.strip(): value.strip() for name, value in pairs}
    return properties


def _selected(selector: str, words: set[str]) -> bool:
    svg, *parts = selector.split()
    if svg != "svg" or len(parts) != 1:
        return False
    return words.issuperset(re.findall(r"\.?\w+", parts[0]))
