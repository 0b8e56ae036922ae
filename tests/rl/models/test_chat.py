"""Prompts: training and evaluation show a model the same messages, and the same tokens."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from transformers import AutoTokenizer

from openenv.core.client_types import StepResult
from openenv.envs.openspiel_env import OpenSpielText
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.evaluation import play_episodes
from openenv.policies import ChatMessage, LanguageModelPolicy, SampledReply
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, TokenIds, word_tokenizer
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import tiny_model
from openenv.rl.rollouts.rollout import Rollout
from openenv.text.constraints import ReplyConstraint

SEEDS = range(40)


class WholeEpisodeText(OpenSpielText):
    history = "full"


class BlackjackPool:
    """Sessions of the real environment in this process."""

    def __init__(self, num_sessions: int) -> None:
        self.environments = [OpenSpielEnvironment("blackjack") for _ in range(num_sessions)]

    def __len__(self) -> int:
        return len(self.environments)

    async def reset(self, requests: Any) -> dict[int, Any]:
        return {i: result_of(self.environments[i].reset(**keywords)) for i, keywords in requests.items()}

    async def step(self, actions: Any) -> dict[int, Any]:
        return {i: result_of(self.environments[i].step(action)) for i, action in actions.items()}


def result_of(observation: Any) -> StepResult[Any]:
    return StepResult(observation, observation.reward, observation.done)


class HittingGenerator(Generator):
    """Always hits, in tokens that encoding the reply's text would not give, and records its prompts."""

    prompts: list[TokenIds]

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        self.prompts += prompts
        reply = (self.chat.pad_id, *self.chat.encode("hit"), self.chat.end_id)
        shown = [(False,) * len(prompt) for prompt in prompts]
        return [
            Segment((*prompt, *reply), (*mask, *(True,) * 3), (*(0.0 for _ in mask), *(-1.0,) * 3), 0)
            for prompt, mask in zip(prompts, shown, strict=True)
        ]


def hitting_generator(config: Config) -> HittingGenerator:
    seen = OpenSpielEnvironment("blackjack").reset(seed=0)
    ranks = "A, 2 3 4 5 6 7 8 9 10 J Q K and hard soft"
    totals = " ".join(map(str, range(4, 31)))
    chat = Chat(
        word_tokenizer([OpenSpielText().instructions(seen), str(OpenSpielText().describe(seen)), ranks, totals])
    )
    generator = HittingGenerator(
        tiny_model(config.model, chat.tokenizer, max_length=64, seed=0), chat, max_new_tokens=3
    )
    generator.prompts = []
    return generator


async def prompts_of_training(config: Config, text: OpenSpielText) -> list[TokenIds]:
    generator = hitting_generator(config)
    with ThreadPoolExecutor(1) as executor:
        rollout = Rollout(BlackjackPool(2 * len(SEEDS)), text, generator, EpisodeReward(), config, executor)
        await rollout.play(list(SEEDS))
    return generator.prompts


async def prompts_of_evaluation(config: Config, text: OpenSpielText) -> list[TokenIds]:
    generator = hitting_generator(config)
    policy = LanguageModelPolicy("model", text, generator.complete, instructions=config.model.instructions)
    await play_episodes(BlackjackPool(3), policy, len(SEEDS), SEEDS[0], text=text)
    return generator.prompts


@pytest.mark.parametrize("text", [OpenSpielText(), WholeEpisodeText()], ids=["latest", "full"])
@pytest.mark.parametrize("instructions", [False, True])
async def test_training_and_evaluation_show_a_model_the_same_tokens(text: OpenSpielText, instructions: bool) -> None:
    model = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 32, "instructions": instructions}
    config = config_from_mapping({"group_size": 2, "model": model})

    training = await prompts_of_training(config, text)
    evaluation = await prompts_of_evaluation(config, text)

    assert sorted(training) == sorted(2 * evaluation)  # a group of two plays each seed twice
    unknown = word_tokenizer([]).unk_token_id
    assert all(unknown not in prompt for prompt in training)
    assert len({len(prompt) for prompt in training}) >= 3, "no episode of several turns was played"


async def test_a_prompt_of_a_whole_episode_holds_the_sampled_tokens_and_every_turn() -> None:
    config = config_from_mapping({"group_size": 2, "model": {"hidden_size": 32, "num_layers": 1}})
    prompts = await prompts_of_evaluation(config, WholeEpisodeText())
    chat = hitting_generator(config).chat

    longest = chat.tokenizer.decode(list(max(prompts, key=len)))

    turns = longest.split("<|user|>")[1:]
    assert len(turns) >= 3
    assert all(turn.endswith("<|assistant|> <|pad|> hit <|end|> ") for turn in turns[:-1])
    assert turns[-1].endswith("<|assistant|>")


def test_a_reply_without_known_tokens_is_rendered_as_the_template_writes_it() -> None:
    chat = Chat(word_tokenizer(["one two three"]))
    messages: list[ChatMessage] = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    reply_ids = (*chat.encode("two"), chat.end_id)
    sampled: list[ChatMessage] = [messages[0], {**messages[1], "token_ids": reply_ids}, messages[2]]

    assert chat.prompt(sampled) == chat.prompt(messages)


def test_the_end_token_of_a_reply_that_was_cut_off_is_added() -> None:
    chat = Chat(word_tokenizer(["one two three"]))
    turns = [
        [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two", "token_ids": ids}]
        for ids in (chat.encode("two"), (*chat.encode("two"), chat.end_id))
    ]

    cut_off, ended = (chat.prompt([*turn, {"role": "user", "content": "three"}]) for turn in turns)

    assert cut_off == ended


def test_an_episode_of_any_number_of_turns_has_a_prompt() -> None:
    chat = Chat(word_tokenizer(["one two three"]))
    turn: list[ChatMessage] = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "token_ids": (*chat.encode("two"), chat.end_id)},
    ]
    question: ChatMessage = {"role": "user", "content": "three"}

    ids = chat.prompt([*turn * 3000, question])

    written = chat.prompt([*turn, question])
    opening = chat.prompt([question])
    assert ids == written[: -len(opening)] * 3000 + opening


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [
        ("hit", 1),
        ("hit, stand.", 4),
        ("You have 9 and Q, hard 19. The dealer shows 4.", 14),
        ("-3.5, 2..5: it's a_b and c-d!? ... ## (m): e.g. 1e-5;", 18),
        ('<tool_call> {"name": "invite", "arguments": {"event_id": 7, "person": "cleo"}} </tool_call>', 10),
        ('{"weights": {"S1": 0.5, "S2": 0.25}}', 6),
        (". . x .\n a1 b1", 6),
    ],
)
def test_a_word_tokenizer_takes_punctuation_off_words_and_returns_the_text(
    tmp_path: Path, text: str, num_tokens: int
) -> None:
    tokenizer = word_tokenizer([text])
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)

    for known in (tokenizer, loaded):
        ids = known.encode(text, add_special_tokens=False)
        assert len(ids) == num_tokens
        assert known.unk_token_id not in ids
        assert known.decode(ids) == " ".join(text.split())


def test_marks_join_words_that_are_known_without_them() -> None:
    chat = Chat(word_tokenizer(["hit, stand.", "double"]))

    assert chat.text(chat.encode("double, hit.")) == "double, hit."
    assert chat.text((*chat.encode("stand."), chat.end_id)) == "stand."


def test_a_sampled_reply_is_text_that_knows_its_tokens() -> None:
    reply = SampledReply("hit", (7, 2))

    assert reply == "hit"
    assert reply.token_ids == (7, 2)
