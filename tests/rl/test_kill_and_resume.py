"""A run that is killed at any moment and resumed has the numbers of a run that was left alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openenv.rl.reports.results import load_results, read_rows
from tests.rl.models.small_models import DEVICES

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
from openenv.rl.config_file import config_from_mapping
from openenv.rl.run import run_blocking
config = config_from_mapping(json.loads(sys.argv[1]))
run_blocking(config, resume=True, on_progress=lambda what, done, total, known: print(what, known.get("step", done),
    flush=True))
"""

CONFIG: dict[str, Any] = {
    "name": "killed",
    "env": [
        {"name": "openspiel", "reset": {"game_name": "blackjack"}},
        {
            "name": "openspiel",
            "reset": {"game_name": "catch"},
            "curriculum": {
                "levels": [{"game_params": {"rows": rows}} for rows in (3, 4, 5)],
                "episodes": 8,
                "raise_at": 0.2,
                "lower_at": 0.0,
            },
            "success_return": -1.0,  # any game that is played to its end
        },
        {"name": "openspiel", "reset": {"game_name": "kuhn_poker"}, "self_play": {"refresh": 5}},
    ],
    "model": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 64},
    "group_size": 4,
    "groups_in_flight": 4,
    "off_by_n": 1,
    "max_res_tokens": 3,
    "pretrain": {"max_episodes": 200, "steps": 100, "batch_size": 64},
    "replay_buffer": {"batch_size": 6, "equal_groups": "redraw"},
    "trainer": {"training": {"steps": 12}},
    "checkpoint": {"interval": 4},
    "evaluation": {"num_games": 40, "sessions": 8, "interval": 3, "interval_games": 8, "pass_k": 2},
}
CURVE = (
    "step",
    "reward",
    "return",
    "kl",
    "entropy",
    "grad_norm",
    "learning_rate",
    "num_tokens",
    "num_groups/played",
    "eval/score",
    "eval/catch/sampled/return",
    "eval/blackjack/pass@2",
    "level/catch",
)


def started(folder: Path, device: str) -> "subprocess.Popen[str]":
    model = {**CONFIG["model"], "device": device}
    config = json.dumps({**CONFIG, "model": model, "checkpoint": {**CONFIG["checkpoint"], "folder": str(folder)}})
    return subprocess.Popen([sys.executable, "-c", PROGRAM, config], stdout=subprocess.PIPE, text=True)


def killed_at(folder: Path, device: str, phase: str, done: int) -> None:
    """Run until the program reports that so much of a phase is done, and kill it there."""
    process = started(folder, device)
    assert process.stdout is not None
    try:
        reports = (line.rsplit(maxsplit=1) for line in process.stdout)
        assert any(name == phase and int(count) >= done for name, count in reports), f"ended before {phase} {done}"
    finally:
        process.kill()
        process.communicate()


def curve(folder: Path) -> list[list[Any]]:
    return [[row.get(key) for key in CURVE] for row in read_rows(folder / "killed" / "metrics.jsonl")]


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_that_is_killed_again_and_again_has_the_curve_of_an_undisturbed_one(tmp_path: Path, device: str) -> None:
    left_alone = started(tmp_path / "undisturbed", device)
    left_alone.communicate()
    assert left_alone.returncode == 0
    expected = curve(tmp_path / "undisturbed")

    folder = tmp_path / "disturbed"
    moments = [
        ("random play", 100),
        ("pretrain", 30),
        ("evaluate catch: before GRPO (sampled)", 20),
        *(("train", step) for step in (1, 3, 4, 7, 9, 12)),
        ("evaluate catch: after GRPO (greedy)", 20),
    ]
    for phase, done in moments:
        killed_at(folder, device, phase, done)
    last = started(folder, device)
    last.communicate()

    assert last.returncode == 0
    assert curve(folder) == expected
    assert len(expected) == 12
    assert len({row[-1] for row in expected}) > 1, "no level changed"
    results = [load_results(where / "killed") for where in (folder, tmp_path / "undisturbed")]
    assert results[0] == results[1]
