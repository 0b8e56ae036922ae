"""Tools over MCP: an agent lists and calls them in a session, and reaches nothing else."""

import asyncio
import itertools
import json

import httpx
import pytest
from fastmcp import FastMCP
from websockets.sync.client import connect

from openenv.core import Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    JsonRpcErrorCode,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolErrorType,
)
from tests.core.env_server.probes import num_sessions, wait_until
from tests.core.tool_env import Clear, NotebookEnvironment

TOOLS = {"write", "count_calls", "fail", "leak", "wait", "hang"}
_ids = itertools.count(1)


def notebook(**limits):
    return create_app(NotebookEnvironment, CallToolAction, CallToolObservation, config=ServerConfig(**limits))


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(notebook())


@pytest.fixture
def own_url(serving):
    """A server without sessions of other tests."""
    return serving(notebook())


def rpc(url, method, **params):
    """The response of `/mcp` over HTTP."""
    request = {"jsonrpc": "2.0", "method": method, "params": params, "id": next(_ids)}
    answer = httpx.post(f"{url}/mcp", json=request, timeout=60).json()
    assert answer["id"] == request["id"]
    return answer


def call(url, tool, session_id, **arguments):
    return rpc(url, "tools/call", name=tool, arguments=arguments, session_id=session_id)


def new_session(url):
    return rpc(url, "openenv/session/create")["result"]["session_id"]


def websocket(url, path):
    return connect(url.replace("http", "ws") + path)


def test_tools_are_listed_with_their_schemas(url):
    tools = {tool["name"]: tool for tool in rpc(url, "tools/list")["result"]["tools"]}

    assert set(tools) == {*TOOLS, "rehearse"}
    assert tools["write"]["description"] == "Write a note; returns how many there are."
    assert tools["write"]["inputSchema"]["required"] == ["text"]


def test_a_session_keeps_what_its_tools_did(url):
    mine, other = new_session(url), new_session(url)
    assert call(url, "write", mine, text="a")["result"]["data"] == 1
    assert call(url, "write", mine, text="b")["result"]["data"] == 2
    assert call(url, "write", other, text="c")["result"]["data"] == 1


def test_a_sessions_calls_are_one_mcp_session(url):
    session = new_session(url)
    assert [call(url, "count_calls", session)["result"]["data"] for _ in range(3)] == [1, 2, 3]


def test_without_a_session_calls_go_to_the_callers_own(url):
    assert [rpc(url, "tools/call", name="write", arguments={"text": "x"})["result"]["data"] for _ in "ab"] == [1, 2]


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("tools/call", {"name": "nope"}, -32603, "Unknown tool: 'nope'"),
        ("tools/call", {"name": "fail"}, -32603, "no ink"),
        ("tools/call", {"name": "write"}, -32603, "text"),
        ("tools/call", {}, -32602, "Missing 'name'"),
        ("tools/call", {"name": "write", "arguments": [1]}, -32602, "must be an object"),
        ("tools/list", {"session_id": "unknown"}, -32602, "Unknown session_id: unknown"),
        ("openenv/session/close", {"session_id": "unknown"}, -32602, "Unknown session_id: unknown"),
        ("openenv/session/close", {}, -32602, "'session_id' is required"),
        ("resources/list", {}, -32601, "Method not found: resources/list"),
    ],
)
def test_an_invalid_request_gets_a_json_rpc_error_with_the_reason(url, method, params, code, words):
    error = rpc(url, method, **params)["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_a_tool_that_outlives_the_limit_ends_its_episode_and_nothing_else(serving):
    url = serving(notebook(step_timeout_s=3))
    session = new_session(url)
    error = call(url, "hang", session)["error"]

    assert error["code"] == JsonRpcErrorCode.SERVER_ERROR
    assert error["data"]["code"] == "TIMEOUT"
    answer = call(url, "write", new_session(url), text="a")
    assert answer.get("result", {}).get("data") == 1, answer


def test_a_full_server_refuses_a_session_with_its_counts(serving):
    url = serving(notebook(max_sessions=1))
    new_session(url)
    error = rpc(url, "openenv/session/create")["error"]

    assert error["code"] == JsonRpcErrorCode.SERVER_ERROR
    assert (error["data"]["active_sessions"], error["data"]["max_sessions"]) == (1, 1)


def test_a_closed_session_is_gone(url):
    session = new_session(url)
    assert rpc(url, "openenv/session/close", session_id=session)["result"] == {"session_id": session, "closed": True}
    assert "Unknown session_id" in call(url, "write", session, text="a")["error"]["message"]


def test_a_session_that_a_websocket_plays_closes_when_that_ends(own_url):
    session = new_session(own_url)
    with websocket(own_url, f"/ws?session_id={session}") as player:
        player.send(json.dumps({"type": "state"}))
        assert json.loads(player.recv())["data"]["step_count"] == 0
        closing = rpc(own_url, "openenv/session/close", session_id=session)
        assert closing["result"] == {"session_id": session, "closed": False, "closing": True}
        assert "Unknown session_id" in rpc(own_url, "openenv/session/close", session_id=session)["error"]["message"]
        player.send(json.dumps({"type": "state"}))
        assert json.loads(player.recv())["type"] == "state"
    wait_until(lambda: num_sessions(own_url) == 0)


def test_a_websocket_that_goes_leaves_the_session_of_http_alive(url):
    session = new_session(url)
    call(url, "write", session, text="a")
    with websocket(url, f"/ws?session_id={session}") as player:
        player.send(json.dumps({"type": "state"}))
        assert json.loads(player.recv())["data"]["step_count"] == 1
    assert call(url, "write", session, text="b")["result"]["data"] == 2


def test_the_session_of_a_killed_client_is_freed_after_the_grace_period(serving):
    url = serving(notebook(reconnect_grace_s=0.2))
    session = new_session(url)
    with websocket(url, f"/ws?session_id={session}"):
        wait_until(lambda: num_sessions(url) == 1)
    wait_until(lambda: num_sessions(url) == 0)


def test_mcp_frames_reach_the_session_of_their_connection(url):
    with websocket(url, "/ws") as player:

        def ask(method, **params):
            request = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
            player.send(json.dumps({"type": "mcp", "data": request}))
            answer = json.loads(player.recv())
            assert answer["type"] == "mcp"
            return answer["data"]

        assert ask("tools/call", name="write", arguments={"text": "a"})["result"]["data"] == 1
        own = ask("openenv/session/create")["result"]["session_id"]
        assert ask("openenv/session/close", session_id=own)["error"]["code"] == JsonRpcErrorCode.INVALID_REQUEST
        player.send(json.dumps({"type": "state"}))
        assert json.loads(player.recv())["data"]["step_count"] == 1


def test_the_mcp_websocket_has_a_session_of_its_own(own_url):
    request = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "write", "arguments": {"text": "a"}}}
    with websocket(own_url, "/mcp") as agent:
        counts = []
        for number in (1, 2):
            agent.send(json.dumps({**request, "id": number}))
            counts.append(json.loads(agent.recv())["result"]["data"])
        agent.send("[1]")
        assert json.loads(agent.recv())["error"]["code"] == JsonRpcErrorCode.PARSE_ERROR
        wait_until(lambda: num_sessions(own_url) == 1)
    assert counts == [1, 2]
    wait_until(lambda: num_sessions(own_url) == 0)


def test_a_message_above_the_limit_gets_a_json_rpc_error_and_the_session_goes_on(serving):
    def write(text):
        return json.dumps({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write", "arguments": {"text": text}},
        })  # fmt: skip

    with websocket(serving(notebook(max_message_bytes=1000)), "/mcp") as agent:
        agent.send(write("x" * 1000))
        error = json.loads(agent.recv())["error"]
        agent.send(write("y"))

        assert (error["code"], error["data"]["code"]) == (JsonRpcErrorCode.SERVER_ERROR, "MESSAGE_TOO_BIG")
        assert "limit of 1000" in error["message"]
        assert json.loads(agent.recv())["result"]["data"] == 1


def test_in_production_an_agent_has_the_tools_of_production_and_no_reset(serving):
    url = serving(create_app(NotebookEnvironment, CallToolAction, CallToolObservation, mode="production"))
    tools = {tool["name"] for tool in rpc(url, "tools/list")["result"]["tools"]}

    assert tools == {*TOOLS, "publish"}
    assert rpc(url, "tools/call", name="publish", arguments={})["result"]["data"] == "published"
    assert [httpx.post(f"{url}/{verb}", json={}).status_code for verb in ("reset", "step")] == [404, 404]
    assert httpx.get(f"{url}/state").status_code == 404


@pytest.mark.parametrize("execution", ["inline", "thread", "process"])
def test_tools_work_wherever_the_environment_runs(serving, execution):
    url = serving(notebook(execution=execution))
    session = new_session(url)
    assert [call(url, "write", session, text="a")["result"]["data"] for _ in range(2)] == [1, 2]
    assert [call(url, "count_calls", session)["result"]["data"] for _ in range(2)] == [1, 2]
    step = httpx.post(f"{url}/step", json={"action": {"tool_name": "write", "arguments": {"text": "b"}}}, timeout=60)
    assert step.json()["observation"]["result"]["data"] == 1


# The environment without a server.


@pytest.fixture
def env():
    env = NotebookEnvironment()
    yield env
    env.close()


def test_a_step_lists_and_calls_tools(env):
    listed = env.step(ListToolsAction())
    called = env.step(CallToolAction(tool_name="write", arguments={"text": "a"}))

    assert {tool.name for tool in listed.tools} == {*TOOLS, "rehearse"}
    assert called.result.data == 1
    assert env.notes == ["a"]


async def test_the_same_in_an_event_loop_in_one_mcp_session(env):
    counts = [await env.step_async(CallToolAction(tool_name="count_calls")) for _ in range(2)]
    counts.append(env.step(CallToolAction(tool_name="count_calls")))
    assert [observation.result.data for observation in counts] == [1, 2, 3]


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (CallToolAction(tool_name="nope"), ToolErrorType.TOOL_NOT_FOUND),
        (CallToolAction(tool_name="write", arguments={"txt": 1}), ToolErrorType.INVALID_ARGS),
        (CallToolAction(tool_name="fail"), ToolErrorType.EXECUTION_ERROR),
        (CallToolAction(tool_name="wait", arguments={"seconds": 9}), ToolErrorType.TIMEOUT),
    ],
)
def test_a_failed_call_has_the_type_of_its_error(env, action, kind):
    observation = env.step(action, timeout_s=0.3)
    assert observation.result is None
    assert observation.error.error_type is kind


def test_the_error_of_a_failed_call_has_no_path_of_the_server(url, env):
    message = env.step(CallToolAction(tool_name="leak", arguments={})).error.message
    assert "nothing at <path>" in message
    assert call(url, "leak", new_session(url))["error"]["message"] == message


def test_other_actions_are_the_authors(env):
    assert env.step(Clear()).metadata == {"did": "Clear"}
    assert asyncio.run(env.step_async(Clear())).metadata == {"did": "Clear"}


def test_code_may_call_the_tools_as_functions(env):
    assert env.execute_code("result = write('a') + write('b')").metadata == {"result": 3}
    assert "Syntax error" in env.execute_code("result = =").metadata["error"]
    assert env.execute_code("fail()").metadata == {"error": "ValueError: no ink"}


def test_a_tool_with_the_name_of_a_verb_is_refused():
    class Cheating(NotebookEnvironment):
        def __init__(self) -> None:
            mcp: FastMCP = FastMCP("cheat")
            mcp.tool(lambda: 1, name="reset")
            super(NotebookEnvironment, self).__init__(mcp)

    with pytest.raises(ValueError, match=r"tools named reset.* are reserved .*Give the tools other names"):
        Cheating()


def test_a_tool_of_an_unknown_mode_is_refused(env):
    with pytest.raises(ValueError, match="mode='staging'"):
        env.tool(mode="staging")


# Other ways to have tools.


class ByHand(Environment):
    """Handles the tool actions itself."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=[Tool(name="double", description="", input_schema={})])
        return CallToolObservation(tool_name=action.tool_name, result=2 * action.arguments["x"])

    @property
    def state(self):
        return State()


def test_an_environment_that_handles_tool_actions_itself_has_tools_too(serving):
    url = serving(create_app(ByHand, CallToolAction, CallToolObservation))
    assert rpc(url, "tools/list")["result"]["tools"] == [{"name": "double", "description": "", "input_schema": {}}]
    called = rpc(url, "tools/call", name="double", arguments={"x": 4})
    assert called["result"]["result"] == 8


def test_a_response_has_a_result_or_an_error_even_when_it_is_null():
    assert JsonRpcResponse.success(None, 1).model_dump() == {"jsonrpc": "2.0", "id": 1, "result": None}
    error = JsonRpcResponse.error_response(JsonRpcErrorCode.PARSE_ERROR)
    assert json.loads(error.model_dump_json()) == {
        "jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error", "data": None},
    }  # fmt: skip
