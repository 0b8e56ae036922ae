"""The tools of an environment, over FastMCP or as actions that list and call them."""

from typing import Any, Protocol

from pydantic_core import to_json

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.types import Action
from openenv.core.wire.json_codec import to_plain_or_text


class ToolServer(Protocol):
    """Lists and calls tools as MCP does."""

    async def list_tools(self) -> list[Any]:
        """Each tool, in MCP's own shape: name, description, inputSchema and more."""
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool. Raises what the tool raises."""
        ...


def tools_of(env: Environment, action_cls: type[Action]) -> ToolServer | None:
    """The tools of an environment, or None when it has none.

    It may have `mcp_tools`, as MCPEnvironment does, an `mcp_client` of FastMCP, or take tool actions in its `step`.
    """
    tools: ToolServer | None = getattr(env, "mcp_tools", None)
    if tools is not None:
        return tools
    client = getattr(env, "mcp_client", None)
    if client is not None:
        return _ClientTools(client)
    return _ActionTools(env) if _takes_tool_actions(action_cls) else None


def _takes_tool_actions(action_cls: type[Action]) -> bool:
    """Whether the class, or what its own `model_validate` returns, is that of an action which lists tools."""
    if action_cls in (CallToolAction, ListToolsAction):
        return True
    try:
        return isinstance(action_cls.model_validate({"type": "list_tools"}), ListToolsAction)
    except ValueError:  # pydantic's error is one
        return False


class _ClientTools:
    """Tools behind a FastMCP client that the author made."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_tools(self) -> list[Any]:
        async with self._client:
            return list(await self._client.list_tools())

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        async with self._client:
            return await self._client.call_tool(name, arguments)


class _ActionTools:
    """Tools of an environment that handles the tool actions itself."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def list_tools(self) -> list[Any]:
        return list(getattr(await self._env.step_async(ListToolsAction()), "tools", ()))

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self._env.step_async(CallToolAction(tool_name=name, arguments=arguments))


def result_json(result: Any) -> bytes:
    """A tool's result as JSON. Models and arrays are encoded; any other object becomes its text."""
    return to_json(result, by_alias=False, inf_nan_mode="null", fallback=to_plain_or_text)
