"""What the parts of a run wait for at this moment."""

import contextlib
import itertools
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple


class Wait(NamedTuple):
    """Equal waits, of which there may be many: the sessions of a rollout all wait for one server."""

    waiter: str
    awaited: str
    number: int
    longest_s: float
    """Since the first of them began, in seconds."""

    def __str__(self) -> str:
        times = f" ({self.number} times)" if self.number > 1 else ""
        return f"{self.waiter} waits for {self.awaited}{times} since {self.longest_s:.0f} s"


class Event(NamedTuple):
    """What has happened to a part of the run."""

    time_s: float
    """Since 1970."""
    part: str
    what: str


_MOST_EVENTS = 200


class Waits:
    """What waits for what now, in one process. From any thread."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, str, float]] = {}
        self._numbers = itertools.count()
        self.num_ended = 0
        """Waits that have had an end: while it grows, the run is not stuck."""
        self.tokens: Counter[str] = Counter()
        """Tokens that each generator has sampled."""
        self.events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        """The newest ones."""

    @contextlib.contextmanager
    def of(self, waiter: str, awaited: str) -> Iterator[None]:
        """A wait, for the time of the `with` statement."""
        number = next(self._numbers)
        self._open[number] = waiter, awaited, time.monotonic()
        try:
            yield
        finally:
            del self._open[number]
            self.num_ended += 1

    def now(self) -> list[Wait]:
        """The waits at this moment, the longest first."""
        began: dict[tuple[str, str], list[float]] = {}
        for waiter, awaited, since in list(self._open.values()):
            began.setdefault((waiter, awaited), []).append(since)
        now = time.monotonic()
        waits = [Wait(waiter, awaited, len(times), now - min(times)) for (waiter, awaited), times in began.items()]
        return sorted(waits, key=lambda wait: wait.longest_s, reverse=True)

    def record(self, part: str, what: str) -> None:
        """Keep an event."""
        self.events.append(Event(time.time(), part, what))


class Place(NamedTuple):
    """What a rollout is called where it waits, and what it waits for."""

    waits: Waits
    name: str = "the rollout"
    environment: str = "its environment"
    generator: str = "its generator"
