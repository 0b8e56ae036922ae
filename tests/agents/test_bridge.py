"""An environment's tools are served to a program of this machine, some under other names."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError

from openenv.agents import HarnessError, HarnessMCPBridge, build_bridge_server

pytestmark = pytest.mark.finding("every public name of the published package exists here")


def is_served(url):
    """Whether a server accepts connections there."""
    try:
        return httpx.get(url, timeout=5).status_code > 0
    except httpx.ConnectError:
        return False


@pytest.fixture
def lifespans():
    """What the lifespan of the tools' server has done."""
    return []


@pytest.fixture
def mcp(lifespans):
    @asynccontextmanager
    async def lifespan(_):
        lifespans.append("begun")
        yield {"table": "prices"}
        await asyncio.sleep(0)
        lifespans.append("ended")

    server = FastMCP("shop", lifespan=lifespan)

    @server.tool
    def read(context: Context) -> str:
        return context.request_context.lifespan_context["table"]

    @server.tool
    async def count(context: Context) -> int:
        number = (await context.get_state("number") or 0) + 1
        await context.set_state("number", number)
        return number

    return server


@pytest.mark.parametrize(("renames", "name"), [({}, "read"), ({"env_read": "read"}, "env_read")])
async def test_tools_see_the_lifespan_of_their_server_for_as_long_as_the_bridge_runs(
    mcp, lifespans, renames, name, caplog, capfd
):
    bridge = HarnessMCPBridge(await build_bridge_server(mcp, renames))
    url = await asyncio.to_thread(bridge.start)
    for _ in range(2):
        async with Client(url) as client:
            assert sorted(tool.name for tool in await client.list_tools()) == sorted(["count", name])
            assert (await client.call_tool(name)).data == "prices"
            assert [(await client.call_tool("count")).data for _ in range(2)] == [1, 2]
    assert lifespans == ["begun"]
    await asyncio.to_thread(bridge.stop)

    assert lifespans == ["begun", "ended"]
    assert bridge.url is None
    assert "CancelledError" not in caplog.text + "".join(capfd.readouterr())


async def test_a_tool_under_another_name_is_gone_from_its_own(mcp):
    served = await build_bridge_server(mcp, {"env_read": "read"})

    async with Client(served) as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["count", "env_read"]
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool("read")
    assert sorted(tool.name for tool in await mcp.list_tools()) == ["count", "read"]


async def test_a_tool_that_does_not_exist_cannot_be_renamed(mcp):
    with pytest.raises(HarnessError, match="'shop' has no tool write"):
        await build_bridge_server(mcp, {"env_write": "write"})


def test_a_bridge_starts_once_and_again_after_a_stop(mcp):
    bridge = HarnessMCPBridge(mcp)
    bridge.stop()
    first = bridge.start()
    assert bridge.start() == first == bridge.url
    bridge.stop()
    assert bridge.start().startswith("http://127.0.0.1:")
    bridge.stop()
