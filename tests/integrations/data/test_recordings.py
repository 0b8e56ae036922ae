"""Recordings of sessions, and sample transcripts of training, as episodes."""

import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
from fastapi import FastAPI

from openenv.auto.environment import NamedEnvironment
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.sessions.recording import observation_hash
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.integrations.data import load_episodes
from openenv.integrations.data.training_rows import sft_rows
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process


@pytest.fixture
def recording(serving: Callable[[FastAPI], str], tmp_path: Path) -> Path:
    """A recorded session of a game of tic-tac-toe, and of the beginning of another one."""
    url = serving(create_app(OpenSpielEnvironment, config=ServerConfig(record_dir=tmp_path)))
    with OpenSpielEnv(url) as env:
        for most in (9, 1):
            result = env.reset(game_name="tic_tac_toe")
            for _ in range(most):
                if not result.done:
                    result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        return tmp_path / f"{env.session_id}.jsonl"


@pytest.mark.integration("data", "a recorded session, replayed, to datasets and back", package="datasets")
def test_a_recorded_session_is_exported_with_the_observations_that_were_recorded(
    recording: Path, tmp_path: Path, record_property: Record
) -> None:
    out = tmp_path / "data"
    done = run("export", str(recording), "--env", "openspiel", "--to", "datasets", "--out", str(out))
    assert done.returncode == 0, done.stderr

    first, second = datasets.load_from_disk(out)
    lines = [json.loads(line) for line in recording.read_text().splitlines()[1:]]
    seen = [turn["observation"] for row in (first, second) for turn in [*row["turns"], None] if turn]
    finals = [first["final_observation"], second["final_observation"]]
    recorded = [line["observation_sha256"] for line in lines]
    exported = [observation_hash(one) for one in (*seen[:-1], finals[0], seen[-1], finals[1])]
    record_property("figure", f"{len(recorded)} observations equal")
    assert exported == recorded
    assert [turn["action"] for row in (first, second) for turn in row["turns"]] == [
        line["data"] for line in lines if line["verb"] == "step"
    ]
    assert [turn["done"] for turn in first["turns"]] == [*[False] * (len(first["turns"]) - 1), True]
    assert (first["reset"], first["seed"]) == ({"game_name": "tic_tac_toe"}, lines[0]["data"]["seed"])


def test_a_replay_that_differs_is_not_exported(recording: Path, tmp_path: Path) -> None:
    recording.write_text(recording.read_text().replace('"reward":', '"reward":7,"was":', 2))
    done = run("export", str(recording), "--env", "openspiel", "--to", "datasets", "--out", str(tmp_path / "data"))

    assert (done.returncode, "line 2" in done.stderr, "reward was 7" in done.stderr) == (1, True, True), done.stderr
    assert not (tmp_path / "data").exists()


def test_recordings_of_one_environment_are_replayed_on_one_server(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    served = NamedEnvironment.served
    monkeypatch.setattr(NamedEnvironment, "served", lambda self: started.append(self.name) or served(self))
    copied = tmp_path / "copied.jsonl"
    copied.write_text(recording.read_text())

    episodes = load_episodes([recording, copied], environment="openspiel")

    assert started == ["openspiel"]
    assert [len(episode.steps) for episode in episodes[:2]] == [len(episode.steps) for episode in episodes[2:]]


def test_a_recording_without_an_environment_is_an_error_with_the_remedy(recording: Path, tmp_path: Path) -> None:
    done = run("export", str(recording), "--to", "sft", "--out", str(tmp_path / "data"))
    assert (done.returncode, "--env" in done.stderr) == (1, True)


def test_transcripts_of_training_are_texts_as_their_tokens_decode(tmp_path: Path) -> None:
    turns = [
        {"prompt": "<|user|> up ?", "continues": False, "reply": "left", "action": "left", "reward": 0.0},
        {"prompt": "<|user|> again ?", "continues": True, "reply": "huh", "action": None, "reward": 0.0},
        {"prompt": "<|user|> what ?", "continues": True, "reply": "up", "action": "up", "reward": 1.0},
    ]
    transcript = {
        "step": 5, "environment": 0, "group": 2, "seed": 11, "policy_version": 4, "outcome": "won", "reason": "",
        "return": 1.0, "reward": 1.0, "turns": turns,
    }  # fmt: skip
    path = tmp_path / "transcripts.jsonl"
    path.write_text(json.dumps(transcript) + "\n")
    (episode,) = load_episodes([path])

    rows = [(row["prompt"], row["completion"]) for row in sft_rows([episode])]
    assert rows == [
        ("<|user|> up ?", "left"),
        ("<|user|> up ?left<|user|> again ?huh<|user|> what ?", "up"),
    ]
