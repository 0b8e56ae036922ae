"""A language model plays whole episodes by calling the tools of a session."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from openenv.agents import (
    CLIHarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    LoopOwningSession,
    MCPHarnessAdapter,
    ModelStepResult,
    ResourceSession,
    ResourceSessionFactory,
    SessionMCPBridge,
    StepEnvSessionAdapter,
    ToolResult,
    TrainableSession,
    VerifyResult,
    build_harness_rollout_func,
)
from openenv.agents.llm.client import LLMResponse, ToolCall
from openenv.core.client_types import StepResult
from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_types import Tool
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.finding("every public name of the published package exists here")

ADD = Tool(name="add", description="Add to the total", input_schema={"type": "object"})


class Sums(ResourceSession):
    """Over at a total of three."""

    def __init__(self, task="go"):
        self.task, self.total, self.is_closed, self.verdicts = task, 0, False, []

    def initial_messages(self):
        return [{"role": "user", "content": self.task}]

    def list_tools(self):
        return [ADD]

    def call_tool(self, name, arguments):
        if name != "add":
            raise LookupError(f"no {name}")
        self.total += arguments.get("amount", 1)
        return ToolResult(data={"total": self.total}, done=self.total >= 3)

    def verify(self, transcript, final_state=None):
        self.verdicts.append((transcript, final_state))
        return VerifyResult(env_reward=float(self.total), done=True, metrics={"turns": len(transcript)})

    def close(self):
        self.is_closed = True


def model(*turns):
    """A model that calls these tools in its turns, one list of names for each, then none; and what it was given."""
    seen = []

    def step(messages, tools, sampling):
        number = len(seen)
        seen.append((messages, tools, sampling))
        names = turns[number] if number < len(turns) else []
        calls = [ToolCall(id=f"{number}.{i}", name=name, args={"amount": 1}) for i, name in enumerate(names)]
        response = LLMResponse(content=f"turn {number}", tool_calls=calls)
        return ModelStepResult(response, prompt_ids=[number], completion_ids=[10 + number], logprobs=[-0.5])

    return step, seen


def test_an_episode_goes_on_until_the_environment_ends_it():
    step, seen = model(["add"], ["add", "add", "add"])
    rollout = MCPHarnessAdapter().run_white_box(step, Sums(), HarnessRunLimits(sampling={"temperature": 1}))

    assert (rollout.done, rollout.metrics) == (True, {"turns": 2, "tool_calls": 3})
    assert [entry.result.data for entry in rollout.tool_trace] == [{"total": 1}, {"total": 2}, {"total": 3}]
    assert (rollout.prompt_ids, rollout.completion_ids, rollout.logprobs) == ([0, 1], [10, 11], [-0.5, -0.5])
    roles = [message["role"] for message in rollout.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "tool"]
    assert rollout.messages[2] == {"role": "tool", "tool_call_id": "0.0", "name": "add", "content": '{"total": 1}'}
    events = [event.type for event in rollout.events]
    assert events == ["model_response", "tool_call", "model_response", "tool_call", "tool_call"]
    assert seen[1][0] == rollout.messages[:3]
    assert seen[1][1:] == ([ADD], {"temperature": 1})


def test_an_episode_is_over_when_the_model_calls_no_tool():
    rollout = MCPHarnessAdapter().run_white_box(model(["add"])[0], Sums())

    assert (rollout.done, rollout.metrics) == (True, {"turns": 2, "tool_calls": 1})
    assert rollout.messages[-1] == {"role": "assistant", "content": "turn 1"}


@pytest.mark.parametrize(
    ("limits", "calls", "turns"),
    [
        ({"max_turns": 1}, 2, 1),
        ({"max_tool_calls_per_turn": 1, "max_turns": 2}, 2, 2),
    ],
)
def test_a_limit_of_turns_cuts_an_episode_short(limits, calls, turns):
    step, _ = model(*[["add", "add"]] * 3)
    rollout = MCPHarnessAdapter().run_white_box(step, Sums(), HarnessRunLimits(**limits))

    assert (rollout.done, rollout.metrics) == (False, {"turns": turns, "tool_calls": calls})


def test_the_metrics_say_when_the_limit_of_all_calls_cut_an_episode_short():
    step, _ = model(["add", "add"])
    rollout = MCPHarnessAdapter().run_white_box(step, Sums(), HarnessRunLimits(max_total_tool_calls=1))

    assert (rollout.done, rollout.metrics) == (False, {"turns": 1, "tool_calls": 1, "truncated": True})


class Replies(Sums):
    """Its tools, of any name, give one result."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def call_tool(self, name, arguments):
        return self.result


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("seen"), "seen"),
        (ToolResult(), ""),
        (ToolResult({"b": 1, "a": Path("x")}), '{"a": "x", "b": 1}'),
        (ToolResult("no move", error="illegal"), "no move"),
        (ToolResult(error="illegal"), "illegal"),
    ],
)
def test_the_model_reads_a_results_data_and_without_data_its_error(result, text):
    rollout = MCPHarnessAdapter().run_white_box(model(["reset"])[0], Replies(result))

    assert rollout.messages[2]["content"] == text


def request(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_an_agents_program_lists_and_calls_tools_through_the_bridge():
    bridge = SessionMCPBridge(Sums())

    listed = bridge.handle_request(request("tools/list"))["result"]["tools"]
    assert listed == [{"name": "add", "description": ADD.description, "inputSchema": {"type": "object"}}]
    called = bridge.handle_request(request("tools/call", name="add", arguments={"amount": 3}))["result"]
    assert called == {"data": {"total": 3}, "done": True, "metadata": {}, "error": None}
    point = CountAction(amount=1)
    replies = SessionMCPBridge(Replies(ToolResult(point)))
    assert replies.handle_request(request("tools/call", name="look"))["result"]["data"] is point


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"id": 1}, -32600),
        (request("initialize"), -32601),
        (request("tools/call"), -32602),
        (request("tools/call", name="reset"), -32602),
        ({"jsonrpc": "2.0", "id": 1}, -32601),
        (request("tools/call", name="nothing"), -32603),
    ],
)
def test_a_wrong_request_is_an_error_with_its_code(wrong, code):
    response = SessionMCPBridge(Sums()).handle_request(wrong)

    assert (response["id"], response["error"]["code"]) == (1, code)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyError("no tool"), -32601, "no tool"),
        (ValueError("not a move"), -32602, "not a move"),
        (OSError("gone"), -32603, "gone"),
    ],
)
def test_the_kind_of_a_sessions_error_is_the_code_of_the_response(error, code, message):
    class Fails(Sums):
        def call_tool(self, name, arguments):
            raise error

    bridge = SessionMCPBridge(Fails())

    assert bridge.handle_request(request("tools/call", name="x"))["error"] == {
        "code": code, "message": message, "data": None,
    }  # fmt: skip
    assert isinstance(bridge.session, Fails)


def test_a_program_with_a_model_of_its_own_is_run_by_the_callers_function():
    def runner(bridge, session, limits):
        bridge.handle_request(request("tools/call", name="add", arguments={"amount": 5}))
        return HarnessRolloutResult(done=True, metrics={"total": session.total, "turns": limits.max_turns})

    assert CLIHarnessAdapter(runner).run_black_box(Sums()).metrics == {"total": 5, "turns": 10}
    with pytest.raises(NotImplementedError, match="use MCPHarnessAdapter"):
        CLIHarnessAdapter(runner).run_white_box(model()[0], Sums())
    with pytest.raises(NotImplementedError, match="use CLIHarnessAdapter"):
        MCPHarnessAdapter().run_black_box(Sums())


class Factory(ResourceSessionFactory):
    def __init__(self):
        self.made = []

    def create(self, task, seed=None, episode_id=None):
        self.made.append(Sums(task))
        return self.made[-1]


def test_a_trainer_gets_tokens_and_rewards_of_each_prompt():
    factory, trainer = Factory(), SimpleNamespace(steps=[["add"], ["add"]])
    rollout_func = build_harness_rollout_func(
        session_factory=factory, harness_adapter=MCPHarnessAdapter(), reward_key="reward",
        model_step_builder=lambda trainer, session: model(*trainer.steps)[0],
    )  # fmt: skip
    columns = rollout_func(["one", "two"], trainer)

    assert columns["reward"] == [2.0, 2.0]
    assert columns["prompt_ids"] == [[0, 1, 2]] * 2
    assert [session.task for session in factory.made] == ["one", "two"]
    assert all(session.is_closed for session in factory.made)
    (transcript, final_state), *_ = factory.made[0].verdicts
    assert (len(transcript), final_state["metrics"]) == (6, {"turns": 3, "tool_calls": 2})
    json.dumps(final_state)


class Paid(Sums):
    """Its tool gives the reward; the verdict of `verify` is a test's."""

    def __init__(self, reward, verdict):
        super().__init__()
        self.reward, self.verdict = reward, verdict

    def call_tool(self, name, arguments):
        return ToolResult(done=True, metadata={} if self.reward is None else {"reward": self.reward})

    def verify(self, transcript, final_state):
        return VerifyResult(env_reward=self.verdict)


def rewards_of(reward, verdict):
    rollout_func = build_harness_rollout_func(
        session_factory=SimpleNamespace(create=lambda *args, **kwargs: Paid(reward, verdict)),
        harness_adapter=MCPHarnessAdapter(), model_step_builder=lambda trainer, session: model(["add"])[0],
    )  # fmt: skip
    return rollout_func(["one"], None)["env_reward"]


@pytest.mark.parametrize(("reward", "verdict"), [(1.0, None), (1.0, 1.0), (None, 1.0)])
def test_the_reward_is_that_of_the_environment(reward, verdict):
    assert rewards_of(reward, verdict) == [1.0]


def test_a_verdict_sees_the_data_of_the_tools_as_they_gave_it():
    point, factory = SimpleNamespace(x=1), Factory()
    factory.create = lambda task: factory.made.append(Replies(ToolResult(point))) or factory.made[-1]
    build_harness_rollout_func(
        session_factory=factory, harness_adapter=MCPHarnessAdapter(),
        model_step_builder=lambda trainer, session: model(["look"])[0],
    )(["one"], None)  # fmt: skip

    assert factory.made[0].verdicts[0][1]["tool_trace"][0]["result"]["data"] is point


def test_no_reward_and_another_reward_than_the_environments_are_errors():
    with pytest.raises(ValueError, match="the episode has no reward"):
        rewards_of(None, None)
    with pytest.raises(ValueError, match="env_reward=2, and the environment gave 1"):
        rewards_of(1.0, 2.0)


def test_an_episode_that_ends_with_its_last_allowed_call_is_whole():
    rollout = MCPHarnessAdapter().run_white_box(
        model(["add", "add"])[0], Paid(1.0, None), HarnessRunLimits(max_total_tool_calls=1)
    )
    assert rollout.done
    assert "truncated" not in rollout.metrics


def test_a_session_is_closed_when_its_episode_fails():
    factory = Factory()
    rollout_func = build_harness_rollout_func(
        session_factory=factory, harness_adapter=MCPHarnessAdapter(),
        model_step_builder=lambda trainer, session: model(["nothing"])[0],
    )  # fmt: skip
    with pytest.raises(LookupError, match="no nothing"):
        rollout_func(["one"], None)

    assert factory.made[0].is_closed


def played(client, **options):
    options = {"tool_specs": [ADD], **options}
    return StepEnvSessionAdapter(
        client, task="count", action_builder=lambda name, arguments: CountAction(**arguments),
        initial_messages_builder=lambda result, task: [{"content": f"{task} {result.observation.total}"}], **options,
    )  # fmt: skip


def test_a_client_is_played_by_tools(serving):
    session = played(
        CountEnv(serving(create_app(CountingEnvironment))), episode_id="e", seed=1, reset_kwargs={"start": 4, "seed": 2}
    )
    assert session.initial_messages() == [{"content": "count 4"}]
    unplayed = session.verify([])
    result = session.call_tool("add", {"amount": 6})
    with pytest.raises(KeyError, match="'reset' is not among add"):
        session.call_tool("reset", {})
    session.close()
    verdict = session.verify([{}, {}], {"done": True})

    assert (unplayed.env_reward, unplayed.done, unplayed.metrics) == (None, False, {"step_count": 0})
    assert (result.done, result.data["observation"].total, result.metadata["reward"]) == (True, 10, 6.0)
    assert (verdict.env_reward, verdict.done, verdict.metrics) == (6.0, True, {"step_count": 1})
    assert verdict.artifacts["transcript_length"] == 2
    assert verdict.artifacts["final_state"] == result.metadata["state"]
    assert result.metadata["state"]["episode_id"] == "e"


class Plain:
    """A client without a state and without `sync`."""

    def __init__(self, error=None):
        self.error, self.is_closed = error, False

    def reset(self, **kwargs):
        if self.error is not None:
            raise self.error
        self.kwargs = kwargs
        return StepResult(observation=SimpleNamespace(total=0))

    def step(self, action):
        return StepResult(observation="seen", reward=1.0, done=True)

    def close(self):
        self.is_closed = True


def test_a_client_needs_no_state():
    client = Plain()
    session = played(client, seed=3)

    assert client.kwargs == {"seed": 3}
    assert session.call_tool("add", {"amount": 1}).metadata == {"reward": 1.0, "state": None}
    assert session.verify([]).metrics == {}


def test_a_client_is_closed_when_its_reset_fails():
    client = Plain(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        played(client)

    assert client.is_closed


def test_a_tool_with_a_reserved_name_is_refused():
    with pytest.raises(ValueError, match="tool_specs: state is reserved"):
        played(Plain(), tool_specs=[ADD, Tool(name="state", description="", input_schema={})])


def test_sessions_that_own_their_loop_are_known_by_their_methods():
    owns = SimpleNamespace(wait_for_completion=lambda timeout_s=None: 0, fetch_proxy_trace=list)

    assert isinstance(owns, LoopOwningSession)
    assert not isinstance(owns, TrainableSession)
    assert not isinstance(Sums(), LoopOwningSession)
