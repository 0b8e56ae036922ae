"""The rollout workers of a run on a Ray cluster. They have no weights of the model."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from openenv.auto.environment import named_environment
from openenv.rl.algorithm.rewards import Reward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.protocol import RolloutWorker
from openenv.rl.engines.ray_cluster.actor import Actor
from openenv.rl.engines.ray_cluster.health import generator_name
from openenv.rl.engines.ray_cluster.remote_generator import RemoteGenerator, VllmServer
from openenv.rl.engines.training_environment import TrainingEnvironment, environments_of, rollout_of, sessions_of
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.generators.vllm_weights import AllWeights
from openenv.rl.models.chat import chat_of, load_tokenizer
from openenv.rl.training.run_start import RunStart
from openenv.rl.waiting.waits import Place


class RolloutActor(Actor):
    """Plays parts of a step's groups. Each part has sessions of its own."""

    def __init__(
        self,
        name: str,
        config: Config,
        folder: str,
        servers: Sequence[tuple[Sequence[str], Mapping[str, str]]],
        reward: Reward | None,
        generators: Sequence[Any],
        model_config: Any,
        ends: Sequence[int],
    ) -> None:
        """
        Args:
            name, folder: as in `Actor`.
            servers: the URLs of each environment's servers, and the headers of their connections.
            reward: as in `setup_training`.
            generators: all of the run.
            model_config: the model's, of transformers.
            ends: the tokens that end a reply by the model's generation config.
        """
        super().__init__(name, config, folder)
        self._config = config
        start = RunStart(config.run_dir)
        named = [named_environment(one.name, text=one.text or None) for one in config.env]
        served = [
            replace(one.served_at(urls[0], headers=headers), further_urls=urls[1:])
            for one, (urls, headers) in zip(named, servers, strict=True)
        ]
        for one, settings, history in zip(served, config.env, start.load_histories() or (), strict=False):
            one.text.history = history
            if settings.success_return is not None:
                one.text.success_return = settings.success_return
        tokenizer = load_tokenizer(start.reference)
        reader = start.load_image_reader(model_config, tokenizer)
        new_chat = partial(chat_of, tokenizer, ends, reader)
        self._environments = environments_of(config, served, new_chat, reward, start.load_random_returns())
        self._generators = generators
        self._vocab_size = model_config.get_text_config().vocab_size
        self._rollouts: dict[tuple[int, int], tuple[RolloutWorker, list[BaseGenerator]]] = {}
        self._pools = contextlib.AsyncExitStack()
        self._playing: dict[tuple[int, int], asyncio.Task[list[Group]]] = {}

    async def play(
        self,
        part: int,
        environment: int,
        indices: Sequence[int],
        reset: Mapping[str, Any] | None,
        version: int,
        server: VllmServer | None,
    ) -> list[Group]:
        """As `engines.protocol.RolloutWorker.play`. version: of the generators' weights. server: of the part's.

        What is played in this part already ends first: a call whose answer was lost is made again.
        """
        rollout, generators = await self._rollout(part, environment)
        await self._end_playing(part, environment)
        for one in generators:
            one.policy_version = version
            if isinstance(one, VllmGenerator):
                assert server is not None, "a generator with vLLM returns where it answers"
                one.reach(*server)
        self._playing[part, environment] = playing = asyncio.ensure_future(rollout.play(indices, reset))
        return await playing

    async def close(self) -> None:
        """End what is played, and the sessions. A later call opens others."""
        for part, environment in list(self._playing):
            await self._end_playing(part, environment)
        pools, self._pools = self._pools, contextlib.AsyncExitStack()
        self._rollouts.clear()
        await pools.aclose()

    async def _end_playing(self, part: int, environment: int) -> None:
        playing = self._playing.pop((part, environment), None)
        if playing is not None:
            playing.cancel()
            await asyncio.wait([playing])

    async def _rollout(self, part: int, environment: int) -> tuple[RolloutWorker, list[BaseGenerator]]:
        """That of a part, with what it asks: the part's generator, and the opponents there if it has any."""
        key = (part, environment)
        if key not in self._rollouts:
            played: TrainingEnvironment = self._environments[environment]
            pool = await self._pools.enter_async_context(sessions_of(played, self._config, environment))
            most, self_play = self._config.max_res_tokens, played.config.self_play
            number = part % len(self._generators)
            actor = self._generators[number]
            generators: list[BaseGenerator] = [
                VllmGenerator(
                    (),
                    played.chat,
                    AllWeights((), "", torch.float32),  # the generator's actor delivers them
                    max_new_tokens=most,
                    vocab_size=self._vocab_size,
                )
                if self._config.generator.is_vllm
                else RemoteGenerator(actor, played.chat, max_new_tokens=most)
            ]
            if self_play is not None:
                every = self_play.refresh
                generators.append(RemoteGenerator(actor, played.chat, max_new_tokens=most, opponents=every))
            thread = ThreadPoolExecutor(1, f"generator of part {part}")
            place = Place(self.waits, f"part {part}", played.server_name, generator_name(number))
            opponents = generators[1] if self_play else None
            rollout = rollout_of(self._config, played, environment, pool, generators[0], thread, place, opponents)
            self._rollouts[key] = rollout, generators
        return self._rollouts[key]
