"""Several servers of one environment as processes of this program. One that ends by itself is started again."""

import itertools
import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from openenv.core.errors import NotReady
from openenv.hosting.local_process import LocalServer

log = logging.getLogger(__name__)

_MOST_ENDS = 20


class Fleet:
    """Servers with the same environment, each at an address that stays. They stop at the end of the `with` statement.

    The sessions of a server that ends are gone: a client that reconnects to it raises SessionGone. After a server has
    ended twenty times by itself, or does not start, it stays ended.

    Example:
        with Fleet([LocalServer("openenv.envs.echo_env.server.app") for _ in range(3)]) as fleet:
            pool = SessionPool(EchoEnv, fleet.base_urls, 12)
    """

    def __init__(self, servers: Sequence[LocalServer]) -> None:
        """servers: none of them is started."""
        self.servers = servers
        self._watchers: list[threading.Thread] = []
        self._is_stopping = threading.Event()
        self._changing = threading.Lock()
        """Held while a server is started or stopped."""
        self.num_ended = 0
        """How often a server has ended by itself."""

    @property
    def base_urls(self) -> list[str]:
        """Where the servers listen."""
        return [server.base_url for server in self.servers]

    def __enter__(self) -> Self:
        """Start all servers together. Raises NotReady, with the output of one that fails; then none runs."""
        with ExitStack() as on_error:
            on_error.callback(self.__exit__)
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.wait_for_ready()
            on_error.pop_all()
        for server in self.servers:
            watcher = threading.Thread(target=self._keep_running, args=(server,), name=f"watches {server.base_url}")
            watcher.daemon = True
            watcher.start()
            self._watchers.append(watcher)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        with self._changing, ExitStack() as stopping:
            for server in self.servers:
                stopping.callback(server.stop)
        for watcher in self._watchers:
            watcher.join()

    def _keep_running(self, server: LocalServer) -> None:
        """Start a server again whenever it has ended, at its address."""
        for number in itertools.count(1):
            try:
                code = server.wait(None)
            except RuntimeError:
                return  # it was stopped meanwhile
            if number > _MOST_ENDS:
                log.error("the server at %s has ended %d times by itself, and stays ended", server.base_url, number)
                return
            with self._changing:
                if self._is_stopping.is_set():
                    return
                self.num_ended += 1
                log.warning("the server at %s ended (code %d): it is started again. Its last output: %s",
                            server.base_url, code, server.output()[-500:])  # fmt: skip
                server.restart()
            try:
                server.wait_for_ready()
            except NotReady as error:
                log.error("the server at %s does not start again: %s", server.base_url, error)
                server.kill()
