"""A server of the run, as a part that can be asked how it is."""

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

    def __init__(self, name: str, base_url: str, process: Killable | None, *, patience_s: float) -> None:
        """
        Args:
            process: None for a server that the run has not started, and does not end.
            patience_s: as `Part.patience_s`.
        """
        self.name = name
        self.patience_s = patience_s
        self._base_url = base_url
        self._process = process

    async def status(self) -> PartStatus:
        """As `Part.status`. Raises httpx.HTTPError for a server that has ended, or that begins."""
        async with async_http_client(self._base_url, timeout=None) as client:
            (await client.get(f"{self._base_url}/health")).raise_for_status()
        return PartStatus(name=self.name, pid=0 if self._process is None else self._process.pid)

    async def write_stacks(self, reason: str) -> None:
        """Nothing: a program of another kind may run there."""

    async def end(self, last: PartStatus) -> bool:
        """As `Part.end`."""
        if self._process is None:
            return False
        await asyncio.to_thread(self._process.kill)
        return True
