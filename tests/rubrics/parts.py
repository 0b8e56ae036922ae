"""Rubrics that the tests are made of."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from openenv.rubrics import Rubric


class Constant(Rubric):
    """Scores the same whatever happened, and counts how often it was asked."""

    def __init__(self, score: float) -> None:
        super().__init__()
        self.score = score
        self.calls = 0

    def forward(self, action: Any, observation: Any) -> float:
        self.calls += 1
        return self.score


class AsyncConstant(Constant):
    """The same as a coroutine, which lets others run in between."""

    async def forward(self, action: Any, observation: Any) -> float:
        self.calls += 1
        await asyncio.sleep(0)
        return self.score


class Broken(Rubric):
    """A rubric with an error in it."""

    async def forward(self, action: Any, observation: Any) -> float:
        raise ZeroDivisionError("no tests were run")


class Meeting(Rubric):
    """Scores 1 once all of its partners are being evaluated too: never, when they are evaluated one by one."""

    def __init__(self, barrier: asyncio.Barrier) -> None:
        super().__init__()
        self.barrier = barrier

    async def forward(self, action: Any, observation: Any) -> float:
        await self.barrier.wait()
        return 1.0


@dataclass
class Seen:
    """An observation as rubrics read it."""

    done: bool = False
    reward: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)
