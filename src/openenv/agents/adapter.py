"""The interface to an agent's program that holds a conversation turn by turn."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar

from openenv.agents.config import HarnessConfig
from openenv.agents.events import HarnessEvent, HarnessEventType, HarnessResponse
from openenv.core.env_server.mcp_types import Tool
from openenv.core.errors import OpenEnvError


class HarnessError(OpenEnvError):
    """A harness failed."""


class HarnessStartupError(HarnessError):
    """The program did not start, or was not ready in time."""


class HarnessNotRunningError(HarnessError):
    """The program does not run."""


class HarnessTurnTimeoutError(HarnessError):
    """A turn took longer than its limit."""


class AgenticHarnessAdapter(ABC):
    """Starts an agent's program and talks to it. One instance owns one program.

    `HarnessEnvironment` calls `inject_tools`, then `start`, then `send_message` for each turn.
    """

    BUILTIN_TOOL_NAMES: ClassVar[frozenset[str]] = frozenset()
    """Names of the tools that the program has by itself; an environment's tool of such a name is renamed."""

    def __init__(self, config: HarnessConfig) -> None:
        self.config = config

    @abstractmethod
    async def inject_tools(self, tools: list[Tool], bridge_url: str | None = None) -> None:
        """Configure the environment's tools before the program starts. bridge_url: of the MCP server that has them."""

    @abstractmethod
    async def start(self, working_directory: str) -> None:
        """Start the program. Raises HarnessStartupError."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the program, if it runs."""

    @abstractmethod
    async def is_alive(self) -> bool:
        """Whether the program runs."""

    @abstractmethod
    def send_message_streaming(self, message: str) -> AsyncIterator[HarnessEvent]:
        """The events of one turn, as they happen. The last one is of type TURN_COMPLETE."""

    async def send_message(self, message: str) -> HarnessResponse:
        """The outcome of one turn. Raises HarnessError when the last of its events is not TURN_COMPLETE."""
        events = [event async for event in self.send_message_streaming(message)]
        if not events or events[-1].type is not HarnessEventType.TURN_COMPLETE:
            raise HarnessError(f"{self.config.name}: the turn ended after {len(events)} events without TURN_COMPLETE")
        data = events[-1].data
        return HarnessResponse(
            response=str(data.get("response", "")), events=events, done=bool(data.get("done", False))
        )
