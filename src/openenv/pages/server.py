"""The server of a page apart from an environment's: its files, its checks of access, and its thread."""

import socket
import threading
from pathlib import Path
from typing import Any, Self

from fastapi import FastAPI
from starlette.responses import RedirectResponse, Response

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.any_uvicorn import add_own_connections
from openenv.core.env_server.http.auth import AccessControl
from openenv.core.env_server.http.page_cookie import PageCookie
from openenv.core.utils import is_loopback
from openenv.core.wire.json_codec import to_plain_or_text, write_json
from openenv.hosting.serving.server import server
from openenv.web.pages import PRIVATE_HEADERS, Pages, assets
from openenv.web.routes import add_login

FOLDER = Path(__file__).parent
PAGES = Pages(FOLDER)


def pages_app(config: ServerConfig) -> FastAPI:
    """An application for a page at `/web/`, with the files of pages, and the checks and the login of an environment's
    server."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(AccessControl, config=config)
    app.mount("/web/assets/pages", assets(FOLDER))
    app.mount("/web/assets", assets())
    if config.token is not None:
        add_login(app, PageCookie(config.token), PAGES)
    add_own_connections(app, config)

    @app.get("/")
    def to_page() -> Response:
        return RedirectResponse("web/")

    return app


def access_config(host: str, token: str | None) -> ServerConfig:
    """The configuration of a page's server. Raises ValueError for an address of other machines without a token."""
    if token is None and not is_loopback(host):
        raise ValueError(f"--host {host}: other machines reach this address. Set OPENENV_TOKEN, or leave out --host")
    return ServerConfig(token=token, busy_poll=False)


def json_response(value: Any, *, status_code: int = 200) -> Response:
    """A response with a value as JSON. NaN and infinity are null."""
    body = write_json(value, default=to_plain_or_text)
    return Response(body, status_code, media_type="application/json", headers=dict(PRIVATE_HEADERS))


class PageServer:
    """Serves an application in a thread of its own from the start to the end of a `with` statement."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        """port: 0 for a free one. Raises OSError for an address that is taken."""
        try:
            self._socket = socket.create_server((host, port), family=_family(host))
        except OSError as error:
            raise OSError(f"the page cannot listen on {host}:{port}: {error.strerror}. Give another --port") from error
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/web/"
        """Of the page."""
        self._server = server(app, host, port, log_level="warning")
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="page", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def wait(self) -> None:
        """Wait until the thread ends, or a signal interrupts the program."""
        self._thread.join()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
