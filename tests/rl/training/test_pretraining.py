"""The reading phase: random play only, and what a model takes from it."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from openenv.policies import ChatMessage, PromptBuilder
from openenv.rl.config import PretrainConfig
from openenv.rl.models.chat import Chat, TokenIds, word_tokenizer
from openenv.rl.models.language_model import tiny_model
from openenv.rl.training.pretraining import pretrain
from openenv.rl.training.transcripts import (
    OF_PROGRAM,
    fitting,
    places_of_program,
    transcript_ids,
    transcript_words,
)
from tests.rl.echo_game import (
    WORDS,
    EchoText,
    RememberingEchoText,
    SeenObservation,
    echo_chat,
    echo_config,
    random_play,
)

LIMITS = {"max_length": 64, "tokens_per_forward": 16_384}


class CountingChat(Chat):
    """Counts the prompts that it renders."""

    num_prompts = 0

    def prompt(self, messages: Sequence[ChatMessage]) -> TokenIds:
        self.num_prompts += 1
        return super().prompt(messages)


@pytest.mark.parametrize("text", [EchoText(), RememberingEchoText()], ids=["latest", "full"])
async def test_with_instructions_a_transcript_has_the_prompt_of_training_and_its_words(text: EchoText) -> None:
    transcripts = (await random_play(text, instructions=True)).transcripts

    assert {messages[0] for messages, _ in transcripts} == {("system", "say the word")}
    assert {role for messages, _ in transcripts for role, _ in messages[1:]} == {"user", "assistant"}
    chat = Chat(word_tokenizer(transcript_words(transcripts)))
    prompts = PromptBuilder(text, instructions=True)
    prompt = chat.prompt(prompts.opening(SeenObservation(word="red")))
    assert chat.tokenizer.unk_token_id not in prompt
    assert prompt in {transcript_ids(chat, transcript)[: len(prompt)] for transcript in transcripts}


def test_the_tokens_of_a_long_episode_are_written_by_as_many_steps_as_it_has_messages() -> None:
    chat = CountingChat(echo_chat().tokenizer)
    turns = 3000  # far beyond the depth of recursion
    messages = (("user", "word red"), ("assistant", "blue")) * turns

    ids = transcript_ids(chat, (messages, "lost"))

    assert len(ids) == 7 * turns + 1
    assert chat.num_prompts == 1


def test_a_transcript_is_the_chat_template_and_then_the_outcome() -> None:
    chat = echo_chat()
    messages = (("user", "word red"), ("assistant", "blue"), ("user", "word green"), ("assistant", "green"))
    ids = transcript_ids(chat, (messages, "lost"))

    expected = "<|user|> word red <|end|> <|assistant|> blue <|end|>"
    expected += " <|user|> word green <|end|> <|assistant|> green <|end|> lost"
    assert chat.tokenizer.decode(list(ids)) == expected


@pytest.mark.parametrize("role", [OF_PROGRAM, "assistant"])
def test_what_a_program_puts_in_the_place_of_a_reply_is_shown_and_not_learned(role: str) -> None:
    chat, config = echo_chat(), echo_config()
    messages = (("user", "word red"), (role, "blue"), ("user", "word green"), ("assistant", "green"))
    as_reply = tuple(("assistant" if each == role else each, content) for each, content in messages)
    model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)

    places = places_of_program(chat, (messages, "lost"))
    pretrain(
        model, chat, Counter({(messages, "lost"): 1}), PretrainConfig(steps=60, batch_size=8), precision="float32",
        seed=0, **LIMITS,
    )  # fmt: skip

    ids = transcript_ids(chat, (messages, "lost"))
    assert ids == transcript_ids(chat, (as_reply, "lost"))
    shown = chat.tokenizer.decode([ids[place] for place in sorted(places)])
    assert shown == ("blue <|end|>" if role == OF_PROGRAM else "")
    prompt = torch.tensor([chat.prompt([{"role": "user", "content": "word red"}])])
    with torch.no_grad():
        likely = model(prompt).logits[0, -1].argmax()
    assert chat.tokenizer.decode([int(likely)]) == ("green" if role == OF_PROGRAM else "blue")


async def test_reading_teaches_the_form_of_a_reply() -> None:
    chat, config = echo_chat(), echo_config()
    transcripts = (await random_play(EchoText())).transcripts
    assert set(" ".join(transcript_words(transcripts)).split()) == {"word", *WORDS, "won", "lost"}
    model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)

    losses = pretrain(
        model, chat, transcripts, PretrainConfig(steps=80, batch_size=64), precision="float32", seed=0, **LIMITS
    )

    # what cannot be known: which of three words is seen, which of three is the reply, how it ends; 3 of 7 tokens
    assert losses[0] > 2.0
    assert losses[-1] < 0.6


def test_a_long_episode_is_divided_between_turns_and_each_part_has_the_rules_and_the_outcome() -> None:
    chat = echo_chat()
    rules = ("system", "say the word")
    turns = [(("user", f"word {seen}"), ("assistant", reply)) for seen in WORDS for reply in WORDS]
    long: tuple[tuple[str, str], ...] = (rules, *(message for turn in turns for message in turn))
    short = ((rules, *turns[0]), "won")

    parts = fitting(chat, Counter({(long, "lost"): 3, short: 2}), max_length=40)

    assert parts.pop(short) == 2
    assert set(parts.values()) == {3}
    assert all(len(transcript_ids(chat, part)) <= 40 for part in parts)
    assert all(messages[0] == rules and outcome == "lost" for messages, outcome in parts)
    assert [message for messages, _ in parts for message in messages[1:]] == list(long[1:])


async def test_the_size_of_a_forward_pass_does_not_change_what_is_learned() -> None:
    chat, config = echo_chat(), echo_config()
    transcripts = (await random_play(RememberingEchoText())).transcripts
    losses = []
    for tokens_per_forward in (16_384, 40):
        model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=0)
        settings = PretrainConfig(steps=20, batch_size=64)
        limits = {**LIMITS, "tokens_per_forward": tokens_per_forward}
        losses.append(pretrain(model, chat, transcripts, settings, precision="float32", seed=0, **limits))

    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
