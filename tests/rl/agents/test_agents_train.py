"""Runs in which a program plays that calls its model by itself: from the YAML to trained weights."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from openenv.core.errors import ContainerFault
from openenv.dialects.harbor.box import sandbox_host
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.reports.results import read_rows
from openenv.rl.run import run
from openenv.rl.setup import setup_training

EXAMPLES = Path(__file__).parents[3] / "examples" / "agents"
PLAYERS = Path(__file__).with_name("players.py")
FAILS_LATER = 'if test -e "$MARKER"; then echo so it goes; exit 3; fi; touch "$MARKER"'
ALONE = """
import os, httpx, openai
client, seen = openai.OpenAI(), os.environ["OPENENV_OBSERVATION"]
while "The episode has ended" not in seen:
    messages = [{"role": "user", "content": seen}]
    reply = client.chat.completions.create(model="any", messages=messages).choices[0].message.content
    call = {"method": "tools/call", "params": {"name": "reply", "arguments": {"reply": reply}}}
    answer = httpx.post(os.environ["OPENENV_MCP_URL"], json={"jsonrpc": "2.0", "id": 1, **call})
    seen = answer.json()["result"]["content"][0]["text"]
"""
SETTINGS: dict[str, Any] = {
    "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
    "seed": 1,
    "group_size": 4,
    "model": {"precision": "float32", "num_layers": 1, "hidden_size": 64, "num_heads": 2},
    "pretrain": {"steps": 60, "max_decisions": 2000, "batch_size": 128},
    "replay_buffer": {"batch_size": 4},
    "trainer": {"training": {"steps": 3}},
    "transcripts": {"interval": 1},
    "evaluation": {"num_games": 8, "sessions": 8},
}


def config_of(folder: Path, agent: Any, **settings: Any) -> Config:
    agent = {"function": agent} if isinstance(agent, str) else agent
    agent = {"random_episodes": 4, **agent}
    return config_from_mapping({**SETTINGS, "agent": agent, "checkpoint": {"folder": str(folder)}, **settings})


@pytest.mark.parametrize(("agent", "has_signal"), [("one_turn", True), ("talker", False)])
async def test_an_agent_is_trained_and_evaluated(agent: str, has_signal: bool, tmp_path: Path) -> None:
    """has_signal: whether the tiny model knows prompts as the agent's, so that its episodes end differently."""
    config = config_of(tmp_path, f"{PLAYERS}:{agent}")

    result = await run(config)

    rows = read_rows(config.run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["episodes/invalid"] == 0 and row["num_episodes"] >= 16 for row in rows)
    assert any(row["grad_norm"] > 0 for row in rows) or not has_signal
    assert {one.name for one in result.results} >= {"random", "before GRPO (sampled)", "after GRPO (greedy)"}
    (first, *_) = (json.loads(line) for line in (config.run_dir / "transcripts.jsonl").read_text().splitlines())
    assert len(first["turns"]) >= len(first["actions"]) > 0
    assert all(turn["prompt"] for turn in first["turns"])


@pytest.mark.parametrize("program", ["with_openai", "with_smolagents", "with_pydantic_ai"])
async def test_an_agent_of_each_library_is_trained_on_the_calls_that_it_makes(program: str, tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        {"function": f"{EXAMPLES / program}.py:play", "random_episodes": 8},
        env={"name": f"{EXAMPLES / 'doors.py'}:Doors"},
        max_req_tokens=700,
        max_res_tokens=24,
        pretrain={"steps": 3, "batch_size": 64, "max_decisions": 200},
        trainer={"training": {"steps": 1}},
        evaluation={"num_games": 2, "interval": 0},
    )

    await run(config)

    (row,) = read_rows(config.run_dir / "metrics.jsonl")
    assert row["episodes/invalid"] == 0
    assert row["num_episodes"] >= 16
    (first, *_) = (json.loads(line) for line in (config.run_dir / "transcripts.jsonl").read_text().splitlines())
    assert "open_door" in first["turns"][0]["prompt"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", sorted((EXAMPLES / "libraries").glob("*.py")), ids=lambda file: file.stem)
async def test_an_agent_of_a_library_that_uv_installs_is_trained(program: Path, tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        {"command": [str(Path(sys.executable).with_name("uv")), "run", "--quiet", "--script", str(program)]},
        env={"name": f"{EXAMPLES / 'doors.py'}:Doors"},
        max_req_tokens=4000,
        max_res_tokens=40,
        pretrain={"steps": 100, "batch_size": 16, "max_decisions": 200},
        replay_buffer={"batch_size": 1},
        trainer={"training": {"steps": 1}},
        evaluation={"num_games": 2, "interval": 0},
    )

    await run(config)

    (row,) = read_rows(config.run_dir / "metrics.jsonl")
    assert row["episodes/invalid"] == 0
    assert row["num_episodes"] == 4
    (first, *_) = (json.loads(line) for line in (config.run_dir / "transcripts.jsonl").read_text().splitlines())
    assert "open_door" in first["turns"][0]["prompt"]


async def played(config: Config) -> Group:
    """A group of a run before its first step."""
    training = await setup_training(config)
    try:
        async with training.engine.workers() as ((worker, *_),):
            (group,) = await worker.play([0], config.env[0].reset)
    finally:
        await training.shutdown()
    return group


async def test_a_process_plays_its_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing is there: the endpoint needs no proxy

    group = await played(config_of(tmp_path, {"command": [sys.executable, str(PLAYERS)]}))

    assert len(group.valid) == 4
    assert all(one.turns and one.segments for one in group.valid)


async def test_an_agent_does_a_task_of_harbor_by_its_functions(tmp_path: Path) -> None:
    try:
        sandbox_host()
    except ContainerFault as error:
        pytest.skip(str(error))
    env, pretrain = {"name": "harbor:examples/harbor/sum-column"}, {"steps": 2, "max_decisions": 8}
    group = await played(config_of(tmp_path, f"{PLAYERS}:works", env=env, pretrain=pretrain))

    assert [one.outcome for one in group.trajectories] == ["won"] * 4, [one.reason for one in group.trajectories]
    assert all(one.game_return == 1.0 and one.segments for one in group.trajectories)


async def test_a_process_in_a_sandbox_plays_its_episode(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(ALONE, encoding="utf-8")
    agent = {"command": ["python3", str(program)], "sandbox": {"packages": ["openai"]}}

    group = await played(config_of(tmp_path, agent))

    assert len(group.valid) == 4
    assert all(one.turns and one.segments for one in group.valid)


@pytest.mark.parametrize(
    ("agent", "outcome", "reason"),
    [
        ({"function": f"{PLAYERS}:crashes"}, "invalid", "the agent has failed: RuntimeError: a fault of the agent"),
        ({"command": ["sh", "-c", FAILS_LATER]}, "invalid", "it ended with 3: so it goes"),
        ({"function": f"{PLAYERS}:leaves"}, "push", "the program has ended before the episode"),
        ({"function": f"{PLAYERS}:sleeps", "time_limit_s": 0.5}, "push", "stopped after agent.time_limit_s=0.5"),
        ({"function": f"{PLAYERS}:asks_forever", "time_limit_s": 1.0}, "push", "stopped after agent.time_limit_s=1"),
        ({"function": f"{PLAYERS}:times_out"}, "invalid", "the agent has failed: TimeoutError: a limit of the agent"),
        ({"function": f"{PLAYERS}:never_waits"}, "invalid", "was lost: the program has not waited for its reply"),
    ],
    ids=[
        "crashes",
        "a process that fails",
        "leaves",
        "sleeps",
        "asks forever",
        "fails by a limit of its own",
        "loses a call",
    ],
)
async def test_no_program_has_a_reward_that_its_environment_did_not_give(
    agent: dict[str, Any], outcome: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKER", str(tmp_path / "has_run"))

    group = await played(config_of(tmp_path, {**agent, "random_episodes": 1}))

    for trajectory in group.trajectories:
        assert trajectory.outcome == outcome
        assert reason in trajectory.reason
        assert trajectory.game_return is None or trajectory.game_return == 0


async def test_what_a_program_asks_after_the_end_is_not_trained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "openenv.rl.agents.episodes")

    group = await played(config_of(tmp_path, {"function": f"{PLAYERS}:asks_on", "random_episodes": 1}))

    assert all(one.valid for one in group.trajectories)
    trained = [len(segment.replies) for one in group.trajectories for segment in one.segments]
    assert sum(trained) == sum(len(one.turns) for one in group.trajectories)
    assert "tokens not trained: after the end" in caplog.text


async def test_a_program_that_only_fails_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"command": ["sh", "-c", "echo so it goes; exit 3"]})
    seen = []

    with pytest.raises(ConfigError, match=r"^agent: 4 episodes of random play have failed.*ended with 3: so it goes"):
        await setup_training(config, on_progress=lambda *progress: seen.append(progress[:3]))

    assert seen == [("random play", done, 4) for done in (1, 2, 3, 4)]


def test_what_agents_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.function, agent\.command=.*: give one of them"):
        config_from_mapping({"agent": {"time_limit_s": 3}})
    with pytest.raises(ConfigError, match=r"agent\.tool_choice='required': needs a loaded model"):
        config_from_mapping({"agent": {"function": "a:b", "tool_choice": "required"}})
    with pytest.raises(ConfigError, match=r"agent\.random_episodes=0: must be at least 1"):
        config_from_mapping({"agent": {"function": "a:b", "random_episodes": 0}})
    with pytest.raises(ConfigError, match=r"reward\.credit='step': is not for agents"):
        config_from_mapping({"agent": "a:b", "reward": {"credit": "step"}})
