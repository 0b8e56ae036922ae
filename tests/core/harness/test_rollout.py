"""A language model plays whole episodes by calling the tools of a session."""

import json
from types import SimpleNamespace

import pytest

from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import (
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
from openenv.core.llm_client import LLMResponse, ToolCall
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.finding("B1")

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
        ({"max_total_tool_calls": 1}, 1, 1),
        ({"max_tool_calls_per_turn": 1, "max_turns": 2}, 2, 2),
    ],
)
def test_a_limit_cuts_an_episode_short_and_the_metrics_say_so(limits, calls, turns):
    step, _ = model(*[["add", "add"]] * 3)
    rollout = MCPHarnessAdapter().run_white_box(step, Sums(), HarnessRunLimits(**limits))

    assert (rollout.done, rollout.metrics) == (False, {"turns": turns, "tool_calls": calls, "truncated": True})


def test_a_reserved_tool_is_refused():
    with pytest.raises(ValueError, match="'reset', which is reserved"):
        MCPHarnessAdapter().run_white_box(model(["reset"])[0], Sums())


def request(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_an_agents_program_lists_and_calls_tools_through_the_bridge():
    bridge = SessionMCPBridge(Sums())

    listed = bridge.handle_request(request("tools/list"))["result"]["tools"]
    assert listed == [{"name": "add", "description": ADD.description, "inputSchema": {"type": "object"}}]
    called = bridge.handle_request(request("tools/call", name="add", arguments={"amount": 3}))["result"]
    assert called == {"data": {"total": 3}, "done": True, "metadata": {}, "error": None}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"id": 1}, -32600),
        (request("initialize"), -32601),
        (request("tools/call"), -32602),
        (request("tools/call", name="reset"), -32602),
        (request("tools/call", name="nothing"), -32603),
    ],
)
def test_a_wrong_request_is_an_error_with_its_code(wrong, code):
    response = SessionMCPBridge(Sums()).handle_request(wrong)

    assert (response["id"], response["error"]["code"]) == (1, code)


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


def test_a_client_is_played_by_tools(serving):
    with CountEnv(serving(create_app(CountingEnvironment))) as env:
        session = StepEnvSessionAdapter(
            env, task="count", episode_id="e", reset_kwargs={"start": 4}, tool_specs=[ADD],
            action_builder=lambda name, arguments: CountAction(**arguments),
            initial_messages_builder=lambda result, task: [{"content": f"{task} {result.observation.total}"}],
        )  # fmt: skip
        assert session.initial_messages() == [{"content": "count 4"}]
        result = session.call_tool("add", {"amount": 6})

        assert (result.done, result.data["observation"].total, result.metadata["reward"]) == (True, 10, 6.0)
        verdict = session.verify([{}, {}])
        assert (verdict.env_reward, verdict.done, verdict.artifacts["transcript_length"]) == (6.0, True, 2)
        assert verdict.artifacts["final_state"].episode_id == "e"
        with pytest.raises(KeyError, match="'reset' is not among add"):
            session.call_tool("reset", {})


def test_sessions_that_own_their_loop_are_known_by_their_methods():
    owns = SimpleNamespace(wait_for_completion=lambda timeout_s=None: 0, fetch_proxy_trace=list)

    assert isinstance(owns, LoopOwningSession)
    assert not isinstance(owns, TrainableSession)
    assert not isinstance(Sums(), LoopOwningSession)
