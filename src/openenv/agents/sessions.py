"""Sessions of an environment as an agent sees them: a prompt, tools, and a verdict at the end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, runtime_checkable

from typing_extensions import TypedDict, TypeVar

from openenv.agents.training import TrainingTrace
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    JsonRpcErrorCode,
    JsonRpcResponse,
    McpMethod,
    Tool,
)

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


def tool_definition(tool: Tool) -> dict[str, Any]:
    """A tool as `tools/list` of MCP returns it."""
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}


class SessionMCPBridge:
    """Answers an agent's MCP requests with the tools of a session. The episode's verbs are no tools."""

    def __init__(self, session: ResourceSession) -> None:
        self.session = session

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The JSON-RPC response to `tools/list` or `tools/call`; an error becomes an error response.

        A session's KeyError becomes "method not found", its ValueError "invalid params", others "internal error".
        """
        request_id = request.get("id")

        def failed(code: JsonRpcErrorCode, message: str | None = None) -> dict[str, Any]:
            return JsonRpcResponse.error_response(code, message, request_id=request_id).model_dump()

        if request.get("jsonrpc") != "2.0":
            return failed(JsonRpcErrorCode.INVALID_REQUEST)
        method, params = request.get("method"), request.get("params") or {}
        try:
            if method == McpMethod.TOOLS_LIST:
                tools = [tool_definition(tool) for tool in self.session.list_tools()]
                return JsonRpcResponse.success({"tools": tools}, request_id).model_dump()
            if method != McpMethod.TOOLS_CALL:
                return failed(JsonRpcErrorCode.METHOD_NOT_FOUND)
            if "name" not in params:
                return failed(JsonRpcErrorCode.INVALID_PARAMS, "params.name is missing: give the name of a tool")
            name = params["name"]
            if name in RESERVED_TOOL_NAMES:
                return failed(JsonRpcErrorCode.INVALID_PARAMS, f"{name} is reserved: it is no tool of an agent")
            result = self.session.call_tool(name, dict(params.get("arguments") or {}))
        except KeyError as error:
            return failed(JsonRpcErrorCode.METHOD_NOT_FOUND, str(error.args[0]) if error.args else None)
        except ValueError as error:
            return failed(JsonRpcErrorCode.INVALID_PARAMS, str(error))
        except Exception as error:  # noqa: BLE001  border: a session may raise anything, and the agent goes on
            return failed(JsonRpcErrorCode.INTERNAL_ERROR, str(error) or type(error).__name__)
        # not dumped: a caller in this process gets the tool's own data
        return {"jsonrpc": "2.0", "id": request_id, "result": dict(vars(result))}


class StepEnvSessionAdapter(ResourceSession):
    """A session of a client with `reset`, `step` and perhaps `state`: each call of a tool is one step."""

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

        If the reset fails, closes the client and raises its error.

        Args:
            client: one with a method `sync` is used through its synchronous view. `close` closes it.
            action_builder: of a tool's name and arguments, the action.
            initial_messages_builder: of the reset's result and the task, the prompt.
            tool_result_builder: of name, arguments, the step's result and the state, what the tool returns.
            verify_builder: of transcript, final state, the last step's result (None before a step) and the state, the
                verdict.
            reset_kwargs: further keywords of the reset; they override `seed` and `episode_id`.

        Raises:
            ValueError: for a tool with a reserved name.
        """
        reserved = RESERVED_TOOL_NAMES.intersection(tool.name for tool in tool_specs)
        if reserved:
            raise ValueError(f"tool_specs: {', '.join(sorted(reserved))} is reserved for the episode. Rename the tool")
        self._client = client.sync() if callable(getattr(client, "sync", None)) else client
        self._task = task
        self._tools = list(tool_specs)
        self._action_of = action_builder
        self._messages_of = initial_messages_builder
        self._tool_result_of = tool_result_builder or _default_tool_result
        self._verdict_of = verify_builder or _default_verdict
        self._is_closed = False
        self._last_step: StepResult[Any] | None = None
        keywords = {"seed": seed, "episode_id": episode_id}
        given = {key: value for key, value in keywords.items() if value is not None}
        try:
            self._first: StepResult[Any] = self._client.reset(**given | (reset_kwargs or {}))
            self._state = self._read_state()
        except Exception:
            self.close()
            raise

    def initial_messages(self) -> list[Message]:
        """The prompt."""
        return list(self._messages_of(self._first, self._task))

    def list_tools(self) -> list[Tool]:
        """The tools."""
        return list(self._tools)

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Take one step. Raises KeyError for an unknown tool, and what the client raises."""
        names = [tool.name for tool in self._tools]
        if name not in names:
            raise KeyError(f"tool {name!r} is not among {', '.join(names)}")
        result = self._client.step(self._action_of(name, dict(arguments)))
        self._state = self._read_state()
        self._last_step = result
        return self._tool_result_of(name, dict(arguments), result, self._state)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """The verdict; without a `verify_builder`, the reward of the last step and the environment's state."""
        return self._verdict_of(list(transcript), final_state, self._last_step, self._state)

    def close(self) -> None:
        """Close the client."""
        if not self._is_closed:
            self._is_closed = True
            if callable(getattr(self._client, "close", None)):
                self._client.close()

    def _read_state(self) -> Any:
        return self._client.state() if callable(getattr(self._client, "state", None)) else None


def _default_tool_result(name: str, arguments: dict[str, Any], result: StepResult[Any], state: Any) -> ToolResult:
    data = {"tool_name": name, "arguments": arguments, "observation": result.observation, "reward": result.reward,
            "done": result.done}  # fmt: skip
    return ToolResult(data=data, done=bool(result.done), metadata={"reward": result.reward, "state": _fields(state)})


def _default_verdict(
    transcript: list[Message], final_state: Any, result: StepResult[Any] | None, state: Any
) -> VerifyResult:
    fields = _fields(state)
    has_count = isinstance(fields, dict) and "step_count" in fields
    return VerifyResult(
        env_reward=None if result is None else result.reward,
        done=result is not None and bool(result.done),
        metrics={"step_count": fields["step_count"]} if has_count else {},
        artifacts={"final_state": fields, "transcript_length": len(transcript)},
    )


def _fields(state: Any) -> Any:
    """A state's fields as a dictionary; a state that is no pydantic model as it is."""
    return state.model_dump() if hasattr(state, "model_dump") else state
