"""What the training loop needs of an engine: workers that play groups, and a trainer.

The loop awaits both, so that they may be in this process or on other machines. Nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.budget import Budget
from openenv.rl.config import Config
from openenv.rl.progress import TrainingProgress
from openenv.rl.waiting.waits import Waits
from openenv.rl.waiting.watch import Part

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat

MOST_ENDS = 3
"""Of the generator, while a step or some games of an evaluation are played. The last one is not recovered from."""


class RolloutWorker(Protocol):
    """Plays groups of one environment."""

    async def play(self, indices: Sequence[int], reset: Mapping[str, Any] | None = None) -> list[Group]:
        """Play the groups with these numbers, and return them in this order.

        A group's number and the run's seed determine its deal and its draws, whichever worker plays it.

        reset: keywords of every reset. The seed is added. Raises LLMError if the generator has ended.
        """
        ...


class Trainer(Protocol):
    """Makes optimizer steps, and hands out the weights. One call at a time."""

    @property
    def step_count(self) -> int:
        """Number of batches trained on, which is the policy version of the weights."""
        ...

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """Train on the valid episodes of `groups` and return the step's metrics.

        progress: the fraction of training that is done, 0 to 1, which the schedules follow.
        """
        ...

    async def publish(self) -> None:
        """Let the workers play with the weights of this version."""
        ...

    async def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint. What a run that is resumed there does not have is forgotten."""
        ...

    async def save_good(self) -> None:
        """Keep the current weights for `restore_good`."""
        ...

    async def restore_good(self) -> bool:
        """Go back to the last good weights, with half the step. False if there are none."""
        ...


class Recovering(Protocol):
    """Starts what has ended by itself again, such as a vLLM server."""

    @property
    def num_recoveries(self) -> int:
        """How often that was done."""
        ...

    async def recovered(self, known: int) -> bool:
        """Whether all runs again after a failure. False if nothing had ended.

        known: `num_recoveries` before what failed began: several may fail of one end.
        """
        ...


class Engine(Recovering, Protocol):
    """The parts of a run that hold the model."""

    config: Config
    budget: Budget
    batch_size: int
    """Number of groups in one training step."""
    progress: TrainingProgress
    """How far the run is. The loop sets it after each step."""
    chat: "Chat"
    waits: Waits
    """What is waited for in this process."""

    def parts(self) -> Sequence[Part]:
        """The other processes of the run that can be asked how they are."""
        ...

    @property
    def trainer(self) -> Trainer:
        """What trains."""
        ...

    @property
    def num_server_ends(self) -> int:
        """How often a server of an environment has ended by itself, and was started again."""
        ...

    def workers(self) -> AbstractAsyncContextManager[Sequence[Sequence[RolloutWorker]]]:
        """The workers of each environment, with sessions that end with the `async with` statement."""
        ...

    def pin(self, version: int) -> None:
        """Let workers play with exactly this published version from now on. Raises KeyError if it is forgotten."""
        ...
