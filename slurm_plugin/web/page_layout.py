"""What all pages of the site have in common: templates, style sheet, the way round."""

from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader

from slurm_plugin.config.settings import Config
from slurm_plugin.reports import html
from slurm_plugin.web.query import link
from slurm_plugin.web.viewer import Viewer

_PACKAGE = "slurm_plugin.web"
_PATHS = {
    "Overview": "/",
    "My jobs": "/mine",
    "Applications": "/applications",
    "Decisions": "/decisions",
    "Queue": "/queue",
    "Report": "/report",
    "Replay": "/replay",
}
_FOR_ADMINS = ("Overview", "Replay")


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
    return environment().get_template(template).render(
        title=title,
        parts_of_site=parts,
        viewer=viewer,
        style_url=f"{prefix}/style-{style_digest()}.css",
        icon_url=f"{prefix}/icon.svg",
        cluster=config.cluster,
        release=version("nimo-slurm"),
        **context,
    )  # fmt: skip


@cache
def environment() -> Environment:
    """Templates of the site, over those of all pages."""
    base = html.environment()
    loaders = [PackageLoader(_PACKAGE), *([base.loader] if base.loader else [])]
    return base.overlay(loader=ChoiceLoader(loaders))


@cache
def style() -> bytes:
    """Style sheet of the site: that of all pages, and what only the site has."""
    return f"{html.style()}\n{_text('web.css')}".encode()


@cache
def style_digest() -> str:
    """Part of the style sheet's name, so that browsers may keep it for ever."""
    return blake2b(style(), digest_size=8).hexdigest()


@cache
def icon() -> bytes:
    """Picture for the tabs of browsers, as SVG."""
    return _text("icon.svg").encode()


def _text(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")
