"""The front door's end of what all workers of a server share: places, snapshots, and everybody's figures."""

import asyncio
import logging
from collections.abc import Sequence

from openenv.core.env_server.places import Places
from openenv.core.env_server.processes.channel import ChannelClosed, Question, Said
from openenv.core.env_server.processes.metrics import merged
from openenv.core.env_server.processes.worker_process import WorkerProcess
from openenv.core.env_server.snapshots import Snapshots
from openenv.core.errors import NotSupported

log = logging.getLogger(__name__)

_METRICS_TIMEOUT_S = 2.0


class CommonsKeeper:
    """Answers what `SharedCommons` of a worker asks. What a worker holds is given back when the worker ends."""

    def __init__(self, places: Places, snapshots: Snapshots, workers: Sequence[WorkerProcess]) -> None:
        """workers: all of them, by their numbers."""
        self._places = places
        self._snapshots = snapshots
        self._workers = workers

    async def answer(self, worker: WorkerProcess, question: Question) -> Said:
        """Raises what `Places.take`, `Snapshots.keep` and `Snapshots.find` do."""
        match question.verb:
            case "take":
                await self._take(worker, question)
                return Said()
            case "keep":
                return Said(self._snapshots.keep(question.payload))
            case "find":
                return Said(payload=self._snapshots.find(question.payload.decode(errors="replace")))
            case "count":
                return Said(self._places.num_taken)
            case "metrics":
                return Said(payload=merged(await self._texts()))
        raise NotSupported(f"the front door is asked for {question.verb!r}, which it does not know")

    def free(self, worker: WorkerProcess) -> None:
        """Take a place back."""
        worker.num_taken -= 1
        self._places.free()

    def forget(self, worker: WorkerProcess) -> None:
        """Take back what a worker had that has ended."""
        while worker.num_taken:
            self.free(worker)

    async def _take(self, worker: WorkerProcess, question: Question) -> None:
        worker.asks()
        try:
            await self._places.take(question.meanwhile)
        finally:
            worker.num_asked -= 1
        worker.num_taken += 1

    async def _texts(self) -> dict[int, bytes]:
        """The figures of every worker that answers in time."""
        ready = [worker for worker in self._workers if worker.is_ready]
        texts = await asyncio.gather(*map(_text_of, ready))
        return {worker.number: text for worker, text in zip(ready, texts, strict=True) if text is not None}


async def _text_of(worker: WorkerProcess) -> bytes | None:
    try:
        async with asyncio.timeout(_METRICS_TIMEOUT_S):
            return (await worker.channel.ask("metrics")).payload
    except (TimeoutError, ChannelClosed) as error:
        log.warning("the metrics of worker %d are left out: %s", worker.number, error or "no answer in time")
        return None
