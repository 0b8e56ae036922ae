"""The plain-HTTP client of the same verbs, for networks that let no WebSocket pass."""

from typing import Any, ClassVar

from openenv.core.client.http_transport import AsyncHttpSession, BlockingHttpSession
from openenv.core.env_client import EnvClient
from openenv.core.sync_client import ActT, ObsT, StateT
from openenv.core.vector.batched_session import BatchedSession


class HTTPEnvClient(EnvClient[ActT, ObsT, StateT]):
    """An `EnvClient` that sends each verb as one HTTP request to a session of its own on the server.

    The server must keep sessions over HTTP, as ours does.
    """

    _session_classes: ClassVar[tuple[Any, Any]] = (BlockingHttpSession, AsyncHttpSession)

    async def batched_sessions(self, num_envs: int) -> list[BatchedSession[ActT, ObsT]]:
        """Over HTTP each environment has a session of its own."""
        return []
