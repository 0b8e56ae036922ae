"""Base classes of environments that another library or server has: by calls of tools, or by messages."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

REPLY = "reply"
"""The tool that stands for a message without a call."""


class ReplyAction(Action):
    """A message of the model."""

    message: str = Field(description="Your message")


class MessageObservation(Observation):
    """What the other environment says."""

    METADATA_IS_PLAIN_JSON = True

    message: str = Field(description="What the environment says")


@dataclass(frozen=True, kw_only=True)
class ToolOutcome:
    """What a call led to."""

    text: str = ""
    error: str | None = None
    """Why the call was refused; the episode goes on."""
    error_type: ToolErrorType = ToolErrorType.EXECUTION_ERROR
    reward: float | None = None
    done: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)


def reply_tool() -> Tool:
    """The tool `reply`."""
    message = ReplyAction.model_json_schema()["properties"]["message"]
    schema = {"type": "object", "properties": {"message": message}, "required": ["message"]}
    described = "Write a message without calling a tool, such as the final answer"
    return Tool(name=REPLY, description=described, input_schema=schema)


def unknown_tool(name: str, known: Iterable[str]) -> ToolOutcome:
    """The outcome of a call of a tool that is not there."""
    error = f"there is no tool {name!r:.80}. Tools: {', '.join(sorted(known))}"
    return ToolOutcome(error=error, error_type=ToolErrorType.TOOL_NOT_FOUND)


class ToolCallingEnvironment(Environment[Action, Observation, State]):
    """Lists tools and calls them. A subclass has the tools, begins episodes and makes the calls."""

    def __init__(self, name: str, description: str) -> None:
        """description: the rules, for a prompt."""
        super().__init__()
        self._state = State()
        self._metadata = EnvironmentMetadata(name=name, description=description, version="1.0.0")

    @abstractmethod
    async def tools(self) -> list[Tool]:
        """The tools; before the first reset, those of every episode."""

    @abstractmethod
    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin an episode. Raises ValueError for other keywords than it has."""

    @abstractmethod
    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Begin an episode."""
        observation = await self.begin(seed, kwargs)
        self._state = State(episode_id=episode_id or str(uuid4()))
        return observation

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """List the tools or call one. Raises ValueError before the first reset."""
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=await self.tools())
        if not isinstance(action, CallToolAction):
            raise ValueError(f"{type(action).__name__}: call one of the tools")
        if self._state.episode_id is None:
            raise ValueError("there is no episode yet: call reset first")
        self._state.step_count += 1
        outcome = await self.call(action.tool_name, action.arguments)
        error = None if outcome.error is None else ToolError(error_type=outcome.error_type, message=outcome.error)
        return CallToolObservation(
            tool_name=action.tool_name,
            result=None if error else outcome.text,
            error=error,
            reward=outcome.reward,
            done=outcome.done,
            metadata=dict(outcome.metadata),
        )

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Not there: the environment is asynchronous."""
        raise NotImplementedError("use reset_async")

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Not there: the environment is asynchronous."""
        raise NotImplementedError("use step_async")

    @property
    def state(self) -> State:
        """The episode's id and the number of calls."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and rules."""
        return self._metadata


class ReplyEnvironment(Environment[ReplyAction, MessageObservation, State]):
    """Receives messages. A subclass begins episodes and answers the messages."""

    def __init__(self, name: str, description: str) -> None:
        """description: the rules, for a prompt."""
        super().__init__()
        self._state = State()
        self._metadata = EnvironmentMetadata(name=name, description=description, version="1.0.0")

    @abstractmethod
    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin an episode. Raises ValueError for other keywords than it has."""

    @abstractmethod
    async def reply(self, message: str) -> MessageObservation:
        """Answer a message. Raises ValueError before the first reset."""

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> MessageObservation:
        """Begin an episode."""
        observation = await self.begin(seed, kwargs)
        self._state = State(episode_id=episode_id or str(uuid4()))
        return observation

    async def step_async(
        self, action: ReplyAction, timeout_s: float | None = None, **kwargs: Any
    ) -> MessageObservation:
        """Send a message."""
        self._state.step_count += 1
        return await self.reply(action.message)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> MessageObservation:
        """Not there: the environment is asynchronous."""
        raise NotImplementedError("use reset_async")

    def step(self, action: ReplyAction, timeout_s: float | None = None, **kwargs: Any) -> MessageObservation:
        """Not there: the environment is asynchronous."""
        raise NotImplementedError("use step_async")

    @property
    def state(self) -> State:
        """The episode's id and the number of messages."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and rules."""
        return self._metadata
