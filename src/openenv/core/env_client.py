"""The specification's client side: `reset`, `step`, `state`, `close` on an environment that runs elsewhere.

A client is synchronous, also in a notebook, until it is entered with `async with` or awaited; from then on its verbs
are coroutines.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Generic, Self, get_args, get_origin
from typing import TypeVar as PlainTypeVar

from pydantic import BaseModel
from typing_extensions import TypeVar

from openenv.core.client_sessions import AsyncRequests, AsyncSession, BlockingRequests, BlockingSession
from openenv.core.client_types import StepResult
from openenv.core.connection import Address
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.requests import Request

ActT = TypeVar("ActT", default=Action)
ObsT = TypeVar("ObsT", default=Observation)
StateT = TypeVar("StateT", default=State)
ResultT = PlainTypeVar("ResultT")
ClientT = PlainTypeVar("ClientT")

_MEGABYTE = 1 << 20
_GRACE_OF_LIMIT_S = 10.0


class Completed:
    """The result of a verb that returns nothing; it may be awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this function a generator, as `await` wants


class Token(str):
    """A snapshot's token; it may be awaited, which yields itself."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Self]:
        return self
        yield  # makes this function a generator, as `await` wants


class Clients(list[ClientT]):
    """Clients that a fork made; it may be awaited, which yields itself."""

    def __await__(self) -> Generator[None, None, Self]:
        return self
        yield  # makes this function a generator, as `await` wants


class EnvClient(Generic[ActT, ObsT, StateT]):
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

    _message_classes: ClassVar[tuple[Any, Any, Any]] = (Action, Observation, State)

    def __init__(
        self,
        base_url: str,
        *,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        max_message_size_mb: float = 100.0,
        headers: dict[str, str] | None = None,
        session_id: str | None = None,
    ) -> None:
        """base_url: where the server listens, such as http://localhost:8000. Connects at the first verb.

        message_timeout_s: how long an answer is waited for. headers: sent with the connection, such as
        `Authorization: Bearer ...`. session_id: attach to that session of the server instead of opening one.
        """
        self.base_url = base_url
        self._address = Address(
            base_url=base_url,
            connect_timeout_s=connect_timeout_s,
            max_size=int(max_message_size_mb * _MEGABYTE),
            headers=headers or {},
        )
        self._address.uri(None)  # a wrong URL is told now, not at the first verb
        self._message_timeout_s = message_timeout_s
        self._attach_to = session_id
        self._is_async = False
        self._blocking: BlockingRequests | None = None
        self._async: AsyncRequests | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), EnvClient):
                given = get_args(base)
                classes = (*given, *cls._message_classes[len(given) :])
                if not any(isinstance(c, (TypeVar, PlainTypeVar)) for c in classes):
                    cls._message_classes = classes

    @property
    def session_id(self) -> str | None:
        """The session's name on the server; None before the first verb, and on servers that do not tell."""
        session = self._async if self._is_async else self._blocking
        return session.session_id if session else self._attach_to

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

    def step(self, action: ActT, *, timeout_s: float | None = None) -> StepResult[ObsT]:
        """Take one action and return what follows. Raises EnvironmentFault when the environment refuses it.

        timeout_s: the most that the step may take on the server, which then raises TimeLimitExceeded.
        """
        return self._verb(Request("step", self._step_payload(action), timeout_s), self._read_result)

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

    def close(self) -> Completed:
        """End the session. The client may be used again: the next verb opens a new session."""
        if self._is_async:
            return self._close_async()  # type: ignore[return-value]
        session, self._blocking, self._attach_to = self._blocking, None, None
        if session is not None:
            session.close()
        return Completed()

    # The wire mapping.

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """The JSON object of an action. Raises TypeError for an object of another class than the client's own."""
        action_cls = self._message_classes[0]
        if not isinstance(action, BaseModel) or not isinstance(action, action_cls):
            raise TypeError(f"{type(self).__name__}.step takes {action_cls.__name__}, not {type(action).__name__}")
        return action.model_dump(mode="json")

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The result in an answer's data. Raises pydantic's ValidationError when the observation has other fields."""
        observation_cls = self._message_classes[1]
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = observation_cls.model_validate({**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """The state in an answer's data."""
        state: StateT = self._message_classes[2].model_validate(payload)
        return state

    def _read_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        validity = payload.pop("validity", "valid")
        result = self._parse_result(payload)
        result.validity = validity
        return result

    def _branches(self, payload: dict[str, Any]) -> Clients[Self]:
        return Clients(self._sibling(session_id) for session_id in payload["session_ids"])

    def _sibling(self, session_id: str | None) -> Self:
        """A client of the same server and settings; asynchronous when this one is and it attaches to a session."""
        sibling = type(self)(
            self.base_url,
            connect_timeout_s=self._address.connect_timeout_s,
            message_timeout_s=self._message_timeout_s,
            max_message_size_mb=self._address.max_size / _MEGABYTE,
            headers=self._address.headers,
            session_id=session_id,
        )
        sibling._is_async = self._is_async and session_id is not None
        return sibling

    # Connecting, in either mode.

    def _verb(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        if self._is_async:
            return self._verb_async(request, read)  # type: ignore[return-value]
        return read(self._connected().ask(request, self._patience_s(request)))

    async def _verb_async(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        session = await self._connected_async()
        return read(await session.ask(request, self._patience_s(request)))

    def _patience_s(self, request: Request) -> float:
        """How long an answer is waited for: a server that enforces a limit of its own is given time to say so."""
        if request.timeout_s is None:
            return self._message_timeout_s
        return max(self._message_timeout_s, request.timeout_s + _GRACE_OF_LIMIT_S)

    def _connected(self) -> BlockingRequests:
        if self._blocking is None:
            self._blocking = BlockingSession(self._address, self._attach_to)
        return self._blocking

    async def _connected_async(self) -> AsyncRequests:
        if self._async is None:
            self._async = await AsyncSession.open(self._address, self._attach_to)
        return self._async

    def _forget_lost_session(self) -> None:
        """A reset may open a new session when the old one is gone; a step may not: it would act in another episode."""
        if self._blocking is not None and self._blocking.is_lost:
            self._blocking.close()
            self._blocking = self._attach_to = None
        if self._async is not None and self._async.is_lost:
            self._async = self._attach_to = None

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

    async def _close_async(self) -> None:
        session, self._async, self._attach_to = self._async, None, None
        if session is not None:
            await session.close()

    def sync(self) -> Self:
        """The synchronous client: this one, or, when this one is asynchronous, another with a session of its own."""
        return self._sibling(None) if self._is_async else self
