"""The rollout workers of a run on a Ray cluster, and the processes that hold parts of its trainer."""

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from openenv.auto.environment import named_environment
from openenv.rl.algorithm.rewards import Reward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.preparation import TrainingEnvironment, environments_of, rollout_of, sessions_of
from openenv.rl.engines.protocol import RolloutWorker
from openenv.rl.engines.ray_cluster.actor import Actor, own_address
from openenv.rl.engines.ray_cluster.generator_actor import VllmServer
from openenv.rl.engines.ray_cluster.health import generator_name
from openenv.rl.engines.ray_cluster.remote_generator import RemoteGenerator
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.past_weights import past_weights
from openenv.rl.generators.probe import Probe
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.generators.vllm_weights import AllWeights
from openenv.rl.models.language_model import load_tokenizer
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.starting_model import chat_with
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.trainer_rank import TrainerRank
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
        checkpoints = Checkpoints(config.run_dir)
        named = [named_environment(one.name, text=one.text or None) for one in config.env]
        served = [
            replace(one.served_at(urls[0], headers=headers), further_urls=urls[1:])
            for one, (urls, headers) in zip(named, servers, strict=True)
        ]
        for one, settings, history in zip(served, config.env, checkpoints.load_histories() or (), strict=False):
            one.text.history = history
            if settings.success_return is not None:
                one.text.success_return = settings.success_return
        tokenizer = load_tokenizer(checkpoints.reference)
        reader = checkpoints.load_image_reader(model_config, tokenizer)
        new_chat = partial(chat_with, tokenizer, ends, reader)
        self._environments = environments_of(config, served, new_chat, reward, checkpoints.load_random_returns())
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


_WORK_LIMIT = timedelta(minutes=30)
"""Of one exchange in a step."""


class Meeting(NamedTuple):
    """Where the trainer's processes meet."""

    address: str
    port: int


class RankActor(Actor):
    """One of the processes of the trainer, or the only one."""

    def __init__(self, name: str, config: Config, folder: str) -> None:
        """As `Actor`."""
        super().__init__(name, config, folder)
        self._config = config
        self._rank: TrainerRank | None = None

    async def meeting(self) -> Meeting:
        """Where the others can meet this one."""
        address = own_address()
        with socket.socket() as free:
            free.bind((address, 0))
            return Meeting(address, free.getsockname()[1])

    async def join(self, meeting: Meeting | None, number: int, size: int) -> None:
        """Load the model before GRPO, together with the others if there are any."""
        await self.in_thread(self._join, meeting, number, size)

    def _join(self, meeting: Meeting | None, number: int, size: int) -> None:
        if meeting is not None:
            place = f"tcp://{meeting.address}:{meeting.port}"
            backend = "cpu:gloo,cuda:nccl" if self._config.model.device == "cuda" else "gloo"
            dist.init_process_group(backend, init_method=place, rank=number, world_size=size, timeout=_WORK_LIMIT)
        self._rank = TrainerRank.follower(self._config)

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the trainer. Returns what it returns, with the number of batches trained on."""
        return await self.in_thread(self._call, method, *args)

    def _call(self, method: str, *args: Any) -> Any:
        assert self._rank is not None
        return getattr(self._rank, method)(*args), self._rank.trainer.step_count

    async def weights(self, probe: Probe | None) -> tuple[int, list[float] | None, dict[str, Tensor]]:
        """The version of the trained weights, what a probe measures of them, and these by their names.

        The first process alone has the last two, and keeps the weights of opponents in self-play in files.
        """
        return await self.in_thread(self._weights, probe)

    def _weights(self, probe: Probe | None) -> tuple[int, list[float] | None, dict[str, Tensor]]:
        assert self._rank is not None
        if not self._rank.trainer.ranks.is_first:
            self._rank.follow_publish(probe)
            return self._rank.trainer.step_count, None, {}
        store = WeightStore()
        store.probe = probe
        past_weights(self._config, store)
        self._rank.publish(store)
        version, weights = store.newer(-1) or (-1, {})
        return version, store.probed(version), {name: tensor.cpu() for name, tensor in weights.items()}
