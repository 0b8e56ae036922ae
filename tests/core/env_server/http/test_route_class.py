"""Our routes in an application of an author: beside other routes, below a prefix, and mounted."""

import contextlib
from typing import Annotated

import httpx
import pytest
from fastapi import Body, FastAPI
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import num_sessions, wait_until

LOCKED = ServerConfig(token="s3cret", allowed_origins=("http://good.example",))
TOKEN = {"Authorization": "Bearer s3cret"}
PREFLIGHT = {"Origin": "http://good.example", "Access-Control-Request-Method": "POST"}


def author_app() -> FastAPI:
    app = FastAPI()

    @app.post("/mine")
    def mine(number: Annotated[int, Body(embed=True)]) -> int:
        return number

    return app


@pytest.fixture(scope="module")
def url(module_serving):
    """One application with our routes at its root, below a prefix, and mounted."""
    app = author_app()
    app.include_router(create_app(CountingEnvironment, config=LOCKED).router, prefix="/prefix")
    app.mount("/mount", create_app(CountingEnvironment, config=LOCKED))
    HTTPEnvServer(CountingEnvironment, config=LOCKED).register_routes(app)
    return module_serving(app)


@pytest.mark.finding("every route takes the configuration that its middleware has")
def test_the_authors_own_routes_keep_their_access_and_their_error_responses(url):
    foreign = {"Origin": "http://evil.example"}
    assert httpx.post(f"{url}/mine", json={"number": 3}, headers=foreign).json() == 3
    assert httpx.post(f"{url}/mine", json={}).json().keys() == {"detail"}
    assert "access-control-allow-origin" not in httpx.options(f"{url}/mine", headers=PREFLIGHT).headers


@pytest.mark.finding("every route takes the configuration that its middleware has")
@pytest.mark.parametrize("path", ["", "/prefix", "/mount"])
def test_our_routes_keep_their_token_and_their_error_responses_wherever_they_are(url, path):
    base = url + path
    assert httpx.get(f"{base}/health").status_code == 200
    for refused in (httpx.post(f"{base}/reset"), httpx.get(f"{base}/state", headers={"Authorization": "Bearer x"})):
        assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHORIZED")
    with pytest.raises(InvalidStatus) as without_token:
        connect(f"ws{base[4:]}/ws")
    assert without_token.value.response.status_code == 401

    allowed = httpx.options(f"{base}/reset", headers=PREFLIGHT)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "http://good.example")
    assert httpx.post(f"{base}/step", json={}, headers=TOKEN).json()["code"] == "VALIDATION_ERROR"
    assert httpx.get(f"{base}/state", headers={**TOKEN, "X-Session-Id": "x"}).json()["code"] == "SESSION_ERROR"


@pytest.mark.parametrize("path", ["", "/prefix", "/mount"])
def test_our_routes_serve_wherever_they_are(url, path):
    with CountEnv(url + path, headers=TOKEN) as env:
        env.reset()
        assert env.step(CountAction(amount=2)).observation.total == 2
        assert httpx.get(f"{url}{path}/ready", headers=TOKEN).json()["sessions"] == 1
        assert b"openenv_sessions" in httpx.get(f"{url}{path}/metrics", headers=TOKEN).content


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_second_environment_in_one_application_is_refused_with_the_remedy(is_ours):
    app = create_app(CountingEnvironment) if is_ours else author_app()
    server = HTTPEnvServer(CountingEnvironment)
    if not is_ours:
        server.register_routes(app)
    with pytest.raises(ValueError, match=r"serves an environment already.*app\.mount\('/countingenvironment', "):
        server.register_routes(app)


@contextlib.asynccontextmanager
async def own_lifespan(_):
    yield


@pytest.mark.finding("sessions opened over HTTP have an idle limit of their own")
@pytest.mark.parametrize("kind", ["mounted", "with a lifespan of its own"])
def test_idle_sessions_end_in_an_application_that_does_not_run_our_lifespan(serving, kind):
    config, app = ServerConfig(http_idle_timeout_s=0.2), author_app()
    path = "/mount" if kind == "mounted" else ""
    if kind == "mounted":
        app.mount(path, create_app(CountingEnvironment, config=config))
    else:
        HTTPEnvServer(CountingEnvironment, config=config).register_routes(app)
        app.router.lifespan_context = own_lifespan
    url = serving(app) + path

    assert httpx.post(f"{url}/reset").status_code == 200
    wait_until(lambda: num_sessions(url) == 0)


async def test_a_client_that_leaves_while_it_sends_a_body_is_no_error_of_the_server():
    sent = []
    scope = {
        "type": "http", "method": "POST", "path": "/reset", "raw_path": b"/reset", "root_path": "", "scheme": "http",
        "query_string": b"", "headers": [(b"host", b"localhost")], "server": ("localhost", 80), "client": ("::1", 1),
        "http_version": "1.1",
    }  # fmt: skip

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await create_app(CountingEnvironment)(scope, receive, send)
    assert [message["status"] for message in sent if "status" in message] in ([], [400])
