"""Adds numbers."""

try:
    from core.env_server.types import State

    from core.env_server import Environment
except ImportError:
    from openenv_core.env_server import Environment
    from openenv_core.env_server.types import State

try:
    from ..models import RelicAction, RelicObservation
except ImportError:
    from models import RelicAction, RelicObservation


class RelicEnvironment(Environment):
    """Reach ten."""

    def __init__(self):
        super().__init__()
        self._state = State(episode_id="relic", step_count=0)
        self._numbers = []

    def reset(self):
        self._state = State(episode_id="relic", step_count=0)
        self._numbers = []
        return RelicObservation(total=0)

    def step(self, action: RelicAction):
        self._state.step_count += 1
        self._numbers.append(action.number)
        total = sum(self._numbers)
        return RelicObservation(total=total, history=self._numbers, done=total >= 10, reward=float(total == 10))

    @property
    def state(self):
        return self._state
