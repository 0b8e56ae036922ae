"""Play of a teacher becomes transcripts: what was shown, what was replied, how it ended."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.policies import ChatMessage, LanguageModelPolicy, Policy, PromptBuilder
from openenv.policies.learning import LearningPolicy
from openenv.rl.training.teacher_play import CollectedPlay, PolicyTeacher, collect_play
from tests.rl.echo_game import WORDS, EchoPool, EchoText, RememberingEchoText, SayAction, random_play


async def test_every_decision_is_a_transcript_with_the_episodes_outcome() -> None:
    transcripts = (await random_play(EchoText())).transcripts

    assert sum(transcripts.values()) == 600
    assert {tuple(role for role, _ in messages) for messages, _ in transcripts} == {("user", "assistant")}
    assert {outcome for _, outcome in transcripts} == {"won", "lost"}


async def test_with_history_full_an_episode_is_one_transcript() -> None:
    transcripts = (await random_play(RememberingEchoText())).transcripts

    assert sum(transcripts.values()) == 300
    assert {tuple(role for role, _ in messages) for messages, _ in transcripts} == {("user", "assistant") * 2}


async def test_moves_are_drawn_uniformly_from_the_legal_ones() -> None:
    transcripts = (await random_play(EchoText())).transcripts
    replies = Counter[str]()
    for (messages, _), count in transcripts.items():
        replies[messages[-1][1]] += count

    assert set(replies) == set(WORDS)
    assert all(abs(count / 600 - 1 / 3) < 0.1 for count in replies.values())  # 5 standard errors


async def test_gathering_stops_at_its_number_of_decisions() -> None:
    transcripts = (await random_play(EchoText(), max_decisions=100)).transcripts

    assert 100 <= sum(transcripts.values()) <= 100 + 2 * 8


async def test_an_episode_that_the_environment_broke_is_not_read() -> None:
    pool = EchoPool(turns=1, broken_seeds=frozenset({900_000_000, 900_000_002}))

    gathered = await random_play(EchoText(), pool=pool, max_episodes=4)

    assert gathered.num_episodes == sum(gathered.transcripts.values()) == 2


async def test_an_environment_that_always_fails_is_given_up_with_its_error() -> None:
    pool = EchoPool(turns=1, broken_seeds=frozenset(range(900_000_000, 900_001_000)))

    with pytest.raises(EnvironmentFault, match="the table broke"):
        await random_play(EchoText(), pool=pool, max_episodes=1000)


class Repeats(Policy):
    """Repeats the word of the observation, but green for blue."""

    name = "repeats"

    def select_action(self, observation: Any) -> Any:
        return SayAction(word={"blue": "green"}.get(observation.word, observation.word))


async def taught(policy: Policy, *, min_return: float = float("-inf"), episodes: int = 60) -> CollectedPlay:
    text = EchoText()
    prompts = PromptBuilder(text, instructions=False)
    limits = {"max_episodes": episodes, "max_decisions": 10_000}
    teacher = PolicyTeacher(policy, text)
    return await collect_play(EchoPool(turns=1), teacher, text, prompts, reset={}, min_return=min_return, **limits)


def replied(play: CollectedPlay) -> set[tuple[Any, Any]]:
    """What was seen and replied."""
    return {(messages[0][1], messages[1][1]) for messages, _ in play.transcripts}


async def test_any_policy_is_a_teacher_whose_replies_name_its_actions() -> None:
    play = await taught(Repeats())

    assert replied(play) == {("word red", "red"), ("word green", "green"), ("word blue", "green")}
    assert play.num_episodes == 60


async def test_episodes_below_the_least_return_teach_nothing() -> None:
    play = await taught(Repeats(), min_return=1.0)

    assert replied(play) == {("word red", "red"), ("word green", "green")}
    assert set(play.returns) == {1.0}
    assert play.num_episodes == play.num_decisions == 60 - play.num_left_out
    assert play.num_left_out > 10


async def test_a_language_model_teaches_with_what_it_wrote_and_not_where_that_named_no_action() -> None:
    def complete(conversations: list[list[ChatMessage]]) -> Sequence[str]:
        shown = [str(messages[-1]["content"]).removeprefix("word ") for messages in conversations]
        return ["I do not know" if word == "blue" else f"I would say {word}." for word in shown]

    play = await taught(LanguageModelPolicy("teacher", EchoText(), complete))

    assert replied(play) == {("word red", "I would say red."), ("word green", "I would say green.")}
    assert play.num_left_out > 10


def test_a_policy_that_learns_while_it_plays_is_no_teacher() -> None:
    with pytest.raises(ValueError, match="learns while it plays"):
        PolicyTeacher(LearningPolicy(), EchoText())


async def test_what_the_environment_refuses_is_drawn_again_and_not_taught() -> None:
    for text in (EchoText(), RememberingEchoText()):
        pool = EchoPool(refused=frozenset({"red"}))
        play = await random_play(text, pool=pool, max_episodes=50)

        replies = [content for messages, _ in play.transcripts for role, content in messages if role == "assistant"]
        assert (play.num_episodes, play.num_left_out, play.num_decisions) == (50, 0, 100)
        assert set(replies) == {"green", "blue"}
        roles = [[role for role, _ in messages] for messages, _ in play.transcripts]
        assert all(one == ["user", "assistant"] * (len(one) // 2) for one in roles)
