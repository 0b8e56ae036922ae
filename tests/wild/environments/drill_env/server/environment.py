"""Runs programs with the package's executor."""

import uuid
from typing import Optional

from openenv.core.env_server.interfaces import Action, Environment, Observation
from openenv.integrations.tools import PyExecutor

from ..models import DrillAction, DrillObservation, DrillState
from .rewards import EndsWell, rubric, transforms


class DrillEnvironment(Environment):
    """Print 42."""

    def __init__(self, modules: Optional[list[str]] = None):  # noqa: UP045
        super().__init__(transform=transforms(), rubric=rubric())
        self.trajectory_rubric = EndsWell(gamma=0.9)
        self._modules = modules or []
        self._executor = PyExecutor(additional_imports=self._modules)
        self._state = DrillState()

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs) -> Observation:  # noqa: UP045
        self._state = DrillState(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
        self._executor = PyExecutor(additional_imports=self._modules)
        self._reset_rubric()
        self.trajectory_rubric.reset()
        return self._apply_transform(DrillObservation(done=False, metadata={"seed": seed}))

    def step(self, action: Action, timeout_s: Optional[float] = None, **kwargs) -> Observation:  # noqa: UP045
        if not isinstance(action, DrillAction):
            raise ValueError(f"Expected DrillAction, got {type(action)}")
        result = self._executor.run(action.code)
        self._state.step_count += 1
        self._state.last_exit_code = result.exit_code
        observation = DrillObservation(
            stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code,
            done=result.exit_code == 0, metadata={"last_code": action.code},
        )  # fmt: skip
        observation.reward = self._apply_rubric(action, observation)
        self.trajectory_rubric(action, observation)
        return self._apply_transform(observation)

    @property
    def state(self) -> DrillState:
        return self._state
