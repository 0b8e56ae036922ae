"""Heads without an end, and requests that stop half way, cost neither memory nor files for long."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountingEnvironment, InlineEnvironment
from tests.core.env_server.probes import wait_until

HEAD_TIMEOUT_S = 0.6
BODY_TIMEOUT_S = 1.0
TOO_LARGE = b"HTTP/1.1 431 "
TOO_SLOW = b"HTTP/1.1 408 "
BEGUN = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = BEGUN + b"\r\n"
POST = b"POST /step HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MANY = 1 << 20
"""Bytes, far above the limit of 64 KiB."""


@pytest.fixture(scope="module")
def url(module_serving):
    """One process, in this one."""
    config = ServerConfig(head_timeout_s=HEAD_TIMEOUT_S, body_timeout_s=BODY_TIMEOUT_S)
    return module_serving(create_app(InlineEnvironment, config=config))


@pytest.fixture(scope="module")
def workers_url():
    """Two workers, behind their dispatcher."""
    options = ["--workers", "2", "--head-timeout-s", str(HEAD_TIMEOUT_S)]
    with LocalServer("openenv.envs.echo_env.server.app", options) as server:
        yield server.base_url


def opened(url):
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), 10)


def sent(connection, data):
    """Send as much of `data` as the server takes."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)


def read_to_end(connection):
    """What the server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65_536):
            received += data
    return received


LARGE_HEADS = {
    "a target without an end": b"GET /" + b"a" * MANY,
    "a header without an end": BEGUN + b"X: " + b"a" * MANY,
    "a name without an end": BEGUN + b"x" * MANY,
    "headers without an end": BEGUN + b"X: a\r\n" * (MANY // 6),
    "a whole head above 64 KiB": BEGUN + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
    "a whole head of 2,000 headers": BEGUN + b"X: a\r\n" * 2000 + b"\r\n",
    "empty lines without an end": b"\r\n" * (MANY // 2),
    "trailers without an end": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: a\r\n" * (MANY // 6),
    "a trailer without an end": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * MANY,
    "a chunk's extension without an end": POST + b"Transfer-Encoding: chunked\r\n\r\n5;x=" + b"a" * MANY,
}


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
@pytest.mark.parametrize("head", LARGE_HEADS.values(), ids=LARGE_HEADS)
def test_a_head_above_the_limit_gets_431_and_the_end_of_its_connection(url, head):
    with opened(url) as connection:
        sent(connection, head)

        assert read_to_end(connection).startswith(TOO_LARGE)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
@pytest.mark.process
def test_a_head_above_the_limit_gets_431_from_a_worker_too(workers_url):
    with opened(workers_url) as connection:
        sent(connection, LARGE_HEADS["headers without an end"])

        assert read_to_end(connection).startswith(TOO_LARGE)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_a_head_of_60_000_bytes_or_of_100_headers_is_served(url):
    for headers in ({"X-Long": "a" * 60_000}, {f"X-{number}": "a" for number in range(100)}):
        assert httpx.get(f"{url}/health", headers=headers).status_code == 200


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_many_requests_on_one_connection_are_not_counted_together(url):
    with opened(url) as connection:
        connection.sendall(WHOLE * 3999 + BEGUN + b"Connection: close\r\n\r\n")

        assert read_to_end(connection).count(b"HTTP/1.1 200 OK\r\n") == 4000


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
@pytest.mark.process
@pytest.mark.parametrize("served", ["url", "workers_url"])
@pytest.mark.parametrize("begun", [b"", BEGUN, b"\r\n", BEGUN + b"Upgrade: websocket\r\nConnection: Upgrade\r\n"])
def test_a_connection_whose_first_head_does_not_come_is_closed(request, served, begun):
    with opened(request.getfixturevalue(served)) as connection:
        connection.sendall(begun)
        received = read_to_end(connection)

    assert received == b"" or (begun and received.startswith(TOO_SLOW))


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_a_head_that_comes_byte_by_byte_has_no_more_time_than_another(url):
    with opened(url) as connection:
        connection.sendall(BEGUN + b"X: ")
        began = time.monotonic()
        connection.settimeout(0.05)
        received = b""
        while not received and time.monotonic() < began + 10:
            sent(connection, b"x")
            with contextlib.suppress(TimeoutError):
                received = connection.recv(1000)

    assert received.startswith(TOO_SLOW)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
@pytest.mark.parametrize(
    "head", [POST + b"Content-Length: 100\r\n\r\n{", POST + b"Transfer-Encoding: chunked\r\n\r\n5"]
)
def test_a_body_that_does_not_come_gets_408_and_the_end_of_its_connection(url, head):
    with opened(url) as connection:
        connection.sendall(head)

        assert read_to_end(connection).startswith(TOO_SLOW)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
@pytest.mark.parametrize("rest", [b"", b"x" * 10, b"5\r\n{"], ids=["silent", "more of it", "no chunk"])
def test_a_request_that_was_answered_before_the_end_of_its_body_gets_no_second_response(url, rest):
    length = b"Transfer-Encoding: chunked" if rest.startswith(b"5") else b"Content-Length: %d" % (1 << 40)
    with opened(url) as connection:
        connection.sendall(POST.replace(b"/step", b"/nowhere") + length + b"\r\n\r\n")
        received = connection.recv(65_536)
        sent(connection, rest + (b"no length\r\n" if rest.startswith(b"5") else b""))
        received += read_to_end(connection)

    assert (received.count(b"HTTP/1.1 "), received[9:12]) == (1, b"404" if b"chunked" in length else b"413")


class Slow(CountingEnvironment):
    """A step outlasts the time for a head."""

    has_begun = threading.Event()

    def step(self, action, timeout_s=None, **kwargs):
        self.has_begun.set()
        time.sleep(2 * HEAD_TIMEOUT_S)
        return super().step(action, timeout_s, **kwargs)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_the_time_for_the_next_head_begins_after_the_response_to_the_last_request(serving):
    body = b'{"action": {"amount": 1}}'
    config = ServerConfig(head_timeout_s=HEAD_TIMEOUT_S)
    with opened(serving(create_app(Slow, config=config))) as connection:
        connection.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (POST, len(body), body))
        assert Slow.has_begun.wait(10)
        connection.sendall(BEGUN)
        received = read_to_end(connection)

    assert [status[:3] for status in received.split(b"HTTP/1.1 ")[1:]] == [b"200", b"408"]


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_a_body_that_comes_slowly_is_waited_for(url):
    body = b'{"action": {"amount": 1}}'
    with opened(url) as connection:
        connection.sendall(b"%bContent-Length: %d\r\nConnection: close\r\n\r\n" % (POST, len(body)))
        for byte in body:
            time.sleep(2 * BODY_TIMEOUT_S / len(body))
            connection.sendall(bytes([byte]))

        assert b'"total":1' in read_to_end(connection).replace(b" ", b"")


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_the_second_request_of_a_connection_has_the_same_limits(url):
    for rest, expected in ((BEGUN, TOO_SLOW), (BEGUN + b"X: a\r\n" * 5000, TOO_LARGE)):
        with opened(url) as connection:
            connection.sendall(WHOLE)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
            sent(connection, rest)

            assert read_to_end(connection).startswith(expected)


@pytest.mark.finding("heads without an end and half-open connections cost neither memory nor files for long")
def test_a_quiet_connection_between_two_requests_is_kept_beyond_the_time_for_a_head(url):
    with opened(url) as connection:
        for _ in range(2):
            connection.sendall(WHOLE)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
            time.sleep(2 * HEAD_TIMEOUT_S)


@pytest.mark.finding("a session that ends closes its connection")
def test_the_kernel_probes_accepted_connections_for_clients_that_have_vanished(url):
    port = f":{urlsplit(url).port:04X}"
    with opened(url) as connection:
        connection.sendall(BEGUN)
        own = f":{connection.getsockname()[1]:04X}"

        def has_probe_timer():
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
            return any(row[1].endswith(port) and row[2].endswith(own) and row[5].startswith("02:") for row in rows)

        wait_until(has_probe_timer)


@pytest.mark.finding("forwarded headers are not believed unless asked for")
def test_forwarded_headers_are_believed_only_from_a_trusted_proxy(serving):
    def callers_with_one_session(**trust):
        url = serving(create_app(InlineEnvironment, config=ServerConfig(**trust)))
        ids = set()
        for caller in ("192.0.2.1", "192.0.2.2"):
            ids.add(httpx.post(f"{url}/reset", headers={"X-Forwarded-For": caller}).headers["X-Session-Id"])
        return len(ids)

    assert callers_with_one_session() == 1
    assert callers_with_one_session(trusted_proxies=("192.0.2.9",)) == 1
    assert callers_with_one_session(trusted_proxies=("127.0.0.1",)) == 2
