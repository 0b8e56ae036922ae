"""The engine on a Ray cluster. Ray places and restarts its actors; what they do is that of the embedded engine."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayError

from openenv.agents.llm.http import LLMError
from openenv.rl.algorithm.rewards import Reward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.budget import Budget
from openenv.rl.config import Config, require
from openenv.rl.engines.base import BaseEngine
from openenv.rl.engines.followers import Followers
from openenv.rl.engines.preparation import Prepared
from openenv.rl.engines.ray_cluster.cluster import (
    LASTING,
    MANY,
    connect,
    keep_own_sigterm,
    ready,
    repeated,
    restarted,
)
from openenv.rl.engines.ray_cluster.generator_actor import GeneratorActor
from openenv.rl.engines.ray_cluster.health import ActorPart, generator_name, worker_name
from openenv.rl.engines.ray_cluster.object_store import naming_full_store
from openenv.rl.engines.ray_cluster.placement import Placement
from openenv.rl.engines.ray_cluster.remote_generator import GeneratorGone, VllmServer
from openenv.rl.engines.ray_cluster.rollout_actor import RolloutActor
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
        """As `BaseEngine`. Raises ConfigError with torchrun, whose processes Ray starts itself."""
        rule = "starts the trainer's processes (engine.trainer_ranks). Run it without torchrun."
        require(not followers.are_some, "engine.name", "ray", rule)
        super().__init__(prepared, budget, followers, servers=())
        self._device = prepared.model.device.type
        """Of actors that compute."""
        probe = self._generators.probe() if self.config.generator.is_vllm else None
        self._trainer = RayTrainer(_on(self._device, self.config), self.checkpoints, self.waits, probe)
        self._model_config, self._ends = prepared.model.config, end_ids(prepared.model)
        self._replicas: list[Any] = []
        self._servers: list[VllmServer | None] = []
        """Those of the generators."""
        self.actors: list[Any] = []
        """The rollout workers."""
        self._placement: Placement | None = None
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
        config, engine, folder = _on(self._device, self.config), self.config.engine, os.getcwd()
        self._owns_cluster = await asyncio.to_thread(connect, engine)
        keep_own_sigterm()
        self._placement = place = await Placement.of(engine, on_gpus=self._device != "cpu")
        generator: Any = ray.remote(GeneratorActor)
        self._replicas = [
            generator.options(**LASTING, max_concurrency=MANY, **place.options("generator", number)).remote(
                generator_name(number), config, folder, number
            )
            for number in range(engine.generators)
        ]
        self._servers = [None] * engine.generators
        servers = [(one.served.base_urls, dict(one.served.headers)) for one in self.environments]
        worker: Any = ray.remote(RolloutActor)
        given = (_on("cpu", config), folder, servers, reward, self._replicas, self._model_config, self._ends)
        with naming_full_store("what the rollout workers start with"):
            self.actors = [
                worker.options(**LASTING, max_concurrency=MANY, **place.options("worker", number)).remote(
                    worker_name(number), *given
                )
                for number in range(engine.num_workers)
            ]
        await ready(self._replicas, "the generators")
        await ready(self.actors, "the rollout workers")
        await self.trainer.start(place)

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
            closing = [one.close.remote() for one in self.actors]
            closing += [one.unwatched.remote() for one in (*self.actors, *self._replicas, *self.trainer.ranks)]
            with contextlib.suppress(TimeoutError):  # sessions of a lost worker end by themselves
                async with asyncio.timeout(_CLOSING_S):
                    await asyncio.gather(*closing, return_exceptions=True)

    def pin(self, version: int) -> None:
        """As `engines.protocol.Engine.pin`."""
        if version == self.version:
            return
        if version not in self.trainer.published:
            raise KeyError(f"version {version} of the weights")
        self.version = version
        self._loading = asyncio.ensure_future(self._load_all())

    async def _load_all(self) -> None:
        await asyncio.gather(*(self.load(number) for number in range(len(self._replicas))))

    async def server(self, number: int) -> VllmServer | None:
        """Wait until all generators have the pinned weights. Returns where the vLLM of one answers."""
        if self._loading is not None:
            await asyncio.shield(self._loading)
        return self._servers[number]

    async def load(self, number: int) -> None:
        """Give a generator the pinned weights, unless it has them. One that has ended is made again."""
        version = self.version
        weights = self.trainer.published[version]

        async def load() -> None:
            nonlocal weights
            weights = self.trainer.published[version]
            self._servers[number] = await self._replicas[number].load.remote(version, weights.place, weights.measured)

        async def recover(error: Exception) -> None:
            if isinstance(error, ObjectLostError):
                await self.trainer.publish_again(version, weights)
            else:
                self.lost(generator_name(number), "begins again", error)
                await restarted(self._replicas[number], generator_name(number))

        with naming_full_store(f"the weights of version {version}"):
            await repeated(load, recover)

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
            stack.callback(self._forget_actors)
            if self._placement is not None:
                stack.callback(self._placement.close)
            for one in (*self.actors, *self._replicas):
                stack.callback(ray.kill, one)
            if self.config.generator.is_vllm:
                stack.callback(_end_servers, self._replicas)
            if self._loading is not None:
                self._loading.cancel()
            super().close()

    def _forget_actors(self) -> None:
        self.actors.clear()
        self._replicas.clear()


class RayWorker:
    """As `engines.protocol.RolloutWorker`: one part of the groups of an environment."""

    def __init__(self, engine: RayEngine, part: int, environment: int, worker: int) -> None:
        """worker: the number of the actor that plays."""
        self._engine = engine
        self._part = part
        self._environment = environment
        self._worker = worker
        self._actor_name = worker_name(worker)
        self._generator = part % engine.config.engine.generators
        self._server: VllmServer | None = None

    async def play(self, indices: Sequence[int], reset: Mapping[str, Any] | None = None) -> list[Group]:
        """As `engines.protocol.RolloutWorker.play`. The whole part is played again where something has ended."""
        waits, name = self._engine.waits, f"part {self._part}"

        async def play() -> list[Group]:
            with waits.of(name, f"version {self._engine.version} in all generators"):
                self._server = await self._engine.server(self._generator)
            playing = self._engine.actors[self._worker].play.remote(
                self._part, self._environment, list(indices), dict(reset or {}), self._engine.version, self._server
            )
            try:
                with waits.of(name, self._actor_name):
                    groups: list[Group] = await playing
            except asyncio.CancelledError:
                ray.cancel(playing)
                raise
            return groups

        with naming_full_store(f"the groups of {name}"):
            return await repeated(play, self._recover)

    async def _recover(self, error: Exception) -> None:
        then = f"part {self._part} is played again"
        if isinstance(error, GeneratorGone):
            self._engine.lost(generator_name(self._generator), then, error)
            await self._engine.load(self._generator)
        elif isinstance(error, LLMError):
            before = self._server
            await self._engine.load(self._generator)
            self._server = await self._engine.server(self._generator)
            if self._server == before:
                raise error
            self._engine.lost(f"the vLLM server of {generator_name(self._generator)}", then, error)
        else:
            self._engine.lost(self._actor_name, then, error)
            await restarted(self._engine.actors[self._worker], self._actor_name)


def _end_servers(generators: Sequence[Any]) -> None:
    """Let generators end their vLLM servers, and keep their output."""
    with contextlib.suppress(RayError):  # one that has ended has taken its server with it
        ray.get([one.close.remote() for one in generators], timeout=_CLOSING_S)


def _on(device: str, config: Config) -> Config:
    """The configuration of an actor that computes on cpu, or on the GPU that Ray gives it (cuda)."""
    return replace(config, model=replace(config.model, device=device))
