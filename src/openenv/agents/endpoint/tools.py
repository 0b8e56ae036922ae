"""Serves the functions of an episode to an agent's program by MCP's Streamable HTTP transport, with JSON answers."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from openenv.agents.sessions import tool_definition
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcResponse, McpMethod, Tool

_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those of the protocol that are spoken, the newest first."""


class ToolAnswer(NamedTuple):
    """What a function returns to the model."""

    text: str
    is_error: bool = False


class ServesTools(Protocol):
    """The functions of one episode."""

    def tools(self) -> Sequence[Tool]:
        """Those that may be called now."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        """Call one. What is wrong with a call is an answer too."""
        ...


async def mcp_answer(served: ServesTools, message: Any) -> dict[str, Any] | None:
    """The JSON-RPC response to a message; None where it needs none."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return _failed(None, JsonRpcErrorCode.INVALID_REQUEST, "send one JSON-RPC 2.0 message")
    method, params, request_id = message.get("method"), message.get("params") or {}, message.get("id")
    if request_id is None:
        return None  # a notification
    if method == "initialize":
        wanted = params.get("protocolVersion")
        result = {
            "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "openenv", "version": "1"},
        }
        return JsonRpcResponse.success(result, request_id).model_dump()
    if method == "ping":
        return JsonRpcResponse.success({}, request_id).model_dump()
    if method == McpMethod.TOOLS_LIST:
        listed = {"tools": [tool_definition(tool) for tool in served.tools()]}
        return JsonRpcResponse.success(listed, request_id).model_dump()
    if method != McpMethod.TOOLS_CALL:
        served_methods = "initialize, ping, tools/list and tools/call are served"
        return _failed(request_id, JsonRpcErrorCode.METHOD_NOT_FOUND, f"{method}: {served_methods}")
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        remedy = "params: give name, a text, and arguments, an object"
        return _failed(request_id, JsonRpcErrorCode.INVALID_PARAMS, remedy)
    answer = await served.call(name, arguments)
    content = [{"type": "text", "text": answer.text}]
    return JsonRpcResponse.success({"content": content, "isError": answer.is_error}, request_id).model_dump()


def _failed(request_id: Any, code: JsonRpcErrorCode, reason: str) -> dict[str, Any]:
    return JsonRpcResponse.error_response(code, reason, request_id=request_id).model_dump()
