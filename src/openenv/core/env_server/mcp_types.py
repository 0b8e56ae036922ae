"""Tools over MCP: the JSON-RPC envelope of `/mcp`, and the actions and observations that list and call tools."""

from enum import IntEnum, StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from openenv.compat.messages import BaseMessage
from openenv.compat.messages import WSMCPMessage as WSMCPMessage
from openenv.compat.messages import WSMCPResponse as WSMCPResponse
from openenv.core.env_server.types import Action, Observation
from openenv.formats.json_text import json_text

RESERVED_TOOL_NAMES = frozenset({"reset", "step", "state", "close"})
"""Names that no tool may have: they are the verbs of the program that runs the episodes of an agent."""

RequestId = str | int | None


class JsonRpcErrorCode(IntEnum):
    """Error codes of JSON-RPC 2.0 (https://www.jsonrpc.org/specification#error_object)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


_DEFAULT_TEXT = {
    JsonRpcErrorCode.PARSE_ERROR: "Parse error",
    JsonRpcErrorCode.INVALID_REQUEST: "Invalid Request",
    JsonRpcErrorCode.METHOD_NOT_FOUND: "Method not found",
    JsonRpcErrorCode.INVALID_PARAMS: "Invalid params",
    JsonRpcErrorCode.INTERNAL_ERROR: "Internal error",
    JsonRpcErrorCode.SERVER_ERROR: "Server error",
}


class McpMethod(StrEnum):
    """Methods of MCP that an environment supports."""

    TOOLS_LIST = "tools/list"
    TOOLS_CALL = "tools/call"


class JsonRpcError(BaseMessage):
    """Why a request failed."""

    code: int
    message: str
    data: Any = None

    @classmethod
    def from_code(cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> Self:
        """The error of that code, with the standard's message unless one is given."""
        return cls(code=int(code), message=message or _DEFAULT_TEXT[code], data=data)


class JsonRpcRequest(BaseMessage):
    """One request."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: RequestId = None


class JsonRpcResponse(BaseModel):
    """The response to a request: a result or an error, never both; a result may be null."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"] = "2.0"
    result: Any = None
    error: JsonRpcError | None = None
    id: RequestId = None

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        """The object that goes over the wire."""
        dumped = super().model_dump(**kwargs)
        outcome = "result" if self.error is None else "error"
        return {"jsonrpc": "2.0", "id": self.id, outcome: dumped[outcome]}

    def model_dump_json(self, **kwargs: Any) -> str:
        """The same as JSON text."""
        return json_text(self.model_dump(mode="json", **kwargs))

    @classmethod
    def success(cls, result: Any, request_id: RequestId = None) -> Self:
        """The response to a request that succeeded."""
        return cls(result=result, id=request_id)

    @classmethod
    def error_response(
        cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None, request_id: RequestId = None
    ) -> Self:
        """The response to a request that failed."""
        return cls(error=JsonRpcError.from_code(code, message, data), id=request_id)


class Tool(BaseMessage):
    """A tool as an agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any] = Field(description="JSON Schema of the tool's arguments")


class ToolErrorType(StrEnum):
    """Why a tool call failed."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(BaseMessage):
    """A call that returned no result."""

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """List the tools. Works before the first reset too."""

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Call a tool by its name."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str = Field(description="Name of the tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="Its arguments by name")


class ListToolsObservation(Observation):
    """The tools of an environment."""

    tools: list[Tool] = Field(description="Each tool with the schema of its arguments")


class CallToolObservation(Observation):
    """The result of a tool, or the error of its call."""

    tool_name: str = Field(description="Name of the tool that was called")
    result: Any = Field(default=None, description="Result of the tool")
    error: ToolError | None = Field(default=None, description="Why there is no result")


def returned_value(result: Any) -> Any:
    """What a tool has returned, from its result: its data, or its texts where the tool declares no type of them."""
    if not isinstance(result, dict) or "data" not in result:
        return result
    content = result.get("content")
    if result["data"] is not None or not isinstance(content, list):
        return result["data"]
    texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts) if texts else None
