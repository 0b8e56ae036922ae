"""Self-play: the trained seat changes with the group, and earlier versions of the policy play the others."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from openenv.core.session_pool import SessionPool
from openenv.envs.openspiel_env import OpenSpielEnv, OpenSpielText
from openenv.evaluation.episodes import EpisodePlayer, EpisodeRunner
from openenv.hosting.local_process import LocalServer
from openenv.policies.conversations import Conversations, ReplyRequest
from openenv.policies.prompts import PromptBuilder
from openenv.rl.config import ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.past_weights import PastWeights
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.reports.results import read_rows
from openenv.rl.rollouts.self_play import ALL_SEATS, SelfPlayPlayer
from openenv.rl.run import run
from openenv.rl.setup import setup_training

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def kuhn_url() -> Iterator[str]:
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "kuhn_poker"]) as server:
        yield server.base_url


class Passer(EpisodePlayer):
    """Passes in its seat, and records its turns and rewards."""

    def __init__(self, num_episodes: int) -> None:
        self.seats: list[list[int]] = [[] for _ in range(num_episodes)]
        self.returns = [0.0] * num_episodes
        self.ended: set[int] = set()

    async def act(self, pending: Any) -> list[Any]:
        for turn in pending:
            self.seats[turn.episode].append(turn.observation.current_player_id)
        return [OpenSpielText().parse("pass", turn.observation) for turn in pending]

    def on_result(self, episode: int, result: Any) -> None:
        self.returns[episode] += result.reward
        self.ended |= {episode} if result.done else set()

    def on_failure(self, episode: int, error: Exception) -> None:
        raise error

    def on_step_limit(self, episode: int) -> None:
        raise AssertionError(f"episode {episode} has no end")


async def play_against(url: str, reply: str, groups: list[int]) -> Passer:
    """Kuhn poker of a player that passes against opponents that always reply this."""
    text = OpenSpielText()
    passer = Passer(len(groups))

    async def complete(request: ReplyRequest) -> str:
        return reply

    opponents = Conversations(PromptBuilder(text, instructions=True), text)
    player = SelfPlayPlayer(passer, opponents, complete, text, groups, [Random(group) for group in groups])
    async with SessionPool(OpenSpielEnv, url, 3) as pool:
        await EpisodeRunner(pool, player).run({**ALL_SEATS, "seed": group} for group in groups)
    return passer


async def test_the_trained_seat_follows_the_group_and_has_its_own_rewards(kuhn_url: str) -> None:
    passer = await play_against(kuhn_url, "bet", [0, 0, 1, 1, 2])

    # pass, bet, pass from seat 0; bet, pass from seat 1: each time the one that passes loses its stake
    assert passer.seats == [[0, 0], [0, 0], [1], [1], [0, 0]]
    assert passer.returns == [-1.0] * 5
    assert passer.ended == set(range(5))


async def test_opponents_without_a_legal_reply_play_at_random(kuhn_url: str) -> None:
    passer = await play_against(kuhn_url, "fold everything", list(range(40)))

    assert passer.ended == set(range(40))
    assert len({tuple(seats) for seats in passer.seats[::2]}) == 2  # seat 0 passes once, or twice after a bet


def constant_model(value: float) -> torch.nn.Module:
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, value)
    return model


def opponents_weight(past: PastWeights, than: int = -1) -> tuple[int, float]:
    """The version that opponents load, and their weight."""
    model = torch.nn.Linear(2, 1, bias=False)
    return past.load_newer(model, than), model.weight[0, 0].item()


def test_opponents_have_the_newest_version_that_is_a_multiple(tmp_path: Path) -> None:
    store = WeightStore()
    past = PastWeights(store, 3, tmp_path)
    seen = []
    for version in range(8):
        store.publish(constant_model(version), version)
        seen.append(opponents_weight(past))

    assert seen == [(0, 0.0)] * 3 + [(3, 3.0)] * 3 + [(6, 6.0)] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{v:06d}.safetensors" for v in (0, 3, 6)]


def test_a_resumed_run_has_the_opponents_of_before(tmp_path: Path) -> None:
    store = WeightStore()
    PastWeights(store, 3, tmp_path)
    for version in range(5):
        store.publish(constant_model(version), version)
    resumed = WeightStore()
    past = PastWeights(resumed, 3, tmp_path)
    resumed.publish(constant_model(4), 4)

    assert opponents_weight(past) == (3, 3.0)


def test_opponents_follow_the_pinned_version(tmp_path: Path) -> None:
    store = WeightStore()
    past = PastWeights(store, 2, tmp_path)
    store.publish(constant_model(0), 0)
    store.publish(constant_model(1), 1)
    store.pin(1)
    store.publish(constant_model(2), 2)

    assert opponents_weight(past) == (0, 0.0)
    store.pin(2)
    assert opponents_weight(past, 0) == (2, 2.0)


def config(tmp_path: Path, **overrides: Any) -> Any:
    values: dict[str, Any] = {
        "name": "self-play",
        "env": {"name": "openspiel", "reset": {"game_name": "kuhn_poker"}, "self_play": {"refresh": 2}},
        "model": {"hidden_size": 32, "num_layers": 1, "intermediate_size": 64},
        "group_size": 4,
        "groups_in_flight": 4,
        "max_req_tokens": 64,
        "pretrain": {"max_episodes": 200, "steps": 60, "batch_size": 32},
        "trainer": {"training": {"steps": 3}},
        "replay_buffer": {"batch_size": 4},
        "checkpoint": {"folder": str(tmp_path)},
    }
    return config_from_mapping(values | overrides)


async def test_a_run_trains_against_earlier_versions_of_itself(tmp_path: Path) -> None:
    training = await setup_training(config(tmp_path))
    try:
        await training.run()
    finally:
        await training.shutdown()

    rows = read_rows(training.config.run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["num_episodes"] >= 16 for row in rows)
    kept = (training.config.run_dir / "opponents/every_2").iterdir()
    assert sorted(path.name for path in kept) == ["000000.safetensors", "000002.safetensors"]


async def test_a_run_that_was_killed_after_its_last_step_has_its_opponents_when_it_is_resumed(tmp_path: Path) -> None:
    settings = config(tmp_path, evaluation={"num_games": 4, "sessions": 4})
    await run(settings)
    recorded = settings.run_dir / "games.json"
    games = recorded.read_text()
    recorded.unlink()

    await run(settings, resume=True)

    assert recorded.read_text() == games


@pytest.mark.parametrize(
    ("seats", "is_warned"), [({"agent_player": "all"}, True), ({"agent_player": 1}, False), ({}, False)]
)
async def test_a_model_that_acts_for_every_seat_without_self_play_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seats: dict[str, Any], is_warned: bool
) -> None:
    reset = {"game_name": "kuhn_poker", **seats}
    pretrain = {"max_episodes": 20, "steps": 1, "batch_size": 8}
    settings = config(tmp_path, env={"name": "openspiel", "reset": reset}, pretrain=pretrain)

    await (await setup_training(settings)).shutdown()

    warnings = [record.getMessage() for record in caplog.records if "env.self_play" in record.getMessage()]
    assert [line.startswith("env.name=openspiel: the model acts for several seats") for line in warnings] == (
        [True] if is_warned else []
    )


def test_an_interval_below_one_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.self_play\.refresh=0: must be at least 1"):
        config(tmp_path, env={"name": "openspiel", "self_play": {"refresh": 0}})
