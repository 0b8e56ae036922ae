"""Keeps a balance."""

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import ListToolsAction, ListToolsObservation, Tool
from openenv.core.env_server.types import State

from ..models import LedgerObservation, Pay, Read


class LedgerEnvironment(Environment):
    """Pay ten, then read."""

    def __init__(self):
        super().__init__()
        self._balance = 0
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._balance = 0
        self._state = State(episode_id=episode_id or "ledger")
        return LedgerObservation(done=False)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        if isinstance(action, Pay):
            self._balance += action.amount
            return LedgerObservation(receipt=f"paid {action.amount}", reward=0.0)
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=[Tool(name="audit", description="", input_schema={"type": "object"})])
        assert isinstance(action, Read), type(action)
        return LedgerObservation(balance=self._balance, done=True, reward=self._balance / 10)

    @property
    def state(self):
        return self._state
