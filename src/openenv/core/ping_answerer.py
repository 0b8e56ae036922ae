"""Pings of a server are answered for clients that are idle: one thread for all of a process."""

import threading
import time
import weakref

_IDLE_CHECK_S = 5.0


class PingAnswerer:
    """One thread for all idle clients of the process, started with the first of them.

    A server may take a client that answers no pings for dead; a blocking client answers none while it computes.
    """

    def __init__(self) -> None:
        self._clients: weakref.WeakSet[IdleClient] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, client: "IdleClient") -> None:
        """Look after a client until it is discarded or forgotten."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="answer pings", daemon=True)
                self._thread.start()

    def discard(self, client: "IdleClient") -> None:
        """Look after a client no longer."""
        with self._lock:
            self._clients.discard(client)

    def _run(self) -> None:
        while True:
            time.sleep(_IDLE_CHECK_S)
            with self._lock:
                if not self._clients:
                    self._thread = None
                    return
                clients = list(self._clients)
            for client in clients:
                client.answer_pings()


class IdleClient:
    """What the ping answerer needs of a client."""

    def answer_pings(self) -> None:
        """Answer the server's pings unless the client is busy, which answers them anyway."""
        raise NotImplementedError
