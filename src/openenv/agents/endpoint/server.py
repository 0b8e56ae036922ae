"""The endpoint: an HTTP server through which agents' programs call the models of their episodes."""

import asyncio
import secrets
from typing import Self

from openenv.agents.endpoint.application import Application, Episode, hash_of
from openenv.agents.endpoint.requests import AnswersRequests
from openenv.agents.endpoint.server_thread import ServerThread
from openenv.agents.endpoint.tools import ServesTools

_IDLE_CONNECTION_S = 120
"""Longer than clients keep a connection: otherwise they lose requests on one that the server closes."""
_START_TIMEOUT_S = _STOP_TIMEOUT_S = 10.0


class Endpoint:
    """The services of OpenAI and Anthropic as agents' programs see them, over any model, from a thread of its own.

    Each episode has a key. A program sends it as the bearer token, as `x-api-key`, or in the path: `/e/KEY/v1/...`.
    The model's coroutines run in the event loop that calls `open`. A streamed answer is sent as a whole once it is
    complete, after comments that keep the connection open.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        max_body_mb: float = 64.0,
        keep_alive_s: float = 5.0,
        answer_timeout_s: float = 3600.0,
    ) -> None:
        """Set where the endpoint listens, and its limits.

        Args:
            host: the address to listen on. Only programs of this machine reach the default.
            port: 0 for a free one.
            max_body_mb: the largest request, in megabytes of 1,000,000 bytes.
            keep_alive_s: between two comments of a stream that waits for its answer.
            answer_timeout_s: after which a call of the model is cancelled, and the program receives an error.
        """
        self._host, self._port = host, port
        self._episodes: dict[bytes, Episode] = {}
        self._application = Application(
            self._episodes,
            max_body_bytes=int(max_body_mb * 1_000_000),
            keep_alive_s=keep_alive_s,
            answer_timeout_s=answer_timeout_s,
        )
        self._server = ServerThread("the endpoint of models")
        self._base_url = ""

    async def __aenter__(self) -> Self:
        """Listen. Raises OSError for an address that is taken."""
        port = await asyncio.to_thread(
            self._server.start, self._application, self._host, self._port, _START_TIMEOUT_S,
            lifespan="off", ws="none", proxy_headers=False,
            access_log=False,  # whose lines would have keys in paths
            timeout_keep_alive=_IDLE_CONNECTION_S,
        )  # fmt: skip
        self._base_url = f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every key, and stop the server."""
        for episode in self._episodes.values():
            episode.close()
        self._episodes.clear()
        await asyncio.to_thread(self._server.stop, _STOP_TIMEOUT_S)

    @property
    def base_url(self) -> str:
        """The address, without a slash at its end. OpenAI's clients take it with /v1, Anthropic's as it is."""
        return self._base_url

    def base_url_with(self, key: str) -> str:
        """The same with a key in the path, for a program that cannot send one."""
        return f"{self._base_url}/e/{key}"

    def environment_variables(self, key: str) -> dict[str, str]:
        """The variables from which the usual clients take their address and key."""
        openai_url = f"{self._base_url}/v1"
        return {
            "OPENAI_BASE_URL": openai_url,
            "OPENAI_API_BASE": openai_url,
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self._base_url,
            "ANTHROPIC_API_KEY": key,
        }

    def open(self, model: AnswersRequests, tools: ServesTools | None = None) -> str:
        """A new key, whose calls `model` answers in the running event loop until `close`.

        tools: the functions of the episode, which are served by MCP at /mcp.
        """
        key = f"sk-{secrets.token_urlsafe(32)}"
        self._episodes[hash_of(key)] = Episode(model, asyncio.get_running_loop(), tools)
        return key

    def close(self, key: str) -> None:
        """End a key: its running calls are cancelled, and later ones refused. A key that has ended is ignored."""
        episode = self._episodes.pop(hash_of(key), None)
        if episode is not None:
            episode.close()
