"""Client of the calendars."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Observation
from openenv.core.mcp_client import tool_result
from openenv.envs.calendar_env.models import CalendarObservation, CalendarState


class CalendarEnv(EnvClient[CallToolAction, Any, CalendarState]):
    """Client of one session. `reset` takes `seed`, `kind`, `level` and `max_steps`.

    A reset returns a CalendarObservation, and a step a CallToolObservation. `MCPToolClient` is a client of the same
    server that calls the tools by name, without rewards.

    Example:
        with CalendarEnv(base_url="http://localhost:8000") as env:
            print(env.reset(seed=3, kind="cancel_day").observation.task)
            result = env.step(CallToolAction(tool_name="list_people"))
            print(result.observation.result["data"])
            print(env.step(CallToolAction(tool_name="finish")).reward)
    """

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Observation]:
        """The result, its observation of the class that its fields call for."""
        return tool_result(payload, CalendarObservation)
