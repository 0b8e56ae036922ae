"""Which connections of an event loop share a trunk: all to one server but the first, which is as fast alone."""

import asyncio
import weakref
from typing import TYPE_CHECKING

from openenv.core.local_socket import may_be_beside, trunk_path
from openenv.core.trunk import Trunk

if TYPE_CHECKING:
    from openenv.core.async_connection import AsyncConnection


class _Ways:
    """From one event loop to one server. Keeps neither alive."""

    def __init__(self) -> None:
        self.first: weakref.ref[AsyncConnection] | None = None
        self.trunk: weakref.ref[Trunk] | None = None

    def open_trunk(self) -> Trunk | None:
        """The one that connections can be made through."""
        trunk = None if self.trunk is None else self.trunk()
        return trunk if trunk is not None and trunk.is_open else None

    def is_used(self) -> bool:
        """Whether there is a connection."""
        first = None if self.first is None else self.first()
        return self.open_trunk() is not None or not (first is None or first.is_closed)


_WAYS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Ways]] = weakref.WeakKeyDictionary()


def trunk_for(connection: "AsyncConnection", host: str, port: int) -> Trunk | None:
    """The trunk for a connection that is about to be made. None: it is the first, which is noted, or has to do
    without."""
    if not may_be_beside(host):
        return None
    to_servers = _WAYS.setdefault(asyncio.get_running_loop(), {})
    ways = to_servers.setdefault((host, port), _Ways())
    trunk = ways.open_trunk()
    if trunk is not None:
        return trunk
    if not ways.is_used():
        for unused in [key for key, one in to_servers.items() if not (one is ways or one.is_used())]:
            del to_servers[unused]
        ways.first = weakref.ref(connection)
        return None
    path = trunk_path(host, port)
    if path is None:
        return None
    trunk = Trunk()
    trunk.open_at(path)
    ways.trunk = weakref.ref(trunk)
    return trunk
