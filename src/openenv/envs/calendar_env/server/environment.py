"""The calendars of a company, behind MCP tools."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Action, Observation
from openenv.envs.calendar_env.models import CalendarObservation, CalendarState
from openenv.envs.calendar_env.server.company import Company
from openenv.envs.calendar_env.server.database import Refused, database, event_contents
from openenv.envs.calendar_env.server.task_kinds import KINDS
from openenv.envs.calendar_env.server.tasks import Goal, Task, make_task
from openenv.envs.calendar_env.server.tools import make_server
from openenv.envs.calendar_env.server.world import LEVELS
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole
from openenv.formats.json_text import json_text

ANY_KIND = "any"
MAX_STEPS = 20
_MOST_STEPS = 1000


class CalendarEnvironment(MCPEnvironment):
    """Keep the calendars of a company. The reward is 1 at the end if all is as the task wants it, else 0."""

    success_return = 1.0

    def __init__(self) -> None:
        super().__init__(make_server(self._company, self._counted_call, self._finish))
        self._task: Task | None = None
        self._state = CalendarState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        kind: str = ANY_KIND,
        level: int = 1,
        max_steps: int = MAX_STEPS,
        **kwargs: Any,
    ) -> CalendarObservation:
        """Set a task. Equal seeds set equal tasks.

        Args:
            kind: of the task; `any` draws one.
            level: 1 to 3.
            max_steps: the most tool calls.

        Raises:
            ValueError: for another keyword or value; the current episode then continues.
        """
        refuse_other_keywords(kwargs, ("kind", "level", "max_steps"))
        require_choice("kind", kind, [ANY_KIND, *KINDS])
        require_whole("level", level, LEVELS[0], LEVELS[-1])
        require_whole("max_steps", max_steps, 1, _MOST_STEPS)
        seed = Random().getrandbits(32) if seed is None else seed
        drawn = Random(seed).choice(list(KINDS)) if kind == ANY_KIND else kind
        self._set_task(make_task(drawn, level, seed))
        self._state = CalendarState(
            episode_id=episode_id or str(uuid4()),
            kind=drawn,
            level=level,
            seed=seed,
            max_steps=max_steps,
            task=self._started().text,
        )
        return CalendarObservation(task=self._state.task, metadata=self._progress())

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Call a tool. The last call that is allowed ends the episode, as the tool `finish` does."""
        return self._with_outcome(action, super().step(action, timeout_s, **kwargs))

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """The same without blocking the event loop while a tool runs."""
        return self._with_outcome(action, await super().step_async(action, timeout_s, **kwargs))

    def save_state(self) -> bytes:
        """The database and the state. Raises ValueError before the first reset."""
        company = self._company()
        image = base64.b64encode(company.connection.serialize()).decode()
        return json_text({"state": self._state.model_dump(), "database": image}).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        state = CalendarState(**saved["state"])
        task = make_task(state.kind, state.level, state.seed)
        task.company.connection = database(base64.b64decode(saved["database"]))
        self._set_task(task)
        self._state = state

    @property
    def state(self) -> CalendarState:
        """The task, the number of steps, and how the episode ended."""
        return self._state

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        raise ValueError(f"{type(action).__name__}: call one of the tools, which list_tools shows.")

    def _with_outcome(self, action: Action, observation: Observation) -> Observation:
        """The observation with the reward, and at the end with the scores of its parts."""
        if not isinstance(action, CallToolAction) or self._task is None:
            return observation
        reward, metadata = self._state.reward, self._progress()
        if reward is not None and self.rubric is not None:
            metadata["rubric"] = self.rubric.scores()
        changes = {"done": reward is not None, "reward": reward or 0.0, "metadata": metadata}
        return observation.model_copy(update=changes)

    def _progress(self) -> dict[str, Any]:
        return {"seed": self._state.seed, "steps_left": self._state.max_steps - self._state.step_count}

    def _set_task(self, task: Task) -> None:
        self._task, self.rubric = task, Goal(task)

    def _started(self) -> Task:
        if self._task is None:
            raise Refused("there is no task yet. Call reset() first.")
        return self._task

    def _company(self) -> Company:
        return self._started().company

    @contextmanager
    def _counted_call(self) -> Iterator[None]:
        """Around each tool call: counts it. Raises Refused before the first reset and after the end."""
        state = self._state
        self._started()
        if state.reward is not None:
            raise Refused("the episode is over. Call reset() for another task.")
        state.step_count += 1
        try:
            yield
        finally:
            if state.step_count >= state.max_steps and state.reward is None:
                self._score()

    def _finish(self, answer: str) -> None:
        self._state.answer = answer
        self._score()

    def _score(self) -> None:
        """End the episode."""
        assert self.rubric is not None
        self._state.reward = self.rubric(self._state.answer, event_contents(self._company().connection))


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each kind of task at each level."""
    return {f"{kind}/level-{level}": {"kind": kind, "level": level} for kind in KINDS for level in LEVELS}
