"""A connection goes to the worker of the session that its first request names, however slowly that request comes."""

import contextlib
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.counting_env import CountAction
from tests.core.cutting_proxy import CuttingProxy
from tests.hosting.workers.two_workers import clients, pid_of

pytestmark = pytest.mark.process


def test_a_client_whose_connection_breaks_returns_to_its_session(url):
    proxy = CuttingProxy(url)
    with clients(proxy.url, 4) as envs:
        by_worker = sorted(range(4), key=lambda index: pid_of(envs[index]))  # not in the order of connecting
        for round_number in range(1, 4):
            assert proxy.cut() == 4
            for index in by_worker:
                assert envs[index].step(CountAction(amount=1)).observation.total == round_number - 100 * index
    proxy.close()


def test_a_client_that_sends_its_request_slowly_delays_no_other_and_reaches_its_session(url):
    with clients(url, 2) as envs:
        for env in envs:
            line, rest = handshake(f"/ws?session_id={env.session_id}").split(b"-", 1)
            with socket.create_connection(address(url), timeout=10) as slow:
                slow.sendall(line)
                assert httpx.get(f"{url}/health").status_code == 200
                for byte in b"-" + rest:
                    slow.sendall(bytes([byte]))
                hello = slow.recv(4096)
                while b"grace_s" not in hello:
                    hello += slow.recv(4096)

            assert f'"session_id":"{env.session_id}"'.encode() in hello


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"", b"GET", b"\r\n\r\n" * 9000]
)
def test_bytes_that_are_no_request_leave_the_server_running(url, sent):
    with socket.create_connection(address(url), timeout=10) as strange:
        strange.sendall(sent)
        strange.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while strange.recv(4096):
                pass
    assert httpx.get(f"{url}/health").status_code == 200


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


def handshake(target: str) -> bytes:
    """A request for a WebSocket in the extended dialect."""
    headers = {
        "Host": "here",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
    }
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()
