"""An agent's program in one episode: what it is given, and how it is started and ended."""

import asyncio
import contextlib
import inspect
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openenv.auto.environment import load_named
from openenv.rl.config.playing import AgentConfig

_OUTPUT_BYTES = 1 << 16
"""The end of a program's output that is kept."""
_END_S = 5.0


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


class Command:
    """A program that is a process of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    async def __call__(self, task: AgentTask) -> None:
        """Run it to its end. Raises AgentFailed with its exit code and the end of its output."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, **task.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output = await _end_of(process.stdout)
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it has started too
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_S)
        if code:
            raise AgentFailed(f"it ended with {code}: {output}")


def agent_of(config: AgentConfig) -> Agent:
    """The agent of a configuration. Raises LookupError for a function that is not there."""
    return (
        Command(config.command)
        if config.command
        else Function(load_named(config.function, "agent.function", "FUNCTION"))
    )


class Function:
    """A function of this process. One that is no coroutine function runs in a thread."""

    def __init__(self, function: Callable[[AgentTask], Any]) -> None:
        self._function = function

    async def __call__(self, task: AgentTask) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(task)
        return await asyncio.to_thread(self._function, task)


async def _end_of(stream: asyncio.StreamReader | None) -> str:
    """The end of what a stream has."""
    assert stream is not None
    kept = b""
    while part := await stream.read(_OUTPUT_BYTES):
        kept = (kept + part)[-_OUTPUT_BYTES:]
    return kept.decode("utf-8", "replace").strip()[-1000:]
