"""`/mcp` as MCP's specification has it, with clients that others wrote."""

import httpx
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import LATEST_PROTOCOL_VERSION

from openenv import Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from tests.core.env_server.probes import num_sessions
from tests.core.tool_env import NotebookEnvironment

VERSION = "2025-11-25"
ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def url(serving):
    return serving(create_app(NotebookEnvironment, CallToolAction, CallToolObservation, config=ServerConfig()))


def post(url, message, **headers):
    return httpx.post(f"{url}/mcp", json={"jsonrpc": "2.0", **message}, headers={**ACCEPT, **headers}, timeout=60)


def begin(url):
    """The header that names a new session."""
    answer = post(url, {"id": 1, "method": "initialize", "params": INITIALIZE})
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
async def test_fastmcps_client_lists_and_calls_tools_in_a_session_of_its_own(url):
    async with Client(f"{url}/mcp", timeout=20) as one, Client(f"{url}/mcp", timeout=20) as other:
        assert {"write", "count_calls"} <= {tool.name for tool in await one.list_tools()}
        assert [(await client.call_tool("write", {"text": "a"})).data for client in (one, one, other)] == [1, 2, 1]
        assert await one.ping()
        with pytest.raises(ToolError):
            await one.call_tool("fail", {})
        assert num_sessions(url) == 2
    assert num_sessions(url) == 0


class Shelf(MCPEnvironment):
    """A shelf that a reset fills."""

    def __init__(self):
        tools = FastMCP("shelf")

        @tools.tool
        def book() -> int:
            self.num_looks += 1
            return self.number

        super().__init__(tools)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.number, self.num_looks = 0 if seed is None else seed, 0
        return Observation()

    @property
    def state(self):
        return State(step_count=self.num_looks)


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
async def test_the_first_call_of_a_tool_begins_an_episode(serving):
    url = serving(create_app(Shelf, CallToolAction, CallToolObservation))
    async with Client(f"{url}/mcp", timeout=20) as client:
        assert [(await client.call_tool("book", {})).data for _ in range(2)] == [0, 0]


async def test_a_client_plays_in_the_session_that_it_names_and_leaves_it_open(serving):
    url = serving(create_app(Shelf, CallToolAction, CallToolObservation))
    async with httpx.AsyncClient(base_url=url) as curl:
        began = await curl.post("/reset", json={"seed": 7}, headers={"X-Session-Id": "new"})
        named = {"X-Session-Id": began.headers["X-Session-Id"]}
        async with Client(StreamableHttpTransport(f"{url}/mcp", headers=named), timeout=20) as client:
            assert (await client.call_tool("book", {})).data == 7
        state = await curl.get("/state", headers=named)
        assert state.json()["step_count"] == 1


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
async def test_the_client_of_the_package_mcp_lists_and_calls_tools(url):
    async with streamablehttp_client(f"{url}/mcp") as (read, write, _), ClientSession(read, write) as session:
        began = await session.initialize()
        assert (began.protocolVersion, began.capabilities.tools.listChanged) == (VERSION, False)
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert tools["write"].inputSchema["required"] == ["text"]
        called = await session.call_tool("write", {"text": "a"})
        assert (called.isError, called.structuredContent, called.content[0].text) == (False, {"result": 1}, "1")
        failed = await session.call_tool("fail", {})
        assert failed.isError
        await session.send_ping()


def test_notifications_and_responses_of_a_client_have_no_answer(url):
    call = {"method": "tools/call", "params": {"name": "write", "arguments": {"text": "a"}}}
    for message in ({"method": "notifications/initialized"}, {"id": 3, "result": {}}, {"method": "ping"}, call):
        answer = post(url, message, **begin(url))
        assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_the_messages_of_a_batch_that_have_answers_are_answered_together(url):
    headers = {**ACCEPT, **begin(url)}
    ping, note = (
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    )
    unknown = {"jsonrpc": "2.0", "id": "b", "method": "resources/list"}
    both, none, empty = (
        httpx.post(f"{url}/mcp", json=batch, headers=headers, timeout=60)
        for batch in ([ping, note, unknown], [note], [])
    )

    assert [(answer["id"], "result" in answer) for answer in both.json()] == [(1, True), ("b", False)]
    assert (none.status_code, none.content) == (202, b"")
    assert (empty.status_code, empty.json()["error"]["code"]) == (400, -32600)


def test_a_batch_of_very_many_messages_is_refused_as_a_whole(url):
    messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}] * 101

    refused = httpx.post(f"{url}/mcp", json=messages, headers=ACCEPT, timeout=60)

    assert (refused.status_code, "at most 100" in refused.json()["error"]["message"]) == (400, True)
    assert num_sessions(url) == 0


@pytest.mark.parametrize("headers", [{}, ACCEPT])
def test_a_request_of_very_many_fields_gets_an_error_without_a_row_for_each(url, headers):
    refused = httpx.post(f"{url}/mcp", json={f"a{number}": 1 for number in range(2000)}, headers=headers, timeout=60)

    assert refused.json()["error"]["code"] == -32600
    assert len(refused.content) < 2000


def test_a_field_that_is_not_set_is_left_out(url):
    tools = post(url, {"id": 2, "method": "tools/list"}, **begin(url)).json()["result"]["tools"]
    called = post(url, {"id": 3, "method": "tools/call", "params": {"name": "write", "arguments": {"text": "a"}}})

    assert all(value is not None for tool in tools for value in tool.values())
    assert called.json()["result"]["content"] == [{"type": "text", "text": "1"}]
    assert called.json()["result"]["isError"] is False


def test_a_version_that_is_not_known_is_answered_with_the_newest_one(url):
    answer = post(url, {"id": 1, "method": "initialize", "params": {**INITIALIZE, "protocolVersion": "1999-01-01"}})
    refused = post(url, {"id": 2, "method": "tools/list"}, **begin(url), **{"mcp-protocol-version": "1999-01-01"})

    assert answer.json()["result"]["protocolVersion"] == VERSION == LATEST_PROTOCOL_VERSION
    assert (refused.status_code, "is not one of" in refused.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_each_version_that_is_known_is_answered_with_itself(url, version):
    answer = post(url, {"id": 1, "method": "initialize", "params": {**INITIALIZE, "protocolVersion": version}})
    session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version}

    assert answer.json()["result"]["protocolVersion"] == version
    assert "tools" in post(url, {"id": 2, "method": "tools/list"}, **session).json()["result"]


@pytest.mark.parametrize("message", [{"id": 2, "method": "ping"}, {"method": "notifications/initialized"}])
def test_a_wrong_version_and_an_ended_session_are_refused_for_each_message(url, message):
    session = begin(url)
    wrong = post(url, message, **session, **{"mcp-protocol-version": "1999-01-01"})
    httpx.delete(f"{url}/mcp", headers=session)

    assert (wrong.status_code, post(url, message, **session).status_code) == (400, 404)


def test_wrong_arguments_are_a_result_that_a_model_can_correct(url):
    call = {"id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {"text": 5}}}
    result = post(url, call, **begin(url)).json()["result"]

    assert result["isError"]
    assert "Input should be a valid string" in result["content"][0]["text"]


def test_a_session_that_its_client_has_ended_is_not_found(url):
    session = begin(url)

    assert httpx.delete(f"{url}/mcp", headers=session).status_code == 204
    assert post(url, {"id": 2, "method": "tools/list"}, **session).status_code == 404
    assert httpx.delete(f"{url}/mcp", headers=session).status_code == 404


def test_a_request_that_names_no_event_stream_has_the_published_wire(url):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write", "arguments": {"text": "a"}}}
    result = httpx.post(f"{url}/mcp", json=call).json()["result"]

    assert (result["is_error"], result["structured_content"], result["data"]) == (False, {"result": 1}, 1)
