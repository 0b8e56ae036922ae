"""An environment whose episodes are conversations with an agent's program, here one of the test's own."""

import sys

import pytest
from fastmcp import FastMCP

from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction, Tool
from openenv.core.env_server.types import Action
from openenv.core.harness import (
    AgenticHarnessAdapter,
    HarnessAction,
    HarnessConfig,
    HarnessEnvironment,
    HarnessError,
    HarnessEvent,
    HarnessNotRunningError,
    HarnessProcess,
    HarnessStartupError,
    resolve_tool_conflicts,
)
from openenv.core.rubrics.base import Rubric

pytestmark = [pytest.mark.finding("B1"), pytest.mark.process]

AGENT = [sys.executable, "-m", "tests.core.harness.agent"]


class Agent(AgenticHarnessAdapter):
    """Sends each message to the program as a line."""

    BUILTIN_TOOL_NAMES = frozenset({"read"})

    def __init__(self, **config):
        super().__init__(HarnessConfig(name="agent", command=AGENT, working_directory=".", **config))
        self.tools, self.process = [], None

    async def inject_tools(self, tools, bridge_url=None):
        self.tools = [tool.name for tool in tools]
        self.url = bridge_url

    async def start(self, working_directory):
        self.process = HarnessProcess([*AGENT, *filter(None, [self.url])], working_directory)
        await self.process.start(ready_check=lambda line: line == "ready")

    async def stop(self):
        if self.process is not None:
            await self.process.stop()

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


class Length(Rubric):
    def forward(self, action, observation):
        return float(len(observation.metadata["response"]))


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
def test_a_turn_that_fails_raises_and_ends_the_episode(env, message, error):
    env.reset()
    with pytest.raises(HarnessError, match=error):
        env.step(HarnessAction(message=message))
    with pytest.raises(HarnessNotRunningError):
        env.step(HarnessAction(message="hello"))


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
    assert [tool.name for tool in resolve_tool_conflicts(tools("a", "b"), {"b"}, prefix="my_")] == ["a", "my_b"]


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


async def test_a_program_that_ends_before_it_is_ready_is_an_error_with_its_output():
    process = HarnessProcess([sys.executable, "-c", "import sys; sys.exit('no key')"], ".")
    with pytest.raises(HarnessStartupError, match=r"ended before it was ready: no key"):
        await process.start(ready_check=lambda line: True)


async def test_a_program_that_is_not_ready_in_time_is_stopped():
    process = HarnessProcess(AGENT, ".", startup_timeout_s=0.2)
    with pytest.raises(HarnessStartupError, match=r"not ready in 0.2 s"):
        await process.start(ready_check=lambda line: False)
    assert not process.is_running()


async def test_a_program_that_does_not_exist_is_an_error():
    with pytest.raises(HarnessStartupError, match="cannot be started"):
        await HarnessProcess(["no-such-program"], ".").start()


async def test_lines_are_exchanged_until_the_program_ends():
    process = HarnessProcess(AGENT, ".")
    await process.start(ready_check=lambda line: line == "ready")
    await process.write_line("one")
    assert await process.read_line(timeout_s=30) == "ONE "
    await process.write_line("quit\n")
    assert [await process.read_line(timeout_s=30), await process.read_line(timeout_s=30)] == [None, None]
    await process.stop()

    assert process.drain_stderr() == "bye"
    with pytest.raises(HarnessNotRunningError, match="does not run"):
        await process.write_line("two")
