"""The MCP tools of the calendars. An error of a tool names the field and the remedy, and changes nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from pydantic import Field

from openenv.envs.calendar_env.server.company import LONGEST_TEXT, Company
from openenv.envs.calendar_env.server.database import LONGEST_QUERY, read_only_query

_DAY = 24 * 60
EventId = Annotated[int, Field(ge=1, le=100_000, description="Id of the event")]
Person = Annotated[str, Field(max_length=20, description="Id of the person", examples=["ana", "bo", "cleo", "dan"])]
People = Annotated[list[Person], Field(max_length=20, description="Ids of people")]
Calendar = Annotated[str, Field(max_length=40, description="Such as ana/work", examples=["ana/work", "bo/private"])]
Time = Annotated[str, Field(max_length=20, description="Such as 2026-03-02 09:30", examples=["2026-03-02 09:30"])]
Day = Annotated[str, Field(max_length=20, description="Date such as 2026-03-02", examples=["2026-03-02"])]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Minutes = Annotated[int, Field(ge=1, le=_DAY)]
Zone = Annotated[str, Field(max_length=40, description="Of all times; empty: that of the task", examples=["", "UTC"])]
Answer = Annotated[
    str, Field(max_length=LONGEST_TEXT, coerce_numbers_to_str=True, description="Where the task asks for one")
]
Response = Literal["accepted", "tentative", "declined", "needs_action"]
Event = dict[str, Any]


class _CountCalls(Middleware):
    """Passes each call through the episode, which counts it and raises Refused once it is over."""

    def __init__(self, counted_call: Callable[[], AbstractContextManager[None]]) -> None:
        self._counted_call = counted_call

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        with self._counted_call():
            return await call_next(context)


def make_server(
    company: Callable[[], Company],
    counted_call: Callable[[], AbstractContextManager[None]],
    finish: Callable[[str], None],
) -> FastMCP:
    """The FastMCP server of an environment.

    Args:
        company: the episode's.
        counted_call: entered around each call; raises Refused where none may be made.
        finish: ends the episode with an answer.
    """
    mcp: FastMCP = FastMCP("calendar", middleware=[_CountCalls(counted_call)])
    _add_reading(mcp, company)
    _add_events(mcp, company)
    _add_attendees(mcp, company)

    @mcp.tool(name="finish")
    async def finish_task(answer: Answer = "") -> str:
        """End the task."""
        finish(answer)
        return "finished"

    return mcp


def _add_reading(mcp: FastMCP, company: Callable[[], Company]) -> None:
    @mcp.tool
    async def list_people() -> list[dict[str, Any]]:
        """All people with time zone, working hours and calendars."""
        return company().people()

    @mcp.tool
    async def list_events(start: Time, end: Time, person: Person = "", time_zone: Zone = "") -> list[Event]:
        """The events between two times, of all people or of one."""
        return company().events(start, end, person, time_zone)

    @mcp.tool
    async def get_event(event_id: EventId, time_zone: Zone = "") -> Event:
        """One event with its attendees and their responses."""
        return company().event(event_id, time_zone)

    @mcp.tool
    async def find_free_slots(people: People, day: Day, minutes: Minutes, time_zone: Zone = "") -> list[dict[str, str]]:
        """The times of a day, so long or longer, at which all people work and have no event but declined ones."""
        return company().free_slots(people, day, minutes, time_zone)

    @mcp.tool
    async def query(sql: Annotated[str, Field(max_length=LONGEST_QUERY)]) -> dict[str, Any]:
        """Run a SELECT of SQLite. Times are UTC. Tables: people(person, name, time_zone, work_start, work_end),
        calendars(calendar, owner), events(event_id, calendar, title, location, starts_at, ends_at, minutes),
        attendees(event_id, person, response)."""
        return read_only_query(company().connection, sql)


def _add_events(mcp: FastMCP, company: Callable[[], Company]) -> None:
    @mcp.tool
    async def create_event(
        calendar: Calendar,
        title: Text,
        start: Time,
        end: Time,
        people: Annotated[People, Field(default_factory=list)],
        location: Text = "",
        time_zone: Zone = "",
    ) -> Event:
        """Create an event. The calendar's owner attends it; the people are invited."""
        return company().create_event(calendar, title, start, end, people, location, time_zone)

    @mcp.tool
    async def update_event(
        event_id: EventId,
        title: Text = "",
        start: Time = "",
        end: Time = "",
        location: Text = "",
        time_zone: Zone = "",
    ) -> Event:
        """Change what is given and not empty. A new start without an end keeps the length."""
        return company().update_event(event_id, title, start, end, location, time_zone)

    @mcp.tool
    async def delete_event(event_id: EventId) -> Event:
        """Delete an event."""
        return company().delete_event(event_id)


def _add_attendees(mcp: FastMCP, company: Callable[[], Company]) -> None:
    @mcp.tool
    async def invite(event_id: EventId, person: Person) -> Event:
        """Add a person to an event, with the response needs_action."""
        return company().invite(event_id, person)

    @mcp.tool
    async def uninvite(event_id: EventId, person: Person) -> Event:
        """Take a person out of an event."""
        return company().uninvite(event_id, person)

    @mcp.tool
    async def respond(event_id: EventId, person: Person, response: Response) -> Event:
        """Set the response of a person to an event."""
        return company().respond(event_id, person, response)
