"""A typed client for a server of which only the URL is known: its classes come from `/schema`."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx
import orjson

from openenv.auto.message_classes import message_class
from openenv.core.client.address import Address
from openenv.core.client.http_transport import async_client_of
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction, McpMethod, Tool
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import MessageTooBig, OpenEnvError, ServerUnreachable
from openenv.core.mcp_client import GenericMCPObservation, parse_tool, rpc_result, tool_result
from openenv.core.net.http_clients import async_whole_response
from openenv.core.utils import check_headers, check_type, run_async_safely

_MAX_BYTES = 8 << 20
"""Of one answer: its schemas, its name, or its tools."""
_ANSWER_TIMEOUT_S = 10.0
"""Limit of one whole answer, however it arrives."""
_MAX_DEPTH = 64
"""Of schemas and tools: each level takes several calls of the functions that make classes of them."""
_Unreadable = (ValueError, LookupError, TypeError, AttributeError, NameError, RuntimeError)
"""What a schema raises that describes no message: pydantic's errors, and those of a part that is missing or of another
kind than JSON Schema has it there."""


@dataclass(frozen=True, kw_only=True)
class ServerDescription:
    """The name, the schemas and the tools of a server's environment."""

    name: str
    description: str
    schemas: Mapping[str, Any]
    """JSON Schemas of `action`, `observation` and `state`."""
    tools: tuple[Tool, ...]
    """Its tools, where its actions call tools."""

    def client_class(self) -> type[EnvClient[Any, Any, Any]]:
        """A client class with message classes made from the schemas.

        Where the environment has tools and its actions are open, its action is CallToolAction. Raises ServerUnreachable
        for schemas that describe no messages.
        """
        try:
            return self._made_class()
        except _Unreadable as error:
            raise ServerUnreachable(f"/schema of {self.name} describes no messages: {error!r:.500}") from error

    def _made_class(self) -> type[EnvClient[Any, Any, Any]]:
        action = CallToolAction if self.tools else message_class(self.schemas["action"], Action)
        typed: Any = EnvClient.__class_getitem__((action, self._observation_class(), self._state_class()))  # type: ignore[attr-defined]
        return types.new_class(f"{self.name}Client", (*((_ToolClient,) if self.tools else ()), typed))

    def _observation_class(self) -> type[Observation]:
        """The class of observations. Beside tools it is the one of those that are no results of tools."""
        schema = self.schemas["observation"]
        if self.tools:
            schema = self.schemas.get("reset_observation", schema)
            if "tool_name" in schema.get("properties", {}):
                return GenericMCPObservation
        return message_class(schema, Observation)

    def _state_class(self) -> type[State]:
        return message_class(self.schemas.get("state", {}), State)


class _ToolClient:
    """Reads the observations of an environment with tools, which are of several classes."""

    _message_classes: ClassVar[tuple[Any, Any, Any]]

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Observation]:
        return tool_result(payload, self._message_classes[1])


def describe_server(base_url: str, *, headers: Mapping[str, str] | None = None) -> ServerDescription:
    """Ask a server for the name, the schemas and the tools of its environment.

    headers: sent with each request, such as `Authorization: Bearer ...`. Raises ServerUnreachable if it does not answer
    like a server of environments.
    """
    check_type("base_url", base_url, str, "the URL of a server")
    check_headers(headers)
    address = Address(base_url=base_url.rstrip("/"), headers=dict(headers or {}))
    try:
        schemas, metadata, tools = run_async_safely(_answers(address))
    except (httpx.HTTPError, MessageTooBig, *_Unreadable) as error:
        hint = " (is the server running?)" if isinstance(error, httpx.TransportError) else ""
        raise ServerUnreachable(f"{base_url} does not answer as a server of an environment{hint}: {error}") from error
    name = str(metadata.get("name") or "Environment")
    return ServerDescription(
        name="".join(letter for letter in name if letter.isalnum()).removesuffix("Environment") or "Env",
        description=str(metadata.get("description") or ""),
        schemas=schemas,
        tools=tools,
    )


async def _answers(address: Address) -> tuple[dict[str, Any], dict[str, Any], tuple[Tool, ...]]:
    """The schemas, the metadata and the tools."""
    async with async_client_of(address) as http:
        schemas, metadata = [await _answer(http, "GET", path) for path in ("/schema", "/metadata")]
        return schemas, metadata, await listed_tools(http, schemas["action"])


async def _answer(http: httpx.AsyncClient, method: str, path: str, **request: Any) -> dict[str, Any]:
    """The JSON object of an answer. Raises what httpx does, MessageTooBig, and ValueError for any other answer."""
    timeout = httpx.Timeout(_ANSWER_TIMEOUT_S)
    response = await async_whole_response(http, _MAX_BYTES, method=method, url=path, timeout=timeout, **request)
    if response.is_error:
        raise ValueError(f"{path} answers {response.status_code}: {_reason(response):.500}")
    try:
        found = orjson.loads(response.content)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON that can be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no JSON object")
    _refuse_deep(path, found)
    return found


def _reason(response: httpx.Response) -> str:
    """The message of an error, or the body where it has none."""
    try:
        return str(orjson.loads(response.content)["message"])
    except (ValueError, LookupError, TypeError):
        return response.text


def _refuse_deep(path: str, found: Any) -> None:
    level = [found]
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError(f"{path} is nested more than {_MAX_DEPTH} deep")


def _calls_tools(schema: Mapping[str, Any]) -> bool:
    """Whether an action of this schema may be a tool call: it is one, or has any fields."""
    fields = set(schema.get("properties", {})) - {"metadata"}
    return "tool_name" in fields or (not fields and schema.get("additionalProperties", True) is not False)


async def listed_tools(http: httpx.AsyncClient, action_schema: Mapping[str, Any]) -> tuple[Tool, ...]:
    """The tools of a server whose actions have this JSON Schema; none where its actions cannot call any.

    Raises httpx.HTTPError, MessageTooBig, and ValueError for an answer that is no JSON object.
    """
    if not _calls_tools(action_schema):
        return ()
    call = {"jsonrpc": "2.0", "method": McpMethod.TOOLS_LIST, "params": {}, "id": 1}
    answer = await _answer(http, "POST", "/mcp", json=call)
    try:
        return tuple(parse_tool(entry) for entry in rpc_result(answer)["tools"])
    except OpenEnvError:
        return ()
