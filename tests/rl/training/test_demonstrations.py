"""A model imitates the replies of a teacher, and learns no word of the environment."""

import math
from collections import Counter
from typing import Any

import pytest
import torch

from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode
from openenv.policies.prompts import PromptBuilder, SampledReply, answer_of
from openenv.rl.config import ConfigError, LoraSettings, WarmStartConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import tiny_model
from openenv.rl.models.lora import add_adapter
from openenv.rl.training.demonstrations import _divided, imitate, recorded_play, reply_examples
from openenv.rl.training.supervised import agreement
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import Transcript
from tests.rl.echo_game import EchoText, SeenObservation, echo_chat, echo_config, random_play
from tests.rl.models.small_models import small_tokenizer

TURNS: Transcript = (
    (("user", "word red"), ("assistant", "blue"), ("user", "word green"), ("assistant", "green")),
    "lost",
)


def predicted(chat: Chat, transcript: Transcript, **options: Any) -> list[str]:
    """The text of what is learned of each sequence."""
    examples = reply_examples(chat, {transcript: 1}, **{"max_length": 64, **options})
    return [chat.tokenizer.decode([one.token_ids[place] for place in one.predicted]) for one in examples]


def test_what_is_learned_is_the_replies_with_their_ends() -> None:
    chat = echo_chat()

    assert predicted(chat, TURNS) == ["blue <|end|> green <|end|>"]
    (example,) = reply_examples(chat, {TURNS: 3}, max_length=64)
    shown = (
        "<|user|> word red <|end|> <|assistant|> blue <|end|> <|user|> word green <|end|> <|assistant|> green <|end|>"
    )
    assert chat.tokenizer.decode(list(example.token_ids)) == shown
    assert example.count == 3


def test_outcomes_are_learned_after_the_replies_and_shown_before_them() -> None:
    assert predicted(echo_chat(), TURNS, outcomes=True) == [
        "blue <|end|> green <|end|> lost",
        "blue <|end|> green <|end|>",
    ]


def test_replies_that_do_not_fit_are_left_out() -> None:
    assert predicted(echo_chat(), TURNS, max_length=10) == ["blue <|end|>"]
    assert predicted(echo_chat(), TURNS, max_length=5) == []


THOUGHTS: Transcript = (
    (("user", "red"), ("assistant", "<think>a</think>\n\nblue"), ("user", "green"), ("assistant", "green")),
    "",
)


def thinking_chat(**options: Any) -> Chat:
    """The chat of Qwen3, whose template drops the thinking of earlier turns."""
    return Chat(small_tokenizer("chatml thinking"), **options)


def test_where_a_template_drops_earlier_thinking_each_turn_is_a_sequence() -> None:
    chat = thinking_chat()

    examples = reply_examples(chat, {THOUGHTS: 1}, max_length=400)

    learned = [chat.text([one.token_ids[place] for place in one.predicted]) for one in examples]
    assert learned == ["<think>a</think>\n\nblue", "green"]


def test_where_a_prompt_begins_the_thinking_the_reply_ends_it_first() -> None:
    chat = Chat(small_tokenizer("chatml kept thinking"))
    assert chat.template.opens_thinking

    (example,) = reply_examples(chat, {((("user", "red"), ("assistant", "blue")), ""): 1}, max_length=400)

    reply = SampledReply(chat.text([example.token_ids[place] for place in example.predicted]), (), is_thought=True)
    assert answer_of(reply) == "blue"


async def imitated(play: CollectedPlay, model: Any = None, **settings: Any) -> Any:
    chat, config = echo_chat(), echo_config()
    model = model or tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)
    learned = imitate(
        model, [(chat, play)], WarmStartConfig(**{"steps": 60, "lr": 3e-3, **settings}),
        teacher="random", precision="float32", seed=0, max_length=64, tokens_per_forward=4096,
    )  # fmt: skip
    return model, chat, learned


async def test_the_copy_replies_as_its_teacher_and_a_random_one_cannot_be_foreseen() -> None:
    model, chat, learned = await imitated(await random_play(EchoText()))

    assert learned.loss_before > 2.0
    assert learned.loss_after == pytest.approx(math.log(3) / 2, abs=0.1)  # one of three words, and then its end
    assert learned.likeliest_after == pytest.approx(0.5 + 0.5 / 3, abs=0.2)
    assert learned.losses[-1] < learned.losses[0]
    assert (learned.num_episodes, learned.num_decisions) == (300, 600)
    assert learned.mean_return == pytest.approx(-7 / 9, abs=0.15)
    for one in reply_examples(chat, {TURNS: 1}, max_length=64):
        loss, _ = agreement(model, [one], pad_id=chat.pad_id, precision="float32", tokens_per_forward=64)
        assert loss < 1.0


async def test_the_best_episodes_teach_the_game() -> None:
    _, _, learned = await imitated(await random_play(EchoText(), min_return=1.0), steps=120)

    assert learned.mean_return == 1.0
    assert learned.loss_after < 0.1
    assert learned.likeliest_after == 1.0


async def test_an_adapter_learns_and_the_weights_beside_it_stay() -> None:
    chat, config = echo_chat(), echo_config()
    model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)
    add_adapter(model, LoraSettings(rank=8), "tiny")
    before = {name: weights.clone() for name, weights in model.named_parameters()}

    _, _, learned = await imitated(await random_play(EchoText()), model, lr=None)

    assert learned.losses[-1] < learned.losses[0]
    changed = {name for name, weights in model.named_parameters() if not torch.equal(weights, before[name])}
    assert changed
    assert all(".lora_" in name for name in changed)


async def test_a_teacher_without_an_episode_is_an_error_with_the_cause() -> None:
    play = await random_play(EchoText(), min_return=5.0)

    with pytest.raises(ConfigError, match=r"min_return=5.0: .* 300 are left out, and the best return is 1"):
        await imitated(play, min_return=5.0)
    with pytest.raises(ConfigError, match=r"in 3 the environment failed, or a reply named no action\. Choose"):
        await imitated(CollectedPlay(num_left_out=3))


async def test_replies_that_are_all_too_long_and_time_that_is_over_are_errors() -> None:
    play = await random_play(EchoText())
    chat, config = echo_chat(), echo_config()
    model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)
    settings: Any = {"teacher": "random", "precision": "float32", "seed": 0, "tokens_per_forward": 64}

    with pytest.raises(ConfigError, match="max_length=3: no reply of the teacher random ends"):
        imitate(model, [(chat, play)], WarmStartConfig(), max_length=3, **settings)
    with pytest.raises(ConfigError, match="max_minutes"):
        imitate(model, [(chat, play)], WarmStartConfig(), max_length=64, is_time_up=lambda: True, **settings)


async def test_at_most_two_hundred_replies_are_held_out_and_all_others_are_learned() -> None:
    play = await random_play(EchoText(), max_episodes=2000)
    examples = reply_examples(echo_chat(), play.transcripts, max_length=64)

    learned, held_out = _divided(examples, seed=0)

    assert sum(one.count for one in held_out) == 200
    assert sum(one.count for one in learned) == sum(one.count for one in examples) - 200


SOURCE = EpisodeSource(environment="echo", policy="teacher")


def recorded(*replies: str, total: float = 1.0, **changes: Any) -> RecordedEpisode:
    """An episode whose turns continue each other."""
    turns = [
        {"shown": [{"role": "user", "content": f"word {number}"}], "continues": number > 0,
         "reply": {"role": "assistant", "content": reply}, "action": {"word": reply}}
        for number, reply in enumerate(replies)
    ]  # fmt: skip
    fields = {"outcome": "won", "total_reward": total, "turns": turns, "episode_id": "e", "group": "g", **changes}
    return RecordedEpisode(source=SOURCE, **fields)


def of_files(*episodes: RecordedEpisode, min_return: float = -math.inf, shows_tools: bool = False) -> CollectedPlay:
    return recorded_play(episodes, min_return=min_return, shows_tools=shows_tools)


def test_recorded_episodes_are_one_conversation_with_the_label_of_their_return() -> None:
    play = of_files(recorded("red", "blue"), recorded("green", total=-1.0))

    assert play.transcripts == Counter({
        ((("user", "word 0"), ("assistant", "red"), ("user", "word 1"), ("assistant", "blue")), "won"): 1,
        ((("user", "word 0"), ("assistant", "green")), "lost"): 1,
    })  # fmt: skip
    assert (play.num_episodes, play.num_decisions, play.num_left_out) == (2, 3, 0)


def test_failed_poor_and_unnamed_episodes_are_left_out() -> None:
    unnamed = recorded("red")
    unnamed.turns[0].action = None

    play = of_files(
        recorded("red", total=0.5), recorded("red", outcome="invalid"), recorded("red", outcome="unparseable"), unnamed,
        recorded("blue"), min_return=1.0,
    )  # fmt: skip

    assert [messages[-1][1] for messages, _ in play.transcripts] == ["blue"]
    assert play.num_left_out == 4


@pytest.mark.parametrize("history", ["full", "latest"])
def test_a_reply_that_was_tried_again_is_left_out_with_what_was_shown_after_it(history: Any) -> None:
    prompts = PromptBuilder(EchoText(), instructions=False, history=history)
    turns: list[dict[str, Any]] = []

    def reply(messages: list[Any], word: str, *, takes_action: bool) -> None:
        prompts.add_reply(0, word)
        action = {"word": word} if takes_action else None
        turns.append({"shown": messages, "reply": {"role": "assistant", "content": word}, "action": action})

    first, second = SeenObservation(word="red"), SeenObservation(word="blue")
    reply(prompts.messages(0, first), "pink", takes_action=False)
    reply(prompts.with_problem(0, "refused: pink"), "mauve", takes_action=False)
    reply(prompts.with_problem(0, "refused: mauve"), "red", takes_action=True)
    reply(prompts.messages(0, second), "blue", takes_action=True)

    play = of_files(recorded("red", turns=turns))

    learned = [predicted(echo_chat(), transcript) for transcript in play.transcripts]
    whole = [["red <|end|> blue <|end|>"]]
    assert learned == (whole if history == "full" else [["red <|end|>"], ["blue <|end|>"]])
    shown = {text for messages, _ in play.transcripts for _, text in messages}
    assert not {"pink", "mauve", "refused: pink", "refused: mauve"} & shown
    assert (play.num_episodes, play.num_decisions, play.num_left_out) == (1, 2, 0)


def test_a_call_is_learned_as_the_text_that_names_it_by_a_model_that_is_shown_the_functions() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "say", "arguments": '{"word": "red"}'}}
    episode = recorded("red", "blue")
    episode.turns[0].reply = {"role": "assistant", "content": "", "tool_calls": [call]}
    episode.turns[1].shown = [{"role": "tool", "tool_call_id": "1", "content": "red, once"}]

    episode.functions = [{"type": "function", "function": {"name": "say", "parameters": {}}}]

    with pytest.raises(ValueError, match="--no-tool-calls"):
        of_files(episode)
    ((messages, _),) = of_files(episode, shows_tools=True).transcripts

    assert messages[1] == ("assistant", '<tool_call> {"name": "say", "arguments": {"word": "red"}} </tool_call>')
    assert messages[2] == ("tool", "red, once")


def test_prompts_of_one_text_are_refused() -> None:
    episode = recorded("red")
    episode.turns[0].shown, episode.turns[0].reply = "word 0", "red"

    with pytest.raises(ValueError, match="openenv eval --save"):
        of_files(episode)
