"""Retries after replies without a legal action, and episodes with too many tokens."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pytest

from openenv.core.env_server.types import Action, Observation
from openenv.policies import ChatMessage, LanguageModelPolicy, PromptBuilder, SampledReply
from openenv.policies.base import Choice, EndEpisode
from openenv.policies.conversations import Conversations, OutOfTokens, ReplyRequest, ReplyRules
from openenv.text.constraints import ReplyConstraint
from openenv.text.interface import History, TextInterface


class Colours(TextInterface[Action, Observation]):
    """Say a colour."""

    def instructions(self, observation: Observation) -> str:
        return "Name a colour."

    def describe(self, observation: Observation) -> str:
        return f"turn {observation.metadata['turn']}"

    def replies(self, observation: Observation) -> Mapping[str, Action]:
        return {word: Action(metadata={"colour": word}) for word in ("red", "green")}


def turn(number: int) -> Observation:
    return Observation(metadata={"turn": number})


class Script:
    """Gives each episode its replies in turn, of as many tokens as words, and keeps what it was shown."""

    def __init__(self, **replies: list[str]) -> None:
        self.replies = replies
        self.shown: list[tuple[Hashable, list[str]]] = []
        self.batches: list[int] = []

    def __call__(self, requests: Sequence[ReplyRequest]) -> list[str]:
        self.batches.append(len(requests))
        return [self.reply(request.episode, request.messages) for request in requests]

    def reply(self, episode: Hashable, messages: Sequence[ChatMessage]) -> str:
        self.shown.append((episode, [f"{message['role']}: {message['content']}" for message in messages]))
        reply = self.replies[str(episode)].pop(0)
        return SampledReply(reply, range(len(reply.split())))


def conversations(
    script: Script,
    *,
    history: History = "full",
    tools: Sequence[Mapping[str, Any]] = (),
    most_messages: int | None = None,
    retries: int = 0,
    max_episode_tokens: int | None = None,
    out_of_tokens: OutOfTokens = "fail",
) -> "Talks":
    rules = ReplyRules(retries=retries, max_episode_tokens=max_episode_tokens, out_of_tokens=out_of_tokens)
    prompts = PromptBuilder(Colours(), instructions=False, tools=tools, history=history)
    fits = None if most_messages is None else lambda messages: len(messages) <= most_messages
    return Talks(script, prompts, Colours(), rules=rules, fits=fits)


class Talks(Conversations):
    """Conversations of a script."""

    def __init__(self, script: Script, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._script = script

    def turns(self, *turns: tuple[str, Observation]) -> list[Choice]:
        return self.choose(turns, self._script)


def colour(choice: Any) -> str:
    return str(choice.metadata["colour"])


PROBLEM = "'blue' names none of: red, green"


def test_a_reply_without_a_legal_action_ends_the_episode_with_its_problem() -> None:
    script = Script(a=["blue"])

    choices = conversations(script).turns(("a", turn(1)))

    assert choices == [EndEpisode(PROBLEM)]


def test_a_retry_shows_the_reply_and_its_problem_and_the_others_are_not_asked_again() -> None:
    script = Script(a=["blue", "red"], b=["green"])
    talks = conversations(script, retries=1)

    choices = talks.turns(("a", turn(1)), ("b", turn(1)))

    assert [colour(choice) for choice in choices] == ["red", "green"]
    assert script.batches == [2, 1]
    assert script.shown[-1] == ("a", ["user: turn 1", "assistant: blue", f"user: {PROBLEM}"])
    assert talks.num_unparseable == 1


def test_after_the_last_retry_the_episode_ends() -> None:
    script = Script(a=["blue", "blue", "blue", "red"])

    assert conversations(script, retries=2).turns(("a", turn(1))) == [EndEpisode(PROBLEM)]
    assert script.batches == [1, 1, 1]


def test_the_history_of_an_episode_keeps_retries_and_the_latest_observation_alone_does_not() -> None:
    whole, newest = Script(a=["blue", "red", "red"]), Script(a=["blue", "red", "red"])
    for script, history in ((whole, "full"), (newest, "latest")):
        talks = conversations(script, retries=1, history=history)
        talks.turns(("a", turn(1)))
        talks.turns(("a", turn(2)))

    assert whole.shown[-1][1] == [
        "user: turn 1", "assistant: blue", f"user: {PROBLEM}", "assistant: red", "user: turn 2",
    ]  # fmt: skip
    assert newest.shown[1][1] == ["user: turn 1", "assistant: blue", f"user: {PROBLEM}"]
    assert newest.shown[2][1] == ["user: turn 2"]


def test_a_problem_is_the_result_of_a_call_where_replies_are_calls() -> None:
    script = Script(a=["blue", "red"])

    conversations(script, retries=1, tools=[{"name": "say"}]).turns(("a", turn(1)))

    assert script.shown[-1][1][-1] == f"tool: {PROBLEM}"


def test_an_episode_with_all_its_tokens_sampled_is_not_asked_again() -> None:
    for out_of_tokens, counts in (("fail", False), ("end", True), ("forget", False)):
        script = Script(a=["red it is", "red"], b=["red", "red"])
        talks = conversations(script, max_episode_tokens=3, out_of_tokens=out_of_tokens)
        talks.turns(("a", turn(1)), ("b", turn(1)))

        ended, goes_on = talks.turns(("a", turn(2)), ("b", turn(2)))

        assert ended == EndEpisode("out of tokens: 3 sampled tokens are the episode's most", counts=counts)
        assert colour(goes_on) == "red"


def test_a_prompt_that_is_too_long_ends_the_episode_or_loses_its_oldest_turns() -> None:
    for out_of_tokens, counts in (("fail", False), ("end", True)):
        talks = conversations(Script(a=["red", "red"]), most_messages=2, out_of_tokens=out_of_tokens)
        talks.turns(("a", turn(1)))
        assert talks.turns(("a", turn(2))) == [EndEpisode("out of tokens: the prompt is too long", counts=counts)]

    script = Script(a=["red", "green", "red", "red"])
    talks = conversations(script, most_messages=3, out_of_tokens="forget")
    for number in (1, 2, 3, 4):
        talks.turns(("a", turn(number)))
    assert [shown for _, shown in script.shown[1:]] == [
        ["user: turn 1", "assistant: red", "user: turn 2"],
        ["user: turn 2", "assistant: green", "user: turn 3"],
        ["user: turn 3", "assistant: red", "user: turn 4"],
    ]


def test_where_nothing_is_left_to_forget_the_episode_fails() -> None:
    talks = conversations(Script(a=["red"]), most_messages=0, out_of_tokens="forget")

    assert talks.turns(("a", turn(1))) == [EndEpisode("out of tokens: the prompt is too long")]


def test_a_forgotten_call_leaves_no_result_behind() -> None:
    script = Script(a=["red", "red"])
    talks = conversations(script, most_messages=1, out_of_tokens="forget", tools=[{"name": "say"}])
    talks.turns(("a", turn(1)))
    talks.turns(("a", turn(2)))

    assert script.shown[-1][1] == ["user: turn 2"]


def test_a_language_model_in_evaluation_has_the_same_rules() -> None:
    script = Script(**{"0": ["blue", "red", "red"]})
    policy = LanguageModelPolicy(
        "model", Colours(), lambda talks: [script.reply("0", messages) for messages in talks], instructions=False,
        rules=ReplyRules(retries=1, max_episode_tokens=2),
    )  # fmt: skip

    first, second = policy.select_actions([turn(1)], episodes=[0]), policy.select_actions([turn(2)], episodes=[0])

    assert policy.follows_episodes
    assert colour(first[0]) == "red"
    assert isinstance(second[0], EndEpisode)


class Constrained(Colours):
    """Counts how often it is asked what a reply may be."""

    asked = 0

    def constraint(self, observation: Any) -> ReplyConstraint | None:
        type(self).asked += 1
        return super().constraint(observation)


@pytest.mark.parametrize("constrains", [False, True])
def test_what_a_reply_may_be_is_found_out_where_it_is_used_alone(constrains: bool) -> None:
    received: list[ReplyRequest] = []
    Constrained.asked = 0

    def complete(requests: Sequence[ReplyRequest]) -> list[str]:
        received.extend(requests)
        return ["red"] * len(requests)

    text = Constrained()
    talks = Conversations(PromptBuilder(text, instructions=False), text, constrains=constrains)
    talks.choose([("0", turn(1))], complete)

    assert Constrained.asked == constrains
    assert [request.constraint is not None for request in received] == [constrains]
