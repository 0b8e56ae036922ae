"""Waiting until a server that was just started answers."""

import contextlib
import time
import urllib.request
from collections.abc import Callable

from openenv.core.errors import NotReady

_PAUSE_S = 0.05
_ASK_EVERY_S = 0.5
_ANSWER_TIMEOUT_S = 2.0

# The server is on this machine or in its cluster: no proxy of the surroundings knows it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_until_ready(base_url: str, timeout_s: float, ended: Callable[[], str | None] | None = None) -> None:
    """Return when `/health` answers with success.

    ended: says why the server will never answer, or None while it may; asked twice a second, as it may run a command.
    Raises NotReady with that reason, or when `timeout_s` are over.
    """
    deadline = time.monotonic() + timeout_s
    next_asked = 0.0
    while True:
        now = time.monotonic()
        left_s = deadline - now
        if ended is not None and (now >= next_asked or left_s <= 0):
            next_asked = now + _ASK_EVERY_S
            reason = ended()
            if reason is not None:
                raise NotReady(reason)
        if left_s <= 0:
            raise NotReady(f"{base_url} was not healthy in {timeout_s:g} s")
        with (
            contextlib.suppress(OSError),
            _OPENER.open(f"{base_url.rstrip('/')}/health", timeout=min(left_s, _ANSWER_TIMEOUT_S)),
        ):
            return
        time.sleep(min(_PAUSE_S, max(deadline - time.monotonic(), 0)))
