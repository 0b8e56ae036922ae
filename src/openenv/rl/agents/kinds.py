"""The kinds of agents: a function of this process, a process, and a process in a sandbox."""

import asyncio
import contextlib
import inspect
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from openenv.auto.environment import load_named
from openenv.rl.agents.program import Agent, AgentFailed, AgentTask, end_of_text
from openenv.rl.agents.sandboxed import SandboxedCommand
from openenv.rl.config.playing import AgentConfig

_OUTPUT_BYTES = 1 << 16
"""The end of a program's output that is kept."""
_END_S = 5.0


def agent_of(config: AgentConfig) -> Agent:
    """The agent of a configuration. Raises LookupError for a function that is not there, and as `SandboxedCommand`."""
    if config.sandbox is not None:
        return SandboxedCommand(config.command, config.sandbox)
    if config.command:
        return Command(config.command)
    return Function(load_named(config.function, "agent.function", "FUNCTION"))


class Command:
    """A program that is a process of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    async def __call__(self, task: AgentTask) -> None:
        """Run it to its end. Raises AgentFailed with its exit code and the end of its output."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, **task.environment, **_without_proxy(os.environ.get("no_proxy", ""))},
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
    return end_of_text(kept)


def _without_proxy(known: str) -> dict[str, str]:
    """The variables with which clients reach the endpoint of this machine without a proxy."""
    names = ",".join(filter(None, (known, "127.0.0.1")))
    return {"no_proxy": names, "NO_PROXY": names}
