"""One request for a page: its query, what its user may see, links and templates.

A query has few names, short values, and one error that says how to fix it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader

from slurm_plugin.config.settings import Config
from slurm_plugin.reports import html
from slurm_plugin.reports.application_list import TableKey
from slurm_plugin.reports.html import PageLink
from slurm_plugin.web.data import CatalogueEntry, PageData, may_see
from slurm_plugin.web.viewer import Viewer

_PACKAGE = "slurm_plugin.web"
_PATHS = {
    "Overview": "/",
    "My jobs": "/mine",
    "Applications": "/applications",
    "Decisions": "/decisions",
    "Queue": "/queue",
    "Savings": "/savings",
    "Report": "/report",
    "Replay": "/replay",
}
_FOR_ADMINS = ("Overview", "Replay")
_LONGEST = 600  #: characters of a value; a key has 560
_DATE = r"(\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d)?)"
_COUNTS = re.compile(r"(\d{1,9})\.\.(\d{1,9})", re.ASCII)
_DATES = re.compile(rf"{_DATE}\.\.{_DATE}", re.ASCII)
ROWS = 50  #: of a page of a list
SOME = 10
OLD_S = 300.0  #: waits older than this are not those of now


class BadQuery(Exception):  # noqa: N818 - it is the query that is bad
    """A parameter cannot be understood; the text names it and says how to fix it."""

    status = 400


class PageMissing(Exception):  # noqa: N818 - a state, not an error
    """There is no such page, or nothing on it that the viewer may see."""

    status = 404


@dataclass(frozen=True, slots=True)
class Zoom:
    """A part of the axis of figures: from one of their places to another; dates, or counts."""

    low: str
    high: str
    whole: str  #: URL of the page with all of it

    def __contains__(self, place: str) -> bool:
        """Tell whether a place is inside."""
        if self.low.isdecimal():
            return int(self.low) <= int(place) <= int(self.high)
        return self.low <= place <= self.high


@dataclass(frozen=True, slots=True)
class View:
    """One request: by whom, of what, with which query."""

    site: PageData
    viewer: Viewer
    query: Mapping[str, str]

    def text(self, name: str) -> str:
        """Give a value as it is, without blanks around it; empty where there is none."""
        value = self.query.get(name, "").strip()
        if len(value) > _LONGEST:
            raise BadQuery(f"{name}: at most {_LONGEST} characters")
        return value

    def choice(self, name: str, choices: Collection[str], default: str = "") -> str:
        """Give one of the allowed values."""
        value = self.text(name)
        if value and value not in choices:
            raise BadQuery(f"{name}: one of {', '.join(choices)}")
        return value or default

    def number(self, name: str, default: int) -> int:
        """Give a whole number from 1; of a job array's task (``4711_3``) the array's."""
        value = self.text(name)
        value = value.partition("_")[0] if name == "job" else value
        if value and not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value)):
            raise BadQuery(f"{name}: a whole number from 1")
        return int(value or default)

    def zoom(self, name: str, path: str, *, dates: bool = False) -> Zoom | None:
        """Give the part of the axis that is asked for as ``FROM..TO``; None: all of it."""
        value = self.text(name)
        if not value:
            return None
        if (ends := (_DATES if dates else _COUNTS).fullmatch(value)) is None:
            example = "2026-11-02..2026-11-30" if dates else "4..32"
            raise BadQuery(f"{name}: from where to where, as in {example}")
        others = {one: text for one, text in self.query.items() if one != name}
        whole = f"{self.site.config.web.prefix}{path}"
        return Zoom(ends[1], ends[2], f"{whole}?{urlencode(others)}" if others else whole)

    def link(self, path: str, **values: object) -> str:
        """URL of another page."""
        return link(self.site.config.web.prefix + path, **values)

    def application(self, key: TableKey) -> CatalogueEntry | None:
        """Find an application that the viewer may see."""
        return self._visible(self.site.catalogue().find(key))

    def application_by_label(self, label: str) -> str | PageLink:
        """Link to the application of this name; only its name where there is none to see."""
        entry = self._visible(self.site.catalogue().named(label))
        return self.application_link(entry) if entry else label

    def application_link(self, entry: CatalogueEntry) -> PageLink:
        """Link to an application by its name."""
        return PageLink(entry.label, self.link("/application", level=entry.level, key=entry.key))

    def _visible(self, entry: CatalogueEntry | None) -> CatalogueEntry | None:
        return entry if entry and may_see(self.viewer.visibility)(entry) else None

    def render(self, template: str, title: str, *, at: str = "", **context: Any) -> str:
        """Fill a template; ``at`` is the part of the site that it belongs to."""
        return render(self.site.config, self.viewer, template, title, at=at or title, **context)


def link(path: str, **values: object) -> str:
    """URL with a query of the values that are not empty."""
    parameters = {name: str(value) for name, value in values.items() if value not in ("", None)}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def render(
    config: Config,
    viewer: Viewer | None,
    template: str,
    title: str,
    *,
    at: str = "",
    **context: Any,
) -> str:
    """Fill a template; all values of its context are escaped.

    viewer: the user; None: unknown, and the page has no links to others.
    at: the part of the site that it belongs to.
    """
    prefix = config.web.prefix
    parts = [
        (name, link(f"{prefix}{path}"), name == at)
        for name, path in _PATHS.items()
        if viewer and (viewer.everything or name not in _FOR_ADMINS)
    ]
    return _environment().get_template(template).render(
        title=title,
        parts_of_site=parts,
        viewer=viewer,
        prefix=prefix,
        style_name=style_name(),
        script_name=script_name(),
        cluster=config.cluster,
        release=version("nimo-slurm"),
        **context,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    """Templates of the site, over those of all pages."""
    base = html.environment()
    loaders = [PackageLoader(_PACKAGE), *([base.loader] if base.loader else [])]
    return base.overlay(loader=ChoiceLoader(loaders))


@cache
def style() -> bytes:
    """Style sheet of the site: that of all pages, and what only the site has."""
    return f"{html.style()}\n{file_text('web.css')}".encode()


@cache
def style_name() -> str:
    """Name of the style sheet: another one for another content, so that browsers may keep it."""
    return f"style-{blake2b(style(), digest_size=8).hexdigest()}.css"


@cache
def script() -> bytes:
    """Script of the site: pages are complete without it."""
    return file_text("web.js").encode()


@cache
def script_name() -> str:
    """Name of the script, made as that of the style sheet."""
    return f"script-{blake2b(script(), digest_size=8).hexdigest()}.js"


def file_text(name: str) -> str:
    """Text of a file that stands beside the templates."""
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")
