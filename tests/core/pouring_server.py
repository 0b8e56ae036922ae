"""A server that sends bytes without end: what it answers with, and what it goes on with."""

import contextlib
import re
import socket
import threading
import time

from openenv.core.net.handshake import accept_key


class PouringServer:
    """Answers each connection with some bytes, and pours further ones until the client has closed it."""

    def __init__(self, head: bytes, chunk: bytes, *, pause_s: float) -> None:
        """head: `%s` in it is the key that accepts a WebSocket. chunk: sent again and again, with a pause before it."""
        self._head, self._chunk, self._pause_s = head, chunk, pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Stop pouring."""
        self._is_closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._pour, args=(connection,), daemon=True).start()

    def _pour(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = connection.recv(65536)
            key = re.search(rb"sec-websocket-key: (\S+)", request, re.IGNORECASE)
            connection.sendall(self._head % accept_key(key[1]).encode() if b"%s" in self._head and key else self._head)
            while not self._is_closed.is_set():
                time.sleep(self._pause_s)
                connection.sendall(self._chunk)
