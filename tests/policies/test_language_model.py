"""A language model as a policy, and one behind an HTTP server."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException

from openenv.core.env_server.types import Action, Observation
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielObservation, OpenSpielText
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.policies import ChatEndpoint, ChatMessage, CompletionFailed, LanguageModelPolicy
from openenv.policies.base import EndEpisode
from openenv.policies.prompts import EndpointReply, is_cut_off
from openenv.text.interface import TextInterface


class Scripted:
    """A model that gives the replies it was made with and remembers what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[list[ChatMessage]] = []

    def __call__(self, conversations: list[list[ChatMessage]]) -> list[str]:
        self.asked += conversations
        return [self.replies.pop(0) for _ in conversations]


class RememberingText(OpenSpielText):
    """Shows the whole episode each time."""

    history = "full"


def observations(num: int) -> list[OpenSpielObservation]:
    return [OpenSpielEnvironment("blackjack").reset(seed=seed) for seed in range(num)]


def test_the_model_reads_rules_and_hand_and_its_word_becomes_the_action() -> None:
    model, (seen,) = Scripted("Hit"), observations(1)

    action = LanguageModelPolicy("model", OpenSpielText(), model).select_action(seen)

    assert action == OpenSpielAction(action_id=0)
    assert [message["role"] for message in model.asked[0]] == ["system", "user"]
    assert model.asked[0][1]["content"] == OpenSpielText().describe(seen)


def test_all_observations_are_asked_in_one_batch_and_nonsense_ends_its_episode() -> None:
    policy = LanguageModelPolicy("model", OpenSpielText(), Scripted("hit", "fold", "stand"), instructions=False)

    actions = policy.select_actions(observations(3))

    nonsense = EndEpisode("'fold' names none of: hit, stand")
    assert actions == [OpenSpielAction(action_id=0), nonsense, OpenSpielAction(action_id=1)]


def test_a_text_that_needs_the_whole_episode_is_shown_it() -> None:
    model, seen = Scripted("hit", "stand", "stand"), observations(2)
    policy = LanguageModelPolicy("model", RememberingText(), model, instructions=False)
    policy.select_actions(seen, episodes=[5, 6])
    policy.end_episode(6)

    policy.select_actions([seen[0]], episodes=[5])

    assert policy.follows_episodes
    described = OpenSpielText().describe(seen[0])
    assert [m["content"] for m in model.asked[2]] == [described, "hit", described]
    with pytest.raises(ValueError, match="give `episodes`"):
        policy.select_actions(seen)


def _chat_server(answer: Callable[[dict[str, Any]], Any]) -> FastAPI:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> Any:
        return answer(body)

    return app


def _content(text: str | None) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def test_an_openai_compatible_server_answers_each_conversation_in_order(serving: Callable[[FastAPI], str]) -> None:
    url = serving(_chat_server(lambda body: _content(f"{body['model']} {body['messages'][0]['content']}")))
    endpoint = ChatEndpoint(f"{url}/v1", "tiny", api_key="secret")

    replies = endpoint([[{"role": "user", "content": str(number)}] for number in range(20)])

    assert replies == [f"tiny {number}" for number in range(20)]


def test_images_are_sent_as_data_urls(serving: Callable[[FastAPI], str]) -> None:
    url = serving(_chat_server(lambda body: _content(body["messages"][0]["content"][1]["image_url"]["url"])))
    seen: list[dict[str, Any]] = [
        {"type": "text", "text": "board:"},
        {"type": "image", "image": "data:image/png;base64,AA"},
    ]

    assert ChatEndpoint(f"{url}/v1", "tiny")([[{"role": "user", "content": seen}]]) == ["data:image/png;base64,AA"]


def test_an_empty_reply_is_an_empty_string(serving: Callable[[FastAPI], str]) -> None:
    url = serving(_chat_server(lambda body: _content(None)))

    assert ChatEndpoint(f"{url}/v1", "tiny")([[{"role": "user", "content": "?"}]]) == [""]


def _reply(content: Any, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish_reason}]}


def _replied(serving: Callable[[FastAPI], str], answer: dict[str, Any]) -> str:
    endpoint = ChatEndpoint(f"{serving(_chat_server(lambda body: answer))}/v1", "tiny")
    return endpoint([[{"role": "user", "content": "?"}]])[0]


@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_a_reply_that_its_limit_of_tokens_ended_knows_it(serving: Callable[[FastAPI], str]) -> None:
    assert is_cut_off(_replied(serving, _reply("hit, becau", "length")))
    assert not is_cut_off(_replied(serving, _reply("hit")))


@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_the_text_parts_of_a_content_are_the_reply(serving: Callable[[FastAPI], str]) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "could be 3"}]}

    assert _replied(serving, _reply([thought, {"type": "text", "text": "hi"}, {"type": "text", "text": "t"}])) == "hit"


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        ({"text": "hit"}, "a content of type dict"),
        (7, "a content of type int"),
        ([{"type": "image_url"}], "parts of type image_url"),
        (["hit"], "parts of type str"),
        ([{"type": "text"}], "text without a text"),
    ],
)
@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_a_content_of_another_shape_is_refused_with_its_name(
    serving: Callable[[FastAPI], str], content: Any, shape: str
) -> None:
    with pytest.raises(CompletionFailed, match=shape):
        _replied(serving, _reply(content))


def test_equal_calls_are_one_and_different_ones_are_a_text(serving: Callable[[FastAPI], str]) -> None:
    def calls(*numbers: int) -> list[dict[str, Any]]:
        return [
            {"id": str(place), "type": "function", "function": {"name": "add", "arguments": f'{{"a": {number}}}'}}
            for place, number in enumerate(numbers)
        ]

    equal = _replied(serving, _reply(None, tool_calls=calls(1, 1)))
    different = _replied(serving, _reply(None, tool_calls=calls(1, 2)))

    assert isinstance(equal, EndpointReply)
    assert isinstance(different, EndpointReply)
    assert equal.call is not None
    assert different.call is None
    assert different.count("<tool_call>") == 2


def test_a_policy_counts_the_replies_that_were_cut_off() -> None:
    model = Scripted(EndpointReply("hit", is_cut_off=True), EndpointReply("I would hit", is_cut_off=True), "stand")
    policy = LanguageModelPolicy("model", OpenSpielText(), model, instructions=False)

    actions = policy.select_actions(observations(3), episodes=[0, 1, 2])

    replies = [reply for episode in range(3) for reply in policy.take_replies(episode)]
    assert [reply.is_cut_off for reply in replies] == [True, True, False]
    assert [isinstance(action, EndEpisode) for action in actions] == [False, True, False]


def _refusing(body: dict[str, Any]) -> Any:
    raise HTTPException(429, "too many")


@pytest.mark.parametrize(
    ("answer", "message"),
    [(_refusing, "returned 429: .*too many"), (lambda body: {"no": "choices"}, "does not match its API")],
)
def test_a_server_that_refuses_or_talks_otherwise_is_an_error_with_its_reason(
    serving: Callable[[FastAPI], str], answer: Callable[[dict[str, Any]], Any], message: str
) -> None:
    endpoint = ChatEndpoint(f"{serving(_chat_server(answer))}/v1", "tiny")

    with pytest.raises(CompletionFailed, match=message):
        endpoint([[{"role": "user", "content": "?"}]])


def test_no_server_is_an_error_that_names_the_address() -> None:
    with pytest.raises(CompletionFailed, match=r"127\.0\.0\.1:9/v1/chat/completions cannot be reached"):
        ChatEndpoint("http://127.0.0.1:9/v1", "tiny")([[{"role": "user", "content": "?"}]])


class Digits(TextInterface[Action, Observation]):
    """A game of one's own: its rules, and replies that are digits."""

    def instructions(self, observation: Observation) -> str:
        return "Reply with a digit."

    def describe(self, observation: Observation) -> str:
        return f"It is {observation.metadata['seen']}."

    def replies(self, observation: Observation) -> dict[str, Action]:
        return {str(digit): Action(metadata={"digit": digit}) for digit in range(10)}


def test_any_text_interface_will_do() -> None:
    model, seen = Scripted("7", "no idea"), Observation(metadata={"seen": "3"})

    actions = LanguageModelPolicy("model", Digits(), model).select_actions([seen, seen], episodes=[0, 1])

    assert actions[0] == Action(metadata={"digit": 7})
    assert isinstance(actions[1], EndEpisode)
    assert [message["content"] for message in model.asked[0]] == ["Reply with a digit.", "It is 3."]
