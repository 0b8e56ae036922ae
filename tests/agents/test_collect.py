"""Episodes are collected as JSON lines, and a run that was interrupted continues."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from openenv.agents import (
    HarnessRolloutResult,
    MCPHarnessAdapter,
    RolloutEvent,
    ToolResult,
    ToolTraceEntry,
    VerifyResult,
)
from openenv.agents.collect import (
    CollectRunner,
    EpisodeRecord,
    RolloutSerializer,
    build_dataset_readme,
    build_model_step,
    push_to_hf_hub,
)
from openenv.agents.llm.client import LLMClient, LLMResponse, ToolCall
from openenv.core.env_server.types import Observation
from tests.agents.test_rollout import ADD, Factory, model

pytestmark = pytest.mark.finding("every public name of the published package exists here")


@pytest.fixture
def runner(tmp_path):
    serializer = RolloutSerializer(tmp_path / "data")
    adapter = MCPHarnessAdapter()
    return CollectRunner(session_factory=Factory(), harness_adapter=adapter, serializer=serializer, tasks=["a", "b"])


def lines(tmp_path):
    return [json.loads(line) for line in (tmp_path / "data" / "results.jsonl").read_text().splitlines()]


def test_each_episode_is_a_line_with_its_task_and_reward(runner, tmp_path):
    result = runner.run(model_step=model(["add"])[0], num_episodes=3)

    assert [(line["episode_id"], line["task"], line["reward"]) for line in lines(tmp_path)] == [
        ("ep-000000", "a", 1.0),
        ("ep-000001", "b", 0.0),
        ("ep-000002", None, 0.0),
    ]
    assert (result.num_collected, result.avg_reward, result.success_rate) == (
        3,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )
    assert lines(tmp_path)[0]["tool_trace"][0]["result"]["data"] == {"total": 1}


def test_a_run_continues_where_it_was_and_keeps_what_it_should(runner, tmp_path):
    runner.run(model_step=model()[0], num_episodes=1)
    dropped = runner.run(model_step=model()[0], num_episodes=2, should_keep=lambda record: record.reward > 0)
    again = runner.run(model_step=model()[0], num_episodes=2)

    assert (dropped.num_skipped, dropped.num_dropped, dropped.num_collected) == (1, 1, 0)
    assert (again.num_skipped, again.num_collected, again.episode_ids) == (1, 1, ["ep-000000", "ep-000001"])
    assert len(lines(tmp_path)) == 2


def test_a_run_that_begins_again_keeps_the_earlier_file_under_another_name(runner, tmp_path):
    runner.run(model_step=model()[0], num_episodes=2)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="resume=False"):
            result = runner.run(model_step=model()[0], num_episodes=1, resume=False)

    assert (result.num_collected, [line["episode_id"] for line in lines(tmp_path)]) == (1, ["ep-000000"])
    backups = (tmp_path / "data").glob("results.*.bak.jsonl")
    assert sorted(len(path.read_text().splitlines()) for path in backups) == [1, 2]


@pytest.mark.parametrize("rest", [b"", b"\n"])
def test_an_episode_begins_a_line_also_where_the_last_lacks_its_end(runner, tmp_path, rest):
    (tmp_path / "data").mkdir()
    earlier = json.dumps({"episode_id": "ep-000000", "text": "x" * 9000}).encode()
    (tmp_path / "data" / "results.jsonl").write_bytes(earlier + b"\n" + earlier + rest)
    runner.run(model_step=model()[0], num_episodes=2)

    assert [line["episode_id"] for line in lines(tmp_path)] == ["ep-000000", "ep-000000", "ep-000001"]


def test_an_episode_is_not_appended_to_half_a_line(runner, tmp_path):
    runner.run(model_step=model()[0], num_episodes=1)
    serializer = RolloutSerializer(tmp_path / "data")
    whole = serializer.results_path.read_bytes()
    serializer.results_path.write_bytes(whole + b'{"episode_id": "ep-0')
    record = EpisodeRecord.from_rollout("b", HarnessRolloutResult(), VerifyResult(env_reward=1))
    with pytest.raises(ValueError, match="the last line is no episode"):
        serializer.write_episode(record)

    assert serializer.results_path.read_bytes() == whole + b'{"episode_id": "ep-0'


def test_each_episode_takes_a_task_of_any_iterable(tmp_path):
    runner = CollectRunner(
        session_factory=Factory(), harness_adapter=MCPHarnessAdapter(), tasks=map(str, itertools.count()),
        serializer=RolloutSerializer(tmp_path / "data"),
    )  # fmt: skip
    for prefix in ("a", "b"):
        runner.run(model_step=model()[0], num_episodes=2, episode_id_prefix=prefix)

    assert [line["task"] for line in lines(tmp_path)] == ["0", "1", "2", "3"]


def test_a_record_has_the_environments_reward_and_values_of_json():
    observation = Observation(done=True, reward=2.0)
    result = ToolResult({"seen": Path("a"), "entry": RolloutEvent("x"), "all": observation}, metadata={"reward": 2.0})
    rollout = HarnessRolloutResult(tool_trace=[ToolTraceEntry("look", {}, result)])
    record = EpisodeRecord.from_rollout("a", rollout, VerifyResult())

    data = record.to_dict()["tool_trace"][0]["result"]["data"]
    assert record.reward == 2.0
    assert data == {"seen": "a", "entry": {"type": "x", "payload": {}}, "all": str(observation)}


def test_an_episode_that_fails_is_counted_and_the_others_go_on(runner, tmp_path):
    result = runner.run(model_step=model(["nothing"])[0], num_episodes=2)

    assert (result.num_failed, result.num_collected) == (1, 1)


@pytest.mark.parametrize("line", [b'{"broken', b"[]", b'{"episode_id": 1}', b"\xff"])
def test_a_line_that_is_no_episode_is_named(runner, tmp_path, line):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "results.jsonl").write_bytes(b'{"episode_id": "ep-000000"}\n\n' + line + b"\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 3 is no episode"):
        runner.run(model_step=model()[0], num_episodes=1)


class Scripted(LLMClient):
    def __init__(self):
        super().__init__("http://localhost", 1)
        self.requests, self.loops = [], set()

    async def complete(self, prompt, **kwargs):
        raise AssertionError("not used")

    async def complete_with_tools(self, messages, tools, **kwargs):
        self.requests.append((messages, tools, kwargs))
        self.loops.add(asyncio.get_running_loop())
        return LLMResponse("ok", [ToolCall("1", "add", {})])


def test_a_model_step_sends_conversation_tools_and_sampling_to_the_service():
    client = Scripted()
    step = build_model_step(client, system_prompt="Add.")
    result = step([{"role": "user", "content": "go"}], [ADD], {"temperature": 0.5})
    step([{"role": "system", "content": "Own."}], [], {})

    messages, tools, sampling = client.requests[0]
    assert (result.response.content, sampling) == ("ok", {"temperature": 0.5})
    assert messages == [{"role": "system", "content": "Add."}, {"role": "user", "content": "go"}]
    assert tools == [{"name": "add", "description": ADD.description, "inputSchema": ADD.input_schema}]
    assert client.requests[1][0] == [{"role": "system", "content": "Own."}]


async def test_all_requests_to_models_share_one_event_loop():
    client = Scripted()
    steps = [build_model_step(client), build_model_step(client)]
    for step in steps:
        step([], [], {})

    assert len(client.loops) == 1


def test_sampling_parameters_that_not_every_model_takes_are_left_out():
    client = Scripted()
    with pytest.warns(RuntimeWarning, match="top_k is not sent"):
        build_model_step(client)([], [], {"top_p": 0.5, "max_tokens": 3, "top_k": 1})

    assert client.requests[0][2] == {"top_p": 0.5, "max_tokens": 3}


def test_the_page_of_a_data_set_takes_the_episodes_alone_as_data(runner, tmp_path):
    runner.run(model_step=model()[0], num_episodes=2)
    RolloutSerializer(tmp_path / "data").write_metadata({"model": "small"})
    readme = build_dataset_readme(tmp_path / "data")

    assert readme.startswith("---\nconfigs:\n")
    assert 'path: "results.jsonl"' in readme
    assert "2 episodes" in readme
    assert "| `model` | `small` |" in readme


def test_without_episodes_nothing_is_uploaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="collect episodes first"):
        push_to_hf_hub(tmp_path, "owner/name")
