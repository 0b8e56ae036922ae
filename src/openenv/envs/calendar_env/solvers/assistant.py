"""A solver of the calendar tasks: reads the task's text, and does all else with the tools."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

CallTool = Callable[..., Any]
"""Takes the name of a tool and its arguments; returns its result."""

_DATE = r"(\d{4}-\d\d-\d\d)"
_TIME = "%Y-%m-%d %H:%M"


class Assistant:
    """Solves one task."""

    def __init__(self, task: str, call: CallTool) -> None:
        self._call = call
        self._user = _found(r"act for (\w+)", task)[0]
        self._week = _found(rf"Monday {_DATE} to Friday {_DATE}", task)
        self._text = task.partition("call finish. ")[2]

    def solve(self) -> None:
        """Do what the task wants, and finish."""
        for pattern, solve in _SOLVERS.items():
            if re.search(pattern, self._text):
                self._call("finish", answer=solve(self) or "")
                return
        raise ValueError(f"no solver knows the task {self._text!r}")

    def schedule_meeting(self) -> None:
        """Create the event at the first common free time."""
        title, minutes, calendar, day = self._find(rf"'(.*?)' of (\d+) minutes in the calendar (\S+) on \w+ {_DATE}")
        guests = _people(self._find(r"and invite (.*?)\. Choose")[0])
        start = self._first_slot([self._user, *guests], day, minutes)["start"]
        self._create(calendar, title, start, int(minutes), guests)

    def daily_series(self) -> None:
        """Create an event a day."""
        title, calendar, time = self._find(r"event '(.*?)' of 15 minutes in the calendar (\S+) at (\S+)")
        first, last, guest = self._find(rf"from \w+ {_DATE} to \w+ {_DATE}, and invite (\w+)")
        start = f"{first} {time}"
        while start[:10] <= last:
            self._create(calendar, title, start, 15, [guest])
            start = _later(start, 24 * 60)

    def local_call(self) -> None:
        """Create the event in the guest's time zone."""
        title, calendar, day, time = self._find(rf"'(.*?)' of 30 minutes in the calendar (\S+) on \w+ {_DATE} at (\S+)")
        (guest,) = self._find(r"and invite (\w+)")
        self._create(calendar, title, f"{day} {time}", 30, [guest], time_zone=self._zone(guest))

    def move_conflict(self) -> None:
        """Move the named event."""
        (day,), (title,) = self._find(rf"on \w+ {_DATE}"), self._find(r"Move '(.*?)'")
        (event,) = (event for event in self._events(day, day, self._user) if event["title"] == title)
        people = [person for person, response in event["attendees"].items() if response != "declined"]
        start = self._first_slot(people, day, _minutes(event))["start"]
        self._call("update_event", event_id=event["event_id"], start=start)

    def cancel_day(self) -> None:
        """Delete the calendar's events."""
        calendar, day = self._find(rf"calendar (\S+) on \w+ {_DATE}")
        for event in self._of_calendar(calendar, day, day):
            self._call("delete_event", event_id=event["event_id"])

    def set_location(self) -> None:
        """Change the calendar's events."""
        calendar, first, last, room = self._find(rf"calendar (\S+) from \w+ {_DATE} to \w+ {_DATE} to '(.*?)'")
        for event in self._of_calendar(calendar, first, last):
            self._call("update_event", event_id=event["event_id"], location=room)

    def postpone_day(self) -> None:
        """Move the calendar's events."""
        calendar, day, minutes = self._find(rf"calendar (\S+) on \w+ {_DATE} to (\d+) minutes later")
        for event in self._of_calendar(calendar, day, day):
            self._call("update_event", event_id=event["event_id"], start=_later(event["start"], int(minutes)))

    def count_hours(self) -> str:
        """The hours of a person."""
        person, day = self._find(rf"does (\w+) have on \w+ {_DATE}")
        return f"{self._hours(person, day):g}"

    def busiest_person(self) -> str:
        """The person with the most hours."""
        people, day = self._find(rf"Which of (.*?) has the most hours of events on \w+ {_DATE}")
        return max(_people(people), key=lambda person: self._hours(person, day))

    def find_slot(self) -> str:
        """The first common free time."""
        day, people, minutes = self._find(rf"on \w+ {_DATE} at which (.*?) are all free for (\d+) minutes")
        zone = self._zone(self._find(r"time zone of (\w+)")[0])
        start: str = self._first_slot(_people(people), day, minutes, time_zone=zone)["start"]
        return start[-5:]

    def resolve_double_bookings(self) -> None:
        """Decline the later event of each two."""
        (day,) = self._find(rf"On \w+ {_DATE}")
        accepted = [
            event for event in self._events(day, day, self._user) if event["attendees"][self._user] == "accepted"
        ]
        for event in accepted:
            if any(other["start"] < event["start"] < other["end"] for other in accepted):
                self._respond(event, "declined")

    def answer_invitations(self) -> None:
        """Accept what overlaps nothing, decline the rest."""
        events = self._events(self._week[0], self._week[1], self._user)
        accepted = [event for event in events if event["attendees"][self._user] == "accepted"]
        for event in events:
            if event["attendees"][self._user] == "needs_action":
                meets = any(other["start"] < event["end"] and event["start"] < other["end"] for other in accepted)
                self._respond(event, "declined" if meets else "accepted")

    def replace_attendee(self) -> None:
        """Put the substitute in the place of the person."""
        person, day = self._find(rf"^(\w+) is away on \w+ {_DATE}")
        (substitute,) = self._find(r"and invite (\w+)")
        for event in self._events(day, day, person):
            if not event["calendar"].startswith(f"{person}/"):
                self._call("uninvite", event_id=event["event_id"], person=person)
                self._call("invite", event_id=event["event_id"], person=substitute)

    def _find(self, pattern: str) -> tuple[str, ...]:
        return _found(pattern, self._text)

    def _events(self, first: str, last: str, person: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call(
            "list_events", start=f"{first} 00:00", end=f"{last} 23:59", person=person
        )
        return found

    def _of_calendar(self, calendar: str, first: str, last: str) -> list[dict[str, Any]]:
        events = self._events(first, last, calendar.partition("/")[0])
        return [event for event in events if event["calendar"] == calendar]

    def _first_slot(self, people: list[str], day: str, minutes: str | int, **zone: str) -> dict[str, str]:
        slots: list[dict[str, str]] = self._call(
            "find_free_slots", people=people, day=day, minutes=int(minutes), **zone
        )
        return slots[0]

    def _create(self, calendar: str, title: str, start: str, minutes: int, people: list[str], **zone: str) -> None:
        end = _later(start, minutes)
        self._call("create_event", calendar=calendar, title=title, start=start, end=end, people=people, **zone)

    def _respond(self, event: Mapping[str, Any], response: str) -> None:
        self._call("respond", event_id=event["event_id"], person=self._user, response=response)

    def _zone(self, person: str) -> str:
        return next(str(row["time_zone"]) for row in self._call("list_people") if row["person"] == person)

    def _hours(self, person: str, day: str) -> float:
        events = self._events(day, day, person)
        return sum(_minutes(event) for event in events if event["attendees"][person] != "declined") / 60


_SOLVERS: Mapping[str, Callable[[Assistant], str | None]] = {
    "Choose the first time": Assistant.schedule_meeting,
    "on each day from": Assistant.daily_series,
    "in the time zone of .* and invite": Assistant.local_call,
    "^The events .* overlap": Assistant.move_conflict,
    "^Delete all events": Assistant.cancel_day,
    "^Set the location": Assistant.set_location,
    "^Move each event": Assistant.postpone_day,
    "^How many hours": Assistant.count_hours,
    "^Which of": Assistant.busiest_person,
    "^What is the first time": Assistant.find_slot,
    "has accepted overlap": Assistant.resolve_double_bookings,
    "^Answer the invitations": Assistant.answer_invitations,
    "is away on": Assistant.replace_attendee,
}
"""By what only the text of that kind of task contains."""


def _found(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern!r} is not in the task {text!r}")
    return found.groups()


def _people(listed: str) -> list[str]:
    return re.split(", | and ", listed)


def _minutes(event: Mapping[str, Any]) -> int:
    start, end = (datetime.strptime(event[side], _TIME) for side in ("start", "end"))
    return int((end - start).total_seconds()) // 60


def _later(time: str, minutes: int) -> str:
    return (datetime.strptime(time, _TIME) + timedelta(minutes=minutes)).strftime(_TIME)
