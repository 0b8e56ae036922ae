"""The time budget of a run, which random play, pretraining, the evaluation before training, and training share."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

RANDOM_PLAY_SHARE = 1 / 6
"""Random play ends at the latest when this share of the budget is spent."""
TEACHER_SHARE = 1 / 3
"""So does the play of a teacher, and supervised training at the next."""
PRETRAINING_SHARE = 1 / 2
BEFORE_SHARE = 1 / 10
"""The most that the games of the model before training take, in each environment."""
AFTER_SHARE = 1 / 2
"""The same for those of the trained model, when the budget is spent."""


class Budget:
    """Counts the time inside `counting`, so that a notebook that waits for its user spends nothing.

    Example:
        with budget.counting():
            while not budget.is_spent():
                step()
    """

    def __init__(self, max_minutes: float | None) -> None:
        """max_minutes: None for no limit."""
        self.limit_s = math.inf if max_minutes is None else 60.0 * max_minutes
        self.earlier_s = 0.0
        """Seconds spent before the current `counting`, in an earlier process too."""
        self._began: float | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the time inside the `with` statement. Inside another one it changes nothing."""
        if self._began is not None:
            yield
            return
        self._began = time.monotonic()
        try:
            yield
        finally:
            self.earlier_s, self._began = self.spent_s, None

    @property
    def spent_s(self) -> float:
        """Seconds that are spent."""
        return self.earlier_s + (0.0 if self._began is None else time.monotonic() - self._began)

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return max(0.0, self.limit_s - self.spent_s) if math.isfinite(self.limit_s) else None

    def deadline_s(self, share: float) -> float:
        """What is spent when another share of the budget has been; infinity without a limit."""
        return self.spent_s + share * self.limit_s

    def is_spent(self, share: float = 1.0) -> bool:
        """Whether this share of the budget is spent."""
        return self.spent_s >= share * self.limit_s
