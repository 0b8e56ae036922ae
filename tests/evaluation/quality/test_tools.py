"""An environment of tools is checked by calls of its tools."""

import fastmcp
import pytest

from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Observation, State
from openenv.evaluation.quality import check_url

pytestmark = pytest.mark.process

_PLAYED = ("reachable", "actions", "verbs", "schema", "ending", "errors")


class Counter(MCPEnvironment):
    """Add up to six with one tool."""

    def __init__(self) -> None:
        tools = fastmcp.FastMCP("counter")

        @tools.tool
        def add(number: int) -> int:
            self.sum += abs(number) + 1
            return self.sum

        super().__init__(tools)
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.sum = 0
        self._state = State(episode_id=episode_id)
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        result = super().step(action, timeout_s, **kwargs)
        self._state.step_count += 1
        result.reward, result.done = float(self.sum), self.sum >= 6
        return result

    @property
    def state(self):
        return self._state


@pytest.mark.parametrize("declared", [None, CallToolAction])
@pytest.mark.finding("an environment of tools is checked by its tools")
def test_every_action_of_the_checks_is_a_tool_call(serving, declared):
    rows = check_url(serving(create_app(Counter, declared)), seconds=600, level="runtime")

    assert {row.check: row.result.status for row in rows} == dict.fromkeys(_PLAYED, "pass"), rows
