"""Calendars of a small company behind MCP tools: schedule, move, cancel, invite, respond, and answer questions."""

from openenv.envs.calendar_env.client import CalendarEnv
from openenv.envs.calendar_env.models import CalendarObservation, CalendarState

__all__ = ["CalendarEnv", "CalendarObservation", "CalendarState"]
