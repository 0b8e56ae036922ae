"""An environment of the Open Reward Standard as an environment of this package.

Its class lists splits, tasks and tools; an instance has the prompt of a task and runs its tools. The class is of the
package `openreward`, which this module does not import.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import uuid4

from pydantic import Field
from pydantic_core import to_jsonable_python

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.utils import run_async_safely

_ERROR_TYPES = {"not_found": ToolErrorType.TOOL_NOT_FOUND, "input_validation": ToolErrorType.INVALID_ARGS}


class OrsPrompt(Observation):
    """The first observation of an episode. The metadata has the prompt's blocks, and the task."""

    prompt: str = Field(description="The task in words")


class OrsState(State):
    """The task of an episode."""

    split: str | None = Field(default=None, description="Split of the task; null for a task that the client gave")
    index: int | None = Field(default=None, description="Number of the task in its split")
    task_spec: Any = Field(default=None, description="The task")


class OrsEnvironment(Environment[Action, Observation, OrsState]):
    """Plays the tasks of `source`. Subclasses set it."""

    source: ClassVar[Any]
    """The class of the environment."""

    def __init__(self) -> None:
        self._played: Any = None
        self._state = OrsState()

    # Tasks, as the routes of a server list them.

    async def list_splits(self) -> list[Any]:
        """The splits, each with its name and type."""
        splits = to_jsonable_python(await _called(self.source.list_splits))
        return [{"name": split, "type": "validation"} if isinstance(split, str) else split for split in splits]

    async def list_tasks(self, split: str) -> list[Any]:
        """All tasks of a split."""
        tasks: list[Any] = to_jsonable_python(await _called(self.source.list_tasks, split))
        return tasks

    async def num_tasks(self, split: str) -> int:
        """The number of tasks of a split."""
        return int(await _called(self.source.num_tasks, split))

    async def get_task(self, split: str, index: int) -> Any:
        """One task."""
        return to_jsonable_python(await _called(self.source.get_task, split, index))

    async def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """The tasks from `start` to before `stop`."""
        tasks: list[Any] = to_jsonable_python(await _called(self.source.get_task_range, split, start, stop))
        return tasks

    # Episodes

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_spec: Any = None,
        split: str | None = None,
        index: int | None = None,
        secrets: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> OrsPrompt:
        """Begin the task `index` of a split, or a task that is given.

        Without either it is one of the first split: the one that the seed names (equal seeds, equal tasks), or the
        first. Raises ValueError for a split without an index, and for other keywords.
        """
        if kwargs:
            raise ValueError(f"reset takes task_spec, split, index and secrets; got {', '.join(sorted(kwargs))}")
        if (split is None) != (index is None):
            raise ValueError("give split and index together")
        if task_spec is None:
            if split is None or index is None:
                split = str((await self.list_splits())[0]["name"])
                index = (seed or 0) % await self.num_tasks(split)
            task_spec = await self.get_task(split, index)
        await self._leave()
        self._played = self.source(task_spec=task_spec, secrets=secrets or {})
        await _called(self._played.setup)
        blocks = to_jsonable_python(await _called(self._played.get_prompt))
        self._state = OrsState(episode_id=episode_id or str(uuid4()), split=split, index=index, task_spec=task_spec)
        return OrsPrompt(prompt=_text(blocks), metadata={"task_spec": task_spec, "prompt": blocks})

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """List the tools, or call one. Raises ValueError before the first reset and for another action."""
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=await self._tools())
        if not isinstance(action, CallToolAction):
            raise ValueError(f"{type(action).__name__}: call one of the tools, which list_tools shows")
        if self._played is None:
            raise ValueError("step came before reset: there is no task yet. Call reset() first")
        made = await self._played._call_tool(action.tool_name, action.arguments)
        made = getattr(made, "root", made)
        self._state.step_count += 1
        if not made.ok:
            kind = _ERROR_TYPES.get(str(getattr(made, "reason", "")), ToolErrorType.EXECUTION_ERROR)
            error = ToolError(error_type=kind, message=str(made.error))
            return CallToolObservation(tool_name=action.tool_name, error=error)
        blocks, metadata = to_jsonable_python((made.output.blocks, made.output.metadata or {}))
        return CallToolObservation(
            tool_name=action.tool_name, result={"blocks": blocks, "metadata": metadata}, reward=made.output.reward,
            done=made.output.finished, metadata=metadata,
        )  # fmt: skip

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> OrsPrompt:
        """`reset_async`, for programs without an event loop."""
        return run_async_safely(self.reset_async(seed, episode_id, **kwargs))

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """`step_async`, for programs without an event loop."""
        return run_async_safely(self.step_async(action, timeout_s, **kwargs))

    @property
    def state(self) -> OrsState:
        """The task, and the number of tool calls."""
        return self._state

    def close(self) -> None:
        """End the task."""
        if self._played is not None:
            run_async_safely(self._leave())

    async def _leave(self) -> None:
        played, self._played = self._played, None
        if played is not None:
            await _called(played.teardown)

    async def _tools(self) -> list[Tool]:
        listed = [*(await _called(self.source.list_tools)).tools]
        if self._played is not None:
            listed += (await _called(self._played.list_task_tools)).tools
        nothing = {"type": "object", "properties": {}}
        return [
            Tool(name=tool.name, description=tool.description or "", input_schema=dict(tool.input_schema or nothing))
            for tool in listed
        ]


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function or coroutine function returns. A function runs in a thread: authors' code may wait."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    made = await asyncio.to_thread(function, *arguments)
    return await made if inspect.isawaitable(made) else made


def _text(blocks: Any) -> str:
    """The texts of a prompt's blocks."""
    return "\n".join(block["text"] for block in blocks if isinstance(block, dict) and "text" in block)
