"""What can be done with the calendars of a company: look up, find free time, create, change, invite, respond."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from openenv.envs.calendar_env.server.database import Refused, database

RESPONSES = ("needs_action", "accepted", "tentative", "declined")
LONGEST_TEXT = 100
"""Characters of a title or location."""
_FORM = (" ", "minutes")
"""Of `isoformat`: 2026-03-02 09:30."""
_YEARS = range(2000, 2100)
_MOST_EVENTS = 500
_LONGEST_EVENT = timedelta(days=1)
_ZONES = frozenset(available_timezones())


class Company:
    """The calendars of a company. Times are in `zone` wherever no other time zone is given."""

    def __init__(self, zone: str, connection: sqlite3.Connection | None = None) -> None:
        """zone: a name such as Europe/Berlin. connection: of a database with the tables; None for an empty one."""
        self.zone = zone
        self.connection = connection or database()

    def copy(self) -> "Company":
        """The same contents, to be changed by itself."""
        return Company(self.zone, database(self.connection.serialize()))

    # What is there.

    def people(self) -> list[dict[str, Any]]:
        """Each person with time zone, working hours and calendars."""
        rows = self.connection.execute("SELECT person, name, time_zone, work_start, work_end FROM people ORDER BY 1")
        names = ("person", "name", "time_zone", "work_start", "work_end")
        return [{**dict(zip(names, row, strict=True)), "calendars": self._calendars(row[0])} for row in rows.fetchall()]

    def events(self, start: str, end: str, person: str = "", zone: str = "") -> list[dict[str, Any]]:
        """The events that overlap a time, in order of their start. person: only those that this person attends."""
        first, last = self._utc("start", start, zone), self._utc("end", end, zone)
        if last <= first:
            raise Refused(f"end={end!r}: it must be later than start={start!r}.")
        sql = "SELECT event_id FROM events WHERE starts_at < ? AND ends_at > ?"
        given = [last, first]
        if person:
            sql += " AND event_id IN (SELECT event_id FROM attendees WHERE person = ?)"
            given.append(self._known("person", person))
        found = self.connection.execute(f"{sql} ORDER BY starts_at, event_id", given).fetchall()
        return [self.event(event_id, zone) for (event_id,) in found]

    def event(self, event_id: int, zone: str = "") -> dict[str, Any]:
        """One event with its attendees and their responses."""
        names = "event_id, calendar, title, location, starts_at, ends_at"
        row = self.connection.execute(f"SELECT {names} FROM events WHERE event_id = ?", [event_id]).fetchone()
        if row is None:
            raise Refused(f"event_id={event_id}: there is no such event. list_events shows the ids.")
        attendees = self.connection.execute(
            "SELECT person, response FROM attendees WHERE event_id = ? ORDER BY 1", [event_id]
        )
        return {
            "event_id": row[0],
            "title": row[2],
            "calendar": row[1],
            "location": row[3],
            "start": self._local(row[4], zone),
            "end": self._local(row[5], zone),
            "attendees": dict(attendees.fetchall()),
        }

    def free_slots(self, people: Sequence[str], day: str, minutes: int, zone: str = "") -> list[dict[str, str]]:
        """The times of a day, of at least so many minutes, at which all people work and none has an event.

        An event that a person has declined does not count. The day is the same date in each person's own time zone.
        """
        if not people:
            raise Refused("people: the list is empty. Name at least one person.")
        spans = [self._working_hours(person, day) for person in people]
        start, end = max(span[0] for span in spans), min(span[1] for span in spans)
        marks = ",".join("?" * len(people))
        busy = self.connection.execute(
            "SELECT DISTINCT starts_at, ends_at FROM events JOIN attendees USING (event_id) "
            f"WHERE response != 'declined' AND person IN ({marks}) AND starts_at < ? AND ends_at > ? ORDER BY 1, 2",
            [*people, end, start],
        ).fetchall()
        slots, free_from = [], start
        for begins, ends in [*busy, (end, end)]:
            if begins > free_from and _minutes(free_from, begins) >= minutes:
                slots.append({"start": self._local(free_from, zone), "end": self._local(begins, zone)})
            free_from = max(free_from, ends)
        return slots

    # What can be changed.

    def create_event(
        self,
        calendar: str,
        title: str,
        start: str,
        end: str,
        people: Iterable[str] = (),
        location: str = "",
        zone: str = "",
    ) -> dict[str, Any]:
        """A new event, which the calendar's owner has accepted and to which the other people are invited."""
        owner = self._owner(calendar)
        invited = [self._known("people", person) for person in people if person != owner]
        times = self._times(self._utc("start", start, zone), self._utc("end", end, zone))
        texts = (_text("title", title, 1), _text("location", location, 0))
        if self.connection.execute("SELECT count(*) FROM events").fetchone()[0] >= _MOST_EVENTS:
            raise Refused(f"there are {_MOST_EVENTS} events, which is the most. Delete one first.")
        event_id = self.connection.execute(
            "INSERT INTO events (calendar, title, location, starts_at, ends_at) VALUES (?, ?, ?, ?, ?)",
            [calendar, *texts, *times],
        ).lastrowid
        assert event_id is not None
        self._attend(event_id, {owner: "accepted", **dict.fromkeys(invited, "needs_action")})
        return self.event(event_id, zone)

    def update_event(
        self, event_id: int, title: str = "", start: str = "", end: str = "", location: str = "", zone: str = ""
    ) -> dict[str, Any]:
        """Change what is not empty. A new start without an end keeps the length."""
        event = self.event(event_id, "UTC")
        starts_at = self._utc("start", start, zone) if start else event["start"]
        ends_at = _later(starts_at, _minutes(event["start"], event["end"]))
        if end:
            ends_at = self._utc("end", end, zone)
        texts = (_text("title", title or event["title"], 1), _text("location", location or event["location"], 0))
        self.connection.execute(
            "UPDATE events SET title = ?, location = ?, starts_at = ?, ends_at = ? WHERE event_id = ?",
            [*texts, *self._times(starts_at, ends_at), event_id],
        )
        return self.event(event_id, zone)

    def delete_event(self, event_id: int) -> dict[str, Any]:
        """Remove an event, which is returned as it was."""
        event = self.event(event_id)
        self.connection.execute("DELETE FROM events WHERE event_id = ?", [event_id])
        return event

    def invite(self, event_id: int, person: str) -> dict[str, Any]:
        """Add an attendee, with the response needs_action."""
        event = self.event(event_id)
        if self._known("person", person) in event["attendees"]:
            raise Refused(f"person={person!r} attends event {event_id} already. respond changes the response.")
        self._attend(event_id, {person: "needs_action"})
        return self.event(event_id)

    def uninvite(self, event_id: int, person: str) -> dict[str, Any]:
        """Remove an attendee other than the calendar's owner."""
        event = self.event(event_id)
        self._require_attendee(event, person)
        if person == self._owner(event["calendar"]):
            raise Refused(f"person={person!r} owns the calendar of event {event_id}. Use delete_event to cancel it.")
        self.connection.execute("DELETE FROM attendees WHERE event_id = ? AND person = ?", [event_id, person])
        return self.event(event_id)

    def respond(self, event_id: int, person: str, response: str) -> dict[str, Any]:
        """Set the response of an attendee."""
        self._require_attendee(self.event(event_id), person)
        if response not in RESPONSES:
            raise Refused(f"response={response!r:.80}: expected one of {', '.join(RESPONSES)}.")
        self.connection.execute(
            "UPDATE attendees SET response = ? WHERE event_id = ? AND person = ?", [response, event_id, person]
        )
        return self.event(event_id)

    def add_person(self, person: str, name: str, zone: str, hours: tuple[str, str]) -> None:
        """A new person with two calendars, `work` and `private`."""
        self.connection.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)", [person, name, zone, *hours])
        for kind in ("work", "private"):
            self.connection.execute("INSERT INTO calendars VALUES (?, ?)", [f"{person}/{kind}", person])

    # Checks.

    def _attend(self, event_id: int, responses: Mapping[str, str]) -> None:
        rows = [(event_id, person, response) for person, response in responses.items()]
        self.connection.executemany("INSERT INTO attendees VALUES (?, ?, ?)", rows)

    def _calendars(self, person: str) -> list[str]:
        found = self.connection.execute("SELECT calendar FROM calendars WHERE owner = ? ORDER BY 1", [person])
        return [calendar for (calendar,) in found]

    def _owner(self, calendar: str) -> str:
        owners: dict[str, str] = dict(self.connection.execute("SELECT calendar, owner FROM calendars").fetchall())
        if calendar not in owners:
            raise Refused(f"calendar={calendar!r:.80}: there is no such calendar. list_people shows the calendars.")
        return owners[calendar]

    def _known(self, field: str, person: str) -> str:
        known = [row[0] for row in self.connection.execute("SELECT person FROM people ORDER BY 1")]
        if person not in known:
            raise Refused(f"{field}={person!r:.80}: expected one of {', '.join(known)}.")
        return person

    def _require_attendee(self, event: Mapping[str, Any], person: str) -> None:
        if self._known("person", person) not in event["attendees"]:
            raise Refused(
                f"person={person!r} does not attend event {event['event_id']}, "
                f"but {', '.join(event['attendees'])}. Use invite first."
            )

    def _working_hours(self, person: str, day: str) -> tuple[str, str]:
        """The working hours of a date, in UTC."""
        zone, *hours = self.connection.execute(
            "SELECT time_zone, work_start, work_end FROM people WHERE person = ?", [self._known("people", person)]
        ).fetchone()
        start, end = (self._utc("day", f"{day} {hour}", zone, day) for hour in hours)
        return start, end

    def _times(self, starts_at: str, ends_at: str) -> tuple[str, str]:
        """Both. Raises Refused unless the end is later than the start, by at most a day."""
        if not timedelta(0) < _time(ends_at) - _time(starts_at) <= _LONGEST_EVENT:
            start, end = self._local(starts_at, ""), self._local(ends_at, "")
            raise Refused(f"start={start!r}, end={end!r}: the end must be later than the start, by at most a day.")
        return starts_at, ends_at

    def _utc(self, field: str, text: str, zone: str, shown: str | None = None) -> str:
        """A local time in UTC. shown: the field's value, where the text is made from it."""
        wanted = self._zone(zone)
        try:
            time = _time(text)
        except ValueError:
            time = datetime.min
        if time.year not in _YEARS or time.tzinfo is not None:
            form = "2026-03-02 09:30" if shown is None else "2026-03-02"
            raise Refused(f"{field}={shown or text!r:.80}: expected a time of this century, such as {form!r}.")
        return time.replace(tzinfo=wanted).astimezone(UTC).replace(tzinfo=None).isoformat(*_FORM)

    def _local(self, utc: str, zone: str) -> str:
        return _time(utc).replace(tzinfo=UTC).astimezone(self._zone(zone)).replace(tzinfo=None).isoformat(*_FORM)

    def _zone(self, zone: str) -> ZoneInfo:
        name = zone or self.zone
        if name not in _ZONES:
            raise Refused(f"time_zone={name!r:.80}: expected a name such as 'Europe/Berlin'. list_people shows them.")
        return ZoneInfo(name)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minutes(start: str, end: str) -> int:
    return int((_time(end) - _time(start)).total_seconds()) // 60


def _later(text: str, minutes: int) -> str:
    return (_time(text) + timedelta(minutes=minutes)).isoformat(*_FORM)


def _text(field: str, value: str, shortest: int) -> str:
    if not shortest <= len(value) <= LONGEST_TEXT or not value.isprintable():
        raise Refused(f"{field}={value!r:.80}: expected {shortest} to {LONGEST_TEXT} printable characters.")
    return value
