"""An agent's program in one episode: what it is given, and how it fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a program is given."""

    instructions: str
    """The rules of the environment."""
    observation: str
    """What it shows first."""
    base_url: str
    """Of the model's service, for OpenAI's clients: it ends with /v1."""
    api_key: str
    mcp_url: str
    """The environment's functions, by MCP."""
    environment: Mapping[str, str]
    """The variables of a process, with the above."""


class AgentFailed(Exception):
    """A program that has not ended as it should. The message has the reason."""


class Agent(Protocol):
    """Plays one episode."""

    async def __call__(self, task: AgentTask) -> Any:
        """Play it. Raises AgentFailed, or whatever the program raises."""
        ...


def end_of_text(output: bytes) -> str:
    """The last lines of an output."""
    return output.decode("utf-8", "replace").strip()[-1000:]
