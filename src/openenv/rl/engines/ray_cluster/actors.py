"""What runs in the processes of a Ray cluster: a generator, a rollout worker, a part of the trainer.

Each builds all that it needs from the run's folder when it is made, so that Ray can make it again after its process has
ended. The folder is on a disk that all machines share.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import ray
import torch
import torch.distributed as dist
from torch import Tensor

from openenv.auto.environment import named_environment
from openenv.rl.algorithm.rewards import Reward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.preparation import TrainingEnvironment, environments_of, sessions_of
from openenv.rl.engines.ray_cluster.health import generator_name
from openenv.rl.engines.ray_cluster.remote_generator import Drawn, RemoteGenerator
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.divided_weights import load_weights, trained_weights
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import cast_matrices, choose_algorithms, device_of, load_tokenizer
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.starting_model import StartingModel, chat_with
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.trainer_rank import TrainerRank
from openenv.rl.waiting.run_log import logged_to_run
from openenv.rl.waiting.stacks import Stacks
from openenv.rl.waiting.status import PartStatus
from openenv.rl.waiting.waits import Place, Waits
from openenv.rl.waiting.watch import ASKED_WITHIN_S
from openenv.text.constraints import ReplyConstraint

_T = TypeVar("_T")


class Actor:
    """A process of the run. Its event loop answers how it is while a thread of its own works."""

    def __init__(self, name: str, config: Config, folder: str) -> None:
        """Let it find what the driver finds. name: such as generator 0. folder: the working folder of the driver."""
        os.chdir(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        torch.set_num_threads(config.threads)
        choose_algorithms(device_of(config.model.device), deterministic=config.model.deterministic)
        self.name = name
        self.waits = Waits()
        self._stacks = Stacks(config.run_dir, name)
        self._thread = ThreadPoolExecutor(1, name, initializer=torch.set_num_threads, initargs=(config.threads,))
        self._waiting = 0
        self._log = contextlib.ExitStack()
        self._log.enter_context(logged_to_run(config.run_dir, name))

    async def in_thread(self, work: Callable[..., _T], *args: Any) -> _T:
        """What `work` returns, which the thread does after what it was given before."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        finally:
            self._waiting -= 1
            self.waits.num_ended += 1

    async def status(self) -> PartStatus:
        """How it is."""
        self._stacks.write_unless_called(ASKED_WITHIN_S)
        cluster: Any = ray.util
        return PartStatus(
            name=self.name,
            pid=os.getpid(),
            node=cluster.get_node_ip_address(),
            waiting=self._waiting,
            waits=self.waits.now(),
            num_ended=self.waits.num_ended,
            tokens=dict(self.waits.tokens),
        )

    async def write_stacks(self, reason: str) -> None:
        """Add its stacks to its file in the run's folder."""
        self._stacks.write(reason)


class GeneratorActor(Actor):
    """A copy of the model that writes replies."""

    def __init__(self, name: str, config: Config, folder: str) -> None:
        """As `Actor`."""
        super().__init__(name, config, folder)
        checkpoints = Checkpoints(config.run_dir)
        model, tokenizer, _ = checkpoints.load_reference(config.model)
        start = StartingModel(model, tokenizer, checkpoints.load_image_reader(model.config, tokenizer))
        cast_matrices(start.model, config.model.precision)
        self._generator = Generator(
            start.model,
            start.chat(enable_thinking=config.model.enable_thinking),
            max_new_tokens=config.max_res_tokens,
            precision=config.model.precision,
            tokens_at_once=config.sampling.tokens_at_once,
        )

    async def load(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """Answer with these weights from now on."""
        await self.in_thread(self._load, version, weights)

    def _load(self, version: int, weights: Mapping[str, Tensor]) -> None:
        load_weights(self._generator.model, weights)
        self._generator.policy_version = version

    async def generate(
        self,
        version: int,
        prompts: Sequence[TokenIds],
        numbers: Sequence[Sequence[float]],
        images: Sequence[Images],
        constraints: Sequence[ReplyConstraint | None],
    ) -> tuple[list[Segment], list[int]] | None:
        """As `BaseGenerator.generate`, with how many numbers each reply has used.

        None if it has other weights than those of the version. numbers: random ones of each reply, as many as it may
        have tokens.
        """
        return await self.in_thread(self._generate, version, prompts, numbers, images, constraints)

    def _generate(
        self,
        version: int,
        prompts: Sequence[TokenIds],
        numbers: Sequence[Sequence[float]],
        images: Sequence[Images],
        constraints: Sequence[ReplyConstraint | None],
    ) -> tuple[list[Segment], list[int]] | None:
        if self._generator.policy_version != version:
            return None
        streams = [Drawn(own) for own in numbers]
        return self._generator.generate(prompts, streams, images, constraints), [stream.used for stream in streams]


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
        self._rollouts: dict[tuple[int, int], tuple[Rollout, RemoteGenerator]] = {}
        self._pools = contextlib.AsyncExitStack()
        self._playing: dict[tuple[int, int], asyncio.Task[list[Group]]] = {}

    async def play(
        self, part: int, environment: int, indices: Sequence[int], reset: Mapping[str, Any] | None, version: int
    ) -> list[Group]:
        """As `engines.protocol.RolloutWorker.play`. version: of the generators' weights.

        What is played in this part already ends first: a call whose answer was lost is made again.
        """
        rollout, generator = await self._rollout(part, environment)
        await self._end_playing(part, environment)
        generator.policy_version = version
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

    async def _rollout(self, part: int, environment: int) -> tuple[Rollout, RemoteGenerator]:
        key = (part, environment)
        if key not in self._rollouts:
            played: TrainingEnvironment = self._environments[environment]
            pool = await self._pools.enter_async_context(sessions_of(played, self._config, environment))
            number = part % len(self._generators)
            generator = RemoteGenerator(
                self._generators[number], played.chat, max_new_tokens=self._config.max_res_tokens
            )
            rollout = Rollout(
                pool,
                played.served.text,
                generator,
                played.reward,
                self._config,
                ThreadPoolExecutor(1, f"generator of part {part}"),
                chat=played.chat,
                environment=environment,
                place=Place(self.waits, f"part {part}", played.server_name, generator_name(number)),
            )
            self._rollouts[key] = rollout, generator
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
        cluster: Any = ray.util
        address = cluster.get_node_ip_address()
        with socket.socket() as free:
            free.bind((address, 0))
            return Meeting(address, free.getsockname()[1])

    async def join(self, meeting: Meeting | None, number: int, size: int) -> None:
        """Load the model before GRPO, together with the others if there are any."""
        await self.in_thread(self._join, meeting, number, size)

    def _join(self, meeting: Meeting | None, number: int, size: int) -> None:
        if meeting is not None:
            place = f"tcp://{meeting.address}:{meeting.port}"
            dist.init_process_group("gloo", init_method=place, rank=number, world_size=size, timeout=_WORK_LIMIT)
        self._rank = TrainerRank.follower(self._config)

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the trainer. Returns what it returns, with the number of batches trained on."""
        return await self.in_thread(self._call, method, *args)

    def _call(self, method: str, *args: Any) -> Any:
        assert self._rank is not None
        return getattr(self._rank, method)(*args), self._rank.trainer.step_count

    async def weights(self) -> tuple[int, dict[str, Tensor]]:
        """The version of the trained weights, and these by their names; the first process alone has the latter."""
        return await self.in_thread(self._weights)

    def _weights(self) -> tuple[int, dict[str, Tensor]]:
        assert self._rank is not None
        trainer = self._rank.trainer
        return trainer.step_count, trained_weights(trainer.model, kept=trainer.ranks.is_first)
