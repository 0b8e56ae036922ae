"""Pings in both directions: a client's own, which detect a dead connection, and responses to a server's."""

import math
import threading
import time
import weakref
from enum import Enum

from openenv.core.net.forks import ProcessBound

_IDLE_CHECK_S = 5.0


class PingAction(Enum):
    """What a connection has to do after a silence."""

    NOTHING = "nothing"
    SEND_PING = "send a ping"
    GIVE_UP = "give up"


class PingSchedule:
    """When to ping a silent server, and when to give its connection up. All times are monotonic seconds."""

    def __init__(self, interval_s: float | None, timeout_s: float | None, now: float) -> None:
        """interval_s: silence before a ping; timeout_s: silence after it that breaks the connection; None: never."""
        self.last_received = now
        """Set by the connection whenever something arrives."""
        self._interval_s = math.inf if interval_s is None else interval_s
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._pinged_at = -math.inf

    @property
    def due(self) -> float:
        """When `check` has something to do, if nothing arrives before; inf: never."""
        if self._pinged_at > self.last_received:
            return self._pinged_at + self._timeout_s
        return self.last_received + self._interval_s

    def check(self, now: float) -> PingAction:
        """What to do at this time."""
        if now < self.due:
            return PingAction.NOTHING
        if self._pinged_at > self.last_received:
            return PingAction.GIVE_UP
        self._pinged_at = now
        return PingAction.SEND_PING

    def reason(self) -> str:
        """Why a connection was given up."""
        return f"the server answered no ping in {self._timeout_s:g} s"


class PongThread(ProcessBound):
    """Answers a server's pings for idle blocking clients: one thread for all of a process.

    A server may take a client that answers no pings for dead, and a blocking client answers none while it computes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._clients: weakref.WeakSet[PingedClient] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, client: "PingedClient") -> None:
        """Answer for a client until it is discarded or garbage collected. Starts the thread."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="answer pings", daemon=True)
                self._thread.start()

    def discard(self, client: "PingedClient") -> None:
        """Answer for a client no longer."""
        with self._lock:
            self._clients.discard(client)

    def leave_to_parent(self) -> None:
        """Called in a forked child, which has no such thread."""
        self._clients, self._lock, self._thread = weakref.WeakSet(), threading.Lock(), None

    def _run(self) -> None:
        while True:
            time.sleep(_IDLE_CHECK_S)
            with self._lock:
                if not self._clients:
                    self._thread = None
                    return
                clients = list(self._clients)
            while clients:  # none is kept alive during the next sleep
                clients.pop().answer_pings()


class PingedClient:
    """A client that the pong thread answers for."""

    def answer_pings(self) -> None:
        """Answer the server's pings unless a request is under way, which answers them anyway."""
        raise NotImplementedError
