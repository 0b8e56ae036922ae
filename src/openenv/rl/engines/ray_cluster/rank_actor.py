"""The processes that hold parts of the trainer of a run on a Ray cluster."""

from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # it is exported, undeclared

from openenv.rl.config import Config
from openenv.rl.engines.ray_cluster.actor import Actor, own_address
from openenv.rl.generators.past_weights import past_weights
from openenv.rl.generators.probe import Probe
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.training.trainer_rank import TrainerRank

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
        self._store: TCPStore | None = None

    async def meeting(self) -> Meeting:
        """Where the others can meet this one, which listens there from now on, so that no other program takes it."""
        address = own_address()
        self._store = TCPStore(address, 0, is_master=True, wait_for_workers=False, timeout=_WORK_LIMIT)
        return Meeting(address, self._store.port)

    async def join(self, meeting: Meeting | None, number: int, size: int) -> None:
        """Load the model before GRPO, together with the others if there are any."""
        await self.in_thread(self._join, meeting, number, size)

    def _join(self, meeting: Meeting | None, number: int, size: int) -> None:
        if meeting is not None:
            backend = "cpu:gloo,cuda:nccl" if self._config.model.device == "cuda" else "gloo"
            store = self._store or TCPStore(meeting.address, meeting.port, timeout=_WORK_LIMIT)
            dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=_WORK_LIMIT)
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
