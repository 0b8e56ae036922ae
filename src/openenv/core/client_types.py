"""What the client's verbs return."""

import reprlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self

from typing_extensions import TypeVar

ActT = TypeVar("ActT", default=Any)
ObsT = TypeVar("ObsT", default=Any)
StateT = TypeVar("StateT", default=Any)
ClientT = TypeVar("ClientT", default=Any)


_BEGINNING = reprlib.Repr()
_BEGINNING.maxlist = _BEGINNING.maxtuple = _BEGINNING.maxdict = 12
_BEGINNING.maxstring = _BEGINNING.maxother = _BEGINNING.maxlong = 300


class AwaitsItself:
    """Awaiting it yields itself, so that code written for an asynchronous client works with a plain one."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Self]:
        return self
        yield  # makes this function a generator, as `await` wants


@dataclass(slots=True)
class StepResult(AwaitsItself, Generic[ObsT]):
    """The result of a reset or step: the observation, its reward, and whether the episode has ended."""

    observation: ObsT
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None
    validity: Literal["valid", "truncated"] = "valid"
    """`truncated` when the episode was cut short rather than ended by its own rules. A failure of the environment or
    the server is never a result: it is raised."""

    def __repr__(self) -> str:
        shown = [f"observation={_beginning(self.observation)}", f"reward={self.reward!r}", f"done={self.done!r}"]
        if self.metadata and self.metadata != getattr(self.observation, "metadata", None):
            shown.append(f"metadata={self.metadata!r}")
        if self.validity != "valid":
            shown.append(f"validity={self.validity!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def truncated(self) -> bool:
        """Whether the episode was cut short, as far as the environment reports it."""
        return self.validity == "truncated"

    @property
    def terminated(self) -> bool:
        """Whether the episode ended by its own rules."""
        return self.done and not self.truncated


def _beginning(observation: Any) -> str:
    """An observation as `repr` shows it, with the beginning of what is long, such as a board's numbers."""
    if not hasattr(observation, "__repr_args__"):
        return _BEGINNING.repr(observation)
    fields = ", ".join(f"{name}={_BEGINNING.repr(value)}" for name, value in observation.__repr_args__())
    return f"{type(observation).__name__}({fields})"


class Completed:
    """The result of a verb that returns nothing; it may be awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this function a generator, as `await` wants


class Token(AwaitsItself, str):
    """A snapshot's token."""

    __slots__ = ()


class Clients(AwaitsItself, list[ClientT]):
    """Clients that a fork made."""
