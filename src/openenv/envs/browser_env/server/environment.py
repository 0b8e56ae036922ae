"""The web tasks of MiniWoB++ as an environment."""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.browser_env.models import BrowserAction, BrowserObservation, BrowserState
from openenv.envs.browser_env.server.chromium import PageLost
from openenv.envs.browser_env.server.task_page import TaskPage
from openenv.envs.browser_env.server.tasks import check_task
from openenv.envs.reset_values import refuse_other_keywords, require_whole

DEFAULT_TASK = "click-test-2"
KEYWORDS = ("task", "screenshot", "max_steps", "step_ms")
TOO_LATE = -1.0
"""The reward where the limit of steps ends an episode: MiniWoB's own for one that is out of time."""
_LOADING = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
"""Held while a page loads: if the pages of many sessions load at once, none of them responds in time."""
_SEED_BITS = 31
_SEEDS = 1 << 53
"""Whole numbers below this one are exact in JavaScript."""


class BrowserEnvironment(Environment[BrowserAction, BrowserObservation, BrowserState]):
    """Plays one task at a time in a page of the server's Chromium. The reward is the task's own, from -1 to 1.

    An episode cannot be saved: a page can be neither copied nor continued elsewhere.
    """

    execution = "thread"  # it waits for Chromium
    success_return = 0.01  # no reward is positive but that of a task that is done

    def __init__(self, task: str = DEFAULT_TASK) -> None:
        """task: the default of `reset`. Raises ValueError for an unknown one."""
        self._default = check_task(task)
        self._page: TaskPage | None = None
        self._state = BrowserState(task=self._default)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | None = None,
        screenshot: bool = False,
        max_steps: int = 30,
        step_ms: int = 500,
        **kwargs: Any,
    ) -> BrowserObservation:
        """Load a task and begin its episode. Equal seeds give equal episodes under equal actions.

        Args:
            task: MiniWoB's name; None for the server's.
            screenshot: whether observations carry one.
            max_steps: steps after which the episode ends.
            step_ms: time of the page that passes after each action.

        Raises:
            ValueError: naming the field, for a wrong value; the current episode then continues.
            RuntimeError: without Chromium.
        """
        refuse_other_keywords(kwargs, KEYWORDS)
        if not isinstance(screenshot, bool):
            raise ValueError(f"screenshot={screenshot!r}: expected true, for one in each observation, or false.")
        state = BrowserState(
            episode_id=episode_id or str(uuid4()),
            task=self._default if task is None else check_task(task),
            seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
            screenshot=screenshot,
            max_steps=require_whole("max_steps", max_steps, 1, 1000),
            step_ms=require_whole("step_ms", step_ms, 1, 10_000),
        )
        with self._page_may_be_lost(), _LOADING:
            if self._page is None:
                self._page = TaskPage()
            seen = self._page.start(state.task, state.seed % _SEEDS, state.step_ms)
            self._state = state
            return self._observation(seen, None, {"task": state.task, "seed": state.seed})

    def step(self, action: BrowserAction, timeout_s: float | None = None, **kwargs: Any) -> BrowserObservation:
        """Do what an action names, and let `step_ms` of the page's time pass.

        Raises ValueError, with the page as it was, for what the page does not allow, such as an unknown element or a
        text for a button. Raises RuntimeError for a page that does not respond or has ended; the episode is then lost.
        """
        if self._page is None:
            raise ValueError("there is no episode. Call reset() first.")
        with self._page_may_be_lost():
            self._page.act(action)
            seen = self._page.settle(self._state.step_ms)
            self._state.step_count += 1
            return self._observation(seen, float(seen["reward"]) if seen["done"] else 0.0, {})

    @property
    def state(self) -> BrowserState:
        """The task, its seed, and the number of steps."""
        return self._state

    def close(self) -> None:
        """Close the page."""
        if self._page is not None:
            self._page.close()
            self._page = None

    @contextmanager
    def _page_may_be_lost(self) -> Iterator[None]:
        """Close a page that is lost. The next reset opens another."""
        try:
            yield
        except PageLost as error:
            self.close()
            raise RuntimeError(f"the episode is lost: {error}. Call reset() to start another.") from error

    def _observation(self, seen: dict[str, Any], reward: float | None, metadata: dict[str, Any]) -> BrowserObservation:
        assert self._page is not None
        truncated = not seen["done"] and self._state.step_count >= self._state.max_steps
        return BrowserObservation(
            utterance=seen["utterance"],
            elements=[] if truncated else seen["elements"],
            error=seen["error"],
            done=seen["done"] or truncated,
            truncated=truncated,
            reward=TOO_LATE if truncated else reward,
            screenshot=self._page.screenshot() if self._state.screenshot else None,
            metadata=metadata,
        )
