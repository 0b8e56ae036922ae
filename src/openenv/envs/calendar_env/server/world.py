"""A company of a seed: people in several time zones, and a week of events that do not overlap."""

from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from openenv.envs.calendar_env.server.company import Company

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
LEVELS = (1, 2, 3)
_FIRST_MONDAY = date(2026, 1, 5)
_WEEKS = 100
_NAMES = {
    "ana": "Ana Silva",
    "bo": "Bo Lindgren",
    "cleo": "Cleo Martin",
    "dan": "Dan Okafor",
    "eva": "Eva Novak",
    "finn": "Finn Murphy",
    "gita": "Gita Rao",
    "hugo": "Hugo Weber",
}
_ZONES = {1: ("Europe/Berlin",), 2: ("Europe/London", "Europe/Berlin", "Europe/Athens"),
          3: ("Europe/London", "Europe/Berlin", "Africa/Nairobi", "Asia/Dubai")}  # fmt: skip
_NUM_PEOPLE = {1: 3, 2: 5, 3: 7}
_EVENTS_A_PERSON = {1: 5, 2: 6, 3: 8}
_HOURS = ("09:00", "17:00")
_SUBJECTS = ("Budget", "Design", "Hiring", "Launch", "Market", "Product", "Quality", "Release", "Sales", "Security",
             "Support", "Travel", "Training", "Website")  # fmt: skip
_FORMS = ("briefing", "check", "demo", "kickoff", "planning", "review", "sync", "workshop")
_ROOMS = ("", "Room 1", "Room 2", "Room 3")
LENGTHS = (30, 60, 90)
"""Minutes of an event."""


@dataclass
class World:
    """A company before the task, with what a task draws from."""

    company: Company
    rng: Random
    level: int
    people: list[str]
    monday: date
    titles: list[str]
    """Not used by any event."""

    @property
    def user(self) -> str:
        """The person whose calendar the agent keeps."""
        return self.people[0]

    def day(self, weekday: int) -> str:
        """A date of the week. weekday: 0 for Monday."""
        return (self.monday + timedelta(days=weekday)).isoformat()

    def draw_day(self) -> tuple[str, str]:
        """A day of the week at random: its date, and how the task names it."""
        weekday = self.rng.randrange(len(DAYS))
        return self.day(weekday), f"{DAYS[weekday]} {self.day(weekday)}"

    def new_title(self) -> str:
        """A title that no event has."""
        return self.titles.pop()

    def others(self, count: int) -> list[str]:
        """So many people beside the user, at random."""
        return self.rng.sample(self.people[1:], count)


def make_world(rng: Random, level: int) -> World:
    """The company of a level: more people, time zones and events at a higher one."""
    people = rng.sample(list(_NAMES), _NUM_PEOPLE[level])
    zones = {person: rng.choice(_ZONES[level]) for person in people}
    company = Company(zones[people[0]])
    for person in people:
        company.add_person(person, _NAMES[person], zones[person], _HOURS)
    titles = [f"{subject} {form}" for subject in _SUBJECTS for form in _FORMS]
    rng.shuffle(titles)
    monday = _FIRST_MONDAY + timedelta(weeks=rng.randrange(_WEEKS))
    world = World(company, rng, level, people, monday, titles)
    for person in people:
        for _ in range(_EVENTS_A_PERSON[level]):
            _add_event(world, person, zones[person])
    return world


def _add_event(world: World, owner: str, zone: str) -> None:
    """An event within the owner's working hours, unless an attendee has one at that time."""
    rng = world.rng
    is_private = rng.random() < 0.2
    guests = [] if is_private else rng.sample([p for p in world.people if p != owner], rng.randint(0, 2))
    length = rng.choice(LENGTHS)
    day, begins = world.day(rng.randrange(len(DAYS))), rng.randrange(9 * 60, 17 * 60 - length + 1, 30)
    start, end = (f"{day} {minute // 60:02}:{minute % 60:02}" for minute in (begins, begins + length))
    company = Company(zone, world.company.connection)
    if any(company.events(start, end, person) for person in (owner, *guests)):
        return
    calendar = f"{owner}/{'private' if is_private else 'work'}"
    event = company.create_event(calendar, world.new_title(), start, end, guests, rng.choice(_ROOMS))
    for guest in guests:
        is_declined = world.level > 1 and rng.random() < 0.15
        company.respond(event["event_id"], guest, "declined" if is_declined else "accepted")
