"""Refusals and protocol errors over TLS, which cannot close one half of a connection."""

import datetime
import socket
import ssl
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from tests.core.counting_env import CountingEnvironment
from tests.core.env_server.http.test_any_uvicorn import plain_uvicorn

pytestmark = pytest.mark.finding(
    "heads without an end and half-open connections cost neither memory nor files for long"
)
CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE


@pytest.fixture
def port(tmp_path) -> Iterator[int]:
    """Of a server with a certificate of its own, which waits a second for a head."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    no_password = serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password)
    )
    (tmp_path / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    app = create_app(CountingEnvironment, config=ServerConfig(head_timeout_s=1))
    files = {"ssl_keyfile": tmp_path / "key.pem", "ssl_certfile": tmp_path / "certificate.pem"}
    with plain_uvicorn(app, **files) as url:
        yield int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize(("sent", "status"), [(b"", b"408"), (b"y" * (100 << 10), b"431")])
def test_a_refused_head_is_answered_and_its_connection_closed(port, sent, status):
    with CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", port), 30)) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nx: " + sent)
        received = b""
        while data := connection.recv(1 << 16):
            received += data

    assert received.startswith(b"HTTP/1.1 " + status)


def test_a_protocol_error_has_its_close_code(port):
    with connect(f"wss://127.0.0.1:{port}/ws", ssl=CONTEXT) as connection:
        connection.socket.sendall(b"\x83\x80aaaa")
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(30)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1002
