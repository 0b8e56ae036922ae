"""`openenv eval --policy agent:PROGRAM@MODEL@URL` compares an agent's program with other policies."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from openenv.auto.environment import named_environment
from openenv.core.errors import ServerUnreachable
from openenv.evaluation.episode_files.records import read_episodes
from openenv.policies.registry import EndpointOptions
from openenv.rl.agents.policy import program_policy
from tests.chat_server import ChatService
from tests.cli.commands import run

pytestmark = pytest.mark.process
PLAYERS = Path(__file__).parents[1] / "rl" / "agents" / "players.py"
CATCH = ["--game", "catch", "--episodes", "4", "--sessions", "2", "--json"]


def evaluated(url: str, tmp_path: Path, policy: str, *options: str) -> Any:
    """The finished command, and its rows."""
    done = run("eval", url, "--policy", policy, *CATCH, *options, cwd=tmp_path)
    return done, json.loads(done.stdout or "[]")


def test_a_program_plays_equal_episodes_beside_another_policy(openspiel_url, serving, tmp_path):
    service = ChatService(lambda body: "stay")
    at = serving(service.app())
    done, (agent, stay) = evaluated(openspiel_url, tmp_path, f"agent:{PLAYERS}:one_turn@tiny@{at}/v1,stay")

    assert done.returncode == 0, done.stderr
    assert (agent["name"], agent["mean_return"]) == (f"agent:{PLAYERS}:one_turn@tiny", stay["mean_return"])
    assert (agent["num_episodes"], agent["mean_steps"], agent["num_replies"]) == (4, 9.0, 36)
    assert (agent["prompt_tokens"], agent["completion_tokens"]) == (36 * 7, 36 * 3)
    assert {body["model"] for body in service.bodies} == {"tiny"}


def test_a_command_plays_and_its_episodes_are_saved_with_its_conversations(openspiel_url, serving, tmp_path):
    service = ChatService(lambda body: "stay")
    command = f"agent:{sys.executable} {PLAYERS}@tiny@{serving(service.app())}/v1"
    done, (row,) = evaluated(openspiel_url, tmp_path, command, "--save", "saved")

    assert (done.returncode, row["num_episodes"]) == (0, 4), done.stderr
    (file,) = (tmp_path / "saved").iterdir()
    episodes = list(read_episodes(file))
    assert sorted(episode.seed for episode in episodes) == [0, 1, 2, 3]
    for episode in episodes:
        assert len(episode.turns) == 9
        assert episode.turns[-1].done
        assert all(turn.reply["content"] == "stay" and turn.action == {"action_id": 1} for turn in episode.turns)
        assert all(turn.shown[0]["content"] for turn in episode.turns)


def test_a_failed_call_makes_one_episode_invalid_and_resume_plays_it_again(openspiel_url, serving, tmp_path):
    app, requests = FastAPI(), itertools.count(1)

    @app.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> Any:
        if next(requests) == 5:
            return JSONResponse({"error": {"message": "the prompt was filtered"}}, 400)
        return {"choices": [{"message": {"content": "stay"}}]}

    policy = f"agent:{PLAYERS}:one_turn@tiny@{serving(app)}/v1"
    first, (row,) = evaluated(openspiel_url, tmp_path, policy, "--save", "saved")
    assert (first.returncode, row["num_episodes"], row["num_invalid"]) == (0, 3, 1), first.stderr
    assert "the prompt was filtered" in first.stderr
    played = next(requests)

    _, (row,) = evaluated(openspiel_url, tmp_path, policy, "--save", "saved", "--resume")

    assert (row["num_episodes"], row["num_invalid"], next(requests) - played) == (4, 0, 9 + 1)


def test_retries_let_a_program_call_again_after_a_call_without_an_action(openspiel_url, serving, tmp_path):
    service = ChatService(lambda body: "stay" if "names none of" in body["messages"][-1]["content"] else "jump")
    policy = f"agent:{PLAYERS}:one_turn@tiny@{serving(service.app())}/v1"
    outcomes = []
    for retries in ("0", "1"):
        _, (row,) = evaluated(openspiel_url, tmp_path, policy, "--retries", retries)
        outcomes.append((row["num_unparseable"], row["mean_steps"]))

    assert outcomes == [(4, 0.0), (0, 9.0)]


def test_the_agent_of_a_runs_yaml_has_its_time_limit(openspiel_url, tmp_path):
    (tmp_path / "run.yaml").write_text(f"agent: {{function: {PLAYERS}:sleeps, time_limit_s: 0.5}}\n")
    done, (row,) = evaluated(openspiel_url, tmp_path, "agent:run.yaml@tiny@http://127.0.0.1:9/v1")

    assert (done.returncode, row["num_episodes"], row["num_stopped"]) == (0, 4, 4), done.stderr


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("agent:program.py:play", "write agent:PROGRAM@MODEL@URL"),
        ("agent:@tiny@http://localhost/v1", "write agent:PROGRAM@MODEL@URL"),
        ("agent:nothing.py:play@tiny@http://localhost/v1", "there is no file"),
        (f"agent:{PLAYERS}:plays@tiny@http://localhost/v1", "has no plays"),
        ("agent:run.yaml@tiny@http://localhost/v1", "run.yaml has no agent"),
    ],
)
def test_a_wrong_name_is_refused_with_the_remedy(tmp_path, monkeypatch, name, problem):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("seed: 3\n")
    with pytest.raises((ValueError, LookupError), match=problem):
        program_policy(name, None, EndpointOptions())


class Gone:
    """Two sessions whose server is not there any more."""

    def __len__(self) -> int:
        return 2

    async def reset(self, requests):
        return {session: ServerUnreachable("the server is gone") for session in requests}


async def test_a_server_that_is_gone_ends_the_evaluation():
    """With invalid episodes, each of the others would wait as long for it."""
    text = named_environment("openspiel").served_at("http://127.0.0.1:9").text
    policy = program_policy(f"agent:{PLAYERS}:one_turn@tiny@http://127.0.0.1:9/v1", text, EndpointOptions())

    with pytest.raises(ServerUnreachable, match="the server is gone"):
        await policy.play(Gone(), {number: {"seed": number} for number in range(4)}, None, [])
