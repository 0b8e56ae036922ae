"""A game small enough to know everything about: say the word that you see. In process, without a server."""

import random
from collections.abc import Mapping
from typing import Any

import torch

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation
from openenv.core.errors import EnvironmentFault
from openenv.policies.prompts import PromptBuilder
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import tiny_model
from openenv.rl.training.teacher_play import CollectedPlay, RandomTeacher, collect_play
from openenv.text.interface import TextInterface

WORDS = ("red", "green", "blue")


class SayAction(Action):
    word: str


class SeenObservation(Observation):
    word: str
    turn: int = 0


class EchoText(TextInterface[SayAction, SeenObservation]):
    history = "latest"

    def instructions(self, observation: SeenObservation) -> str:
        return "say the word"

    def describe(self, observation: SeenObservation) -> str:
        return f"word {observation.word}"

    def replies(self, observation: SeenObservation) -> Mapping[str, SayAction]:
        return {word: SayAction(word=word) for word in WORDS}

    def situation(self, observation: SeenObservation) -> str:
        return f"word {observation.word}"


class RememberingEchoText(EchoText):
    history = "full"


class EchoPool:
    """Sessions that show words drawn from the seed, and win 1 when all were repeated rightly, else lose 1."""

    def __init__(
        self,
        num_sessions: int = 8,
        turns: int = 2,
        broken_seeds: frozenset[int] = frozenset(),
        refused: frozenset[str] = frozenset(),
    ) -> None:
        """refused: words that the environment does not take."""
        self.refused = refused
        self.num_sessions = num_sessions
        self.turns = turns
        self.broken_seeds = broken_seeds
        self.first_words: dict[int, list[str]] = {}
        self._games: dict[int, tuple[int, list[str], int, bool]] = {}

    def __len__(self) -> int:
        return self.num_sessions

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        return {index: self._reset(index, **keywords) for index, keywords in requests.items()}

    async def step(self, actions: Mapping[int, SayAction]) -> dict[int, Any]:
        return {index: self._step(index, action.word) for index, action in actions.items()}

    def _reset(self, index: int, seed: int) -> StepResult[SeenObservation]:
        words = random.Random(seed).choices(WORDS, k=self.turns)
        self._games[index] = (seed, words, 0, True)
        self.first_words.setdefault(seed, []).append(words[0])
        return StepResult(SeenObservation(word=words[0]))

    def _step(self, index: int, word: str) -> Any:
        seed, words, turn, right = self._games[index]
        if seed in self.broken_seeds:
            return EnvironmentFault("the table broke")
        if word in self.refused:
            return EnvironmentFault(f"{word} is not spoken here", refused=True)
        right = right and word == words[turn]
        self._games[index] = (seed, words, turn + 1, right)
        if turn + 1 == self.turns:
            return StepResult(SeenObservation(word="none", done=True), 1.0 if right else -1.0, True)
        return StepResult(SeenObservation(word=words[turn + 1], turn=turn + 1))


async def random_play(
    text: EchoText, *, pool: EchoPool | None = None, instructions: bool = False, **limits: Any
) -> CollectedPlay:
    """Random play of the echo game, by default 300 episodes of two turns."""
    return await collect_play(
        pool or EchoPool(turns=2),
        RandomTeacher(text, 0),
        text,
        PromptBuilder(text, instructions=instructions),
        reset={},
        **{"max_episodes": 300, "max_decisions": 10_000, **limits},
    )


def echo_chat() -> Chat:
    return Chat(word_tokenizer(["word none won lost push", *WORDS]))


def echo_config(**changes: Any) -> Config:
    """A small run; `changes` are top-level keys of the YAML file."""
    model = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64, "precision": "float32"}
    return config_from_mapping(
        {
            "name": "echo",
            "model": model,
            "group_size": 4,
            "groups_in_flight": 2,
            "max_res_tokens": 2,
            "replay_buffer": {"batch_size": 4},
            "trainer": {"training": {"steps": 6}, "optimizer": {"lr": 1e-2, "warmup_steps": 1}},
            **changes,
        }
    )


def echo_generator(
    config: Config, chat: Chat, seed: int = 0, sharpness: float = 1.0, generator_class: type[Generator] = Generator
) -> Generator:
    """sharpness: fresh weights are multiplied by it, so that the model prefers some words to others."""
    model = tiny_model(config.model, chat.tokenizer, max_length=64, seed=seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.mul_(sharpness)
    return generator_class(model, chat, max_new_tokens=config.max_res_tokens)
