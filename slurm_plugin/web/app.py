"""Requests to pages: the user, the requests that are allowed, and the headers of each answer."""

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sacct_ingest.errors import NimoError
from slurm_plugin.config.settings import Config
from slurm_plugin.web import (
    application_page,
    decisions_page,
    queue_page,
    report_pages,
    savings_page,
    start_pages,
    view,
)
from slurm_plugin.web.data import PageData
from slurm_plugin.web.refreshing_cache import NotReady
from slurm_plugin.web.view import BadQuery, PageMissing, View
from slurm_plugin.web.viewer import Proxies, Unauthenticated, Viewer, user_of

_log = logging.getLogger(__name__)
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[^:\[\]]+)(?::\d{1,5})?")
_LONGEST_QUERY = 4096
LONGEST_HEAD = 32 << 10  #: bytes of all headers
#: What an answer lets a browser do: show it, run the site's own script, ask the site again.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}
_AGAIN_S = 2  #: after which a page is asked for again that takes its time
_PRIVATE = "private, no-cache"
_FOR_EVER = "private, max-age=31536000, immutable"
#: Path -> page.
PAGES: Mapping[str, Callable[[View], str]] = {
    "/": start_pages.home,
    "/mine": start_pages.mine,
    "/applications": application_page.applications,
    "/application": application_page.one_application,
    "/decisions": decisions_page.decisions,
    "/decision": decisions_page.one_decision,
    "/queue": queue_page.queue,
    "/savings": savings_page.savings,
    "/report": report_pages.report,
    "/replay": report_pages.replay,
}
_TITLES = {
    400: "This request is not valid",
    403: "Not for everybody",
    404: "There is no such page",
    503: "Not now",
}


def application(site: PageData, proxies: Proxies) -> ASGIApp:
    """Make the ASGI application; the server puts the connection's `Peer` into ``state["peer"]``."""
    config = site.config
    pages = {**PAGES, "/table.csv": report_pages.table_csv}
    icon = view.file_text("icon.svg").encode()
    # Endpoints run in threads: pages wait for the store, and for Slurm where the user is new.
    routes = [
        *(Route(path, partial(_answer, site, proxies, page)) for path, page in pages.items()),
        Route(f"/{view.style_name()}", partial(_file, view.style(), "text/css")),
        Route(f"/{view.script_name()}", partial(_file, view.script(), "text/javascript")),
        Route("/icon.svg", partial(_file, icon, "image/svg+xml")),
    ]

    def error_response(request: Request, error: Exception) -> Response:
        viewer = None
        with suppress(Unauthenticated, NimoError, AttributeError):
            viewer = _viewer(site, proxies, request)
        return _error_page(config, error, viewer)

    made = Starlette(
        routes=routes, exception_handlers={HTTPException: error_response, Exception: error_response}
    )
    # They would lead to where the server thinks it is, which a proxy's users cannot reach.
    made.router.redirect_slashes = False
    return Guard(made, config)


class Guard:
    """Refuses requests that are not allowed, and puts `HEADERS` on every answer.

    It refuses a host name that is not the site's: that is how DNS rebinding begins.
    """

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self._app = app
        self._hosts = frozenset((*_LOCAL, *(name.lower() for name in config.web.hosts)))
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        refuse = partial(_message, self._config, None)
        host = _HOST.fullmatch(headers.get("host", "").lower())
        if host is None or host[1] not in self._hosts:
            return refuse(421, "This is not the name of this site: web.hosts has its names")
        if scope["method"] not in ("GET", "HEAD"):
            return refuse(405, "These pages are read only", Allow="GET, HEAD")
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return refuse(413, "A request must have no body", Connection="close")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEAD:
            return refuse(431, f"Headers have at most {LONGEST_HEAD} bytes", Connection="close")
        if len(scope["query_string"]) > _LONGEST_QUERY:
            return refuse(414, f"A query has at most {_LONGEST_QUERY} characters")
        return None


def _viewer(site: PageData, proxies: Proxies, request: Request) -> Viewer:
    named = request.headers.getlist(proxies.header)
    return site.viewer(user_of(request.state.peer, named, proxies))


def _answer(
    site: PageData, proxies: Proxies, page: Callable[[View], str], request: Request
) -> Response:
    try:
        viewer = _viewer(site, proxies, request)
    except Unauthenticated as refused:
        _log.warning("refused %s: %s", request.state.peer, refused)
        return _message(site.config, None, 403, f"The user of this request is unknown: {refused}")
    try:
        text = page(View(site, viewer, request.query_params))
    except NotReady:
        words = (
            "The jobs of this page are being added up; the page comes by itself when that is done"
        )
        again = {"Refresh": str(_AGAIN_S), "Retry-After": str(_AGAIN_S)}
        return _message(site.config, viewer, 503, words, title="One moment", **again)
    except (PageMissing, BadQuery, NimoError) as error:
        return _error_page(site.config, error, viewer)
    kind = "text/csv" if page is report_pages.table_csv else "text/html"
    return Response(text, media_type=kind, headers={"Cache-Control": _PRIVATE})


def _error_page(config: Config, error: Exception, viewer: Viewer | None = None) -> Response:
    """Say what went wrong; hide the store's error, since it names hosts and paths."""
    if isinstance(error, HTTPException):
        return _message(config, viewer, error.status_code, error.detail)
    if isinstance(error, BadQuery | PageMissing):
        return _message(config, viewer, error.status, str(error))
    if isinstance(error, NimoError):
        _log.error("%s", error)
        return _message(config, viewer, 503, "The store cannot be read now; the log says why")
    return _message(config, viewer, 500, "The program has failed; the log says more")


def _message(
    config: Config,
    viewer: Viewer | None,
    status: int,
    text: str,
    *,
    title: str = "",
    **headers: str,
) -> Response:
    title = title or _TITLES.get(status, "This cannot be shown")
    page = view.render(config, viewer, "message.html.j2", title, text=f"{text}.")
    return HTMLResponse(page, status, {"Cache-Control": "no-store", **headers})


def _file(content: bytes, kind: str, request: Request) -> Response:
    del request
    return Response(content, media_type=kind, headers={"Cache-Control": _FOR_EVER})
