"""A TCP proxy that cuts connections, or swallows what passes through them, on a test's request."""

import contextlib
import random
import socket
import threading
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes bytes on to a server until `cut`; new connections pass again unless it is closed to them."""

    def __init__(self, target_url: str) -> None:
        self.redirect(target_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._rng = random.Random(0)
        self._swallowed: set[socket.socket] = set()
        self.is_closed = False
        self.num_accepted = 0
        self.client_left = threading.Event()
        """Set when a client has closed a connection that swallows what passes through it."""
        threading.Thread(target=self._accept, daemon=True).start()

    def redirect(self, target_url: str) -> None:
        """Connect new connections to another server."""
        parts = urlsplit(target_url)
        self._target = (parts.hostname, parts.port)

    def cut(self, share: float = 1.0) -> int:
        """Break that share of the connections that pass through now, drawn at random. Returns how many."""
        with self._lock:
            pairs = [pair for pair in self._pairs if self._rng.random() < share]
            self._pairs = [pair for pair in self._pairs if pair not in pairs]
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        return len(pairs)

    def swallow(self) -> None:
        """Let nothing more through the connections of now, and close none: both ends believe that they are open."""
        with self._lock:
            self._swallowed.update(end for pair in self._pairs for end in pair)

    def close(self) -> None:
        """Stop for good."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.num_accepted += 1
            if self.is_closed:
                client.close()
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source not in self._swallowed:
                    sink.sendall(data)
        if source in self._swallowed:
            self.client_left.set()
            return
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
