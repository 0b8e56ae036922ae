"""A server that the run has started, as a part that can be asked how it is."""

import asyncio
from typing import Protocol

from openenv.core.net.http_clients import async_http_client
from openenv.rl.waiting.status import PartStatus


class Killable(Protocol):
    """A process, which may be another one after a restart."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        ...


class ServerPart:
    """As `watch.Part`. Its `/health` answers for it."""

    def __init__(self, name: str, base_url: str, process: Killable) -> None:
        self.name = name
        self._base_url = base_url
        self._process = process

    async def status(self) -> PartStatus:
        """As `Part.status`. Raises httpx.HTTPError for a server that has ended, or that begins."""
        async with async_http_client(self._base_url, timeout=None) as client:
            (await client.get(f"{self._base_url}/health")).raise_for_status()
        return PartStatus(name=self.name, pid=self._process.pid)

    async def write_stacks(self, reason: str) -> None:
        """Nothing: a program of another kind may run there."""

    async def end(self, last: PartStatus) -> None:
        """As `Part.end`."""
        await asyncio.to_thread(self._process.kill)
