"""A synchronous view of a client: its verbs, and the methods of its subclass, coroutines included."""

import inspect
from collections.abc import Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Self

from typing_extensions import TypeVar

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.net.forks import ProcessBound
from openenv.core.utils import LoopThread

if TYPE_CHECKING:
    from openenv.core.env_client import EnvClient

ActT = TypeVar("ActT", default=Action)
ObsT = TypeVar("ObsT", default=Observation)
StateT = TypeVar("StateT", default=State)


class SyncEnvClient(ProcessBound, Generic[ActT, ObsT, StateT]):
    """A synchronous view of a client, returned by `EnvClient.sync()`.

    A coroutine method of a subclass, such as `call_tool`, is run to its end in an event loop of this object. The first
    such call starts the loop's thread, and `close()` ends it.

    Example:
        with MCPToolClient(base_url="http://localhost:8000").sync() as env:
            env.call_tool("echo_message", message="hello")
    """

    def __init__(self, async_client: "EnvClient[ActT, ObsT, StateT]") -> None:
        """async_client: used as it is; if it is asynchronous already, the view has a session of its own."""
        if not hasattr(async_client, "is_async"):
            raise TypeError(f"async_client is of type {type(async_client).__name__}: give an EnvClient")
        super().__init__()
        self._given = async_client
        self._client = async_client._sibling(None) if async_client.is_async else async_client
        self._loop: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._client!r}>"

    @property
    def async_client(self) -> "EnvClient[ActT, ObsT, StateT]":
        """The client that this object was made of."""
        return self._given

    def connect(self) -> Self:
        """Connect now instead of at the first verb."""
        self._client._session.connect()
        return self

    def disconnect(self) -> None:
        """End the session; the server goes on."""
        self._settled(self._client.disconnect())

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """As `EnvClient.reset`."""
        result: StepResult[ObsT] = self._settled(self._client.reset(**kwargs))
        return result

    def step(self, action: ActT | Mapping[str, Any], **kwargs: Any) -> StepResult[ObsT]:
        """As `EnvClient.step`."""
        result: StepResult[ObsT] = self._settled(self._client.step(action, **kwargs))
        return result

    def state(self) -> StateT:
        """As `EnvClient.state`."""
        state: StateT = self._settled(self._client.state())
        return state

    def close(self) -> None:
        """As `EnvClient.close`."""
        try:
            self._settled(self._client.close())
        finally:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.close()

    def new_session(self) -> "SyncEnvClient[ActT, ObsT, StateT]":
        """As `EnvClient.new_session`, seen synchronously."""
        return SyncEnvClient(self._client.new_session())

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    def leave_to_parent(self) -> None:
        """Called in a forked child, which has no thread of the loop."""
        self._loop = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_client":  # looked up by copy and pickle before there is a client
            raise AttributeError(name)
        value = getattr(self._client, name)
        if not inspect.isroutine(value):
            return value

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._settled(value(*args, **kwargs))

        return run

    def _settled(self, result: Any) -> Any:
        """The result itself, or the result of the coroutine that a subclass returns."""
        if not isinstance(result, CoroutineType):
            return result
        if self._loop is None:
            self._loop = LoopThread()
        return self._loop.run(result)
