"""What the client's verbs return."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Self

from typing_extensions import TypeVar

ObsT = TypeVar("ObsT", default=Any)


@dataclass(slots=True)
class StepResult(Generic[ObsT]):
    """One answer of an environment: the observation, its reward, and whether the episode has ended.

    It may be awaited, which yields itself, so that code written for an asynchronous client works with a plain one.
    """

    observation: ObsT
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None

    def __await__(self) -> Generator[None, None, Self]:
        return self
        yield  # makes this function a generator, as `await` wants
