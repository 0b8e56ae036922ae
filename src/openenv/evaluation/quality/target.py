"""The target of the checks, a server with its schemas, and the result of a check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.net.http_clients import async_http_client
from openenv.evaluation.quality.probe.raw_client import RawClient, ServerAddress
from openenv.evaluation.quality.probe.sample_policies import FirstActionPolicy, RandomSamplePolicy
from openenv.hosting.local_process import LocalServer

Status = Literal["pass", "warn", "fail", "skip"]


RAISES_REMEDY = "correct this method: the server's log has the traceback of what it raised"
"""What the author of an environment does where a request that must succeed is refused."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Status, observation and remedy."""

    status: Status
    """`fail`: the environment violates the specification. `warn`: it conforms, but should be reviewed. `skip`: the
    check does not apply or could not be done; `seen` has the reason."""
    seen: str
    """What the check observed, with figures."""
    remedy: str = ""
    """What the author can do; empty if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A row of the table: the result of a check, its name and its duration."""

    check: str
    result: CheckResult
    took_s: float


def passed(seen: str) -> CheckResult:
    """The environment conforms."""
    return CheckResult("pass", seen)


def warned(seen: str, remedy: str) -> CheckResult:
    """The specification allows it, but it is probably a mistake."""
    return CheckResult("warn", seen, remedy)


def failed(seen: str, remedy: str) -> CheckResult:
    """The environment violates the specification."""
    return CheckResult("fail", seen, remedy)


def skipped(reason: str) -> CheckResult:
    """The check does not apply to this environment."""
    return CheckResult("skip", reason)


@dataclass(kw_only=True)
class Target:
    """A server that is checked, and what the first checks found out about it."""

    address: ServerAddress
    seed: int
    reset: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of every reset."""
    server: LocalServer | None = None
    """The server's process, if it was started for the check."""
    start_another: Callable[[], LocalServer] | None = None
    """Creates a second server of the same environment; None if only a URL is known."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """The response of `/schema`: action, observation, state, perhaps reset_observation."""
    tools: Sequence[Tool] = ()
    """The tools of the environment, if its actions may call some."""

    @property
    def action_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the actions; where the environment has tools, of their calls."""
        schema: Mapping[str, Any] = self.schemas.get("action", {})
        return _schema_of_calls(self.tools, schema) if self.tools else schema

    def client(
        self, *, extended: bool = False, session_id: str | None = None, retry_when_full: bool = True
    ) -> RawClient:
        """A new client, not yet connected. For the arguments see `RawClient`."""
        return RawClient(
            self.address, extended=extended, session_id=session_id, retry_when_full=retry_when_full, reset=self.reset
        )

    def random_policy(self, purpose: str) -> RandomSamplePolicy:
        """A random policy. Equal seeds and purposes give equal choices."""
        return RandomSamplePolicy(self.action_schema, f"{self.seed} {purpose}")

    def first_action_policy(self) -> FirstActionPolicy:
        """A policy that always chooses the same action."""
        return FirstActionPolicy(self.action_schema)

    def http(self) -> httpx.AsyncClient:
        """A new HTTP client for the server's routes."""
        address = self.address
        return async_http_client(
            address.base_url,
            base_url=address.base_url,
            headers=dict(address.headers),
            timeout=address.timeout_s,
            trust_env=False,
        )


def _schema_of_calls(tools: Sequence[Tool], action_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an action that calls one of the tools with arguments that its own schema allows."""
    schema = CallToolAction.model_json_schema()
    names, properties = {"type": "string", "enum": [tool.name for tool in tools]}, schema["properties"]
    parts = {name: part for tool in tools for name, part in tool.input_schema.get("$defs", {}).items()}
    calls = [
        {
            "type": "object",
            "properties": {
                "type": properties["type"],
                "tool_name": {"const": tool.name},
                "arguments": dict(tool.input_schema),
            },
            "required": ["type", "tool_name", "arguments"],
        }
        for tool in tools
    ]
    return {
        "type": "object",
        "properties": {**properties, "tool_name": names},
        "required": ["tool_name"],
        "additionalProperties": action_schema.get("additionalProperties", True),
        "oneOf": calls,
        "$defs": parts,
    }
