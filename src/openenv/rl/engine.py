"""The embedded engine: model, generator, trainer and reference in one process."""

import asyncio
import copy
import dataclasses
import logging
import os
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from transformers import PreTrainedModel

from openenv.core.text import TextInterface
from openenv.core.vector import SessionPool
from openenv.envs import catalog
from openenv.rl.chat import Chat
from openenv.rl.checkpoint import Checkpoints, Progress
from openenv.rl.config import Config
from openenv.rl.episodes import Sessions
from openenv.rl.generator import Generator
from openenv.rl.model import load_model, tiny_model
from openenv.rl.reading import RandomPlay, play_at_random, read, transcript_words
from openenv.rl.reference import ReferenceModel
from openenv.rl.reward import OutcomeReward, Reward
from openenv.rl.rollout import Rollout
from openenv.rl.tokenizer import word_tokenizer
from openenv.rl.trainer import Trainer
from openenv.rl.weights import WeightStore

if TYPE_CHECKING:
    from openenv.rl.setup import OnProgress

log = logging.getLogger(__name__)

_EPISODES_TO_MEASURE = 64


class Engine:
    """The parts of a run that hold the model."""

    def __init__(
        self,
        config: Config,
        model: PreTrainedModel,
        chat: Chat,
        text: TextInterface[Any, Any],
        reward: Reward,
        batch_size: int,
    ) -> None:
        self.config = config
        self.batch_size = batch_size
        """Groups in one training step."""
        self.chat = chat
        self.text = text
        self.store = WeightStore()
        self.checkpoints = Checkpoints(config.run_dir)
        self.progress = Progress(step=0, next_group=0, training_s=0.0)
        self.trainer = Trainer(model, ReferenceModel(model, config.model.precision), config, chat.pad_id)
        self._reward = reward
        self._executor = ThreadPoolExecutor(
            1, "generator", initializer=torch.set_num_threads, initargs=(config.threads,)
        )
        self._generator = self._make_generator(model, self.store)

    @classmethod
    async def make(
        cls, config: Config, server_url: str, reward: Reward | None, *, resume: bool, on_progress: "OnProgress"
    ) -> Self:
        """Load the model, or make it and let it read; then restore the latest checkpoint when the run goes on."""
        torch.set_num_threads(config.threads)
        text = catalog.load(config.env.name).text_class()
        reward = reward or OutcomeReward(config.reward)
        checkpoints = Checkpoints(config.run_dir)
        if resume and checkpoints.has_any:
            model, tokenizer, batch_size = checkpoints.load_reference()
            engine = cls(config, model, Chat(tokenizer), text, reward, batch_size)
            engine.progress = checkpoints.restore(engine.trainer)
            log.info("resumed: step=%d", engine.progress.step)
            return engine
        random_play = await _random_play(config, server_url, text, on_progress)
        if config.model.path:
            model, tokenizer = await asyncio.to_thread(load_model, config.model.path)
            chat = Chat(tokenizer)
        else:
            model, chat = await _taught_model(config, random_play, on_progress)
        batch_size = _batch_size(config, random_play)
        checkpoints.save_reference(model, chat, batch_size)
        return cls(config, model, chat, text, reward, batch_size)

    def rollout(
        self, pool: Sessions, *, generator: Generator | None = None, executor: Executor | None = None
    ) -> Rollout:
        """Plays groups over these sessions: with the latest published weights, or with another generator."""
        return Rollout(
            pool, self.text, generator or self._generator, self._reward, self.config, executor or self._executor
        )

    def player(self, *, temperature: float, before: bool = False) -> Generator:
        """A generator with the present weights (or those before GRPO) for evaluation: its `complete` answers."""
        model = self.trainer.reference.model if before else self.trainer.model
        generator = self._make_generator(model, None)
        generator.temperature = temperature
        generator.seed(self.config.seed)
        return generator

    def close(self) -> None:
        """End the generator's thread."""
        self._executor.shutdown(cancel_futures=True)

    def _make_generator(self, model: PreTrainedModel, store: WeightStore | None) -> Generator:
        config = self.config
        return Generator(
            copy.deepcopy(model),
            self.chat,
            max_new_tokens=config.max_res_tokens,
            precision=config.model.precision,
            store=store,
        )


async def _random_play(
    config: Config, server_url: str, text: TextInterface[Any, Any], on_progress: "OnProgress"
) -> RandomPlay:
    """Uniformly random play, gathered from the run's server: to read, and to see how long episodes are."""
    reading = config.reading
    if config.model.path:
        reading = dataclasses.replace(reading, max_episodes=_EPISODES_TO_MEASURE)
    client_class = catalog.load(config.env.name).client_class
    async with SessionPool(client_class, server_url, min(config.evaluation.sessions, reading.max_episodes)) as pool:
        return await play_at_random(
            pool,
            text,
            reading,
            reset=config.env.reset,
            seed=config.seed,
            on_progress=lambda done, total: on_progress("gather", done, total, {}),
        )


def _batch_size(config: Config, random_play: RandomPlay) -> int:
    """Groups in one training step, at least one."""
    buffer = config.replay_buffer
    decisions_per_group = config.group_size * random_play.decisions_per_episode
    return buffer.batch_size or max(1, round(buffer.batch_decisions / decisions_per_group))


def _use_all_cores() -> None:
    """Nothing else runs while the model reads; in training rollouts and trainer share the cores."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))


async def _taught_model(
    config: Config, random_play: RandomPlay, on_progress: "OnProgress"
) -> tuple[PreTrainedModel, Chat]:
    """A tiny model that has read the transcripts, and nothing else."""
    transcripts = random_play.transcripts
    chat = Chat(word_tokenizer(transcript_words(transcripts)))
    length = config.max_req_tokens + config.max_res_tokens
    model = tiny_model(config.model, chat.tokenizer, max_length=length, seed=config.seed)
    given_up = threading.Event()

    def tell(done: int, total: int) -> None:
        if given_up.is_set():
            raise asyncio.CancelledError
        on_progress("read", done, total, {})

    with ThreadPoolExecutor(1, "reader", initializer=_use_all_cores) as reader:
        reading = partial(
            read,
            model,
            chat,
            transcripts,
            config.reading,
            precision=config.model.precision,
            seed=config.seed,
            on_progress=tell,
        )
        try:
            losses = await asyncio.get_running_loop().run_in_executor(reader, reading)
        finally:
            given_up.set()  # Ctrl-C does not wait for the rest of it
    torch.set_num_threads(config.threads)
    log.info("read transcripts: distinct=%d loss=%.4f", len(transcripts), losses[-1] if losses else float("nan"))
    return model, chat
