"""The specification's client side: `reset`, `step`, `state`, `close` on an environment that runs elsewhere.

A client is synchronous, also in a notebook, until it is entered with `async with` or awaited; from then on its verbs
are coroutines.
"""

import asyncio
import inspect
import math
import os
from collections.abc import Callable, Generator, Mapping
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar as TypeVarWithDefault

from openenv.compat.aliases import names_elsewhere
from openenv.compat.moved import NAMES
from openenv.core.client.address import Address, Endpoint
from openenv.core.client.async_transport import AsyncSession
from openenv.core.client.blocking_transport import BlockingSession
from openenv.core.client.owned_server import BoundProvider
from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.core.client_types import Clients, Completed, StepResult, Token
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import EnvironmentFault
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.core.sync_client import ActT, ObsT, StateT, SyncEnvClient
from openenv.core.utils import check_headers, check_type
from openenv.core.utils import convert_to_ws_url as convert_to_ws_url
from openenv.core.utils import hf_space_subdomain as hf_space_subdomain
from openenv.core.vector.batched_session import BatchedSession
from openenv.core.wire.arrays import has_array_fields
from openenv.core.wire.client_codec import Request, encode_body
from openenv.core.wire.message_fields import has_choices, is_strict, read_message, validated
from openenv.core.wire.server_codec import invalid_message

if TYPE_CHECKING:
    from openenv.core.vector.env import Autoreset, VectorEnv

EnvClientT = TypeVar("EnvClientT", bound="EnvClient[Any, Any, Any]")
ResultT = TypeVar("ResultT")
"""For annotations of programs that import them; ours have Self."""

__getattr__, __dir__ = names_elsewhere(__name__, NAMES[__name__])

_MEGABYTE = 1 << 20
_MODES = ("simulation", "production")
_STARTS = ("start", "start_container")
MODE_VARIABLE = "OPENENV_CLIENT_MODE"
"""The environment variable with the mode of a client whose program names none."""


class EnvClient(Generic[ActT, ObsT, StateT]):
    """A session with one environment.

    Example:
        class EchoEnv(EnvClient[EchoAction, EchoObservation, State]): ...

        with EchoEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7)
            result = env.step(EchoAction(message="hello"))

    The wire mapping follows from the type parameters; `_step_payload`, `_parse_result` and `_parse_state` may be
    overridden. Verbs raise the classes of `openenv.core.errors`: EnvironmentFault when the environment refuses an
    action, SessionLost when the episode is gone, AnswerTimeout when the response is late.
    """

    _message_classes: ClassVar[tuple[Any, Any, Any]] = (Action, Observation, State)
    """Of the type parameters."""

    _session_classes: ClassVar[tuple[Any, Any]] = (BlockingSession, AsyncSession)
    """How a session is used synchronously and asynchronously."""

    trace_context: Callable[[], str | None] | None = None
    """Returns the current span, the parent of the server's spans (`openenv.integrations.opentelemetry`)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), EnvClient):
                given = get_args(base)
                classes = (*given, *cls._message_classes[len(given) :])
                if not any(isinstance(c, (TypeVar, TypeVarWithDefault)) for c in classes):
                    cls._message_classes = classes

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
        """Connects at the first verb.

        Args:
            base_url: where the server listens, such as http://localhost:8000, or unix:/run/echo.sock.
            connect_timeout_s: limit of the connection and its handshake.
            message_timeout_s: limit of a response, and of the environment that the server makes for a new session.
            websocket_ping_interval_s: silence after which the client sends a ping.
            websocket_ping_timeout_s: further silence after which the connection counts as broken. None turns either
                off.
            provider: runs the client's own server; without a base_url the first verb starts it, and `close()` stops it.
            mode: `simulation` or `production`; None: the environment variable OPENENV_CLIENT_MODE, or `simulation`.
            headers: sent with the connection, such as `Authorization: Bearer ...`.
            session_id: attach to that session of the server instead of opening one.

        Raises:
            ValueError: for a wrong URL or mode, or neither URL nor provider.
        """
        if base_url is None and provider is None:
            raise ValueError(f"{type(self).__name__} needs a base_url, or a provider that runs a server")
        check_type("mode", mode, str, f"one of {', '.join(map(repr, _MODES))}", optional=True)
        check_type("session_id", session_id, str, "the id of a session", optional=True)
        check_headers(headers)
        if provider is not None and not any(callable(getattr(provider, name, None)) for name in _STARTS):
            raise TypeError(f"provider is of type {type(provider).__name__}: give a provider that runs a server")
        named = mode or os.environ.get(MODE_VARIABLE) or _MODES[0]
        self._mode = named.lower()
        if self._mode not in _MODES:
            source = "mode" if mode else MODE_VARIABLE
            raise ValueError(f"{source}={named!r}: must be one of {', '.join(map(repr, _MODES))}")
        if base_url is not None:
            check_type("base_url", base_url, str, "a text such as localhost:8000")
            websocket_uri(base_url)  # raises for a wrong URL now, not at the first verb
        check_type("max_message_size_mb", max_message_size_mb, Real, "a size above 0, such as 100")
        if not 1 <= max_message_size_mb * _MEGABYTE < math.inf:
            raise ValueError(f"max_message_size_mb={max_message_size_mb}: give a size above 0, such as 100")
        address = Address(
            base_url=(base_url or "").rstrip("/"),
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_size=int(max_message_size_mb * _MEGABYTE),
            headers=dict(headers or {}),
            ping_interval_s=websocket_ping_interval_s,
            ping_timeout_s=websocket_ping_timeout_s,
            reads_arrays=has_array_fields(self._message_classes[1]),
        )
        self._endpoint = Endpoint(address, provider)
        self._session: Any = self._session_classes[0](self._endpoint, session_id)
        self._children: list[EnvClient[ActT, ObsT, StateT]] = []

    @classmethod
    def from_docker_image(cls, image: str, provider: ContainerProvider | None = None, **kwargs: Any) -> Self:
        """A client of a container of its own, which the first verb starts and `close()` stops.

        Use it as it is, or `await` it. provider: runs the container; None: the local Docker engine. wait_timeout:
        seconds until its server must answer (30). Further keywords go to the provider's `start_container`: port,
        env_vars, and what else it takes. The verb that starts it raises ContainerFault or NotReady.
        """
        check_type("image", image, str, "the name of a container image")
        if provider is None:
            from openenv.hosting.runtime.docker import LocalDockerProvider  # a program without containers loads none

            return cls(provider=BoundProvider(LocalDockerProvider, image, **kwargs))
        return cls(provider=BoundProvider(provider, image, **kwargs))

    @classmethod
    def from_env(
        cls,
        repo_id: str,
        *,
        use_docker: bool = True,
        provider: ContainerProvider | RuntimeProvider | None = None,
        trust_remote_code: bool = False,
        **provider_kwargs: Any,
    ) -> Self:
        """A client of a Hugging Face Space (`owner/name`) that runs on this machine, as `from_docker_image` has it.

        use_docker: run its image (tag="latest"); False: run its code with uv, as this user and without isolation
        (project_path: instead of the Space's repository). trust_remote_code: allow the latter; so does the environment
        variable OPENENV_TRUST_REMOTE_CODE=1. Further keywords go to the provider. Raises RemoteCodeRefused (a
        ValueError).
        """
        from openenv.hosting.hub import space_runtime  # a program without containers loads none

        runtime = space_runtime(
            repo_id, use_docker=use_docker, trust_remote_code=trust_remote_code, provider=provider, **provider_kwargs
        )
        return cls(provider=runtime)

    @classmethod
    def from_hub(cls, repo_id: str, **kwargs: Any) -> Self:
        """`from_env` by the name of where the Space comes from."""
        return cls.from_env(repo_id, **kwargs)

    @property
    def base_url(self) -> str | None:
        """Where the server listens; None until the provider has started it."""
        return self._endpoint.address.base_url or None

    @property
    def address(self) -> Address:
        """Where the server listens, and the settings of connections to it."""
        return self._endpoint.address

    @property
    def session_id(self) -> str | None:
        """The session's id on the server; None before the first verb, and on servers of the published dialect."""
        session_id: str | None = self._session.session_id
        return session_id

    def __repr__(self) -> str:
        if "_session" not in self.__dict__:  # `__init__` has not ended
            return object.__repr__(self)
        session = "no session" if self.session_id is None else f"session {self.session_id}"
        return f"<{type(self).__name__} at {self.base_url or 'a server that has not started'}, {session}>"

    # The verbs. Each returns its result, or in asynchronous mode a coroutine of it.

    def reset(
        self, *, seed: int | None = None, episode_id: str | None = None, timeout_s: float | None = None, **kwargs: Any
    ) -> StepResult[ObsT]:
        """Start a new episode and return its first observation. Equal seeds give equal episodes.

        timeout_s: the most that the reset may take on the server. Further keywords reach the environment's `reset`.
        """
        general = {"seed": seed, "episode_id": episode_id}
        data = {**{key: value for key, value in general.items() if value is not None}, **kwargs}
        request = Request("reset", data, timeout_s, self.trace_context and self.trace_context())
        result: StepResult[ObsT] = self._session.request(request, self._read_result)
        return result

    def step(
        self, action: ActT | Mapping[str, Any], *, timeout_s: float | None = None, **kwargs: Any
    ) -> StepResult[ObsT]:
        """Take one action and return what follows. Raises EnvironmentFault when the environment refuses it.

        action: of the client's class, or its fields. timeout_s: the most that the step may take on the server, which
        then raises TimeLimitExceeded. Raises InvalidMessage, which names them, for wrong fields, and TypeError for
        further keywords, which only subclasses may take.
        """
        if kwargs:
            raise TypeError(f"step() takes timeout_s, not {', '.join(kwargs)}")
        body = self._encode_action(action)
        request = Request("step", body, timeout_s, self.trace_context and self.trace_context())
        result: StepResult[ObsT] = self._session.request(request, self._read_result)
        return result

    def state(self) -> StateT:
        """Identity and progress of the current episode."""
        request = Request("state", traceparent=self.trace_context and self.trace_context())
        state: StateT = self._session.request(request, self._parse_state)
        return state

    # The wire mapping: typed objects as JSON, and back.

    def _step_payload(self, action: ActT | Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object of an action: of the client's class, or a mapping or another model with its fields.

        Raises InvalidMessage for wrong fields, TypeError for an object that has none.
        """
        action_cls = self._message_classes[0]
        if isinstance(action, BaseModel) and isinstance(action, action_cls):
            return action.model_dump(mode="json", round_trip=True)
        fields = action.model_dump() if isinstance(action, BaseModel) else action
        if not isinstance(fields, Mapping) or not issubclass(action_cls, BaseModel):
            own, given = action_cls.__name__, type(action).__name__
            raise TypeError(f"{type(self).__name__}.step takes {own} or a mapping of its fields, not {given}")
        try:
            reads_json = is_strict(action_cls)
            typed: BaseModel = validated(action_cls, fields) if reads_json else action_cls.model_validate(fields)
        except ValidationError as error:
            raise invalid_message(error, action_cls.model_validate, fields) from None
        return typed.model_dump(mode="json", round_trip=True)

    def _encode_action(self, action: ActT | Mapping[str, Any]) -> bytes:
        """What `_step_payload` returns, as JSON; in one pass where no subclass overrides that."""
        action_cls = self._message_classes[0]
        if type(self)._step_payload is EnvClient._step_payload and isinstance(action, action_cls):
            body: bytes = action.__pydantic_serializer__.to_json(action, round_trip=True)  # without computed fields
            return body
        return encode_body(self._step_payload(action))

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The result in a response's data. Raises UnreadableResponse when the observation has other fields."""
        observation_cls = self._message_classes[1]
        reward, done = payload.get("reward"), payload.get("done", False)
        fields = {**payload["observation"], "reward": reward, "done": done}
        try:
            if has_choices(observation_cls) or is_strict(observation_cls):
                observation = read_message(observation_cls, fields)
            else:
                observation = observation_cls.model_validate(fields, by_alias=True, by_name=True)
        except (ValidationError, TypeError):  # a subclass, computed fields, or a `model_validate` of the author's own
            observation = read_message(observation_cls, fields)
        return StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """The state in a response's data. Raises UnreadableResponse when it has other fields."""
        state: StateT = read_message(self._message_classes[2], payload)
        return state

    def _read_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The result, with its validity. Raises EnvironmentFault when the server has sent no observation."""
        if type(payload.get("observation")) is not dict:
            raise EnvironmentFault(
                f"the server's answer has no observation, or one that is no object: {str(payload)[:80]}"
            )
        validity = payload.pop("validity", "valid")
        result = self._parse_result(payload)
        result.validity = validity
        return result

    # Snapshots, vectors and further sessions.

    def save(self) -> Token:
        """A token of the episode as it stands, which the server keeps. Raises NotSupported where it cannot."""
        token: Token = self._session.request(Request("save"), lambda data: Token(data["token"]))
        return token

    def restore(self, token: str) -> Completed:
        """Continue from where the episode of that token stood: equal actions then give equal futures."""
        done: Completed = self._session.request(Request("restore", {"token": token}), lambda _: Completed())
        return done

    def fork(self, count: int) -> Clients[Self]:
        """`count` clients, each with a session of its own that continues from where this one stands."""
        clients: Clients[Self] = self._session.request(Request("fork", {"count": count}), self._branches)
        return clients

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

        Args:
            autoreset: `next_step`, `same_step` or `disabled`.
            num_sessions: over how many sessions they are spread.
            options: keywords of every reset.

        Raises:
            ValueError: for numbers or an autoreset that `VectorEnv` does not take.
            TypeError: for an argument of another type.
            ServerUnreachable: if no session can be opened.
            ImportError: without the extra `vector`.
        """
        # Gymnasium and numpy belong to the extra `vector`
        from openenv.core.vector.env import VectorEnv

        self._endpoint.start()
        return VectorEnv(self.address, num_envs, autoreset=autoreset, num_sessions=num_sessions, options=options)

    async def batched_sessions(self, num_envs: int) -> list[BatchedSession[ActT, ObsT]]:
        """As `BatchedSession.open_for`, at this client's server."""
        return await BatchedSession.open_for(self.address, num_envs, self._encode_action, self._read_result)

    def new_session(self) -> Self:
        """A client with another session of the same server, which `close()` of this one ends too."""
        child: Self = self._session.open_child(self._child)
        return child

    def disconnect(self) -> Completed:
        """End the session; the server goes on. The next verb opens a new session."""
        done: Completed = self._session.disconnect()
        return done

    def close(self) -> Completed:
        """End the session, those of `new_session()`, and the server if it is the client's own.

        The client may be used again: the next verb opens a new session.
        """
        done: Completed = self._session.close(self._children)
        return done

    def _branches(self, payload: dict[str, Any]) -> Clients[Self]:
        return Clients(self._sibling(session_id) for session_id in payload["session_ids"])

    def _child(self) -> Self:
        child = self._sibling(None)
        self._children.append(child)
        return child

    def _sibling(self, session_id: str | None) -> Self:
        """A client of the same server and settings; asynchronous when this one is and it attaches to a session."""
        sibling = type(self)(base_url=self.base_url, **self._settings())
        is_async = self.is_async and session_id is not None
        sibling._session = self._session_classes[is_async](sibling._endpoint, session_id)
        return sibling

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied are the URL and the settings: each copy opens a session of its own at its first verb."""
        if self._endpoint.owns_server or not self.base_url:
            raise TypeError(
                f"{type(self).__name__} runs a server of its own, which a copy would not have: make a client of its "
                "base_url there"
            )
        return partial(type(self), self.base_url, **self._settings()), ()

    def _settings(self) -> dict[str, Any]:
        """Of the constructor, apart from the URL."""
        address = self.address
        settings: dict[str, Any] = {
            "connect_timeout_s": address.connect_timeout_s,
            "message_timeout_s": address.message_timeout_s,
            "max_message_size_mb": address.max_size / _MEGABYTE,
            "websocket_ping_interval_s": address.ping_interval_s,
            "websocket_ping_timeout_s": address.ping_timeout_s,
            "mode": self._mode,
            "headers": address.headers,
        }
        accepted = inspect.signature(type(self)).parameters  # a subclass may have a constructor of its own
        accepts_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted.values())
        return {name: value for name, value in settings.items() if accepts_all or name in accepted}

    @property
    def is_async(self) -> bool:
        """Whether the verbs return coroutines."""
        is_async: bool = self._session.is_async
        return is_async

    def _use_async(self) -> None:
        """Let the verbs return coroutines from now on."""
        if not self.is_async:
            self._session = self._session_classes[1](self._endpoint, self._session.session_id)

    def connect(self) -> Self:
        """Connect now instead of at the first verb; `await client.connect()` makes the client asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._session.connect()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    def __enter__(self) -> Self:
        self._session.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._use_async()
        await self._session.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close(self._children)

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """The synchronous view of this client, where coroutines of subclasses are plain methods too.

        Of a client that is asynchronous already it is another, with a session of its own.
        """
        return SyncEnvClient(self)
