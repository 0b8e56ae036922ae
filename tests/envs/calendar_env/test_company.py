"""What a company's calendars say of time: free slots, time zones, lengths, and answers, by hand-computed numbers."""

import pytest

from tests.envs.extras import require_extra

require_extra("fastmcp", "calendar")

from openenv.envs.calendar_env.server.company import Company
from openenv.envs.calendar_env.server.database import Refused
from openenv.envs.calendar_env.server.tasks import is_answer

DAY = "2026-03-02"


@pytest.fixture
def company():
    company = Company("Europe/Berlin")
    company.add_person("ana", "Ana Silva", "Europe/Berlin", ("09:00", "17:00"))
    company.add_person("bo", "Bo Lindgren", "Europe/London", ("09:00", "17:00"))
    yield company
    company.connection.close()


def at(start, end):
    return {"start": f"{DAY} {start}", "end": f"{DAY} {end}"}


def test_people_are_free_in_the_hours_in_which_both_work(company):
    assert company.free_slots(["ana", "bo"], DAY, 30) == [at("10:00", "17:00")]
    assert company.free_slots(["bo"], DAY, 30, "UTC") == [at("09:00", "17:00")]
    assert company.free_slots(["ana", "bo"], DAY, 421) == []
    assert company.free_slots(["ana"], "2026-07-06", 30, "UTC") == [
        {"start": "2026-07-06 07:00", "end": "2026-07-06 15:00"}
    ]


@pytest.mark.parametrize(("response", "is_busy"), [
    ("accepted", True), ("needs_action", True), ("tentative", True), ("declined", False)
])  # fmt: skip
def test_an_event_takes_time_unless_it_is_declined(company, response, is_busy):
    event = company.create_event("bo/work", "Talk", f"{DAY} 11:00", f"{DAY} 12:00", ["ana"])
    company.respond(event["event_id"], "ana", response)

    free = [at("09:00", "11:00"), at("12:00", "17:00")] if is_busy else [at("09:00", "17:00")]
    assert company.free_slots(["ana"], DAY, 30) == free


def test_slots_are_as_long_as_wanted_between_events_that_overlap(company):
    for start, end in (("09:00", "10:00"), ("10:30", "12:00"), ("11:00", "11:30"), ("13:00", "16:30")):
        company.create_event("ana/work", "Talk", f"{DAY} {start}", f"{DAY} {end}")

    assert company.free_slots(["ana"], DAY, 30) == [at("10:00", "10:30"), at("12:00", "13:00"), at("16:30", "17:00")]
    assert company.free_slots(["ana"], DAY, 31) == [at("12:00", "13:00")]


def test_times_are_of_the_zone_that_is_given_and_stored_in_utc(company):
    event = company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 09:45", zone="Asia/Dubai")

    assert (event["start"], company.event(event["event_id"])["start"]) == (f"{DAY} 09:00", f"{DAY} 06:00")
    (row,) = company.connection.execute("SELECT starts_at, ends_at, minutes FROM events")
    assert row == (f"{DAY} 05:00", f"{DAY} 05:45", 45)


def test_a_new_start_keeps_the_length_and_a_new_end_alone_changes_it(company):
    event_id = company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 09:45")["event_id"]

    moved = company.update_event(event_id, start=f"{DAY} 23:30")
    assert (moved["start"], moved["end"]) == (f"{DAY} 23:30", "2026-03-03 00:15")
    longer = company.update_event(event_id, end="2026-03-03 01:00")
    assert (longer["start"], longer["end"]) == (f"{DAY} 23:30", "2026-03-03 01:00")
    assert company.update_event(event_id, title="Chat")["title"] == "Chat"


def test_events_are_those_that_overlap_the_time_and_that_the_person_attends(company):
    for start, end, people in (("09:00", "10:00", []), ("09:30", "11:00", ["bo"]), ("11:00", "12:00", ["bo"])):
        company.create_event("ana/work", "Talk", f"{DAY} {start}", f"{DAY} {end}", people)

    def ids(*arguments):
        return [event["event_id"] for event in company.events(*arguments)]

    assert ids(f"{DAY} 10:00", f"{DAY} 11:00") == [2]
    assert ids(DAY, "2026-03-03", "bo") == [2, 3]
    assert ids(DAY, "2026-03-03") == [1, 2, 3]


def test_attendees_are_invited_and_taken_out(company):
    event_id = company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 10:00")["event_id"]

    assert company.invite(event_id, "bo")["attendees"] == {"ana": "accepted", "bo": "needs_action"}
    assert company.uninvite(event_id, "bo")["attendees"] == {"ana": "accepted"}
    company.delete_event(event_id)
    assert company.connection.execute("SELECT count(*) FROM attendees").fetchone() == (0,)


def test_ids_of_deleted_events_are_not_used_again(company):
    first = company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 10:00")["event_id"]
    company.delete_event(first)

    assert company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 10:00")["event_id"] == first + 1


def test_there_are_at_most_five_hundred_events(company):
    for _ in range(500):
        company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 10:00")
    with pytest.raises(Refused, match="there are 500 events, which is the most"):
        company.create_event("ana/work", "Talk", f"{DAY} 09:00", f"{DAY} 10:00")


@pytest.mark.parametrize(
    ("right", "given", "is_right"),
    [("2.5", "2.50", True), ("2", "2.0", True), ("2.5", "2.4", False), ("09:30", "9:30", True), ("bo", " Bo ", True),
     ("bo", "ana", False), ("2.5", "nan", False), ("2.5", None, False), ("2.5", "two", False), ("0", "0.0", True)],
)  # fmt: skip
def test_an_answer_is_compared_as_a_number_or_as_a_word(right, given, is_right):
    assert is_answer(right, given) == is_right
