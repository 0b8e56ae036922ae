"""Adds the pages of a server to its application: play and watch, and the login of a server with a token."""

import os
from collections.abc import Sequence
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from openenv.core.env_server.http.auth import AccessControl
from openenv.core.env_server.http.page_cookie import LOGIN_PATH, PageCookie
from openenv.core.env_server.http.route_class import add_websocket, environment_routes
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.web import PAGE_VARIABLE
from openenv.web.login_limit import LoginLimit
from openenv.web.pages import Pages, assets
from openenv.web.play_routes import add_play
from openenv.web.watch_routes import add_watch

_OFF = ("0", "false", "no", "off")
_ON = ("1", "true", "yes", "on")

Tab = tuple[str, str]
"""Name and path of a further page."""


def page_is_enabled() -> bool:
    """Whether servers have a page: unless the environment variable ENABLE_WEB_INTERFACE is false."""
    return os.environ.get(PAGE_VARIABLE, "").lower() not in _OFF


def tab_is_enabled() -> bool:
    """Whether servers have their author's own page: where ENABLE_WEB_INTERFACE is true, as on a Space of the Hub."""
    return os.environ.get(PAGE_VARIABLE, "").lower() in _ON


def add_web_pages(app: FastAPI, spec: EnvSpec, *, leads_to: str, tabs: Sequence[Tab] = ()) -> None:
    """Add the pages to an environment's application.

    leads_to: the path to which `/` leads, where the author has no page there. tabs: further pages, for links.
    """
    sessions: SessionManager = app.state.sessions
    pages = Pages(frame_ancestors=sessions.config.allowed_origins)
    with environment_routes(app, sessions.config):
        ui_socket = add_play(app, spec, sessions, pages, tabs)
        if sessions.config.token is not None:
            add_login(app, PageCookie(sessions.config.token), pages)
    add_websocket(app, "/ws/ui", ui_socket, sessions.config)
    if sessions.config.allow_watching:
        add_watch(app, spec, sessions, pages)
    _add_lead(app, leads_to)
    app.mount("/web/assets", AccessControl(assets(), sessions.config, "/web/assets/"))


def _add_lead(app: FastAPI, path: str) -> None:
    """Let `/` lead to a page, unless a route of the application answers there, which its author may add later."""
    otherwise = app.router.default
    to_page = RedirectResponse(f"{path.removeprefix('/')}/")  # relative: the application may be below another path

    async def lead(scope: Scope, receive: Receive, send: Send) -> None:
        is_root = scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) in ("", "/")
        await (to_page if is_root and scope["method"] in ("GET", "HEAD") else otherwise)(scope, receive, send)

    app.router.default = lead


def add_login(app: FastAPI, cookie: PageCookie, pages: Pages) -> None:
    """Add the page that asks for the token, and gives the cookie for it. An address that has given too many wrong ones
    has to wait."""
    limit = LoginLimit()

    def refused(status: int, problem: str, headers: dict[str, str]) -> Response:
        page = pages.response("login.html", status_code=status, root="", title="OpenEnv server", problem=problem)
        page.headers.update(headers)
        return page

    @app.get(LOGIN_PATH, include_in_schema=False)
    async def login_page() -> Response:
        return pages.response("login.html", root="", title="OpenEnv server", problem="")

    @app.post(LOGIN_PATH, include_in_schema=False)
    async def login(request: Request) -> Response:
        address = request.client.host if request.client else ""
        wait_s = limit.wait_s(address)
        if wait_s:
            problem = f"Too many wrong tokens came from your address. Try again in {wait_s} seconds."
            return refused(429, problem, {"Retry-After": str(wait_s)})
        form = parse_qs((await request.body()).decode("latin-1"))
        if not cookie.is_token(form.get("token", [""])[0]):
            limit.count_failed(address)
            problem = "This is not the server's token. The program or person that started the server knows it."
            return refused(401, problem, {})
        response = RedirectResponse("./", status_code=303)
        response.headers["Set-Cookie"] = cookie.header(request.url.scheme, request.scope.get("root_path", ""))
        return response
