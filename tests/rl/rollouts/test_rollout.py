"""Groups as they are played: one start, all at the same time, everything recorded."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from openenv.policies import ChatMessage
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import Config
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import TokenIds
from openenv.rl.models.images import Images
from openenv.rl.rollouts.rollout import Rollout
from openenv.text.constraints import ReplyConstraint
from tests.rl.echo_game import WORDS, EchoPool, EchoText, RememberingEchoText, echo_chat, echo_config, echo_generator


async def played(
    pool: EchoPool,
    text: EchoText | None = None,
    config: Config | None = None,
    indices: tuple[int, ...] = (0, 1, 2),
    generator_class: type[Generator] = Generator,
) -> list[Group]:
    config = config or echo_config()
    generator = echo_generator(config, echo_chat(), generator_class=generator_class)
    with ThreadPoolExecutor(1) as executor:
        rollout = Rollout(pool, text or EchoText(), generator, EpisodeReward(config.reward), config, executor)
        return await rollout.play(indices)


async def test_all_episodes_of_a_group_start_from_one_state() -> None:
    pool = EchoPool(num_sessions=12)
    groups = await played(pool)

    assert [len({t.seed for t in group.trajectories}) for group in groups] == [1, 1, 1]
    assert len({group.trajectories[0].seed for group in groups}) == 3
    assert {len(words) for words in pool.first_words.values()} == {4}
    assert all(len(set(words)) == 1 for words in pool.first_words.values())


async def test_more_episodes_than_sessions_are_played_in_turn() -> None:
    groups = await played(EchoPool(num_sessions=5))

    assert [len(group.valid) for group in groups] == [4, 4, 4]


async def test_equal_seeds_play_equal_groups_whatever_else_is_played() -> None:
    together = await played(EchoPool(num_sessions=12))
    alone = await played(EchoPool(num_sessions=3), indices=(1,))

    assert [t.turns for t in together[1].trajectories] == [t.turns for t in alone[0].trajectories]


class UnevenPool(EchoPool):
    """Each reset and step needs a time of its own, drawn at random."""

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        await asyncio.sleep(0.02 * random.random())
        return await super().reset(requests)

    async def step(self, actions: Mapping[int, Any]) -> dict[int, Any]:
        await asyncio.sleep(0.02 * random.random())
        return await super().step(actions)


@pytest.mark.parametrize("settings", [{}, {"conversation": {"retries": 2, "history": "full"}}])
async def test_delays_change_no_trajectory(settings: dict[str, Any]) -> None:
    together = await played(EchoPool(), config=echo_config(**settings))
    alone = echo_config(**settings, sampling={"together": False})

    for _ in range(3):
        for one, other in zip(together, await played(UnevenPool(num_sessions=5), config=alone), strict=True):
            for mine, others in zip(one.trajectories, other.trajectories, strict=True):
                assert (mine.turns, mine.outcome, mine.reward) == (others.turns, others.outcome, others.reward)
                for known, segment in zip(mine.segments, others.segments, strict=True):
                    assert known.token_ids.tolist() == segment.token_ids.tolist()
                    assert known.sampled.tolist() == segment.sampled.tolist()
                    assert segment.logprobs == pytest.approx(known.logprobs, abs=1e-5)


class LegalGenerator(Generator):
    """Replies with words of the game."""

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        replies = [(*self.chat.encode(stream.choice(WORDS)), self.chat.end_id) for stream in streams]
        return [
            Segment(prompt + reply, mask(prompt, reply), (0.0,) * len(prompt) + (-1.0,) * len(reply), 0)
            for prompt, reply in zip(prompts, replies, strict=True)
        ]


def num_sampled(trajectory: Trajectory) -> int:
    """Tokens of an episode that the model has sampled."""
    return sum(len(segment.sampled_ids) for segment in trajectory.segments)


def mask(*parts: TokenIds) -> tuple[bool, ...]:
    """Whether the model sampled each token of parts that the environment and the model wrote in turn."""
    return tuple(index % 2 == 1 for index, part in enumerate(parts) for _ in part)


def reply_ids(turn: Turn) -> TokenIds:
    chat = echo_chat()
    return (*chat.encode(turn.reply), chat.end_id)


async def test_with_history_latest_each_decision_is_a_segment() -> None:
    groups = await played(EchoPool(turns=2), generator_class=LegalGenerator)
    trajectories = [t for group in groups for t in group.trajectories]

    assert {(len(t.segments), len(t.turns)) for t in trajectories} == {(2, 2)}
    for trajectory in trajectories:
        for segment, turn in zip(trajectory.segments, trajectory.turns, strict=True):
            prompt = echo_chat().prompt([{"role": "user", "content": turn.seen}])
            assert tuple(segment.token_ids) == prompt + reply_ids(turn)
            assert tuple(segment.sampled) == mask(prompt, reply_ids(turn))


async def test_with_history_full_an_episode_is_one_growing_segment() -> None:
    groups = await played(EchoPool(turns=2), RememberingEchoText(), generator_class=LegalGenerator)

    for trajectory in (t for group in groups for t in group.trajectories):
        (segment,) = trajectory.segments
        first, second = trajectory.turns
        messages: list[ChatMessage] = [
            {"role": "user", "content": first.seen},
            {"role": "assistant", "content": first.reply, "token_ids": reply_ids(first)},
            {"role": "user", "content": second.seen},
        ]
        opening, prompt = echo_chat().prompt(messages[:1]), echo_chat().prompt(messages)
        between = prompt[len(opening + reply_ids(first)) :]
        assert tuple(segment.token_ids) == prompt + reply_ids(second)
        assert tuple(segment.sampled) == mask(opening, reply_ids(first), between, reply_ids(second))
        assert (segment.logprobs != 0.0).tolist() == segment.sampled.tolist()
        assert segment.sampled.sum() == num_sampled(trajectory) == 4


async def test_a_reply_without_a_legal_action_ends_the_episode_and_has_its_price() -> None:
    config = echo_config(reward={"unparseable": -3.0})
    groups = await played(EchoPool(), config=config)
    unparseable = [t for group in groups for t in group.trajectories if t.outcome == "unparseable"]

    assert unparseable
    assert {t.reward for t in unparseable} == {-3.0}
    assert all("names none of: red, green, blue" in t.reason for t in unparseable)
    assert all(t.valid and num_sampled(t) > 0 for t in unparseable)


async def test_a_refused_action_ends_the_episode_as_unparseable_or_is_followed_by_a_retry() -> None:
    for retries in (0, 3):
        conversation = {"retries": retries, "history": "full"}
        config = echo_config(reward={"unparseable": -3.0, "retry_penalty": 0.25}, conversation=conversation)
        groups = await played(EchoPool(refused=frozenset({"red"})), config=config, generator_class=LegalGenerator)

        episodes = [t for group in groups for t in group.trajectories]
        refused = [t for t in episodes if "red" in [turn.reply for turn in t.turns]]
        assert refused
        assert all(turn.action != "red" for t in episodes for turn in t.turns)
        assert all(len(t.segments) == 1 and len(t.segments[0].replies) == len(t.turns) for t in episodes)
        unparseable = [t for t in episodes if t.outcome == "unparseable"]
        assert {t.reason for t in unparseable} <= {"the environment refused the action: red is not spoken here"}
        if retries == 0:
            assert refused == unparseable
            assert {t.reward for t in refused} == {-3.0}
        else:
            went_on = [t for t in refused if t.outcome != "unparseable"]
            assert went_on
            assert all(t.reward == t.game_return - 0.25 * (len(t.turns) - 2) for t in went_on)


async def test_an_episode_that_the_environment_broke_is_invalid_with_its_reason() -> None:
    pool = EchoPool(broken_seeds=frozenset({1}))
    groups = await played(pool, indices=(0, 1))
    broken = [t for t in groups[1].trajectories if t.outcome == "invalid"]

    assert broken
    assert {t.outcome for t in groups[1].trajectories} <= {"invalid", "unparseable"}  # the others are illegal
    assert all(t.seed == 1 and "the table broke" in t.reason for t in broken)
    assert all(t.outcome != "invalid" for t in groups[0].trajectories)


async def test_an_episode_out_of_tokens_is_trained_on_with_its_price_or_with_its_rewards_so_far() -> None:
    for out_of_tokens, outcome, reward in (("fail", "unparseable", -3.0), ("end", "ended", 0.0)):
        conversation = {"max_episode_tokens": 4, "out_of_tokens": out_of_tokens}
        config = echo_config(reward={"unparseable": -3.0}, conversation=conversation)
        groups = await played(EchoPool(turns=4), config=config, generator_class=LegalGenerator)

        episodes = [t for group in groups for t in group.trajectories]
        assert {(t.outcome, t.reward, len(t.turns), num_sampled(t)) for t in episodes} == {(outcome, reward, 2, 4)}
        assert {t.is_stopped for t in episodes} == {out_of_tokens == "end"}
        assert all("out of tokens" in t.reason for t in episodes)


async def test_an_episode_is_stopped_after_the_most_turns_and_keeps_its_rewards() -> None:
    config = echo_config(conversation={"max_turns": 3})
    groups = await played(EchoPool(turns=9), config=config, generator_class=LegalGenerator)

    episodes = [t for group in groups for t in group.trajectories]
    assert {(t.outcome, t.reward, len(t.turns), t.is_stopped) for t in episodes} == {("ended", 0.0, 3, True)}
    assert {t.reason for t in episodes} == {"stopped after conversation.max_turns=3"}


class Blundering(LegalGenerator):
    """Its first reply of each episode is no word of the game."""

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        assistant = self.chat.encode("<|assistant|>")[0]
        blunder = (*self.chat.encode("won"), self.chat.end_id)
        segments = super().generate(prompts, streams)
        return [
            Segment(prompt + blunder, mask(prompt, blunder), (0.0,) * len(prompt) + (-1.0,) * len(blunder), 0)
            if prompt.count(assistant) == 1
            else segment
            for prompt, segment in zip(prompts, segments, strict=True)
        ]


async def test_a_retry_is_a_turn_of_its_own_in_one_growing_segment_and_has_its_penalty() -> None:
    for credit in ("episode", "step"):
        reward = {"retry_penalty": 0.25, "credit": credit}
        config = echo_config(conversation={"retries": 1, "history": "full"}, reward=reward)
        groups = await played(EchoPool(turns=2), config=config, generator_class=Blundering)

        for episode in (t for group in groups for t in group.trajectories):
            (segment,) = episode.segments
            first, second, third = episode.turns
            assert (first.seen, first.reply, first.action) == (second.seen, "won", None)
            assert second.action in WORDS
            assert third.action in WORDS
            assert segment.reply_lengths == [2, 2, 2]
            assert episode.reward == episode.game_return - 0.25
            gained = episode.game_return
            assert episode.turn_returns == ([gained - 0.25, gained, gained] if credit == "step" else [])
        batch = make_batch(groups, "dr_grpo", 0)
        assert len(batch.advantages) == 6 * batch.num_episodes
