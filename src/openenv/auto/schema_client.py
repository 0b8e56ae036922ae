"""A typed client for a server of which only the URL is known: its classes come from `/schema`."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from openenv.core.client.address import Address
from openenv.core.client.http_transport import http_client
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction, McpMethod, Tool
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.mcp_client import GenericMCPObservation, parse_tool, rpc_result, tool_result
from openenv.core.schema.message_classes import message_class


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

        Where the environment has tools and its actions are open, its action is CallToolAction.
        """
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
    address = Address(base_url=base_url.rstrip("/"), headers=dict(headers or {}))
    try:
        with http_client(address) as http:
            schemas = _get(http, "/schema")
            metadata = _get(http, "/metadata")
            tools = _tools(http) if _calls_tools(schemas["action"]) else ()
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ServerUnreachable(
            f"{base_url} does not answer as a server of an environment (is the server running?): {error}"
        ) from error
    name = str(metadata.get("name") or "Environment")
    return ServerDescription(
        name="".join(letter for letter in name if letter.isalnum()).removesuffix("Environment") or "Env",
        description=str(metadata.get("description") or ""),
        schemas=schemas,
        tools=tools,
    )


def _get(http: httpx.Client, path: str) -> dict[str, Any]:
    response = http.get(path)
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    return found


def _calls_tools(schema: Mapping[str, Any]) -> bool:
    """Whether an action of this schema may be a tool call: it is one, or has any fields."""
    fields = set(schema.get("properties", {})) - {"metadata"}
    return "tool_name" in fields or (not fields and schema.get("additionalProperties", True) is not False)


def _tools(http: httpx.Client) -> tuple[Tool, ...]:
    """The tools of the environment; none where it has none."""
    call = {"jsonrpc": "2.0", "method": McpMethod.TOOLS_LIST, "params": {}, "id": 1}
    response = http.post("/mcp", json=call)
    response.raise_for_status()
    try:
        return tuple(parse_tool(entry) for entry in rpc_result(response.json())["tools"])
    except OpenEnvError:
        return ()
