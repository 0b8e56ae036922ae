"""Where a run's work is done: in one process, or by the processes of a Ray cluster."""

from dataclasses import dataclass, fields
from typing import Literal

from openenv.rl.config.rules import require

EngineName = Literal["embedded", "ray"]


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The engine. On processors, and with one trainer rank, runs with equal seeds have equal trajectories and weights,
    whatever it is."""

    name: EngineName = "embedded"
    """embedded: one process, or those of torchrun. ray: actors of a Ray cluster."""
    parts: int = 2
    """Parts in which the groups of a step are played, in each environment: one plays while the generator answers
    another. Batches, and with them the last digits of numbers, depend on it."""
    address: str = ""
    """Of a Ray cluster that runs already, such as auto or ray://head:10001. Empty: the run starts one on this machine,
    and ends it."""
    rollout_workers: int | None = None
    """Ray: processes that play the parts. None: two, or one for a single part."""
    generators: int = 1
    """Ray: processes with a copy of the model, or with a vLLM server. Each answers its share of the parts."""
    generator_gpus: int = 1
    """Ray, on GPUs: those of each generator. With several, vLLM divides the model among them (tensor parallelism)."""
    trainer_ranks: int = 1
    """Ray: processes that hold parts of the trained model, on GPUs one each."""
    colocated: bool = False
    """Ray, on GPUs: whether the first generator has half of the first trainer rank's GPU, and so on, and not a GPU of
    its own."""

    def __post_init__(self) -> None:
        for key in ("parts", "rollout_workers", "generators", "generator_gpus", "trainer_ranks"):
            number = getattr(self, key)
            require(number is None or number >= 1, f"engine.{key}", number, "must be at least 1.")
        for one in fields(self):
            value, is_common = getattr(self, one.name), one.name in ("name", "parts")
            rule = "is for engine.name: ray."
            require(is_common or self.name == "ray" or value == one.default, f"engine.{one.name}", value, rule)
        rule = f"each worker plays a part, and there are {self.parts}. Raise engine.parts, or start fewer."
        require(self.num_workers <= self.parts, "engine.rollout_workers", self.rollout_workers, rule)
        rule = f"each generator answers a part, and there are {self.parts}. Raise engine.parts, or start fewer."
        require(self.generators <= self.parts, "engine.generators", self.generators, rule)
        fits = self.generators <= self.trainer_ranks and self.generator_gpus == 1
        rule = "needs a trainer rank for each generator, and generators of one GPU each. Leave it out."
        require(fits or not self.colocated, "engine.colocated", self.colocated, rule)

    @property
    def num_workers(self) -> int:
        """Number of rollout workers on Ray."""
        return min(2, self.parts) if self.rollout_workers is None else self.rollout_workers

    @property
    def num_actors(self) -> int:
        """Number of processes on Ray, beside the driver. Each has a processor."""
        return self.generators + self.num_workers + self.trainer_ranks
