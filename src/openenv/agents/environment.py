"""An environment whose episodes are conversations with an agent's program."""

import asyncio
import logging
import uuid
from typing import Any

from openenv.agents.adapter import (
    AgenticHarnessAdapter,
    HarnessError,
    HarnessNotRunningError,
    HarnessTurnTimeoutError,
)
from openenv.agents.bridge import HarnessMCPBridge, build_bridge_server
from openenv.agents.events import HarnessEvent, HarnessEventType, events_to_metadata
from openenv.agents.tools import resolve_tool_conflicts
from openenv.core.env_server.interfaces import Transform
from openenv.core.env_server.mcp_environment import MCPEnvironment, get_server_tools
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction, Tool
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubric import Rubric
from openenv.core.utils import run_async_safely

log = logging.getLogger(__name__)


class HarnessAction(Action):
    """One message to the agent."""

    message: str


class HarnessEnvironment(MCPEnvironment):
    """Each reset starts the agent's program, and each step with a HarnessAction is one turn of the conversation.

    The observation's metadata has the agent's `response`, the `turn_events` and the `turn_number`; its reward is the
    rubric's. Tool actions list and call the environment's own tools, which the agent has, too. A server needs a factory
    that makes an adapter for each environment. A subclass whose programs do not disturb each other, as two in one
    working directory would, may set `SUPPORTS_CONCURRENT_SESSIONS`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = False

    def __init__(
        self,
        adapter: AgenticHarnessAdapter,
        mcp: Any = None,
        rubric: Rubric | None = None,
        transform: Transform[Any] | None = None,
    ) -> None:
        """mcp: a FastMCP server with the tools of the environment; None: it has none. Nothing starts before `reset`."""
        if mcp is None:
            from fastmcp import FastMCP  # the extra `mcp`

            mcp = FastMCP("harness")
        super().__init__(mcp, transform=transform)
        self.rubric = rubric
        self.adapter = adapter
        self._bridge: HarnessMCPBridge | None = None
        self._state = State()
        self._events: list[HarnessEvent] = []
        self._is_in_episode = False

    @property
    def state(self) -> State:
        """Identity of the episode, and its turns."""
        return self._state

    @property
    def trajectory(self) -> list[HarnessEvent]:
        """The events of all turns of the episode."""
        return list(self._events)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """`reset_async` for callers without an event loop."""
        return run_async_safely(self.reset_async(seed, episode_id, **kwargs))

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """`step_async` for callers without an event loop."""
        return run_async_safely(self.step_async(action, timeout_s, **kwargs))

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Start the program again, with the tools of the environment. The seed has no effect.

        The metadata has `injected_tools`. Raises HarnessStartupError, ValueError for names of tools that clash, and
        what the adapter and the rubric raise; the program and its tools are then stopped.
        """
        await self._end_episode()
        try:
            tools = await self._inject_tools()
            await self.adapter.start(self.adapter.config.working_directory)
            self._state = State(episode_id=episode_id or str(uuid.uuid4()))
            self._events = []
            await self._reset_rubric_async()
            self._is_in_episode = True
            metadata = {"episode_id": self._state.episode_id, "injected_tools": [tool.name for tool in tools]}
            return self._apply_transform(Observation(reward=0.0, metadata=metadata))
        except BaseException:
            await self._abandon_episode()
            raise

    async def _inject_tools(self) -> list[Tool]:
        own = [
            Tool(name=name, description=tool.description or "", input_schema=tool.parameters)
            for name, tool in (await asyncio.to_thread(get_server_tools, self.mcp_server)).items()
        ]
        tools = resolve_tool_conflicts(own, self.adapter.BUILTIN_TOOL_NAMES)
        url = None
        if tools:
            renames = {new.name: old.name for new, old in zip(tools, own, strict=True) if new.name != old.name}
            self._bridge = HarnessMCPBridge(await build_bridge_server(self.mcp_server, renames))
            url = await asyncio.to_thread(self._bridge.start)
        await self.adapter.inject_tools(tools, bridge_url=url)
        return tools

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Hold one turn, or list or call tools.

        timeout_s: for the turn; None: `session_timeout_s` of the configuration. A turn that takes longer, or in which
        the adapter raises HarnessError, ends the episode: its observation is done, and the metadata has `error` and
        an `error_type`, `turn_timeout` or `harness_crashed`. Raises HarnessNotRunningError outside of an episode,
        TypeError for another action, and what the adapter, the rubric and the transform raise otherwise; that ends
        the episode too.
        """
        if isinstance(action, ListToolsAction | CallToolAction):
            return await super().step_async(action, timeout_s, **kwargs)
        if not isinstance(action, HarnessAction):
            raise TypeError(
                f"action={type(action).__name__}: give a HarnessAction, a ListToolsAction or a CallToolAction"
            )
        if not self._is_in_episode:
            raise HarnessNotRunningError(f"{self.adapter.config.name} has no episode: reset before the step")
        try:
            observation = await self._turn(action.message, timeout_s)
            if self._is_in_episode:
                observation.reward = await self._apply_rubric_async(action, observation)
            return self._apply_transform(observation)
        except BaseException:
            await self._abandon_episode()
            raise

    async def _turn(self, message: str, timeout_s: float | None) -> Observation:
        limit_s = self.adapter.config.session_timeout_s if timeout_s is None else timeout_s
        try:
            if not await self.adapter.is_alive():
                raise HarnessError(f"{self.adapter.config.name} has ended by itself")
            async with asyncio.timeout(limit_s):
                turn = await self.adapter.send_message(message)
        except TimeoutError:
            return await self._failed("turn_timeout", f"the turn took longer than its limit of {limit_s:g} s")
        except HarnessTurnTimeoutError as error:
            return await self._failed("turn_timeout", str(error))
        except HarnessError as error:
            return await self._failed("harness_crashed", str(error))
        self._state.step_count += 1
        self._events += turn.events
        metadata: dict[str, Any] = {
            "response": turn.response,
            "turn_events": events_to_metadata(turn.events),
            "turn_number": self._state.step_count,
        }
        return Observation(done=turn.done, metadata=metadata)

    async def _failed(self, error_type: str, message: str) -> Observation:
        """The last observation of an episode that ends with an error."""
        await self._abandon_episode()
        event = HarnessEvent(type=HarnessEventType.ERROR, data={"message": message, "recoverable": False})
        self._events.append(event)
        failure = {"error": message, "error_type": error_type, "turn_events": events_to_metadata([event])}
        return Observation(done=True, reward=0.0, metadata=failure)

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Not reached: `step_async` takes every action."""
        raise TypeError(f"action={type(action).__name__}: give a HarnessAction")

    async def _end_episode(self) -> None:
        self._is_in_episode = False
        try:
            await self.adapter.stop()
        finally:
            if self._bridge is not None:
                await asyncio.to_thread(self._bridge.stop)
                self._bridge = None

    async def _abandon_episode(self) -> None:
        """End the episode, also when the caller is cancelled meanwhile. An error of the end is logged: the caller has
        one to raise, or nothing left to do."""
        end = asyncio.create_task(self._end_episode())
        cancelled = None
        while not end.done():
            try:
                await asyncio.wait([end])
            except asyncio.CancelledError as error:
                cancelled = error
        if (failure := end.exception()) is not None:
            log.warning("%s did not stop as it should", self.adapter.config.name, exc_info=failure)
        if cancelled is not None:
            raise cancelled

    def close(self) -> None:
        """Stop the program and its tools. An error of the adapter is logged."""
        run_async_safely(self._abandon_episode())
        super().close()
