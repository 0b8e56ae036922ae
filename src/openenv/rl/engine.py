"""The embedded engine: model, generator, trainer and reference in one process."""

import asyncio
import copy
import itertools
import logging
import os
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from transformers import PreTrainedModel

from openenv.auto.environment import ServedEnvironment
from openenv.core.text_interface import TextInterface
from openenv.evaluation.episodes import EpisodeSessions
from openenv.rl.budget import PRETRAINING_SHARE, Budget
from openenv.rl.config import Config, EnvConfig, require
from openenv.rl.environments import labels, shares
from openenv.rl.loop import OnStep, TrainingLoop
from openenv.rl.models.base_generator import BaseGenerator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.generator import Generator
from openenv.rl.models.images import ImageReader, load_image_reader
from openenv.rl.models.language_model import (
    WeightStore,
    checkpoint_activations,
    device_of,
    end_ids,
    load_model,
    on_device,
    tiny_model,
)
from openenv.rl.models.lora import adapter_config, add_adapter
from openenv.rl.models.tiny_vision import tiny_image_reader, tiny_vision_model
from openenv.rl.models.vllm_generator import VllmGenerator
from openenv.rl.random_play import EPISODES_TO_MEASURE, random_play
from openenv.rl.reports.training_log import TrainingLog
from openenv.rl.rollouts.rewards import EpisodeReward, RandomReturns, Reward
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.training.checkpoint import Checkpoints, TrainingProgress
from openenv.rl.training.pretraining import (
    RandomPlay,
    Transcript,
    chat_messages,
    have_images,
    pretrain,
    transcript_words,
)
from openenv.rl.training.trainer import Trainer, make_reference

if TYPE_CHECKING:
    from openenv.rl.setup import OnProgress

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingEnvironment:
    """An environment of the run, as rollouts and evaluation need it."""

    label: str
    """Its name, which no other environment of the run has."""
    config: EnvConfig
    served: ServedEnvironment
    chat: Chat
    """It shows the environment's tools."""
    reward: Reward


class Engine:
    """The parts of a run that hold the model: weights, generator, trainer and checkpoints."""

    def __init__(
        self,
        config: Config,
        model: PreTrainedModel,
        environments: Sequence[TrainingEnvironment],
        batch_size: int,
        budget: Budget,
    ) -> None:
        self.config = config
        self.budget = budget
        self.batch_size = batch_size
        """Number of groups in one training step."""
        self.environments = environments
        """The environments, in the order of the configuration."""
        self.chat = chat = environments[0].chat
        self.store = WeightStore()
        self.checkpoints = Checkpoints(config.run_dir)
        self.progress = TrainingProgress(step=0, training_s=0.0)
        if config.model.gradient_checkpointing:
            checkpoint_activations(model)
        self.trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)
        self._executor = ThreadPoolExecutor(
            1, "generator", initializer=torch.set_num_threads, initargs=(config.threads,)
        )
        self._served: list[VllmGenerator] = []
        self._generator = self._make_generator(model, self.store)

    @classmethod
    async def make(
        cls,
        config: Config,
        served: Sequence[ServedEnvironment],
        reward: Reward | None,
        *,
        resume: bool,
        budget: Budget,
        on_progress: "OnProgress",
    ) -> Self:
        """Load the model, or create and pretrain it. A resumed run restores what it has saved instead."""
        torch.set_num_threads(config.threads)
        checkpoints = Checkpoints(config.run_dir)
        if resume and checkpoints.has_reference:
            model, tokenizer, batch_size = checkpoints.load_reference(config.model)
            returns = checkpoints.load_random_returns()
            reader = checkpoints.load_image_reader(model, tokenizer)
            environments = _environments(config, served, model, tokenizer, reader, reward, returns)
            engine = cls(config, model, environments, batch_size, budget)
            if checkpoints.has_any:
                engine.progress = checkpoints.restore(engine.trainer)
                budget.earlier_s += engine.progress.spent_s
            log.info("resumed: step=%d", engine.progress.step)
            return engine
        played = await random_play(config, served, budget, on_progress)
        returns = [RandomReturns.of(one.returns) for one in played]
        if config.model.path:
            model, tokenizer, reader = await asyncio.to_thread(_loaded_model, config)
        else:
            model, tokenizer, reader = await _pretrained_model(config, played, budget, on_progress)
        environments = _environments(config, served, model, tokenizer, reader, reward, returns)
        if config.model.path:
            _require_agreement(model, environments[0].chat, config)
        for environment, one in zip(environments, played, strict=True):
            _require_room(model, environment.chat, one, config)
        batch_size = _batch_size(config, played)
        checkpoints.save_reference(model, environments[0].chat, batch_size)
        checkpoints.save_random_returns(returns)
        return cls(config, model, environments, batch_size, budget)

    def rollout(
        self,
        pool: EpisodeSessions,
        environment: int,
        *,
        generator: BaseGenerator | None = None,
        executor: Executor | None = None,
    ) -> Rollout:
        """A rollout over sessions of an environment, with the latest published weights or with another generator."""
        played = self.environments[environment]
        return Rollout(
            pool,
            played.served.text,
            generator or self._generator,
            played.reward,
            self.config,
            executor or self._executor,
            chat=played.chat,
            environment=environment,
        )

    async def train(
        self, rollouts: Sequence[Sequence[Rollout]], steps: int, training_log: TrainingLog, on_step: OnStep
    ) -> None:
        """Make `steps` more steps, as `TrainingLoop.run`. rollouts: those of each environment."""
        loop = TrainingLoop(
            rollouts,
            self.trainer,
            self.store,
            self.checkpoints,
            self.chat,
            self.config,
            training_log,
            self.progress,
            self.batch_size,
            self.budget,
        )
        try:
            await loop.run(steps, on_step)
        finally:
            self.progress = loop.progress

    def player(self, *, temperature: float, before: bool = False) -> BaseGenerator:
        """A generator with the current weights, or those before GRPO, whose `complete` is used in evaluation."""
        generator = self._player_before() if before else self._player_now()
        generator.temperature = temperature
        generator.seed(self.config.seed)
        return generator

    def close(self) -> None:
        """End the generator's thread, and take the adapters off a vLLM server."""
        self._executor.shutdown(cancel_futures=True)
        for served in self._served:
            served.close()

    def _player_now(self) -> BaseGenerator:
        store = WeightStore()
        store.publish(self.trainer.model, self.progress.step)
        return self._make_generator(self.trainer.model, store)

    def _player_before(self) -> BaseGenerator:
        if self.config.model.vllm_url:
            return self._make_generator(self.trainer.model, None)
        return self._make_generator(self.checkpoints.load_reference(self.config.model)[0], None)

    def _make_generator(self, model: PreTrainedModel, store: WeightStore | None) -> BaseGenerator:
        """A generator with the weights of a store. Without one it has those of the model, in vLLM no adapter."""
        config = self.config
        if config.model.vllm_url:
            served = VllmGenerator(
                config.model.vllm_url,
                config.model.path,
                self.chat,
                max_new_tokens=config.max_res_tokens,
                folder=config.run_dir / "adapters",
                adapter_config=adapter_config(model),
                store=store,
            )
            self._served.append(served)
            return served
        return Generator(
            copy.deepcopy(model),
            self.chat,
            max_new_tokens=config.max_res_tokens,
            precision=config.model.precision,
            store=store,
        )


def _environments(
    config: Config,
    served: Sequence[ServedEnvironment],
    model: PreTrainedModel,
    tokenizer: Any,
    reader: ImageReader | None,
    reward: Reward | None,
    returns: Sequence[RandomReturns],
) -> list[TrainingEnvironment]:
    """The environments of the run. reward: None for the configured one. returns: those of random play in each."""
    return [
        TrainingEnvironment(
            label=label,
            config=settings,
            served=environment,
            chat=_chat(config, model, tokenizer, reader, environment.text),
            reward=reward or EpisodeReward(config.reward, measured),
        )
        for label, settings, environment, measured in zip(labels(config.env), config.env, served, returns, strict=True)
    ]


def _loaded_model(config: Config) -> tuple[PreTrainedModel, Any, ImageReader | None]:
    """Model, tokenizer and image reader at `model.path`, with the adapter that is trained if there is to be one."""
    settings = config.model
    model, tokenizer = load_model(settings.path, weights=settings.weights, device=device_of(settings.device))
    if settings.lora:
        add_adapter(model, settings.lora, settings.path)
    return model, tokenizer, load_image_reader(settings.path, model, tokenizer)


def _chat(
    config: Config,
    model: PreTrainedModel,
    tokenizer: Any,
    image_reader: ImageReader | None,
    text: TextInterface[Any, Any],
) -> Chat:
    """The chat of a loaded model. Raises ChatTemplateError for a tokenizer without a usable template.

    A template that renders tools gets those of the environment; the instructions describe them for any other.
    """
    tools = text.tools() if "tools" in str(tokenizer.chat_template) else []
    return Chat(
        tokenizer,
        end_ids=end_ids(model),
        enable_thinking=config.model.enable_thinking,
        tools=tools,
        image_reader=image_reader,
    )


def _require_room(model: PreTrainedModel, chat: Chat, played: RandomPlay, config: Config) -> None:
    """Raise ConfigError if the first prompts of random play, or all that the limits allow, are too long for the model.

    Raises ChatTemplateError for prompts that the chat template cannot render.
    """
    longest = 0
    for messages, _ in itertools.islice(played.transcripts, EPISODES_TO_MEASURE):
        opening = itertools.takewhile(lambda message: message[0] != "assistant", messages)
        longest = max(longest, len(chat.prompt(chat_messages(opening))))
    rule = f"an episode's first prompt has {longest} tokens. Raise max_req_tokens."
    require(longest <= config.max_req_tokens, "max_req_tokens", config.max_req_tokens, rule)
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    wanted = config.max_req_tokens + config.max_res_tokens
    rule = (
        f"with max_res_tokens={config.max_res_tokens} more than the {room} positions of the model. Lower one of them."
    )
    require(room is None or wanted <= room, "max_req_tokens", config.max_req_tokens, rule)


def _require_agreement(model: PreTrainedModel, chat: Chat, config: Config) -> None:
    """Raise UnsupportedModel, before anything is trained, for a model that the generator cannot sample from."""
    generator = Generator(model, chat, max_new_tokens=config.max_res_tokens, precision=config.model.precision)
    generator.require_agreement()


def _batch_size(config: Config, played: Sequence[RandomPlay]) -> int:
    """Number of groups in one training step, at least 1."""
    buffer = config.replay_buffer
    decisions = sum(share * play.decisions_per_episode for share, play in zip(shares(config.env), played, strict=True))
    return buffer.batch_size or max(1, round(buffer.batch_decisions / (config.group_size * decisions)))


def _use_all_cores() -> None:
    """Nothing else runs during pretraining. In training, rollouts and trainer share the cores."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))


async def _pretrained_model(
    config: Config, played: Sequence[RandomPlay], budget: Budget, on_progress: "OnProgress"
) -> tuple[PreTrainedModel, Any, ImageReader | None]:
    """A tiny model, pretrained on the transcripts alone, its tokenizer, and its image reader if these have images."""
    transcripts: Counter[Transcript] = sum((play.transcripts for play in played), Counter())
    reads_images = have_images(transcripts)
    tokenizer = word_tokenizer(transcript_words(transcripts), images=reads_images)
    chat = Chat(tokenizer, image_reader=tiny_image_reader() if reads_images else None)
    make_model = tiny_vision_model if reads_images else tiny_model
    length = config.max_req_tokens + config.max_res_tokens
    model = make_model(config.model, tokenizer, max_length=length, seed=config.seed)
    model = on_device(model, device_of(config.model.device))
    cancelled = threading.Event()

    def report(done: int, total: int) -> None:
        if cancelled.is_set():
            raise asyncio.CancelledError
        on_progress("pretrain", done, total, {})

    with ThreadPoolExecutor(1, "pretraining", initializer=_use_all_cores) as thread:
        work = partial(
            pretrain,
            model,
            chat,
            transcripts,
            config.pretrain,
            precision=config.model.precision,
            seed=config.seed,
            on_progress=report,
            is_time_up=lambda: budget.is_spent(PRETRAINING_SHARE),
        )
        try:
            losses = await asyncio.get_running_loop().run_in_executor(thread, work)
        finally:
            cancelled.set()  # after Ctrl-C the thread stops at its next batch
    torch.set_num_threads(config.threads)
    log.info("pretrained: transcripts=%d loss=%.4f", len(transcripts), losses[-1] if losses else float("nan"))
    return model, tokenizer, chat.image_reader
