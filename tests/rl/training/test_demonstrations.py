"""A model imitates the replies of a teacher, and learns no word of the environment."""

import math
from collections import Counter
from typing import Any

import pytest
import torch

from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode
from openenv.rl.config import ConfigError, LoraSettings, WarmStartConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import tiny_model
from openenv.rl.models.lora import add_adapter
from openenv.rl.training.demonstrations import imitate, recorded_play, reply_examples
from openenv.rl.training.supervised import agreement
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import Transcript
from tests.rl.echo_game import EchoText, echo_chat, echo_config, random_play
from tests.rl.models.small_models import small_model

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


def test_where_a_template_drops_earlier_thinking_each_turn_is_a_sequence() -> None:
    _, tokenizer = small_model("Qwen3")
    chat = Chat(tokenizer)
    thinking: Transcript = (
        (("user", "red"), ("assistant", "<think>a</think>\n\nblue"), ("user", "green"), ("assistant", "green")),
        "",
    )

    examples = reply_examples(chat, {thinking: 1}, max_length=200)

    learned = [chat.text([one.token_ids[place] for place in one.predicted]) for one in examples]
    assert len(examples) in (1, 2)
    assert "".join(learned).count("green") == 1


async def imitated(play: CollectedPlay, model: Any = None, **settings: Any) -> Any:
    chat, config = echo_chat(), echo_config()
    model = model or tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)
    learned = imitate(
        model, chat, play, WarmStartConfig(**{"steps": 60, "lr": 3e-3, **settings}),
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


async def test_a_teacher_without_an_episode_is_an_error_that_names_the_best_return() -> None:
    play = await random_play(EchoText(), min_return=5.0)

    with pytest.raises(ConfigError, match=r"warm_start.min_return=5.0: .* 300 are left out, and the best return is 1"):
        await imitated(play, min_return=5.0)


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


def of_files(*episodes: RecordedEpisode, min_return: float = -math.inf) -> CollectedPlay:
    return recorded_play(episodes, min_return=min_return, tool_role=False, text=EchoText())


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


def test_a_call_is_learned_as_the_text_that_names_it_and_its_result_as_the_users() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "say", "arguments": '{"word": "red"}'}}
    episode = recorded("red", "blue")
    episode.turns[0].reply = {"role": "assistant", "content": "", "tool_calls": [call]}
    episode.turns[1].shown = [{"role": "tool", "tool_call_id": "1", "content": "red, once"}]

    ((messages, _),) = of_files(episode).transcripts

    assert messages[1] == ("assistant", '<tool_call> {"name": "say", "arguments": {"word": "red"}} </tool_call>')
    assert messages[2] == ("user", "red, once")


def test_prompts_of_one_text_are_refused() -> None:
    episode = recorded("red")
    episode.turns[0].shown, episode.turns[0].reply = "word 0", "red"

    with pytest.raises(ValueError, match="openenv eval --save"):
        of_files(episode)
