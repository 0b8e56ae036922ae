"""Rewards as an environment gives them, played on a real server, and what they become."""

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.session_pool import SessionPool
from openenv.policies.prompts import PromptBuilder
from openenv.rl.algorithm.advantages import batch_advantages
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.rewards import BlackJackReward, EpisodeReward, RandomReturns, rate
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import Config, ConfigError, RewardConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.reports.results import play_metrics
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.run import with_game
from openenv.rl.training.teacher_play import RandomTeacher, collect_play
from tests.rl.echo_game import echo_config, echo_generator

pytestmark = pytest.mark.process

POINTS = f"{Path(__file__).parents[1] / 'points_env.py'}:PointsEnvironment"
WORDS = ["word:", "red", "green", "blue", "won", "lost"]
MEASURED = RandomReturns(worst=-6.0, deviation=4.0)


@pytest.fixture(scope="module")
def points() -> Iterator[ServedEnvironment]:
    with named_environment(POINTS).served() as served:
        yield served


async def played(served: ServedEnvironment, config: Config, indices: tuple[int, ...] = (0, 1, 2, 3)) -> list[Group]:
    chat = Chat(word_tokenizer(WORDS))
    generator = echo_generator(config, chat)
    with ThreadPoolExecutor(1) as executor:
        async with SessionPool(served.client, served.base_url, 16) as pool:
            reward = EpisodeReward(config.reward, MEASURED)
            return await Rollout(pool, served.text, generator, reward, config, executor).play(indices)


def expected_turns(trajectory: Trajectory) -> list[float]:
    """The environment's reward of each turn, worked out from the turns."""
    return [
        0.0 if turn.action is None else 10.0 * number if turn.action in turn.seen.split() else -1.0 * number
        for number, turn in enumerate(trajectory.turns, start=1)
    ]


async def test_each_turn_has_the_environments_reward_and_the_episode_their_sum(points: ServedEnvironment) -> None:
    groups = await played(points, echo_config(reward={"scale": 0.5, "unparseable": -9.0}))
    episodes = [t for group in groups for t in group.trajectories]
    whole = [t for t in episodes if t.outcome != "unparseable"]

    assert len(episodes) == 16
    turns = [pair for t in episodes for pair in zip(t.turns, expected_turns(t), strict=True)]
    assert all(turn.reward == (None if turn.action is None else value) for turn, value in turns)
    assert all((t.game_return or 0.0) == sum(expected_turns(t)) for t in episodes)
    assert all(t.reward == 0.5 * t.game_return for t in whole)
    assert {t.reward for t in episodes if t.outcome == "unparseable"} <= {-9.0}


async def test_the_scores_of_a_rubrics_parts_are_kept_and_their_means_logged(points: ServedEnvironment) -> None:
    groups = await played(points, echo_config(), indices=tuple(range(12)))
    turns = [turn for group in groups for t in group.trajectories for turn in t.turns if turn.action is not None]
    right = statistics.fmean(turn.reward > 0 for turn in turns)

    metrics = play_metrics(groups, groups, 0)

    assert metrics["rewards/right/mean"] == pytest.approx(right)
    assert metrics["rewards/style.brief/mean"] == 0.5
    assert not any("remark" in key for key in metrics)


async def test_with_credit_by_step_each_reply_has_an_advantage_of_its_own(points: ServedEnvironment) -> None:
    reward = {"credit": "step", "discount": 0.5, "scale": 1.0, "unparseable": 0.0}
    groups = await played(points, echo_config(reward=reward))
    groups = [group for group in groups if len(group.valid) > 1]
    batch = make_batch(groups, "dr_grpo", 0)

    tokens = iter(batch.advantages.tolist())
    for group in groups:
        for number, trajectory in enumerate(group.valid):
            ours = batch_advantages("dr_grpo", [group])[0][number]
            for turn, length in enumerate(length for s in trajectory.segments for length in s.reply_lengths):
                assert [next(tokens) for _ in range(length)] == pytest.approx([ours[turn]] * length)
    assert next(tokens, None) is None


async def test_random_play_measures_returns_and_labels_transcripts_by_them(points: ServedEnvironment) -> None:
    async with SessionPool(points.client, points.base_url, 32) as pool:
        teacher, prompts = RandomTeacher(points.text, 0), PromptBuilder(points.text, instructions=False)
        random_play = await collect_play(
            pool, teacher, points.text, prompts, reset={}, max_episodes=300, max_decisions=90_000
        )

    # each turn is worth 10 k or -k: eight returns, -6 + 11 k for the turns that were right
    assert set(random_play.returns) == {-6.0, 5.0, 16.0, 27.0, 38.0, 49.0, 60.0}
    assert random_play.num_episodes == 300
    measured = RandomReturns.of(random_play.returns)
    assert measured.worst == -6.0
    assert measured.deviation == pytest.approx(11 * (14 * 2 / 9) ** 0.5, rel=0.1)
    labels = {label for _, label in random_play.transcripts}
    assert len(labels) == 7
    assert "return=-6" in labels


def episode(*rewards: float, outcome: Any = "won") -> Trajectory:
    turns = [Turn("seen", "reply", None, "reply", reward=reward) for reward in rewards]
    return Trajectory(seed=0, turns=turns, game_return=sum(rewards), outcome=outcome)


@pytest.mark.finding("null is null: lost episodes and rewards that were not given")
def test_an_episode_without_rewards_has_no_return_and_trains_as_if_it_were_zero() -> None:
    played = Trajectory(seed=0, turns=[Turn("", "hit", None, "hit"), Turn("", "hit", None, "hit")], outcome="lost")
    for _ in played.turns:
        played.add_result(None, None)

    assert (played.game_return, played.turns[-1].reward) == (None, None)
    assert rated(RewardConfig(scale=1.0), played).trajectories[0].reward == 0.0
    played.add_result(0.5, None)
    assert (played.game_return, played.turns[-1].reward) == (0.5, 0.5)


def rated(config: RewardConfig, *episodes: Trajectory) -> Group:
    for one in episodes:
        rate(one, EpisodeReward(config, MEASURED))
    return Group(0, list(episodes))


def reward_of(trajectory: Trajectory, **config: Any) -> float:
    return rated(RewardConfig(**config), trajectory).trajectories[0].reward


def test_replies_that_were_cut_off_are_counted() -> None:
    cut = episode(1.0, 1.0)
    cut.turns[1].is_cut_off = True
    group = Group(0, [cut, episode(1.0)])

    assert play_metrics([group], [group], 0)["replies/cut_off"] == 1


def test_the_default_is_the_return_in_standard_deviations_of_random_play() -> None:
    assert reward_of(episode(-1.0, -1.0, 10.0)) == 2.0
    assert reward_of(episode(-1.0, -1.0, outcome="unparseable")) == -1.5, "the worst return of random play"


def test_discount_scale_and_limits() -> None:
    assert reward_of(episode(8.0, 8.0, 8.0), discount=0.5, scale=1.0) == 8.0 + 4.0 + 2.0
    assert reward_of(episode(8.0), scale=0.25) == 2.0
    assert reward_of(episode(800.0), scale=1.0, clip=(-5.0, 5.0)) == 5.0
    assert reward_of(episode(1.0, outcome="unparseable"), clip=(-1.0, 1.0)) == -1.0
    assert reward_of(episode(1.0, outcome="unparseable"), unparseable=-0.25) == -0.25


def test_returns_that_never_differ_leave_the_scale_at_1() -> None:
    constant = EpisodeReward(RewardConfig(), RandomReturns.of({7.0: 30}))

    assert constant(episode(7.0)) == 7.0


def test_with_win_push_and_loss_the_sign_of_the_return_decides() -> None:
    by_outcome = {"win": 2.0, "push": 0.5, "loss": -1.0}

    assert [reward_of(episode(0.0, r), **by_outcome) for r in (3.0, 0.0, -3.0)] == [2.0, 0.5, -1.0]
    assert reward_of(episode(3.0, outcome="unparseable"), **by_outcome) == -1.0
    assert [BlackJackReward().of_return(r) for r in (1.0, 0.0, -1.0)] == [2.0, 0.5, -1.0]


def test_by_step_each_turn_has_the_discounted_return_from_there_on() -> None:
    step = RewardConfig(credit="step", discount=0.5, scale=1.0)
    long, short = episode(1.0, 2.0, 4.0), episode(3.0, -2.0)

    group = rated(step, long, short)

    assert long.turn_returns == [1.0 + 1.0 + 1.0, 2.0 + 2.0, 4.0]
    assert short.turn_returns == [2.0, -2.0]
    # the third turn was reached by one episode alone, which has nothing to be compared with
    assert batch_advantages("dr_grpo", [group]) == [[[0.5, 3.0, 0.0], [-0.5, -3.0]]]


def test_by_step_an_unparseable_reply_pays_for_what_its_episode_had_gained() -> None:
    unparseable = episode(10.0, 0.0, outcome="unparseable")

    rated(RewardConfig(credit="step", scale=1.0), unparseable)

    assert unparseable.turn_returns == [-6.0, -16.0], "the episode as a whole is worth the worst return"


def test_by_step_an_outcome_belongs_to_the_last_turn() -> None:
    won = episode(0.0, 1.0)

    rated(RewardConfig(credit="step", discount=0.5, win=2.0, push=0.5, loss=-1.0), won)

    assert won.turn_returns == [1.0, 2.0]


def test_groups_are_equal_when_every_turn_is() -> None:
    step = RewardConfig(credit="step", scale=1.0)

    assert rated(step, episode(1.0, 2.0), episode(1.0, 2.0)).all_equal
    assert not rated(step, episode(1.0, 2.0), episode(2.0, 1.0)).all_equal
    assert rated(RewardConfig(scale=1.0), episode(0.1, 0.2, 0.3), episode(0.3, 0.2, 0.1)).all_equal


def test_a_reward_of_ones_own_may_give_a_number_for_each_turn() -> None:
    trajectory = episode(1.0, 1.0)
    rate(trajectory, lambda t: [5.0, 4.0])

    assert (trajectory.reward, trajectory.turn_returns) == (5.0, [5.0, 4.0])
    with pytest.raises(ValueError, match="3 numbers for an episode of 2 turns"):
        rate(trajectory, lambda t: [1.0, 2.0, 3.0])


def test_the_rewards_of_the_yaml() -> None:
    config = config_from_mapping({"reward": {"scale": "auto", "clip": [-3, 3], "credit": "step", "discount": 0.99}})

    assert config.reward == RewardConfig(clip=(-3.0, 3.0), credit="step", discount=0.99)
    assert config_from_mapping({"reward": {"scale": "1e-1"}}).reward.scale == 0.1


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ({"win": 2.0}, "reward=.'win': 2.0.: win, push and loss come together"),
        ({"discount": 0}, "reward.discount=0.0: must be above 0"),
        ({"scale": "std"}, "reward.scale='std': must be of type float"),
        ({"clip": [1, -1]}, "reward.clip=.*must be .lowest, highest"),
        ({"clip": 3}, "reward.clip=3: must be a list of 2"),
    ],
)
def test_wrong_rewards_of_the_yaml_are_refused_by_name(reward: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_mapping({"reward": reward})


def test_another_game_than_that_of_the_file_has_its_own_returns_as_rewards() -> None:
    config = config_from_mapping(
        {"env": {"reset": {"game_name": "blackjack"}}, "reward": {"win": 2, "push": 0, "loss": -1, "discount": 0.9}}
    )

    assert with_game(config, "blackjack").reward == config.reward
    assert with_game(config, "cliff_walking").reward == RewardConfig(discount=0.9)
