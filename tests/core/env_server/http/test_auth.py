"""Access to a server: the bearer token, the origins of web pages, and the size of requests."""

import logging
import socket
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, WebSocketException
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.errors import MessageTooBig, Unauthorized
from openenv.core.http_env_client import HTTPEnvClient
from openenv.hosting.serving.server import server
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState
from tests.core.cutting_proxy import CuttingProxy


class CountHttpEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counter over plain HTTP."""


@pytest.fixture(scope="module")
def locked(module_serving):
    return module_serving(create_app(CountingEnvironment, config=ServerConfig(token="s3cret")))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3"}])
def test_without_the_token_only_health_is_served(locked, headers):
    assert httpx.post(f"{locked}/reset", headers=headers).status_code == 401
    assert httpx.get(f"{locked}/health", headers=headers).status_code == 200
    with pytest.raises(Unauthorized, match="wants its token"):
        CountEnv(locked, headers=headers).reset()


async def test_an_asynchronous_client_without_the_token_is_refused_and_the_server_logs_no_error(locked, caplog):
    with pytest.raises(Unauthorized, match="wants its token"):
        await CountEnv(locked)
    async with httpx.AsyncClient() as http:
        await http.get(f"{locked}/health")  # after the server has closed the refused connection

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_token_that_is_refused_on_reconnecting_raises_at_once(serving, is_async):
    first, second = (serving(create_app(CountingEnvironment, config=ServerConfig(token=token))) for token in "ab")
    proxy = CuttingProxy(first)
    env = CountEnv(proxy.url, headers={"Authorization": "Bearer a"})
    if is_async:
        await env
    await env.reset()
    proxy.redirect(second)
    proxy.cut()
    with pytest.raises(Unauthorized, match="wants its token"):
        await env.step(CountAction(amount=1))
    await env.close()
    proxy.close()


def test_with_the_token_both_transports_play(locked):
    headers = {"Authorization": "Bearer s3cret"}
    with CountEnv(locked, headers=headers) as env, CountHttpEnv(locked, headers=headers) as plain:
        assert env.reset().observation.total == 0
        assert plain.reset().observation.total == 0


def test_a_web_page_of_another_origin_may_neither_call_nor_connect(serving):
    url = serving(create_app(CountingEnvironment))
    evil = {"Origin": "http://evil.example"}
    assert httpx.post(f"{url}/reset", headers=evil).status_code == 403
    with pytest.raises(InvalidStatus):
        connect(url.replace("http", "ws") + "/ws", additional_headers=evil)
    assert httpx.post(f"{url}/reset", headers={"Origin": url}).status_code == 200


def test_a_web_page_of_an_allowed_origin_may_call(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(allowed_origins=("http://good.example",))))
    response = httpx.post(f"{url}/reset", headers={"Origin": "http://good.example"})
    assert response.headers["access-control-allow-origin"] == "http://good.example"


def test_a_preflight_of_an_allowed_page_needs_no_token(serving):
    config = ServerConfig(token="s3cret", allowed_origins=("http://good.example",))
    asked = {"Origin": "http://good.example", "Access-Control-Request-Method": "POST"}
    response = httpx.options(f"{serving(create_app(CountingEnvironment, config=config))}/reset", headers=asked)

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1:8000", 200), ("localhost:8000", 200), ("[::1]:8000", 200), ("evil.example", 403)]
)
def test_without_a_token_only_an_address_counts_as_the_servers_own_page(serving, host, status):
    url = serving(create_app(CountingEnvironment))
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert httpx.post(f"{url}/reset", headers=headers).status_code == status


def test_with_a_token_the_servers_own_page_may_have_any_name(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(token="secret")))
    headers = {"Host": "space.example", "Origin": "https://space.example", "Authorization": "Bearer secret"}
    assert httpx.post(f"{url}/reset", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "origin"),
    [(b"[", b"http://["), (b"\xff", b"http://x"), (b"\xff", b"http://\xff"), (b"[v1.x]", b"http://[v1.x]")],
)
def test_a_page_of_an_invalid_host_is_refused(serving, host, origin):
    url = serving(create_app(CountingEnvironment))
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: %b\r\nOrigin: %b\r\n\r\n" % (host, origin))
        assert connection.recv(1000).startswith(b"HTTP/1.1 403 ")


@pytest.mark.finding("an Authorization header has the scheme Bearer, in any case")
@pytest.mark.parametrize(
    ("header", "status"), [("Bearer s3cret", 200), ("bearer s3cret", 200), ("s3cret", 401), ("Basic s3cret", 401)]
)
def test_the_token_has_the_scheme_bearer_in_any_case(locked, header, status):
    assert httpx.post(f"{locked}/reset", headers={"Authorization": header}).status_code == status


@pytest.mark.finding("every route takes the configuration that its middleware has")
def test_every_route_takes_the_configuration_of_the_access_control(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(token="s3cret"))
    app.state.config = ServerConfig()
    url = serving(app)

    assert httpx.get(f"{url}/metrics").status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        connect(url.replace("http", "ws") + "/ws")
    assert refused.value.response.status_code == 401


@pytest.mark.finding("a foreign Host or a cross-site request is refused where there is no token")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "counter"}, 200),  # the name of a container: no domain that anybody can register
        ({"Host": "env.example"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/openapi.json", "/ws"])
def test_without_a_token_a_foreign_name_or_page_is_refused_over_loopback(module_serving, headers, status, path):
    url = module_serving(create_app(CountingEnvironment, config=ServerConfig(allowed_hosts=("env.example",))))
    if path != "/ws":
        assert httpx.get(f"{url}{path}", headers=headers).status_code == status
        return
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with httpx.stream("GET", f"{url}/ws", headers={**upgrade, **key, **headers}) as response:
        assert response.status_code == (101 if status == 200 else 403)


@pytest.mark.finding("a foreign Host or a cross-site request is refused where there is no token")
def test_with_a_token_a_server_may_have_any_name(locked):
    headers = {"Host": "space.example", "Sec-Fetch-Site": "cross-site", "Authorization": "Bearer s3cret"}
    assert httpx.post(f"{locked}/reset", headers=headers).status_code == 200


def _needs_key(x_key: Annotated[str, Header()] = "") -> None:
    if x_key != "mine":
        raise WebSocketException(1008) if x_key == "none" else HTTPException(403)


@pytest.mark.finding("an application's own dependencies guard the WebSocket routes")
@pytest.mark.parametrize("path", ["/ws", "/mcp"])
def test_the_dependencies_of_an_application_guard_its_websockets(any_serving, path):
    app = FastAPI(dependencies=[Depends(_needs_key)])
    HTTPEnvServer(CountingEnvironment).register_routes(app)
    url = any_serving(app)
    address = url.replace("http", "ws") + path
    with pytest.raises(InvalidStatus) as refused:
        connect(address)
    with pytest.raises(InvalidStatus):
        connect(address, additional_headers={"X-Key": "none"})

    assert refused.value.response.status_code == httpx.get(f"{url}/state").status_code == 403
    with CountEnv(url, headers={"X-Key": "mine"}) as env:
        env.reset()
        assert env.step(CountAction(amount=2)).observation.total == 2
    with connect(address, additional_headers={"X-Key": "mine"}) as websocket:
        websocket.send('{"jsonrpc": "2.0", "id": 1, "method": "nothing"}' if path == "/mcp" else '{"type": "state"}')
        assert websocket.recv(timeout=20)


@pytest.mark.finding("an application's own dependencies guard the WebSocket routes")
@pytest.mark.parametrize("path", ["/ws", "/mcp"])
def test_behind_dependencies_of_an_application_the_token_is_checked_too(any_serving, path, caplog, monkeypatch):
    app = FastAPI(dependencies=[Depends(_needs_key)])
    HTTPEnvServer(CountingEnvironment, config=ServerConfig(token="s3cret")).register_routes(app)
    address = any_serving(app).replace("http", "ws") + path
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    with pytest.raises(InvalidStatus) as refused:
        connect(address, additional_headers={"X-Key": "mine"})
    with connect(address, additional_headers={"X-Key": "mine", "Authorization": "Bearer s3cret"}):
        pass  # after the server has closed the refused connection

    assert refused.value.response.status_code == 401
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_message_above_the_limit_is_named_and_the_session_lives(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(MessageTooBig, match="limit of 10000"):
            env.step(CountAction(amount=1, mischief="x" * 20_000))

        assert env.step(CountAction(amount=1)).observation.total == 1
    body = {"action": {"amount": 1, "mischief": "x" * 20_000}}
    assert httpx.post(f"{url}/step", json=body).status_code == 413


async def test_an_asynchronous_client_outlives_a_message_above_the_limit(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    async with CountEnv(url) as env:
        await env.reset()
        with pytest.raises(MessageTooBig):
            await env.step(CountAction(amount=1, mischief="x" * 20_000))

        assert (await env.step(CountAction(amount=1))).observation.total == 1


def test_a_body_without_a_length_is_limited_too(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    httpx.post(f"{url}/reset")
    chunks = (part for part in (b'{"action": {"amount": 1, "mischief": "', b"x" * 20_000, b'"}}'))

    assert httpx.post(f"{url}/step", content=chunks).status_code == 413


@pytest.mark.parametrize(
    ("host", "config", "warns"),
    [
        ("0.0.0.0", ServerConfig(), True),
        ("0.0.0.0", ServerConfig(token="s3cret"), False),
        ("127.0.0.1", ServerConfig(), False),
        ("unix:/run/counter.sock", ServerConfig(), False),
    ],
)
def test_a_server_without_a_token_warns_when_other_machines_reach_it(caplog, host, config, warns):
    server(create_app(CountingEnvironment, config=config), host, 0)
    assert ("LISTENING ON" in caplog.text) == warns


@pytest.mark.finding("an application's own dependencies guard the WebSocket routes")
def test_the_dependencies_of_an_application_guard_its_task_routes(serving):
    app = FastAPI(dependencies=[Depends(_needs_key)])
    HTTPEnvServer(CountingEnvironment).register_routes(app)

    assert httpx.get(f"{serving(app)}/list_environments").status_code in (401, 403)
