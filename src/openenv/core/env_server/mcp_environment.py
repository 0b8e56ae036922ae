"""Environments whose actions are tool calls, written as a FastMCP server."""

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from openenv.core.env_server.execution.background_loop import BackgroundLoop
from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.runner.environment_calls import without_paths
from openenv.core.env_server.types import Action, Observation, ServerMode
from openenv.core.utils import run_async_safely as run_async_safely

if TYPE_CHECKING:
    from fastmcp import FastMCP

ResultT = TypeVar("ResultT")

VALID_MODES = frozenset(mode.value for mode in ServerMode)
"""Modes of a server for which a tool may be."""
MCP_TOOL_CALL_TIMEOUT = 30.0
"""The most seconds that a tool may take, unless the step has a limit of its own."""

_WRONG_ARGUMENTS = re.compile(r"\d+ validation errors? for call\[")


class MCPEnvironment(Environment):
    """An environment with tools: `ListToolsAction` lists them, `CallToolAction` calls one, `_step_impl` does the rest.

    Example:
        class Notes(MCPEnvironment):
            def __init__(self) -> None:
                mcp = FastMCP("notes")
                self.notes: list[str] = []

                @mcp.tool
                def write(text: str) -> int:
                    self.notes.append(text)
                    return len(self.notes)

                super().__init__(mcp)

    The tools work before the first reset and after `done` too, and over `/mcp`, where an agent finds them and nothing
    else: no tool may be named reset, step, state or close. One MCP session lasts as long as the environment.
    """

    ALLOWS_STEP_AFTER_DONE: ClassVar[bool] = True
    """A tool decides itself what it does in an episode that is done, as over `/mcp`."""

    def __init__(self, mcp_server: Any, transform: Transform[Any] | None = None) -> None:
        """mcp_server: a FastMCP server. Raises ValueError when one of its tools has a reserved name."""
        super().__init__(transform=transform)
        _refuse_reserved(set(get_server_tools(mcp_server)))
        self.mcp_server = mcp_server
        self.mcp_client: Any = _fastmcp().Client(mcp_server)
        self.mcp_tools = _Tools(self._all_tools)
        self._of_mode: dict[str, FastMCP[Any]] = {}

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """The observation after an action that is no tool call; by default there is none, and ValueError is raised."""
        if not hasattr(self, "mcp_server"):
            raise RuntimeError(
                f"{type(self).__name__} has no tools: call super().__init__(server) in its __init__, with a server of "
                "FastMCP"
            )
        raise ValueError(
            f"action {type(action).__name__}: this environment is played by its tools. Send "
            "CallToolAction(tool_name=..., arguments={...}), or ListToolsAction() for their names"
        )

    def tool(self, mode: str | None = None) -> Callable[[Callable[..., Any]], Any]:
        """Decorator: a further tool, in one mode of the server (`simulation`, `production`) or in both.

        Raises ValueError for another mode and for a reserved name.
        """
        if mode is not None and mode not in VALID_MODES:
            raise ValueError(f"mode={mode!r}: a tool is for simulation, for production, or (None) for both")

        def register(function: Callable[..., Any]) -> Any:
            _refuse_reserved({function.__name__})
            server = self.mcp_server if mode is None else self._of_mode.setdefault(mode, _fastmcp().FastMCP(mode))
            return server.tool(function)

        return register

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """List the tools, call one, or pass the action to `_step_impl`. timeout_s: the most that a tool may take."""
        if isinstance(action, ListToolsAction | CallToolAction):
            return self.mcp_tools.run(partial(self._tool_step, action, timeout_s)).result()
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """The same without blocking the event loop while a tool runs."""
        if isinstance(action, ListToolsAction | CallToolAction):
            return await asyncio.wrap_future(self.mcp_tools.run(partial(self._tool_step, action, timeout_s)))
        observation = await asyncio.to_thread(self._step_impl, action, timeout_s=timeout_s, **kwargs)
        return await observation if inspect.isawaitable(observation) else observation

    async def _tool_step(
        self, action: ListToolsAction | CallToolAction, timeout_s: float | None, client: Any
    ) -> Observation:
        if isinstance(action, ListToolsAction):
            listed = await client.list_tools()
            return ListToolsObservation(tools=[
                Tool(name=tool.name, description=tool.description or "", input_schema=tool.inputSchema)
                for tool in listed
            ])  # fmt: skip
        tool_failed = _fastmcp().exceptions.ToolError
        limit_s = MCP_TOOL_CALL_TIMEOUT if timeout_s is None else timeout_s
        name = action.tool_name
        try:
            async with asyncio.timeout(limit_s):
                result = await client.call_tool(name, action.arguments)
        except TimeoutError:
            error = ToolError(error_type=ToolErrorType.TIMEOUT, message=f"tool {name!r} took longer than {limit_s:g} s")
        except tool_failed as failed:
            error = ToolError(error_type=_kind(str(failed)), message=without_paths(str(failed)))
        else:
            return CallToolObservation(tool_name=name, result=result)
        return CallToolObservation(tool_name=name, error=error)

    @contextlib.asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[Any]:
        """A FastMCP client that is connected inside the block, in the caller's own event loop.

        Raises RuntimeError when the environment is closed.
        """
        if self.mcp_client is None:
            raise RuntimeError("the environment is closed, and its tools with it")
        async with self.mcp_client:
            yield self.mcp_client

    @property
    def supports_code_mode(self) -> bool:
        """Whether `execute_code` runs programs that call the tools."""
        return True

    def get_callables(self) -> dict[str, Callable[..., Any]]:
        """The functions behind the tools, by name, for programs that call them directly."""
        servers = filter(None, (self.mcp_server, self._of_mode.get(self.server_mode)))
        tools = {name: tool for server in servers for name, tool in get_server_tools(server).items()}
        return {name: tool.fn for name, tool in tools.items() if callable(getattr(tool, "fn", None))}

    def execute_code(self, code: str) -> Observation:
        """Run a Python program in which the tools are functions; `metadata` holds what it left in the variable
        `result`, or why it failed under `error`.

        The program runs in this very process with all that the process may do: serve it isolated.
        """
        names: dict[str, Any] = dict(self.get_callables())
        try:
            exec(compile(code, "<agent>", "exec"), names)
        except SyntaxError as error:
            return Observation(reward=0.0, metadata={"error": f"Syntax error: {error}"})
        except Exception as error:  # noqa: BLE001  border: an agent's program may raise anything
            return Observation(reward=0.0, metadata={"error": f"{type(error).__name__}: {error}"})
        return Observation(reward=0.0, metadata={"result": names.get("result")})

    def close(self) -> None:
        """End the MCP session."""
        self.mcp_client = None
        self.mcp_tools.close()

    def _all_tools(self) -> Any:
        """The author's server, with the tools of this server's mode where there are some."""
        of_mode = self._of_mode.get(self.server_mode)
        if of_mode is None:
            return self.mcp_server
        both: FastMCP[Any] = _fastmcp().FastMCP(self.mcp_server.name)
        both.mount(self.mcp_server)
        both.mount(of_mode)
        return both


class _Tools:
    """One MCP session in an event loop of its own thread, so that verbs of any thread or loop share its state."""

    def __init__(self, server: Callable[[], Any]) -> None:
        """server: returns the FastMCP server; called at the first use."""
        self._server = server
        self._client: Any = None
        self._thread = BackgroundLoop()

    async def list_tools(self) -> list[Any]:
        """Each tool as MCP lists it."""
        return list(await asyncio.wrap_future(self.run(lambda client: client.list_tools())))

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool. Raises FastMCP's ToolError with the tool's message."""
        return await asyncio.wrap_future(self.run(lambda client: client.call_tool(name, arguments)))

    def run(self, use: Callable[[Any], Awaitable[ResultT]]) -> "Future[ResultT]":
        """Run what uses the connected client."""
        return self._thread.submit(self._connected(use))

    async def _connected(self, use: Callable[[Any], Awaitable[ResultT]]) -> ResultT:
        if self._client is None:
            client: Any = _fastmcp().Client(self._server())
            self._client = await client.__aenter__()
        return await use(self._client)

    def close(self) -> None:
        """Disconnect and end the thread, after the coroutine that runs in it yields."""
        if self._client is not None:
            self._thread.submit(self._disconnect()).add_done_callback(lambda _: self._thread.stop())

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        await client.close()


def get_server_tools(mcp_server: Any) -> dict[str, Any]:
    """The tools of a FastMCP server by name, also where an event loop runs already."""
    return {tool.name: tool for tool in run_async_safely(mcp_server.list_tools())}


def _fastmcp() -> ModuleType:
    """The library of the extra `mcp`, which takes a second to import."""
    import fastmcp
    import fastmcp.exceptions

    return fastmcp


def _refuse_reserved(names: set[str]) -> None:
    taken = names & RESERVED_TOOL_NAMES
    if taken:
        raise ValueError(
            f"tools named {', '.join(sorted(taken))}: the names {', '.join(sorted(RESERVED_TOOL_NAMES))} are reserved "
            "for the program that runs the episode. Give the tools other names."
        )


def _kind(message: str) -> ToolErrorType:
    """The type of a failure, which FastMCP reports by its message alone."""
    if message.startswith("Unknown tool"):
        return ToolErrorType.TOOL_NOT_FOUND
    return ToolErrorType.INVALID_ARGS if _WRONG_ARGUMENTS.match(message) else ToolErrorType.EXECUTION_ERROR
