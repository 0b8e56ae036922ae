"""Every bundled environment: each task resets and steps, twenty episodes are played, and ten training steps are made.

`make test EXTRAS=envs` installs all extras. Elsewhere environments without theirs are skipped.
"""

import asyncio
from pathlib import Path

import pytest

from openenv.auto.environment import named_environment
from openenv.core.session_pool import SessionPool
from openenv.envs.catalog import entries
from openenv.envs.measured import MeasuredTask
from openenv.evaluation.evaluator import play_episodes
from openenv.policies.baselines import RandomPolicy
from openenv.rl.config_file import load_config
from openenv.rl.reports.results import read_rows
from openenv.rl.run import run_blocking
from tests.envs.extras import require_entry

pytestmark = pytest.mark.process

CONFIG = Path(__file__).with_name("ten_steps.yaml")
NUM_EPISODES = 20
MAX_STEPS = 40
LEAST_TASKS = 400
"""Tasks of all environments together."""


@pytest.fixture(scope="module", params=entries(), ids=lambda entry: entry.name)
def entry(request):
    require_entry(request.param)
    return request.param


@pytest.fixture(scope="module")
def served(entry):
    with named_environment(entry.name).served() as running:
        yield running


def first_measured(entry) -> MeasuredTask:
    return next(iter(entry.load_measured().values()))


def first_decision(client, reset):
    """The first observation with something to decide: in some games others may end an episode before."""
    results = (client.reset(seed=seed, **reset) for seed in range(20))
    return next(result for result in results if not result.done)


def test_all_tasks_reset_and_step(entry, served):
    with served.client() as client:
        for number, (task, reset) in enumerate(entry.load_tasks().items()):
            result = first_decision(client, reset)
            client.step(RandomPolicy(number, text=served.text).select_action(result.observation))
            assert client.state().step_count == 1, task


def test_twenty_episodes_are_played(entry, served):
    async def play():
        async with SessionPool(served.client, served.base_url, 4) as pool:
            return await play_episodes(
                pool,
                RandomPolicy(0, text=served.text),
                NUM_EPISODES,
                seed=0,
                reset_kwargs=first_measured(entry).reset,
                text=served.text,
                max_steps=MAX_STEPS,
            )

    episodes = asyncio.run(play())

    assert len(episodes) == NUM_EPISODES
    assert not [episode for episode in episodes if episode.outcome in ("unparseable", "invalid")]


def test_ten_training_steps_are_made_from_one_configuration(entry, tmp_path):
    config = load_config(
        CONFIG,
        env={"name": entry.name, "reset": dict(first_measured(entry).reset)},
        checkpoint={"folder": str(tmp_path)},
    )

    run_blocking(config)

    rows = read_rows(config.run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert sum(row["num_episodes"] for row in rows) >= 10 * config.group_size


@pytest.mark.parametrize(
    ("name", "reset"),
    [
        ("cards", {"game": "leduc-holdem"}),
        ("cards", {"game": "mahjong"}),
        ("chess", {"opponent_policy": "greedy", "max_moves": 5}),
        ("openspiel", {"game_name": "kuhn_poker"}),
    ],
)
def test_games_with_several_seats_train_by_self_play(name, reset, tmp_path):
    require_entry(next(entry for entry in entries() if entry.name == name))
    config = load_config(
        CONFIG,
        env={"name": name, "reset": reset, "self_play": {"refresh": 4}},
        checkpoint={"folder": str(tmp_path)},
    )

    run_blocking(config)

    rows = read_rows(config.run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 11))


def test_there_are_four_hundred_tasks():
    for entry in entries():
        if not entry.is_installed:
            require_entry(entry)
    assert sum(len(entry.load_tasks()) for entry in entries()) >= LEAST_TASKS
