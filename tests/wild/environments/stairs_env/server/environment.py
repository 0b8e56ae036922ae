"""The rules of the stairs."""

from uuid import uuid4

try:
    from openenv.core.env_server.interfaces import Environment

    from ..models import StairsAction, StairsObservation, StairsState
except ImportError:
    from models import StairsAction, StairsObservation, StairsState

    from openenv.core.env_server.interfaces import Environment


class StairsEnvironment(Environment):
    """Climb to the goal; each step costs a little."""

    SUPPORTS_CONCURRENT_SESSIONS: bool = True

    def __init__(self):
        self._state = StairsState(episode_id=str(uuid4()), step_count=0)
        self._visited = [0]

    def reset(self) -> StairsObservation:
        """Without keywords, as many environments write it."""
        self._state = StairsState(episode_id=str(uuid4()), step_count=0)
        self._visited = [0]
        return StairsObservation(height=0, visited=[0], done=False, reward=0.0)

    def step(self, action: StairsAction) -> StairsObservation:  # type: ignore[override]
        self._state.step_count += 1
        self._visited.append(self._visited[-1] + action.steps)
        done = self._visited[-1] >= self._state.goal
        return StairsObservation(
            height=self._visited[-1], visited=self._visited, notes={"goal": self._state.goal}, done=done,
            reward=1.0 if done else -0.1, metadata={"steps": action.steps},
        )  # fmt: skip

    @property
    def state(self) -> StairsState:
        return self._state
