"""Which connections of an event loop share a trunk: all to one server but the first, which is as fast alone."""

import asyncio
import weakref
from typing import TYPE_CHECKING

from openenv.core.local_socket import connected_beside
from openenv.core.trunk import Trunk

if TYPE_CHECKING:
    from openenv.core.async_connection import AsyncConnection


class _Ways:
    """From one event loop to one server. Keeps neither alive."""

    def __init__(self) -> None:
        self.first: weakref.ref[AsyncConnection] | None = None
        self.trunk: weakref.ref[Trunk] | None = None


_WAYS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Ways]] = weakref.WeakKeyDictionary()


def trunk_to(host: str, port: int, connection: "AsyncConnection") -> Trunk | None:
    """The trunk to a server for a connection that is about to be made. None: it is the only one, or there is none."""
    loop = asyncio.get_running_loop()
    ways = _WAYS.setdefault(loop, {}).setdefault((host, port), _Ways())
    trunk = None if ways.trunk is None else ways.trunk()
    if trunk is not None and trunk.is_open:
        return trunk
    first = None if ways.first is None else ways.first()
    if first is None or first.is_closed:
        ways.first = weakref.ref(connection)
        return None
    beside = connected_beside(host, port, for_trunk=True)
    if beside is None:
        return None
    trunk = Trunk()
    trunk.open_on(beside)
    ways.trunk = weakref.ref(trunk)
    return trunk
