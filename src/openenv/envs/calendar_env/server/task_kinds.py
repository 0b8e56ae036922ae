"""The kinds of tasks: each prepares a company, and says what to do and what is right."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from openenv.envs.calendar_env.server.company import Company
from openenv.envs.calendar_env.server.world import DAYS, LENGTHS, World

Change = Callable[[Company], Any]
_DECLINED = "declined"


class NotThisWeek(Exception):
    """The company has no events of the kind that the task needs."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for, and the changes or the answer that are right."""

    text: str
    changes: Sequence[Change] = ()
    answer: str | None = None


def schedule_meeting(world: World) -> Request:
    """The first time at which several people are free."""
    guests, minutes, title = world.others(world.level), world.rng.choice(LENGTHS), world.new_title()
    day, named = world.draw_day()
    start = _first_slot(world, [world.user, *guests], day, minutes)
    text = (
        f"Create the event '{title}' of {minutes} minutes in the calendar {world.user}/work on {named}, and invite "
        f"{_listed(guests)}. Choose the first time at which {_listed([world.user, *guests])} are all free within "
        "their working hours."
    )
    end = _plus(start, minutes)
    return Request(text=text, changes=[partial(_create, f"{world.user}/work", title, start, end, guests)])


def move_conflict(world: World) -> Request:
    """One of two events that overlap moves to the first free time."""
    day, named = world.draw_day()
    event = _draw(world, [e for e in _events(world, day, world.user) if e["calendar"] == f"{world.user}/work"])
    other = world.new_title()
    world.company.create_event(f"{world.user}/private", other, event["start"], event["end"])
    start = _first_slot(world, _coming(event), day, _minutes(event))
    text = (
        f"The events '{event['title']}' and '{other}' of {world.user} on {named} overlap. Move '{event['title']}' to "
        "the first time of that day at which all its attendees that have not declined are free within their working "
        "hours. Its present time counts as taken. Keep its length."
    )
    return Request(text=text, changes=[partial(_move, event["event_id"], start)])


def cancel_day(world: World) -> Request:
    """All events of a calendar on a day are deleted."""
    (person,) = world.others(1)
    day, named = world.draw_day()
    events = _events(world, day, person)
    chosen = [event for event in events if event["calendar"] == f"{person}/work"]
    _require(len(chosen) >= min(world.level, 2) and len(chosen) < len(events))
    text = f"Delete all events of the calendar {person}/work on {named}."
    return Request(text=text, changes=[partial(_delete, event["event_id"]) for event in chosen])


def count_hours(world: World) -> Request:
    """The hours that a person spends in events on a day."""
    (person,) = world.others(1)
    day, named = world.draw_day()
    events = _events(world, day, person)
    _require(len(events) > world.level)
    hours = sum(_minutes(event) for event in events if event["attendees"][person] != _DECLINED) / 60
    text = (
        f"How many hours of events does {person} have on {named}? Leave out those that {person} has declined. "
        "Answer with a number, such as 2.5."
    )
    return Request(text=text, answer=f"{hours:g}")


def resolve_double_bookings(world: World) -> Request:
    """Of each two events that overlap, the user declines the later one."""
    day, named = world.draw_day()
    changes: list[Change] = []
    for event in _events(world, day, world.user):
        start, end = _plus(event["start"], 30), _plus(event["end"], 30)
        (owner,) = world.others(1)
        is_alone = len(world.company.events(start, end, world.user)) == 1
        if len(changes) == world.level or _minutes(event) < 60 or not is_alone or _response(world, event) == _DECLINED:
            continue
        added = world.company.create_event(f"{owner}/work", world.new_title(), start, end, [world.user])
        world.company.respond(added["event_id"], world.user, "accepted")
        changes.append(partial(_respond, added["event_id"], world.user, _DECLINED))
    _require(bool(changes))
    text = (
        f"On {named} some events that {world.user} has accepted overlap. Of each two events that overlap, decline the "
        f"one that starts later, for {world.user}."
    )
    return Request(text=text, changes=changes)


def answer_invitations(world: World) -> Request:
    """Invitations are accepted where the user has no other event, else declined."""
    changes: list[Change] = []
    for _ in range(2 + world.level):
        day, _named = world.draw_day()
        begins, (owner,) = world.rng.randrange(9 * 60, 16 * 60 + 1, 30), world.others(1)
        start = f"{day} {begins // 60:02}:{begins % 60:02}"
        met = world.company.events(start, _plus(start, 60), world.user)
        if any(_response(world, event) != "accepted" for event in met):
            continue
        event = world.company.create_event(f"{owner}/work", world.new_title(), start, _plus(start, 60), [world.user])
        changes.append(partial(_respond, event["event_id"], world.user, _DECLINED if met else "accepted"))
    _require(len(changes) >= 2)
    text = (
        f"Answer the invitations of the week to which {world.user} has not responded (needs_action), for {world.user}: "
        f"accept each that overlaps no event that {world.user} has accepted by now, and decline the others."
    )
    return Request(text=text, changes=changes)


def set_location(world: World) -> Request:
    """The events of a calendar get another room from a day on."""
    (person,) = world.others(1)
    weekday, room = world.rng.randrange(4), f"Room {world.rng.randint(4, 9)}"
    day, last = world.day(weekday), world.day(len(DAYS) - 1)
    found = world.company.events(f"{day} 00:00", f"{last} 23:59", person)
    chosen = [event for event in found if event["calendar"] == f"{person}/work"]
    _require(len(chosen) > world.level)
    text = (
        f"Set the location of all events of the calendar {person}/work from {DAYS[weekday]} {day} to Friday {last} to "
        f"'{room}'."
    )
    return Request(text=text, changes=[partial(_relocate, event["event_id"], room) for event in chosen])


def replace_attendee(world: World) -> Request:
    """Another person takes the place of one in the events of a day."""
    person, substitute = world.others(2)
    day, named = world.draw_day()
    chosen = [event for event in _events(world, day, person) if not event["calendar"].startswith(f"{person}/")]
    _require(bool(chosen) and not any(substitute in event["attendees"] for event in chosen))
    text = (
        f"{person} is away on {named}. Take {person} out of each event of that day in the calendars of other people, "
        f"and invite {substitute} to it instead."
    )
    return Request(text=text, changes=[partial(_replace, event["event_id"], person, substitute) for event in chosen])


def find_slot(world: World) -> Request:
    """The first time at which several people are free, in the time zone of one of them."""
    guests, minutes = world.others(min(world.level + 1, 3)), world.rng.choice(LENGTHS)
    day, named = world.draw_day()
    zone = _zone_of(world, guests[0])
    slots = world.company.free_slots(guests, day, minutes, zone)
    _require(bool(slots) and not slots[0]["start"].endswith("09:00"))
    text = (
        f"What is the first time on {named} at which {_listed(guests)} are all free for {minutes} minutes within their "
        f"working hours? Answer with the time in the time zone of {guests[0]}, such as 09:30."
    )
    return Request(text=text, answer=slots[0]["start"][-5:])


def local_call(world: World) -> Request:
    """An event at a time that is given in another person's time zone."""
    (guest,) = world.others(1)
    day, named = world.draw_day()
    title, begins = world.new_title(), world.rng.randrange(10 * 60, 16 * 60, 30)
    start = f"{day} {begins // 60:02}:{begins % 60:02}"
    text = (
        f"Create the event '{title}' of 30 minutes in the calendar {world.user}/work on {named} at {start[-5:]} in the "
        f"time zone of {guest}, and invite {guest}."
    )
    create = partial(
        _create, f"{world.user}/work", title, start, _plus(start, 30), [guest], zone=_zone_of(world, guest)
    )
    return Request(text=text, changes=[create])


def busiest_person(world: World) -> Request:
    """The person with the most hours of events on a day."""
    day, named = world.draw_day()
    people = sorted(world.others(min(world.level + 1, 4)))
    hours = {}
    for person in people:
        events = _events(world, day, person)
        hours[person] = sum(_minutes(event) for event in events if event["attendees"][person] != _DECLINED)
    most = max(hours.values())
    _require(list(hours.values()).count(most) == 1)
    text = (
        f"Which of {_listed(people)} has the most hours of events on {named}? Leave out events that the person has "
        "declined. Answer with the person's id."
    )
    return Request(text=text, answer=max(hours, key=hours.__getitem__))


def daily_series(world: World) -> Request:
    """The same event on several days."""
    (guest,) = world.others(1)
    first = world.rng.randrange(len(DAYS) - world.level)
    last = first + world.level
    title, time = world.new_title(), f"{world.rng.randint(7, 18):02}:{world.rng.choice(('00', '15', '30', '45'))}"
    text = (
        f"Create the event '{title}' of 15 minutes in the calendar {world.user}/work at {time} on each day from "
        f"{DAYS[first]} {world.day(first)} to {DAYS[last]} {world.day(last)}, and invite {guest}."
    )
    starts = [f"{world.day(weekday)} {time}" for weekday in range(first, last + 1)]
    changes = [partial(_create, f"{world.user}/work", title, start, _plus(start, 15), [guest]) for start in starts]
    return Request(text=text, changes=changes)


def postpone_day(world: World) -> Request:
    """The events of a calendar on a day start later."""
    (person,) = world.others(1)
    day, named = world.draw_day()
    chosen = [event for event in _events(world, day, person) if event["calendar"] == f"{person}/work"]
    _require(len(chosen) >= min(world.level, 2))
    minutes = world.rng.choice((15, 45, 120))
    text = f"Move each event of the calendar {person}/work on {named} to {minutes} minutes later, and keep its length."
    changes = [partial(_move, event["event_id"], _plus(event["start"], minutes)) for event in chosen]
    return Request(text=text, changes=changes)


KINDS: Mapping[str, Callable[[World], Request]] = {
    kind.__name__: kind
    for kind in (
        schedule_meeting, move_conflict, cancel_day, count_hours, resolve_double_bookings, answer_invitations,
        set_location, replace_attendee, find_slot, local_call, busiest_person, daily_series, postpone_day,
    )
}  # fmt: skip


def _create(
    calendar: str, title: str, start: str, end: str, people: list[str], company: Company, zone: str = ""
) -> None:
    company.create_event(calendar, title, start, end, people, zone=zone)


def _move(event_id: int, start: str, company: Company) -> None:
    company.update_event(event_id, start=start)


def _relocate(event_id: int, location: str, company: Company) -> None:
    company.update_event(event_id, location=location)


def _delete(event_id: int, company: Company) -> None:
    company.delete_event(event_id)


def _respond(event_id: int, person: str, response: str, company: Company) -> None:
    company.respond(event_id, person, response)


def _replace(event_id: int, person: str, substitute: str, company: Company) -> None:
    company.uninvite(event_id, person)
    company.invite(event_id, substitute)


def _events(world: World, day: str, person: str) -> list[dict[str, Any]]:
    """The events of a day that a person attends."""
    return world.company.events(f"{day} 00:00", f"{day} 23:59", person)


def _first_slot(world: World, people: list[str], day: str, minutes: int) -> str:
    slots = world.company.free_slots(people, day, minutes)
    _require(bool(slots))
    return slots[0]["start"]


def _coming(event: Mapping[str, Any]) -> list[str]:
    return [person for person, response in event["attendees"].items() if response != _DECLINED]


def _response(world: World, event: Mapping[str, Any]) -> str:
    return str(event["attendees"][world.user])


def _zone_of(world: World, person: str) -> str:
    return next(str(row["time_zone"]) for row in world.company.people() if row["person"] == person)


def _draw(world: World, events: list[dict[str, Any]]) -> dict[str, Any]:
    _require(bool(events))
    return world.rng.choice(events)


def _require(is_met: bool) -> None:
    if not is_met:
        raise NotThisWeek


def _minutes(event: Mapping[str, Any]) -> int:
    (start, end) = (int(event[side][-5:-3]) * 60 + int(event[side][-2:]) for side in ("start", "end"))
    return end - start


def _plus(time: str, minutes: int) -> str:
    """A time of the same day, so many minutes later."""
    total = int(time[-5:-3]) * 60 + int(time[-2:]) + minutes
    return f"{time[:-5]}{total // 60:02}:{total % 60:02}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
