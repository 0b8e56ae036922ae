"""The embedded engine: model, generator, trainer and reference in one process."""

import asyncio
import copy
import logging
from concurrent.futures import Executor, ThreadPoolExecutor
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
from openenv.rl.reading import random_transcripts, read, transcript_words
from openenv.rl.reference import ReferenceModel
from openenv.rl.reward import OutcomeReward, Reward
from openenv.rl.rollout import Rollout
from openenv.rl.tokenizer import word_tokenizer
from openenv.rl.trainer import Trainer
from openenv.rl.weights import WeightStore

if TYPE_CHECKING:
    from openenv.rl.setup import OnProgress

log = logging.getLogger(__name__)


class Engine:
    """The parts of a run that hold the model."""

    def __init__(
        self, config: Config, model: PreTrainedModel, chat: Chat, text: TextInterface[Any, Any], reward: Reward
    ) -> None:
        self.config = config
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
        checkpoints = Checkpoints(config.run_dir)
        resume = resume and checkpoints.has_any
        if resume:
            model, tokenizer = checkpoints.load_reference()
            chat = Chat(tokenizer)
        elif config.model.path:
            model, tokenizer = await asyncio.to_thread(load_model, config.model.path)
            chat = Chat(tokenizer)
        else:
            model, chat = await _taught_model(config, server_url, text, on_progress)
        engine = cls(config, model, chat, text, reward or OutcomeReward(config.reward))
        if resume:
            engine.progress = checkpoints.restore(engine.trainer)
            log.info("resumed: step=%d", engine.progress.step)
        else:
            checkpoints.save_reference(model, chat)
        return engine

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


async def _taught_model(
    config: Config, server_url: str, text: TextInterface[Any, Any], on_progress: "OnProgress"
) -> tuple[PreTrainedModel, Chat]:
    """A tiny model that has read transcripts of uniformly random play, gathered from the run's server."""
    entry = catalog.load(config.env.name)
    async with SessionPool(entry.client_class, server_url, config.evaluation.sessions) as pool:
        transcripts = await random_transcripts(
            pool,
            text,
            config.reading,
            reset=config.env.reset,
            seed=config.seed,
            on_progress=lambda done, total: on_progress("gather", done, total, {}),
        )
    chat = Chat(word_tokenizer(transcript_words(transcripts)))
    length = config.max_req_tokens + config.max_res_tokens
    model = tiny_model(config.model, chat.tokenizer, max_length=length, seed=config.seed)
    losses = await asyncio.to_thread(
        read,
        model,
        chat,
        transcripts,
        config.reading,
        precision=config.model.precision,
        seed=config.seed,
        on_progress=lambda done, total: on_progress("read", done, total, {}),
    )
    log.info("read transcripts: distinct=%d loss=%.4f", len(transcripts), losses[-1] if losses else float("nan"))
    return model, chat
