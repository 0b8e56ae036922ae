"""Sessions of an environment as an agent sees them: a prompt, tools, and a verdict at the end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, runtime_checkable

from typing_extensions import TypedDict, TypeVar

from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    JsonRpcErrorCode,
    JsonRpcResponse,
    McpMethod,
    Tool,
)
from openenv.core.harness.training import TrainingTrace

Message = dict[str, Any]
"""A message of a conversation, in the format of the OpenAI API."""


@dataclass
class ToolResult:
    """What a tool returned."""

    data: Any = None
    done: bool = False
    """Whether the episode is over."""
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass
class VerifyResult:
    """The verdict on an episode. The reward is the environment's own; None means that there is none."""

    env_reward: float | None = None
    done: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)


class ResourceSession(ABC):
    """One episode, played by calls of tools."""

    @abstractmethod
    def initial_messages(self) -> list[Message]:
        """The prompt."""

    @abstractmethod
    def list_tools(self) -> list[Tool]:
        """The tools."""

    @abstractmethod
    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool."""

    @abstractmethod
    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """The verdict, after the last message. final_state: what the harness knows about the episode."""

    @abstractmethod
    def close(self) -> None:
        """End the session."""


SessionT = TypeVar("SessionT", bound=ResourceSession, default=ResourceSession, covariant=True)
_PlayedT = TypeVar("_PlayedT", bound=ResourceSession, default=ResourceSession)


class ResourceSessionFactory(ABC, Generic[_PlayedT]):
    """Makes a session for each episode."""

    @abstractmethod
    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> _PlayedT:
        """A session for a task."""


class TraceEntry(TypedDict, total=False):
    """One request of an agent to its language model, as a proxy recorded it. Every key may be missing.

    The token ids are those of the model's own server: a consumer uses them and renders no prompt again. A missing
    `reward` is no reward of zero.
    """

    request: dict[str, Any]
    response: dict[str, Any]
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    completion_tokens: list[str]
    per_token_logps: list[float]
    loss_mask: list[int]
    reward: float | None
    metadata: dict[str, Any]


@runtime_checkable
class LoopOwningSession(Protocol):
    """A session in which the agent's program calls its model by itself, and is read afterwards."""

    def wait_for_completion(self, timeout_s: float | None = 600.0) -> int:
        """Wait for the program, and return its exit code."""

    def fetch_proxy_trace(self) -> list[TraceEntry]:
        """The program's requests to its model."""


@runtime_checkable
class TrainableSession(Protocol):
    """The same, with tokens that a trainer may use."""

    def wait_for_completion(self, timeout_s: float | None = 600.0) -> int:
        """Wait for the program, and return its exit code."""

    def fetch_training_trace(self) -> TrainingTrace:
        """The validated tokens of the program's requests."""


class SessionMCPBridge:
    """Answers an agent's MCP requests with the tools of a session. The episode's verbs are no tools."""

    def __init__(self, session: ResourceSession) -> None:
        self._session = session

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The JSON-RPC response to `tools/list` or `tools/call`; an error becomes an error response."""
        request_id = request.get("id")

        def failed(code: JsonRpcErrorCode, message: str | None = None) -> dict[str, Any]:
            return JsonRpcResponse.error_response(code, message, request_id=request_id).model_dump()

        if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
            return failed(JsonRpcErrorCode.INVALID_REQUEST)
        method, params = request["method"], request.get("params") or {}
        try:
            if method == McpMethod.TOOLS_LIST:
                tools = [{"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                         for tool in self._session.list_tools()]  # fmt: skip
                return JsonRpcResponse.success({"tools": tools}, request_id).model_dump()
            if method != McpMethod.TOOLS_CALL:
                return failed(JsonRpcErrorCode.METHOD_NOT_FOUND)
            name = params.get("name")
            if not name:
                return failed(JsonRpcErrorCode.INVALID_PARAMS, "params.name is missing: give the name of a tool")
            if name in RESERVED_TOOL_NAMES:
                return failed(JsonRpcErrorCode.INVALID_PARAMS, f"{name} is reserved: it is no tool of an agent")
            result = self._session.call_tool(name, params.get("arguments") or {})
        except Exception as error:  # noqa: BLE001  border: a session may raise anything, and the agent goes on
            return failed(JsonRpcErrorCode.INTERNAL_ERROR, str(error) or type(error).__name__)
        return JsonRpcResponse.success(vars(result), request_id).model_dump()


class StepEnvSessionAdapter(ResourceSession):
    """A session of a client with `reset`, `step` and `state`: each call of a tool is one step."""

    def __init__(
        self,
        client: Any,
        *,
        task: Any = None,
        seed: int | None = None,
        episode_id: str | None = None,
        tool_specs: list[Tool],
        action_builder: Callable[[str, dict[str, Any]], Any],
        initial_messages_builder: Callable[[StepResult[Any], Any], list[Message]],
        tool_result_builder: Callable[[str, dict[str, Any], StepResult[Any], Any], ToolResult] | None = None,
        verify_builder: Callable[[list[Message], Any, StepResult[Any] | None, Any], VerifyResult] | None = None,
        reset_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Reset the environment.

        client: a synchronous client; `close` closes it. action_builder: of a tool's name and arguments, the action.
        initial_messages_builder: of the reset's result and the task, the prompt. tool_result_builder: of name,
        arguments, the step's result and the state, what the tool returns. verify_builder: of transcript, final state,
        the last result and the state, the verdict. reset_kwargs: further keywords of the reset.
        """
        self._client = client
        self._tools = {tool.name: tool for tool in tool_specs}
        self._action_of = action_builder
        self._tool_result_of = tool_result_builder or _default_tool_result
        self._verdict_of = verify_builder or _default_verdict
        keywords = {"seed": seed, "episode_id": episode_id}
        given = {key: value for key, value in keywords.items() if value is not None}
        self._result: StepResult[Any] = client.reset(**(reset_kwargs or {}), **given)
        self._messages = initial_messages_builder(self._result, task)
        self._is_closed = False

    def initial_messages(self) -> list[Message]:
        """The prompt."""
        return list(self._messages)

    def list_tools(self) -> list[Tool]:
        """The tools."""
        return list(self._tools.values())

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Take one step. Raises KeyError for an unknown tool, and what the client raises."""
        if name not in self._tools:
            raise KeyError(f"tool {name!r} is not among {', '.join(self._tools)}")
        self._result = self._client.step(self._action_of(name, arguments))
        return self._tool_result_of(name, arguments, self._result, self._client.state())

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """The verdict; without a `verify_builder`, the reward of the last step."""
        return self._verdict_of(transcript, final_state, self._result, self._client.state())

    def close(self) -> None:
        """Close the client."""
        if not self._is_closed:
            self._is_closed = True
            self._client.close()


def _default_tool_result(name: str, arguments: dict[str, Any], result: StepResult[Any], state: Any) -> ToolResult:
    data = {"tool_name": name, "arguments": arguments, "observation": result.observation, "reward": result.reward,
            "done": result.done}  # fmt: skip
    return ToolResult(data=data, done=result.done, metadata={"reward": result.reward, "state": state})


def _default_verdict(
    transcript: list[Message], final_state: Any, result: StepResult[Any] | None, state: Any
) -> VerifyResult:
    artifacts = {"final_state": state if final_state is None else final_state, "transcript_length": len(transcript)}
    if result is None:
        return VerifyResult(artifacts=artifacts)
    return VerifyResult(env_reward=result.reward, done=result.done, artifacts=artifacts)
