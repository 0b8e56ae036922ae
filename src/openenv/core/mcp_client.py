"""Clients of environments with tools: list them, call them by name."""

import asyncio
import itertools
from typing import Any

from pydantic import ConfigDict

from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction as CallToolAction
from openenv.core.env_server.mcp_types import CallToolObservation, ListToolsObservation, McpMethod, Tool, returned_value
from openenv.core.env_server.mcp_types import ListToolsAction as ListToolsAction
from openenv.core.env_server.mcp_types import ToolError as ToolError
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import EnvironmentFault, error_from_wire
from openenv.core.utils import check_type
from openenv.core.wire.client_codec import Request
from openenv.core.wire.message_fields import read_message


class GenericMCPObservation(Observation):
    """The observation of an environment with tools after an action that is not about tools, with any fields."""

    model_config = ConfigDict(extra="allow")


def tool_result(payload: dict[str, Any], other: type[Observation]) -> StepResult[Observation]:
    """The result of a step that lists or calls tools. other: the class of an observation that does neither."""
    fields = payload["observation"]
    reward, done = payload.get("reward"), payload.get("done", False)
    if "tools" in fields:
        fields = {**fields, "tools": [parse_tool(entry) for entry in fields["tools"]]}
        observation_cls: type[Observation] = ListToolsObservation
    else:
        observation_cls = CallToolObservation if "tool_name" in fields else other
    observation = read_message(observation_cls, {**fields, "reward": reward, "done": done})
    return StepResult(observation, reward, done, payload.get("metadata"))


class MCPClientBase(EnvClient[Any, Observation, State]):
    """A session with an environment that has tools, which are there beside its verbs.

    Methods return their results, or in asynchronous mode coroutines. A client that was not entered becomes asynchronous
    when an event loop runs, because code for the published client awaits its tools.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: ContainerProvider | RuntimeProvider | None = None,
        mode: str | None = None,
        max_message_size_mb: float = 100.0,
        headers: dict[str, str] | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        """As EnvClient, whose parameters come in another order. Raises ValueError for a mode other than `production`:
        tools are an agent's side of an environment."""
        check_type("mode", mode, str, "'production'", optional=True)
        if mode is not None and mode.lower() != "production":
            raise ValueError(f"mode={mode!r}: {type(self).__name__} is for 'production'; in simulation use EnvClient")
        super().__init__(
            base_url,
            connect_timeout_s,
            message_timeout_s,
            max_message_size_mb,
            websocket_ping_interval_s,
            websocket_ping_timeout_s,
            provider,
            "production",
            headers,
            session_id=session_id,
        )
        self._request_numbers = itertools.count(1)
        self._tools: list[Tool] | None = None

    def list_tools(self, use_cache: bool = True) -> Any:
        """The environment's tools (list of Tool). use_cache: whether to return an earlier result.

        Raises NotSupported or EnvironmentFault when it has none, and what any verb raises.
        """
        if use_cache and self._tools is not None:
            return self._settled(self._tools)
        return self._request_tools(McpMethod.TOOLS_LIST, {}, self._read_tools)

    def _request_tools(self, method: str, params: dict[str, Any], read: Any) -> Any:
        call = {"jsonrpc": "2.0", "method": method, "params": params, "id": next(self._request_numbers)}
        self._become_async_in_a_loop()
        request = Request("mcp", call, traceparent=self.trace_context and self.trace_context())
        return self._session.request(request, lambda response: read(rpc_result(response)))

    def _settled(self, value: Any) -> Any:
        self._become_async_in_a_loop()
        return _coroutine_of(value) if self.is_async else value

    def _become_async_in_a_loop(self) -> None:
        if self.is_async or self._session.is_connected:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._use_async()

    def _read_tools(self, result: dict[str, Any]) -> list[Tool]:
        self._tools = [parse_tool(entry) for entry in result["tools"]]
        return self._tools

    def _step_payload(self, action: Any) -> dict[str, Any]:
        """The JSON object of any action. Raises TypeError for what is neither an action nor a dictionary."""
        if isinstance(action, Action):
            return action.model_dump(mode="json", exclude=None if action.metadata else {"metadata"})
        if isinstance(action, dict):
            return action
        raise TypeError(f"{type(self).__name__}.step takes an Action or a dictionary, not {type(action).__name__}")

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Observation]:
        """The result, its observation of the class that its fields call for."""
        return tool_result(payload, GenericMCPObservation)


class MCPToolClient(MCPClientBase):
    """Calls tools by name.

    Example:
        with MCPToolClient(base_url="http://localhost:8000") as env:
            env.reset()
            print([tool.name for tool in env.list_tools()])
            print(env.call_tool("echo_message", message="hello"))

        async with MCPToolClient(base_url="http://localhost:8000") as env:
            print(await env.call_tool("echo_message", message="hello"))
    """

    def call_tool(self, name: str, /, **kwargs: Any) -> Any:
        """What the tool of that name returns for these arguments. Raises EnvironmentFault with what went wrong."""
        return self._request_tools(McpMethod.TOOLS_CALL, {"name": name, "arguments": kwargs}, returned_value)

    def get_tool(self, name: str) -> Any:
        """The tool of that name, or None."""
        return self._of_tools(lambda tools: next((tool for tool in tools if tool.name == name), None))

    def has_tool(self, name: str) -> Any:
        """Whether there is a tool of that name."""
        return self._of_tools(lambda tools: any(tool.name == name for tool in tools))

    def _of_tools(self, read: Any) -> Any:
        tools = self.list_tools()
        return _read_later(tools, read) if self.is_async else read(tools)


def rpc_result(response: dict[str, Any]) -> Any:
    """The result in a JSON-RPC response. Raises the exception that its error stands for."""
    error = response.get("error")
    if error is None:
        return response.get("result")
    details = error.get("data")
    if isinstance(details, dict) and "code" in details:
        raise error_from_wire({"message": error["message"], **details})
    raise EnvironmentFault(error["message"])


def parse_tool(entry: dict[str, Any]) -> Tool:
    """A tool of a `tools/list` result, in MCP's spelling of its fields or in that of the observation."""
    schema = entry.get("input_schema", entry.get("inputSchema", {}))
    return Tool(name=entry["name"], description=entry.get("description") or "", input_schema=schema)


async def _coroutine_of(value: Any) -> Any:
    return value


async def _read_later(tools: Any, read: Any) -> Any:
    return read(await tools)
