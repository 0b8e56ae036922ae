"""An environment's episodes are conversations with an agent's program, here one of the test's own."""

import asyncio
import sys

import pytest
from fastmcp import FastMCP

from openenv.agents import (
    AgenticHarnessAdapter,
    HarnessAction,
    HarnessConfig,
    HarnessEnvironment,
    HarnessEvent,
    HarnessNotRunningError,
    HarnessProcess,
    HarnessStartupError,
    resolve_tool_conflicts,
)
from openenv.core.env_server import ConcurrencyConfigurationError, create_app
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction, Tool
from openenv.core.env_server.types import Action, Observation
from openenv.core.rubric import Rubric
from tests.agents.test_bridge import is_served

pytestmark = [pytest.mark.finding("every public name of the published package exists here"), pytest.mark.process]

AGENT = [sys.executable, "-m", "tests.agents.agent"]
AGENT_THAT_IS_NEVER_READY = [sys.executable, "-c", "input()"]


class Agent(AgenticHarnessAdapter):
    """Sends each message to the program as a line."""

    BUILTIN_TOOL_NAMES = frozenset({"read"})

    def __init__(self, **config):
        super().__init__(HarnessConfig(name="agent", command=AGENT, working_directory=".", **config))
        self.tools, self.process, self.command = [], None, AGENT
        self.is_starting, self.stop_error, self.turns_read = None, None, 0

    async def inject_tools(self, tools, bridge_url=None):
        self.tools = [tool.name for tool in tools]
        self.url = bridge_url

    async def start(self, working_directory):
        self.process = HarnessProcess([*self.command, *filter(None, [self.url])], working_directory)
        if self.is_starting is not None:
            self.is_starting.set()
        await self.process.start(ready_check=lambda line: line == "ready")

    async def stop(self):
        if self.process is not None:
            await self.process.stop()
        if self.stop_error is not None:
            raise self.stop_error

    async def is_alive(self):
        return self.process is not None and self.process.is_running()

    async def send_message_streaming(self, message):
        await self.process.write_line(message)
        reply = await self.process.read_line()
        if reply is None:
            raise HarnessNotRunningError("the program has ended")
        yield HarnessEvent(type="text_output", data={"text": reply})
        if message != "hang up":
            yield HarnessEvent(type="turn_complete", data={"response": reply, "done": message == "end"})
        self.turns_read += 1


class Length(Rubric):
    def forward(self, action, observation):
        return float(len(observation.metadata["response"]))


class Failing(Rubric):
    def forward(self, action, observation):
        return 1 / 0


@pytest.fixture
def env():
    mcp = FastMCP("files")

    @mcp.tool
    def read(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    environment = HarnessEnvironment(Agent(session_timeout_s=20), mcp=mcp, rubric=Length())
    yield environment
    environment.close()


def test_each_step_is_one_turn_of_the_conversation(env):
    first = env.reset(episode_id="e")
    turns = [env.step(HarnessAction(message=message)) for message in ("hello you", "end")]

    assert (first.done, first.metadata) == (False, {"episode_id": "e", "injected_tools": ["env_read"]})
    assert [turn.metadata["response"] for turn in turns] == ["HELLO YOU", "END "]
    assert [(turn.done, turn.reward, turn.metadata["turn_number"]) for turn in turns] == [
        (False, 9.0, 1),
        (True, 4.0, 2),
    ]
    assert [event["type"] for event in turns[0].metadata["turn_events"]] == ["text_output", "turn_complete"]
    assert (env.state.episode_id, env.state.step_count, len(env.trajectory)) == ("e", 2, 4)


def test_the_agent_has_the_environments_tools_under_their_new_names(env):
    env.reset()

    assert env.step(HarnessAction(message="call env_read")).metadata["response"] == "content of notes"


def test_the_caller_lists_and_calls_the_tools_under_their_own_names(env):
    env.reset()

    assert [tool.name for tool in env.step(ListToolsAction()).tools] == ["read"]
    assert env.step(CallToolAction(tool_name="read", arguments={"path": "x"})).result.data == "content of x"


def test_a_turn_that_takes_too_long_ends_the_episode(env):
    env.reset()
    late = env.step(HarnessAction(message="silence"), timeout_s=0.2)

    assert (late.done, late.metadata["error_type"]) == (True, "turn_timeout")
    with pytest.raises(HarnessNotRunningError, match="reset before the step"):
        env.step(HarnessAction(message="hello"))
    env.reset()
    assert env.step(HarnessAction(message="again")).metadata["response"] == "AGAIN "


@pytest.mark.parametrize(("message", "error"), [("quit", "has ended"), ("hang up", "without TURN_COMPLETE")])
def test_a_turn_that_fails_is_the_last_of_its_episode(env, message, error):
    env.reset()
    last = env.step(HarnessAction(message=message))

    assert (last.done, last.reward, last.metadata["error_type"]) == (True, 0.0, "harness_crashed")
    assert error in last.metadata["error"]
    assert env.trajectory[-1].data == {"message": last.metadata["error"], "recoverable": False}
    with pytest.raises(HarnessNotRunningError):
        env.step(HarnessAction(message="hello"))


def test_a_program_that_ended_between_two_turns_ends_the_episode(env):
    env.reset()
    asyncio.run(env.adapter.process.stop())
    last = env.step(HarnessAction(message="hello"))

    assert (last.done, last.metadata["error_type"]) == (True, "harness_crashed")


def test_a_program_that_does_not_start_leaves_nothing_behind(env):
    env.reset(episode_id="first")
    env.adapter.command = [sys.executable, "-c", "import sys; sys.exit('no key')"]
    with pytest.raises(HarnessStartupError, match="no key"):
        env.reset()

    assert not is_served(env.adapter.url)
    assert env.state.episode_id == "first"
    with pytest.raises(HarnessNotRunningError):
        env.step(HarnessAction(message="hello"))


async def test_a_cancelled_reset_leaves_nothing_behind(env):
    env.adapter.is_starting = asyncio.Event()
    env.adapter.command = AGENT_THAT_IS_NEVER_READY
    reset = asyncio.create_task(env.reset_async())
    await env.adapter.is_starting.wait()
    reset.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reset

    assert not is_served(env.adapter.url)
    assert not await env.adapter.is_alive()


async def test_a_reset_that_is_cancelled_twice_waits_for_the_program_to_stop(env):
    env.adapter.is_starting = asyncio.Event()
    env.adapter.command = AGENT_THAT_IS_NEVER_READY
    reset = asyncio.create_task(env.reset_async())
    await env.adapter.is_starting.wait()
    stop, is_stopping, may_stop = env.adapter.stop, asyncio.Event(), asyncio.Event()

    async def slow_stop():
        is_stopping.set()
        await may_stop.wait()
        await stop()

    env.adapter.stop = slow_stop
    reset.cancel()
    await is_stopping.wait()
    reset.cancel()
    asyncio.get_running_loop().call_soon(may_stop.set)
    with pytest.raises(asyncio.CancelledError):
        await reset

    assert not await env.adapter.is_alive()
    assert not is_served(env.adapter.url)


def test_a_server_holds_one_session():
    def make() -> HarnessEnvironment:
        return HarnessEnvironment(Agent())

    with pytest.raises(ConcurrencyConfigurationError):
        create_app(make, HarnessAction, Observation, max_concurrent_envs=2)


def test_a_rubric_that_fails_ends_the_episode(env):
    env.reset()
    env.rubric = Failing()
    with pytest.raises(ZeroDivisionError):
        env.step(HarnessAction(message="hello"))

    assert not asyncio.run(env.adapter.is_alive())


def test_close_goes_on_when_the_program_cannot_be_stopped(env, caplog):
    env.reset()
    env.adapter.stop_error = OSError("no permission")
    env.close()

    assert not is_served(env.adapter.url)
    assert "agent did not stop as it should" in caplog.text
    env.adapter.stop_error = None


def test_the_events_of_a_turn_are_read_to_their_end(env):
    env.reset()
    env.step(HarnessAction(message="hello"))

    assert env.adapter.turns_read == 1


def test_another_action_is_refused(env):
    class Other(Action):
        pass

    env.reset()
    with pytest.raises(TypeError, match="action=Other: give a HarnessAction"):
        env.step(Other())


def test_an_environment_may_have_no_tools():
    env = HarnessEnvironment(Agent())
    assert env.reset().metadata["injected_tools"] == []
    assert env.step(HarnessAction(message="hi")).reward == 0.0
    env.close()


def tools(*names):
    return [Tool(name=name, description="", input_schema={}) for name in names]


def test_only_tools_that_clash_are_renamed():
    given = tools("a", "b")
    resolved = resolve_tool_conflicts(given, {"b"}, prefix="my_")
    resolved[0].description = "changed"

    assert [tool.name for tool in resolved] == ["a", "my_b"]
    assert [(tool.name, tool.description) for tool in given] == [("a", ""), ("b", "")]


@pytest.mark.parametrize(
    ("names", "builtin", "error"),
    [
        (["reset"], [], "is reserved"),
        (["a", "a"], [], "two tools"),
        (["b", "env_b"], ["b"], "'env_b' is taken"),
        (["b"], ["b", "env_b"], "'env_b' is taken"),
    ],
)
def test_names_that_stay_ambiguous_are_refused(names, builtin, error):
    with pytest.raises(ValueError, match=error):
        resolve_tool_conflicts(tools(*names), builtin)
