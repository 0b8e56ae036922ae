"""The engine on a Ray cluster. Ray places and restarts its actors; what they do is that of the embedded engine."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from openenv.rl.algorithm.rewards import Reward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.budget import Budget
from openenv.rl.config import require
from openenv.rl.engines.base import BaseEngine
from openenv.rl.engines.followers import Followers
from openenv.rl.engines.preparation import Prepared
from openenv.rl.engines.protocol import MOST_ENDS
from openenv.rl.engines.ray_cluster.actors import GeneratorActor, RolloutActor
from openenv.rl.engines.ray_cluster.cluster import (
    LASTING,
    MANY,
    cause_of,
    connect,
    keep_own_sigterm,
    ready,
    restarted,
)
from openenv.rl.engines.ray_cluster.health import ActorPart, generator_name, worker_name
from openenv.rl.engines.ray_cluster.remote_generator import GeneratorGone
from openenv.rl.engines.ray_cluster.trainer import RayTrainer
from openenv.rl.models.language_model import end_ids
from openenv.rl.waiting.watch import Part

log = logging.getLogger(__name__)

_CLOSING_S = 30.0


class RayEngine(BaseEngine):
    """As `engines.protocol.Engine`, with rollout workers, generators and trainer as actors.

    The parts of a step are the same ones however many workers there are, and a generator answers the batches of each
    part by themselves: numbers do not depend on how many actors there are, nor on which of them had to be restarted.
    """

    def __init__(self, prepared: Prepared, budget: Budget, followers: Followers) -> None:
        """As `BaseEngine`. Raises ConfigError with torchrun, whose processes Ray starts itself, and on a GPU."""
        rule = "actors are not placed on GPUs. Set cpu, or use the embedded engine, with torchrun for several GPUs."
        device = prepared.model.device
        require(device.type == "cpu", "model.device", str(device), f"with engine.name: ray {rule}")
        rule = "starts the trainer's processes (engine.trainer_ranks). Run it without torchrun."
        require(not followers.are_some, "engine.name", "ray", rule)
        super().__init__(prepared, budget, followers)
        self._trainer = RayTrainer(prepared.config, self.checkpoints, self.waits)
        self._model_config, self._ends = prepared.model.config, end_ids(prepared.model)
        self._replicas: list[Any] = []
        self.actors: list[Any] = []
        """The rollout workers."""
        self.version = -1
        """That the generators answer with."""
        self._loading: asyncio.Future[Any] | None = None
        self._owns_cluster = False

    @property
    def trainer(self) -> RayTrainer:
        """What trains."""
        return self._trainer

    async def start(self, reward: Reward | None) -> None:
        """Start the cluster, unless there is one, and the actors."""
        config, engine, folder = self.config, self.config.engine, os.getcwd()
        self._owns_cluster = await asyncio.to_thread(connect, engine)
        keep_own_sigterm()
        generator: Any = ray.remote(GeneratorActor)
        self._replicas = [
            generator.options(**LASTING, max_concurrency=MANY).remote(generator_name(number), config, folder)
            for number in range(engine.generators)
        ]
        servers = [(one.served.base_urls, dict(one.served.headers)) for one in self.environments]
        worker: Any = ray.remote(RolloutActor)
        self.actors = [
            worker.options(**LASTING, max_concurrency=MANY).remote(
                worker_name(number), config, folder, servers, reward, self._replicas, self._model_config, self._ends
            )
            for number in range(engine.num_workers)
        ]
        await ready(self._replicas, "the generators")
        await ready(self.actors, "the rollout workers")
        await self.trainer.start()

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[list[list["RayWorker"]]]:
        """One for each part of a step's groups, in each environment."""
        parts = range(self.config.engine.parts)
        try:
            yield [
                [RayWorker(self, part, number, part % len(self.actors)) for part in parts]
                for number in range(len(self.environments))
            ]
        finally:
            closing = (one.close.remote() for one in self.actors)
            with contextlib.suppress(TimeoutError):  # sessions of a lost worker end by themselves
                async with asyncio.timeout(_CLOSING_S):
                    await asyncio.gather(*closing, return_exceptions=True)

    def pin(self, version: int) -> None:
        """As `engines.protocol.Engine.pin`."""
        if version == self.version:
            return
        weights = self.trainer.published[version]
        self.version = version
        loads = [self._load(number, version, weights) for number in range(len(self._replicas))]
        self._loading = asyncio.ensure_future(asyncio.gather(*loads))

    async def loaded(self) -> None:
        """Wait until all generators have the pinned weights."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def load_again(self, number: int) -> None:
        """Give a generator that has begun again the pinned weights."""
        await self._load(number, self.version, self.trainer.published[self.version])

    async def _load(self, number: int, version: int, weights: Any) -> None:
        for ends in range(1, MOST_ENDS + 1):
            try:
                await self._replicas[number].load.remote(version, weights)
                return
            except RayActorError as error:
                if ends == MOST_ENDS:
                    raise
                self.lost(generator_name(number), "begins again", error)
                await restarted(self._replicas[number], generator_name(number))

    def lost(self, name: str, then: str, error: Exception) -> None:
        """Log and record that an actor has ended. then: what happens now."""
        log.warning("%s has ended, and %s: %s", name, then, error)
        self.waits.record(name, f"has ended, and {then}")

    @property
    def num_recoveries(self) -> int:
        """How often the trainer was started again."""
        return self.trainer.num_recoveries

    def parts(self) -> list[Part]:
        """The servers of the environments, and the actors."""
        workers = [ActorPart(worker_name(number), one) for number, one in enumerate(self.actors)]
        generators = [ActorPart(generator_name(number), one) for number, one in enumerate(self._replicas)]
        return [*super().parts(), *workers, *generators, *self.trainer.parts()]

    async def recovered(self, known: int) -> bool:
        """False: what has ended is started again where it was needed."""
        return False

    def close(self) -> None:
        """End the actors, and the cluster if the run has started it."""
        with contextlib.ExitStack() as stack:
            if self._owns_cluster:
                stack.callback(ray.shutdown)
            for one in (*self.actors, *self._replicas):
                stack.callback(ray.kill, one)
            if self._loading is not None:
                self._loading.cancel()
            super().close()


class RayWorker:
    """As `engines.protocol.RolloutWorker`: one part of the groups of an environment."""

    def __init__(self, engine: RayEngine, part: int, environment: int, worker: int) -> None:
        """worker: the number of the actor that plays."""
        self._engine = engine
        self._part = part
        self._environment = environment
        self._actor = engine.actors[worker]
        self._actor_name = worker_name(worker)

    async def play(self, indices: Sequence[int], reset: Mapping[str, Any] | None = None) -> list[Group]:
        """As `engines.protocol.RolloutWorker.play`. The whole part is played again where an actor has ended."""
        waits, name = self._engine.waits, f"part {self._part}"
        for ends in range(1, MOST_ENDS + 1):
            with waits.of(name, f"version {self._engine.version} in all generators"):
                await self._engine.loaded()
            keywords = dict(reset or {})
            playing = self._actor.play.remote(
                self._part, self._environment, list(indices), keywords, self._engine.version
            )
            try:
                with waits.of(name, self._actor_name):
                    groups: list[Group] = await playing
                return groups
            except asyncio.CancelledError:
                ray.cancel(playing)
                raise
            except GeneratorGone as error:
                if ends == MOST_ENDS:
                    raise
                generator = self._part % self._engine.config.engine.generators
                self._engine.lost(generator_name(generator), f"{name} is played again", error)
                await self._engine.load_again(generator)
            except RayActorError as error:
                if ends == MOST_ENDS:
                    raise
                self._engine.lost(self._actor_name, f"{name} is played again", error)
                await restarted(self._actor, self._actor_name)
            except RayTaskError as error:
                raise cause_of(error) from None
        raise AssertionError("unreachable: the last end is raised")
