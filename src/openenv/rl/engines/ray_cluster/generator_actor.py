"""A generator of a run on a Ray cluster: a copy of the model in an actor, or a vLLM server that it starts."""

import os
from collections.abc import Mapping, Sequence

from torch import Tensor

from openenv.core.utils import run_async_safely
from openenv.rl.algorithm.segment import Segment
from openenv.rl.config import Config
from openenv.rl.engines.ray_cluster.actor import Actor, own_address
from openenv.rl.engines.ray_cluster.remote_generator import Drawn, VllmServer
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.generators.past_weights import past_weights
from openenv.rl.generators.vllm_process import LOCALHOST
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import copy_of
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.starting_model import StartingModel
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.waiting.status import PartStatus
from openenv.text.constraints import ReplyConstraint


class GeneratorActor(Actor):
    """A copy of the model that writes replies, or a vLLM server on this machine; and the opponents of self-play."""

    def __init__(self, name: str, config: Config, folder: str, number: int) -> None:
        """As `Actor`. number: of this generator. Raises NotReady without vLLM."""
        super().__init__(name, config, folder)
        checkpoints = Checkpoints(config.run_dir)
        model, tokenizer, _ = checkpoints.load_reference(config.model)
        start = StartingModel(model, tokenizer, checkpoints.load_image_reader(model.config, tokenizer))
        chat = start.chat(enable_thinking=config.model.enable_thinking)
        host = own_address() if config.engine.address else LOCALHOST
        reference = str(checkpoints.reference)
        self._generators = RunGenerators(config, chat, model, reference, servers=[number], host=host)
        self._store = WeightStore()
        self._opponents = {
            every: self._generators.embedded(copy_of(model), past)
            for every, past in past_weights(config, self._store).items()
        }
        self._generator = (
            self._generators.served(model, self._store)
            if config.generator.is_vllm
            else self._generators.embedded(model, self._store)
        )
        self._generators.start()

    async def load(
        self, version: int, weights: Mapping[str, Tensor], measured: list[float] | None
    ) -> VllmServer | None:
        """Answer with these weights from now on. measured: what the probe has measured of them.

        Returns where vLLM answers. If it has ended, this process ends too, so that Ray makes it again. Raises
        GeneratorDisagrees if it has other weights afterwards.
        """
        return await self.in_thread(self._load, version, weights, measured)

    def _load(self, version: int, weights: Mapping[str, Tensor], measured: list[float] | None) -> VllmServer | None:
        if self._generators.stop_ended():
            os._exit(1)
        self._store.put(version, weights, measured)
        if not isinstance(self._generator, VllmGenerator):
            return None
        run_async_safely(self._generator.load_newest())
        return VllmServer(*self._generator.place)

    async def status(self) -> PartStatus:
        """As `Actor.status`. vLLM answers too, if it is there: one that hangs is ended with this process."""
        for server in self._generators.parts():
            await server.status()
        return await super().status()

    async def close(self) -> None:
        """End vLLM, and keep its output."""
        await self.in_thread(self._generators.close)

    async def generate(
        self,
        version: int,
        prompts: Sequence[TokenIds],
        numbers: Sequence[Sequence[float]],
        images: Sequence[Images],
        constraints: Sequence[ReplyConstraint | None],
        opponents: int | None,
    ) -> tuple[list[Segment], list[int]] | None:
        """As `BaseGenerator.generate`, with how many numbers each reply has used.

        Returns None if it has other weights than those of the version.

        Args:
            numbers: random ones of each reply, as many as it may have tokens.
            opponents: those that follow every so many steps answer; None: the trained policy does.
        """
        return await self.in_thread(self._generate, version, prompts, numbers, images, constraints, opponents)

    def _generate(
        self,
        version: int,
        prompts: Sequence[TokenIds],
        numbers: Sequence[Sequence[float]],
        images: Sequence[Images],
        constraints: Sequence[ReplyConstraint | None],
        opponents: int | None,
    ) -> tuple[list[Segment], list[int]] | None:
        if self._store.version != version:
            return None
        streams = [Drawn(own) for own in numbers]
        generator = self._generator if opponents is None else self._opponents[opponents]
        return generator.generate(prompts, streams, images, constraints), [stream.used for stream in streams]
