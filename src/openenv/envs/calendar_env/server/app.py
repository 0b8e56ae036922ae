"""Serves the calendars: `python -m openenv.envs.calendar_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.envs.calendar_env.models import CalendarObservation
from openenv.envs.calendar_env.server.environment import CalendarEnvironment

program = EnvironmentProgram(
    CalendarEnvironment,
    action_cls=CallToolAction,
    observation_cls=CallToolObservation,
    reset_observation_cls=CalendarObservation,
)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
