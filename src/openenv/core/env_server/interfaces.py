"""The interface of an environment (reset, step, state, close), and the protocols of objects that it works with."""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from typing_extensions import TypedDict, TypeVar

from openenv.core.env_server.config import Execution as Execution
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, ServerMode, State
from openenv.core.rubric import Rubric

if TYPE_CHECKING:
    from openenv.core.env_server.vector_environment import VectorEnvironment

__all__ = ["Environment", "Message", "ModelTokenizer", "TaskProvider", "Transform"]

ActT = TypeVar("ActT", bound=Action, default=Action)
ObsT = TypeVar("ObsT", bound=Observation, default=Observation)
StateT = TypeVar("StateT", bound=State, default=State)


class Transform(ABC, Generic[ObsT]):
    """Changes observations on their way out of an environment: adds a field, hides one, scales a reward."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """The observation that the agent sees: the same one, changed or not, or another."""


def _asynchronous(twin: Callable[..., Any]) -> Callable[..., Any]:
    """The plain method of a class that has only the asynchronous one."""

    @functools.wraps(twin)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} is asynchronous: await its {twin.__name__}()")

    return method


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """One episode at a time of one world. The server makes one instance for each session.

    Write `reset`, `step` and `state`, or their asynchronous twins `reset_async` and `step_async`. Raise any
    exception to refuse an action: its message reaches the client and the session goes on.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    """False if two instances in one process disturb each other: the server then holds one session."""

    ALLOWS_STEP_AFTER_DONE: ClassVar[bool] = False
    """True if an episode may be stepped after `done`; otherwise the server returns the error EPISODE_OVER."""

    REQUIRES_SINGLE_THREAD_EXECUTOR: ClassVar[bool] = False
    """True for libraries that must not be used from two threads of a process: then all sessions share one thread.
    `execution = "process"` gives each session such a library of its own."""

    server_mode: ServerMode = ServerMode.SIMULATION
    """The mode of the server, which sets it on each new instance."""

    execution: Execution = "thread"
    """Where the server runs the verbs: `inline` in its event loop (for steps well under a millisecond), in a `thread`
    that belongs to the session, or in a `process` of the session's own, whose crash ends that session alone."""

    success_return: float | None = None
    """The return from which an episode is a success, such as 1.0; `ANY_POSITIVE` of `openenv.core.outcomes` for
    a game in which 0 is a draw. `reset` may set it for the episode that it begins. The server adds it to the metadata
    of a reset. None: evaluations show mean returns and no success rate."""

    transform: Transform[ObsT] | None = None
    """Applied to observations by `_apply_transform`."""

    rubric: Rubric | None = None
    """The rubric of `_apply_rubric`. Training reads the scores of its parts from `rubric.named_rubrics()`."""

    def __init__(self, transform: Transform[ObsT] | None = None, rubric: Rubric | None = None) -> None:
        """A subclass that takes neither need not call this."""
        self.transform = transform
        self.rubric = rubric

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A class that writes an asynchronous twin alone need not write the plain method."""
        super().__init_subclass__(**kwargs)
        for verb in ("reset", "step"):
            twin = getattr(cls, f"{verb}_async")
            if twin is not getattr(Environment, f"{verb}_async") and getattr(cls, verb) is getattr(Environment, verb):
                setattr(cls, verb, _asynchronous(twin))

    @abstractmethod
    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """The first observation of a new episode. Equal seeds give equal episodes under equal actions."""

    @abstractmethod
    def step(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """The observation after `action`, with its reward and whether the episode is done."""

    @property
    @abstractmethod
    def state(self) -> StateT:
        """Identity and progress of the current episode."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """Asynchronous twin of `reset`; the server prefers it where a subclass overrides it."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Asynchronous twin of `step`; the server prefers it where a subclass overrides it."""
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Where one call runs, for an `inline` environment with calls that take long: return `thread` for those.

        verb: reset or load; all others run where `execution` declares, which an instance may change. keywords: of a
        reset, not validated yet; empty for a load. The server calls it in the event loop, once or twice before each
        call, so it must return at once and change nothing. It is not called under `execution = "process"`.
        """
        return self.execution

    def get_metadata(self) -> EnvironmentMetadata:
        """The response of `/metadata`: by default the class's name and the first line of its docstring."""
        name = type(self).__name__
        first_line = (type(self).__doc__ or f"{name} environment").strip().splitlines()[0]
        return EnvironmentMetadata(name=name, description=first_line, version="1.0.0")

    def _apply_transform(self, observation: ObsT) -> ObsT:
        """The observation as the transform leaves it. Call it last in `reset` and `step`."""
        return observation if self.transform is None else self.transform(observation)

    def _apply_rubric(self, action: ActT, observation: ObsT) -> Any:
        """The rubric's score, or 0.0 without a rubric: `observation.reward = self._apply_rubric(action, observation)`.

        An asynchronous rubric gives an awaitable: write `step_async` and use `_apply_rubric_async`.
        """
        return 0.0 if self.rubric is None else self.rubric(action, observation)

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> Any:
        """The same in `step_async`, for synchronous and asynchronous rubrics."""
        score = self._apply_rubric(action, observation)
        return await score if inspect.isawaitable(score) else score

    def _reset_rubric(self) -> None:
        """Let the rubric forget the last episode. Call it in `reset`."""
        if self.rubric is not None:
            self.rubric.reset()

    async def _reset_rubric_async(self) -> None:
        """The same in `reset_async`, where a rubric may have a `reset_async` of its own."""
        if self.rubric is None:
            return
        done = getattr(self.rubric, "reset_async", self.rubric.reset)()
        if inspect.isawaitable(done):
            await done

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """HTML that the page at `/web` shows for an observation, without scripts; None: the page lists its fields.

        observation: its fields as JSON values, with `reward` and `done`.
        """
        return None

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Label and fields of each action that the page at `/web` offers as a button after an observation."""
        return []

    def vectorized(self, num_envs: int) -> "VectorEnvironment | None":
        """Environments like this one that are stepped together, where a library can do that at once; None: each of
        them is an instance of this class and stepped in turn."""
        return None

    def save_state(self) -> bytes:
        """A snapshot of the episode: board, random numbers, step count. Optional; `load_state` continues from it."""
        raise NotImplementedError(f"{type(self).__name__} does not write save_state and load_state")

    def load_state(self, snapshot: bytes) -> None:
        """Continue from a snapshot of this class: equal actions then give equal futures."""
        raise NotImplementedError(f"{type(self).__name__} does not write save_state and load_state")

    def close(self) -> None:
        """Release what the environment holds. Called once, when its session ends."""


class Message(TypedDict):
    """One turn of a conversation, as chat templates take it."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """A tokenizer with a chat template, such as those of `transformers`."""

    def apply_chat_template(
        self, conversation: list[Message], tokenize: bool = True, return_tensors: str | None = None, **kwargs: Any
    ) -> Any:
        """The conversation as text, or as token ids when `tokenize`. return_tensors: `pt` for those of PyTorch."""

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """The text of token ids."""


class TaskProvider(Protocol):
    """An environment over a data set, whose tasks the server lists to its clients.

    An environment writes those of the methods that it can, as plain methods or coroutines. They work before the first
    reset. Which task an episode plays is a keyword of `reset`: `env.reset(split="test", index=12)`.
    """

    def list_splits(self) -> list[Any]:
        """The splits: names, dictionaries or pydantic models with a name."""

    def list_tasks(self, split: str) -> list[Any]:
        """The tasks of a split; of a very large one, perhaps the first of them."""

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has, whatever `list_tasks` shows."""

    def get_task(self, split: str, index: int) -> Any:
        """One task. Raises IndexError when the split has no such index."""

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """The tasks from `start`, or the first, to before `stop`, or the end."""
