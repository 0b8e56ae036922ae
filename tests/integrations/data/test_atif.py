"""Recorded episodes in the Agent Trajectory Interchange Format, checked by its schema and by Harbor itself."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.integrations.data import export_episodes
from tests.integrations_table import Record

pytestmark = pytest.mark.process
HARBOR = os.environ.get("HARBOR_PYTHON", ".venv-harbor/bin/python")
"""The Python of Harbor, which needs 3.12; `make .venv-harbor/.installed` makes it."""
VALIDATE = """
import sys
from importlib.metadata import version
from harbor.utils.trajectory_validator import TrajectoryValidator
for path in sys.argv[1:]:
    validator = TrajectoryValidator()
    assert validator.validate(path), (path, validator.errors)
print(version("harbor"), len(sys.argv) - 1)
"""


@pytest.fixture
def trajectories(
    blackjack: list[RecordedEpisode], called: list[RecordedEpisode], tmp_path: Path
) -> list[tuple[Path, RecordedEpisode]]:
    """Files, each with the episode that it was made of."""
    made = []
    for name, episodes in (("texts", blackjack[:10]), ("calls", called)):
        export_episodes(episodes, "atif", tmp_path / name)
        made += [(tmp_path / name / f"{episode.episode_id}.json", episode) for episode in episodes]
    return made


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.integration("data", "episodes of blackjack and calendar to ATIF, against its schema", package="jsonschema")
def test_every_file_is_valid_by_the_schema(
    trajectories: list[tuple[Path, RecordedEpisode]], record_property: Record
) -> None:
    schema = json.loads(Path(__file__).with_name("atif.schema.json").read_text())
    for path, _ in trajectories:
        jsonschema.validate(read(path), schema)
    record_property("figure", f"{len(trajectories)} files valid")

    broken = read(trajectories[0][0])
    broken["steps"][0]["reward"] = 1.0
    with pytest.raises(jsonschema.ValidationError, match="reward"):
        jsonschema.validate(broken, schema)


@pytest.mark.integration("data", "the same files, by Harbor's own validator")
@pytest.mark.skipif(not Path(HARBOR).is_file(), reason="no .venv-harbor: it needs Python 3.12")
def test_harbor_accepts_every_file(trajectories: list[tuple[Path, RecordedEpisode]], record_property: Record) -> None:
    paths = [str(path) for path, _ in trajectories]
    done = subprocess.run([HARBOR, "-c", VALIDATE, *paths], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    harbor, number = done.stdout.split()
    record_property("figure", f"harbor {harbor}: {number} files valid")
    assert int(number) == len(paths)


def test_steps_are_what_was_shown_replied_and_returned(trajectories: list[tuple[Path, RecordedEpisode]]) -> None:
    for path, episode in trajectories:
        found = read(path)
        agent = [step for step in found["steps"] if step["source"] == "agent"]
        assert [step["extra"].get("observation") for step in agent] == [turn.observation for turn in episode.turns]
        assert [step["extra"].get("reward") for step in agent] == [turn.reward for turn in episode.turns]
        assert [step["extra"].get("action") for step in agent] == [turn.action for turn in episode.turns]
        assert found["extra"]["total_reward"] == episode.total_reward
        assert found["extra"]["final_observation"] == episode.final_observation


def test_the_models_calls_are_tool_calls_with_their_results(called: list[RecordedEpisode], tmp_path: Path) -> None:
    export_episodes(called, "atif", tmp_path / "calls")
    found = read(tmp_path / "calls" / f"{called[0].episode_id}.json")

    first, second, third = (step for step in found["steps"] if step["source"] == "agent")
    assert [call["function_name"] for call in first["tool_calls"]] == ["list_people"]
    assert first["observation"]["results"][0]["source_call_id"] == first["tool_calls"][0]["tool_call_id"]
    assert "name" in first["observation"]["results"][0]["content"]
    assert "tool_calls" not in second, "the reply named no tool"
    assert [call["function_name"] for call in third["tool_calls"]] == ["finish"]
    assert {tool["function"]["name"] for tool in found["agent"]["tool_definitions"]} >= {"list_people", "finish"}
    assert found["agent"]["model_name"] == "tiny"
    assert found["final_metrics"] == {"total_prompt_tokens": 21, "total_completion_tokens": 9, "total_steps": 5}
