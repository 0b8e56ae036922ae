"""A researcher writes a few lines of YAML, and a model learns an environment that the package has never seen."""

import subprocess
import sys
from pathlib import Path

import pytest

from openenv.auto.environment import named_environment
from openenv.rl.reports.results import PlayerResult, load_results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

GAMES = Path(__file__).with_name("games")
EXAMPLES = Path(__file__).parents[2] / "examples"


def train(folder: Path, config: str) -> dict[str, PlayerResult]:
    """Run `openenv train` on this YAML in a folder; return the results by the player's role."""
    (folder / "run.yaml").write_text(config)
    command = [sys.executable, "-m", "openenv", "train", "run.yaml"]
    subprocess.run(command, cwd=folder, check=True, timeout=1700)
    (run_dir,) = (folder / "runs").iterdir()
    return {result.role: result for result in load_results(run_dir)}


@pytest.mark.parametrize("by", ["file", "url"])
def test_a_game_in_one_file_is_learned_from_three_lines(by: str, tmp_path: Path) -> None:
    environment = named_environment(f"{GAMES / 'number_words.py'}:GameEnvironment")
    with environment.running() as url:
        results = train(
            tmp_path,
            f"env: {{name: '{environment.name if by == 'file' else url}'}}\n"
            "max_res_tokens: 2\n"
            "trainer: {training: {steps: 60}}\n",
        )

    assert results["baseline"].mean_return == pytest.approx(0.1, abs=0.03)
    assert results["after"].mean_return >= 0.95


@pytest.mark.parametrize(
    ("game", "reply_tokens", "random"),
    [("parcels.py:ParcelEnvironment", 32, 1 / 3), ("thermostat.py:ThermostatEnvironment", 24, 1 / 8)],
)
def test_json_and_tool_calls_are_learned_to_nine_tenths_of_the_best_reward(
    game: str, reply_tokens: int, random: float, tmp_path: Path
) -> None:
    results = train(
        tmp_path,
        f"env: {{name: '{GAMES / game}'}}\n"
        f"max_res_tokens: {reply_tokens}\n"
        "pretrain: {max_decisions: 10000}\n"  # a call of an MCP tool takes milliseconds
        "trainer: {training: {steps: 100}}\n"
        "replay_buffer: {batch_decisions: 500}\n"
        "evaluation: {num_games: 2000}\n",
    )

    assert results["baseline"].mean_return == pytest.approx(random, abs=0.05)
    assert results["after"].mean_return >= 0.9
    assert results["after"].num_unparseable <= 0.01 * results["after"].num_games


def test_catch_is_learned_from_pixels(tmp_path: Path) -> None:
    config = (EXAMPLES / "catch_pixels/catch_pixels.yaml").read_text()
    results = train(tmp_path, config.replace("examples/", f"{EXAMPLES}/"))

    assert results["baseline"].win_rate == pytest.approx(0.2, abs=0.04)
    assert results["after"].win_rate >= 0.9
