"""Clients of tools, in every mode, against real servers."""

import asyncio
import contextlib

import pytest
from fastmcp import FastMCP

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction, ListToolsObservation
from openenv.core.env_server.types import Observation, State
from openenv.core.errors import EnvironmentFault, TimeLimitExceeded
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import GenericMCPObservation, MCPToolClient
from tests.core.cutting_proxy import CuttingProxy
from tests.core.tool_env import NotebookEnvironment


@pytest.fixture(scope="module")
def url(module_serving):
    config = ServerConfig(step_timeout_s=1)
    return module_serving(create_app(NotebookEnvironment, CallToolAction, CallToolObservation, config=config))


def test_tools_are_found_and_called_like_verbs(url):
    with MCPToolClient(url) as env:
        env.reset()
        assert {"write", "count_calls"} < {tool.name for tool in env.list_tools()}
        assert env.call_tool("write", text="a") == 1
        assert env.has_tool("write")
        assert env.get_tool("write").input_schema["required"] == ["text"]
        assert (env.has_tool("paint"), env.get_tool("paint")) == (False, None)
        assert env.state().step_count == 1


async def test_in_an_event_loop_they_are_awaited(url):
    async with MCPToolClient(url) as env:
        await env.reset()
        assert await env.call_tool("write", text="a") == 1
        assert await env.has_tool("write")
        assert (await env.get_tool("write")).name == "write"
        assert len(await env.list_tools()) == len(await env.list_tools(use_cache=False))


async def test_a_client_outside_a_with_statement_is_awaited_too(url):
    env = MCPToolClient(url)
    assert await env.call_tool("write", text="a") == 1
    assert (await env.state()).step_count == 1
    await env.close()


def test_the_synchronous_view_has_them_as_plain_methods(url):
    with MCPToolClient(url).sync() as env:
        env.reset()
        assert env.call_tool("write", text="a") == 1
        assert env.has_tool("write")
        assert env.state().step_count == 1


async def test_the_synchronous_view_has_them_where_a_loop_runs(url):
    env = MCPToolClient(url).sync()
    assert env.call_tool("write", text="a") == 1
    assert env.state().step_count == 1
    env.close()


def test_calls_at_the_same_time_get_their_own_answers(url):
    async def play():
        async with MCPToolClient(url) as env:
            return await asyncio.gather(*(env.call_tool("write", text=str(number)) for number in range(8)))

    assert asyncio.run(play()) == list(range(1, 9))


def test_a_step_lists_and_calls_too(url):
    with MCPToolClient(url) as env:
        listed = env.step(ListToolsAction())
        called = env.step(CallToolAction(tool_name="write", arguments={"text": "a"}))
        greeting = env.reset()

    assert isinstance(listed.observation, ListToolsObservation)
    assert isinstance(called.observation, CallToolObservation)
    assert called.observation.result["data"] == 1
    assert isinstance(greeting.observation, GenericMCPObservation)


def test_a_tool_that_fails_raises_its_message(url):
    with MCPToolClient(url) as env:
        with pytest.raises(EnvironmentFault, match="no ink"):
            env.call_tool("fail")
        with pytest.raises(EnvironmentFault, match="Unknown tool: 'paint'"):
            env.call_tool("paint")
        assert env.call_tool("write", text="a") == 1


def test_a_tool_that_outlives_the_limit_is_that_error(url):
    with MCPToolClient(url) as env:
        with pytest.raises(TimeLimitExceeded):
            env.call_tool("hang")
        env.reset()
        assert env.call_tool("write", text="a") == 1


def test_a_call_is_done_once_though_its_connection_breaks(url):
    with contextlib.closing(CuttingProxy(url)) as proxy, MCPToolClient(proxy.url) as env:
        assert env.call_tool("write", text="a") == 1
        proxy.cut()
        assert env.call_tool("write", text="b") == 2
        assert env.state().step_count == 2


def test_a_mode_other_than_production_is_refused(url):
    with pytest.raises(ValueError, match="mode='simulation'"):
        MCPToolClient(url, mode="simulation")


def test_what_is_no_action_is_refused(url):
    with MCPToolClient(url) as env, pytest.raises(TypeError, match="takes an Action or a dictionary, not str"):
        env.step("write")


class Counter(MCPEnvironment):
    """Has a tool, and no other action."""

    def __init__(self):
        mcp = FastMCP("counter")

        @mcp.tool
        def count(to: int) -> int:
            """Count."""
            return to

        super().__init__(mcp)

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    @property
    def state(self):
        return State()


def test_an_environment_needs_no_actions_beside_its_tools(serving):
    with GenericEnvClient(base_url=serving(create_app(Counter))) as env:
        env.reset()
        step = env.step({"type": "call_tool", "tool_name": "count", "arguments": {"to": 3}})
        assert step.observation["error"] is None
        with pytest.raises(EnvironmentFault, match="is played by its tools"):
            env.step({"steps": 3})
