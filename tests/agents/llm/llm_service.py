"""A language model's service on a real port that sends the answers of a test, and keeps the requests."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Service:
    """Answers are taken from the front; the last one stays."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    """HTTP statuses with bodies: JSON, or text as it is."""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    """Paths, headers in lower case, and bodies."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers of the first answer."""
    num_resets: int = 0
    """The next requests whose connections are reset instead of answered."""
    hold: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set, as it is at first."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def body(self) -> Any:
        """What was asked last."""
        return self.asked[-1][2]

    def reply_with(self, text: str) -> None:
        """Answer every chat completion with `text`."""
        self.answers = [(200, {"choices": [{"message": {"content": text}}]})]

    def next_answer(self) -> tuple[int, bytes]:
        status, body = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return status, (body if isinstance(body, str) else json.dumps(body)).encode()


@contextmanager
def llm_service() -> Iterator[Service]:
    """A service that runs until the block ends."""
    service = Service()
    service.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            if service.num_resets:
                service.num_resets -= 1
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            status, answer = service.next_answer()
            service.hold.wait(10)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.send_header("retry-after", "0")
            for name, value in service.headers.items() if len(service.asked) == 1 else ():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            service.hold.set()
            server.shutdown()
            thread.join()
