"""The specification's client side: `reset`, `step`, `state`, `close` on an environment that runs elsewhere.

A client is synchronous, also in a notebook, until it is entered with `async with` or awaited; from then on its verbs
are coroutines.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from typing import TypeVar as PlainTypeVar

from openenv.core.arrays import has_array_fields
from openenv.core.client_types import Clients, Completed, StepResult, Token
from openenv.core.connection import Address
from openenv.core.containers.hub import space_runtime
from openenv.core.containers.runtime.owned import Prepared
from openenv.core.containers.runtime.providers import ContainerProvider, RuntimeProvider
from openenv.core.joint_session import JointSession, Wire
from openenv.core.requests import Request
from openenv.core.session_owner import SessionOwner
from openenv.core.sync_client import SyncEnvClient
from openenv.core.websocket_protocol import websocket_uri
from openenv.core.wire_mapping import ActT, ObsT, StateT, WireMapping

if TYPE_CHECKING:
    from openenv.core.vector_env import Autoreset, VectorEnv

ResultT = PlainTypeVar("ResultT")

_MEGABYTE = 1 << 20
_GRACE_OF_LIMIT_S = 10.0
_MODES = ("simulation", "production")


class EnvClient(WireMapping[ActT, ObsT, StateT], SessionOwner):
    """A session with one environment.

    Example:
        class EchoEnv(EnvClient[EchoAction, EchoObservation, State]): ...

        with EchoEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7)
            result = env.step(EchoAction(message="hello"))

    The wire mapping follows from the type parameters; `_step_payload`, `_parse_result` and `_parse_state` may be
    overridden. Verbs raise the classes of `openenv.core.errors`: EnvironmentFault when the environment refuses an
    action, SessionLost when the episode is gone, AnswerTimeout when the answer is late.
    """

    trace_context: Callable[[], str | None] | None = None
    """Returns the current span, which the server's spans then belong to (`openenv.integrations.opentelemetry`)."""

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: ContainerProvider | RuntimeProvider | None = None,
        mode: str | None = None,
        headers: dict[str, str] | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        """base_url: where the server listens, such as http://localhost:8000, or unix:/run/echo.sock. Connects at the
        first verb.

        connect_timeout_s: how long the connection and its handshake may take. message_timeout_s: how long an answer is
        waited for, and at the first verb before that the environment, which the server then makes.
        websocket_ping_interval_s: after so long a silence the server is asked for a sign of life, and the connection
        given up when none comes in websocket_ping_timeout_s; None turns either off. provider: runs the server, which is
        the client's own: `close()` stops it; without a base_url the first verb starts it. mode: `simulation` (None) or
        `production`, which clients of tools tell apart.
        headers: sent with the connection, such as `Authorization: Bearer ...`. session_id: attach to that session of
        the server instead of opening one. Raises ValueError for a wrong URL or mode, or neither URL nor provider.
        """
        if base_url is None and provider is None:
            raise ValueError(f"{type(self).__name__} needs a base_url, or a provider that runs a server")
        self._mode = (mode or _MODES[0]).lower()
        if self._mode not in _MODES:
            raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, _MODES))}")
        address = Address(
            base_url=(base_url or "").rstrip("/"),
            connect_timeout_s=connect_timeout_s,
            welcome_timeout_s=message_timeout_s,
            max_size=int(max_message_size_mb * _MEGABYTE),
            headers=headers or {},
            ping_interval_s=websocket_ping_interval_s,
            ping_timeout_s=websocket_ping_timeout_s,
            reads_arrays=has_array_fields(self._message_classes[1]),
        )
        if base_url is not None:
            websocket_uri(base_url)  # a wrong URL is told now, not at the first verb
        super().__init__(address, provider, session_id)
        self._message_timeout_s = message_timeout_s
        self._children: list[EnvClient[ActT, ObsT, StateT]] = []

    @classmethod
    def from_docker_image(cls, image: str, provider: ContainerProvider | None = None, **kwargs: Any) -> Self:
        """A client of a container of its own, which the first verb starts and `close()` stops.

        Use it as it is, or `await` it. provider: runs the container; None: the local Docker engine. wait_timeout:
        seconds until its server must answer (30). Further keywords go to the provider's `start_container`: port,
        env_vars, and what else it takes. The verb that starts it raises ContainerFault or NotReady.
        """
        return cls(provider=Prepared(provider, image, **kwargs))

    @classmethod
    def from_env(
        cls,
        repo_id: str,
        *,
        use_docker: bool = True,
        provider: ContainerProvider | RuntimeProvider | None = None,
        **provider_kwargs: Any,
    ) -> Self:
        """A client of a Hugging Face Space (`owner/name`) that runs on this machine, as `from_docker_image` has it.

        use_docker: run its image (tag="latest"); False: run its code with uv, as this user and without isolation
        (project_path: instead of the Space's repository). Further keywords go to the provider.
        """
        return cls(provider=space_runtime(repo_id, use_docker=use_docker, provider=provider, **provider_kwargs))

    @classmethod
    def from_hub(cls, repo_id: str, **kwargs: Any) -> Self:
        """`from_env` by the name of where the Space comes from."""
        return cls.from_env(repo_id, **kwargs)

    # The verbs. Each returns its result, or in asynchronous mode a coroutine of it.

    def reset(
        self,
        *,
        seed: int | None = None,
        episode_id: str | None = None,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> StepResult[ObsT]:
        """Start a new episode and return its first observation. Equal seeds give equal episodes.

        timeout_s: the most that the reset may take on the server. Further keywords reach the environment's `reset`.
        """
        general = {"seed": seed, "episode_id": episode_id}
        data = {**{key: value for key, value in general.items() if value is not None}, **kwargs}
        self._forget_lost_session()
        return self._verb(Request("reset", data, timeout_s), self._read_result)

    def step(self, action: ActT, *, timeout_s: float | None = None, **kwargs: Any) -> StepResult[ObsT]:
        """Take one action and return what follows. Raises EnvironmentFault when the environment refuses it.

        timeout_s: the most that the step may take on the server, which then raises TimeLimitExceeded. Raises TypeError
        for further keywords, for which the wire has no place: they are there for subclasses to take.
        """
        if kwargs:
            raise TypeError(f"step() takes timeout_s, not {', '.join(kwargs)}")
        return self._verb(Request("step", self._step_body(action), timeout_s), self._read_result)

    def state(self) -> StateT:
        """Identity and progress of the current episode."""
        return self._verb(Request("state"), self._parse_state)

    def save(self) -> Token:
        """A token of the episode as it stands, which the server keeps. Raises NotSupported where it cannot."""
        return self._verb(Request("save"), lambda data: Token(data["token"]))

    def restore(self, token: str) -> Completed:
        """Continue from where the episode of that token stood: equal actions then give equal futures."""
        return self._verb(Request("restore", {"token": token}), lambda _: Completed())

    def fork(self, count: int) -> Clients[Self]:
        """`count` clients, each with a session of its own that continues from where this one stands."""
        return self._verb(Request("fork", {"count": count}), self._branches)

    def vector(
        self,
        num_envs: int,
        *,
        autoreset: "Autoreset" = "next_step",
        num_sessions: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> "VectorEnv":
        """`num_envs` environments of this server that are stepped together, as a `gymnasium.vector.VectorEnv`.

        They are beside this client's own session; the server, if it is the client's, runs until the client is closed.
        autoreset: `next_step`, `same_step` or `disabled`. num_sessions: over how many sessions they are spread.
        options: said to every reset. Raises what `VectorEnv` does, and ImportError without the extra `vector`.
        """
        # Gymnasium and numpy belong to the extra `vector`
        from openenv.core.vector_env import VectorEnv

        self._start_server()
        return VectorEnv(
            self._address,
            num_envs,
            autoreset=autoreset,
            num_sessions=num_sessions,
            answer_timeout_s=self._message_timeout_s,
            options=options,
        )

    async def joined(self, num_envs: int) -> list[JointSession[ActT, ObsT]]:
        """As `JointSession.open_for`, at this client's server."""
        wire = Wire(self._step_body, self._read_result)
        return await JointSession.open_for(self._address, num_envs, wire, self._message_timeout_s)

    def new_session(self) -> Self:
        """A client with another session of the same server, which `close()` of this one ends too."""
        if self._is_async:
            return self._new_session_async()  # type: ignore[return-value]
        self._start_server()
        return self._child().connect()

    def disconnect(self) -> Completed:
        """End the session; the server goes on. The next verb opens a new session."""
        if self._is_async:
            return self._end_session_async()  # type: ignore[return-value]
        self._end_session()
        return Completed()

    def close(self) -> Completed:
        """End the session, those of `new_session()`, and the server if it is the client's own.

        The client may be used again: the next verb opens a new session.
        """
        if self._is_async:
            return self._close_async()  # type: ignore[return-value]
        try:
            while self._children:
                self._children.pop().close()
            self._end_session()
        finally:
            self._stop_server()
        return Completed()

    async def _close_async(self) -> None:
        try:
            while self._children:
                await self._children.pop().close()
            await self._end_session_async()
        finally:
            if self._server is not None:
                await asyncio.to_thread(self._stop_server)

    async def _new_session_async(self) -> Self:
        await self._start_server_async()
        return await self._child()

    # Other clients of the same server.

    def _branches(self, payload: dict[str, Any]) -> Clients[Self]:
        return Clients(self._sibling(session_id) for session_id in payload["session_ids"])

    def _child(self) -> Self:
        child = self._sibling(None)
        self._children.append(child)
        return child

    def _sibling(self, session_id: str | None) -> Self:
        """A client of the same server and settings; asynchronous when this one is and it attaches to a session."""
        settings: dict[str, Any] = {
            "connect_timeout_s": self._address.connect_timeout_s,
            "message_timeout_s": self._message_timeout_s,
            "max_message_size_mb": self._address.max_size / _MEGABYTE,
            "websocket_ping_interval_s": self._address.ping_interval_s,
            "websocket_ping_timeout_s": self._address.ping_timeout_s,
            "mode": self._mode,
            "headers": self._address.headers,
        }
        taken = inspect.signature(type(self)).parameters  # a subclass may have a constructor of its own
        takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
        settings = {name: value for name, value in settings.items() if takes_all or name in taken}
        sibling = type(self)(base_url=self.base_url, **settings)
        sibling._attach_to = session_id
        sibling._is_async = self._is_async and session_id is not None
        return sibling

    # Connecting, in either mode.

    def _verb(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        if self.trace_context is not None:
            request = replace(request, traceparent=self.trace_context())
        patience_s = self._message_timeout_s
        if request.timeout_s is not None:  # a server that enforces a limit of its own is given time to say so
            patience_s = max(patience_s, request.timeout_s + _GRACE_OF_LIMIT_S)
        if not self._is_async:
            session = self._blocking or self._connected(is_reset=request.kind == "reset")
            return read(session.ask(request, patience_s))
        if self._async is None or request.kind != "step":
            return self._verb_async(request, patience_s, read)  # type: ignore[return-value]
        return self._async.ask(request, patience_s, read)  # type: ignore[return-value]

    async def _verb_async(
        self, request: Request, patience_s: float, read: Callable[[dict[str, Any]], ResultT]
    ) -> ResultT:
        """In the session that is open when this is awaited; a step is of the one in which it was asked for."""
        session = self._async or await self._connected_async(is_reset=request.kind == "reset")
        return await session.ask(request, patience_s, read)

    def connect(self) -> Self:
        """Connect now instead of at the first verb; `await client.connect()` makes the client asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._connected()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    def __enter__(self) -> Self:
        self._connected()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._is_async = True
        await self._connected_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_async()

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """The synchronous view of this client, where coroutines of subclasses are plain methods too.

        Of a client that is asynchronous already it is another, with a session of its own.
        """
        return SyncEnvClient(self)
