"""The client's session without I/O: which response ends which request, and what a broken connection means."""

import time

import orjson
import pytest

from openenv.core.client.session import FIRST_PAUSE_S, MAX_PAUSE_S, ClientSession
from openenv.core.errors import (
    AnswerTimeout,
    CapacityReached,
    EnvironmentFault,
    InvalidMessage,
    ServerUnreachable,
    SessionGone,
    SessionLost,
)
from openenv.core.wire.client_codec import Request
from openenv.core.wire.constants import SUBPROTOCOL

HELLO = b'{"type":"session","data":{"session_id":"s1","grace_s":%d}}'


def opened(grace_s=60) -> ClientSession:
    """A session of the extended dialect that the server has named."""
    session = ClientSession(None, message_timeout_s=10)
    session.expect_hello(10)
    session.connected(SUBPROTOCOL)
    session.receive(HELLO % grace_s)
    return session


@pytest.fixture
def session():
    return opened()


@pytest.fixture
def published():
    session = ClientSession(None, message_timeout_s=10)
    session.expect_hello(10)
    session.connected(None)
    return session


def response(pending, total=0, **keys):
    return orjson.dumps({"type": "observation", "id": pending.id, "data": {"total": total}, **keys})


def in_order(total):
    return orjson.dumps({"type": "observation", "data": {"total": total}})


ERROR = b'{"type":"error","data":{"code":"%b","message":"no"}}'


def test_the_hello_names_the_session():
    session = ClientSession(None, message_timeout_s=10)
    hello = session.expect_hello(10)
    session.connected(SUBPROTOCOL)
    assert hello.data is None
    session.receive(HELLO % 5)
    assert hello.data == {"session_id": "s1", "grace_s": 5}
    assert (session.session_id, session.hello) == ("s1", hello.data)


def test_a_place_in_the_queue_extends_the_wait_for_the_hello():
    session = ClientSession(None, message_timeout_s=10)
    hello = session.expect_hello(10)
    session.connected(SUBPROTOCOL)
    before = hello.deadline
    session.receive(b'{"type":"queued","data":{"position":1,"wait_s":30}}')
    assert hello.data is None
    assert hello.deadline == before + 30


def test_an_error_in_place_of_the_hello_is_its_outcome():
    session = ClientSession(None, message_timeout_s=10)
    hello = session.expect_hello(10)
    session.connected(SUBPROTOCOL)
    session.receive(ERROR % b"CAPACITY_REACHED")
    assert isinstance(session.hello_error(hello.error), CapacityReached)


def test_an_error_on_attaching_means_that_the_session_is_gone():
    session = ClientSession("s1", message_timeout_s=10)
    hello = session.expect_hello(10)
    session.connected(SUBPROTOCOL)
    session.receive(ERROR % b"SESSION_ERROR")
    assert isinstance(session.hello_error(hello.error), SessionGone)
    assert isinstance(session.hello_error(SessionLost("cut")), SessionLost)
    assert "raise connect_timeout_s" in str(session.hello_error(AnswerTimeout("late")))


def test_each_response_ends_the_request_of_its_id(session):
    first, second = session.begin(Request("step", {"a": 1})), session.begin(Request("step", {"a": 2}))
    session.receive(response(second, 2))
    assert (first.data, second.data) == (None, {"total": 2})
    session.receive(response(first, 1))
    assert first.data == {"total": 1}


def test_ids_differ_between_clients_of_one_session(session):
    assert session.begin(Request("state")).id != opened().begin(Request("state")).id


def test_the_frame_has_the_id_and_the_time_limit(session):
    pending = session.begin(Request("step", {"a": 1}, timeout_s=3.0))
    assert orjson.loads(pending.frame) == {"type": "step", "id": pending.id, "timeout_s": 3.0, "data": {"a": 1}}


def test_a_time_limit_of_the_server_extends_the_deadline(session):
    short, long = session.begin(Request("step", {})), session.begin(Request("step", {}, timeout_s=100.0))
    assert long.deadline - short.deadline > 90


def test_the_validity_of_a_response_is_part_of_its_data(session):
    pending = session.begin(Request("step", {}))
    session.receive(response(pending, 1, validity="truncated"))
    assert pending.data == {"total": 1, "validity": "truncated"}


def test_a_response_of_another_type_is_an_error(session):
    pending = session.begin(Request("state"))
    session.receive(response(pending))
    assert isinstance(pending.error, InvalidMessage)
    assert "type 'observation', expected 'state'" in str(pending.error)


def test_the_response_to_an_abandoned_request_is_dropped(session):
    late, next_one = session.begin(Request("step", {})), session.begin(Request("step", {}))
    session.abandon(late)
    session.receive(response(late, 1))
    assert (late.data, next_one.data) == (None, None)
    session.receive(response(next_one, 2))
    assert next_one.data == {"total": 2}


def test_an_error_without_an_id_ends_the_oldest_request(session):
    first, second = session.begin(Request("step", {})), session.begin(Request("step", {}))
    session.receive(ERROR % b"EXECUTION_ERROR")
    assert isinstance(first.error, EnvironmentFault)
    assert second.error is None


def test_an_error_that_answers_no_request_ends_the_session(session):
    session.receive(ERROR % b"CAPACITY_REACHED")
    with pytest.raises(CapacityReached):
        session.begin(Request("step", {}))


def test_an_unreadable_frame_fails_a_request_and_not_the_session(session):
    session.receive(b"so far, so good")
    pending = session.begin(Request("step", {}))
    session.receive(b"[1]")
    assert "no JSON object of the protocol" in str(pending.error)
    session.receive(response(again := session.begin(Request("step", {})), 1))
    assert again.data == {"total": 1}


def test_requests_under_way_are_repeated_with_their_ids_oldest_first(session):
    first, second, third = (session.begin(Request("step", {"a": n})) for n in range(3))
    session.receive(response(second))
    session.connection_lost("cut")
    assert session.can_reconnect
    assert session.frames_to_repeat() == [first.frame, third.frame]


def test_a_session_without_requests_need_not_reconnect(session):
    session.connection_lost("cut")
    assert not session.can_reconnect


def test_reconnecting_at_once_and_then_with_longer_pauses(session):
    session.begin(Request("step", {}))
    plan = session.reconnection(SessionLost("cut"))
    pauses = []
    for _ in range(7):
        pauses.append(plan.pause_s)
        assert plan.allows_retry(ServerUnreachable("still away"))
    assert pauses == pytest.approx([0.0, *(FIRST_PAUSE_S * 2**n for n in range(5)), MAX_PAUSE_S])


def test_a_connection_that_brings_no_response_is_followed_by_a_pause(session):
    pending = session.begin(Request("step", {}))
    assert session.reconnection(SessionLost("cut")).pause_s == 0.0
    session.expect_hello(10)
    session.receive(HELLO % 60)
    assert session.reconnection(SessionLost("cut again")).pause_s == FIRST_PAUSE_S
    session.receive(response(pending))
    assert session.reconnection(SessionLost("cut")).pause_s == 0.0


def test_after_the_grace_period_the_session_is_lost_with_the_reason():
    session = opened(grace_s=0)
    pending = session.begin(Request("step", {}))
    plan = session.reconnection(SessionLost("cut"))
    assert not plan.allows_retry(ServerUnreachable("still away"))
    assert str(pending.error) == "cut; the server did not come back in 0 s: still away"
    with pytest.raises(SessionLost, match="did not come back"):
        session.begin(Request("step", {}))


@pytest.mark.finding("a lost server and Ctrl-C have a line at once, with how to go on")
def test_the_first_failed_attempt_is_logged_once_for_all_sessions_that_broke_alike(caplog):
    for _ in range(2):
        session = opened(grace_s=60)
        session.begin(Request("step", {}))
        plan = session.reconnection(SessionLost("the connection to host:8000 is closed"))
        for _ in range(3):
            plan.allows_retry(ServerUnreachable("refused"))

    assert caplog.messages == [
        "the connection to host:8000 is closed; trying for 60 s to reach the server again: refused"
    ]


def test_requests_past_their_deadline_time_out(session):
    class Waiter:
        is_set = False

        def done(self):
            return self.is_set

        def set_result(self, _):
            self.is_set = True

    early, late = session.begin(Request("step", {})), session.begin(Request("step", {}, timeout_s=50))
    early.waiter, late.waiter = Waiter(), Waiter()
    assert session.expire(time.monotonic()) == early.deadline
    assert session.expire(early.deadline) == late.deadline
    assert isinstance(early.error, AnswerTimeout)
    assert (early.waiter.done(), late.waiter.done()) == (True, False)


def test_the_published_dialect_has_no_ids_and_responses_come_in_order(published):
    first, second = published.begin(Request("step", {})), published.begin(Request("step", {}))
    assert orjson.loads(first.frame) == {"type": "step", "data": {}}
    published.receive(in_order(1))
    published.receive(in_order(2))
    assert (first.data, second.data) == ({"total": 1}, {"total": 2})


def test_in_the_published_dialect_an_abandoned_request_keeps_its_place(published):
    late, next_one = published.begin(Request("step", {})), published.begin(Request("step", {}))
    published.abandon(late)
    published.receive(in_order(1))
    assert next_one.data is None
    published.receive(in_order(2))
    assert next_one.data == {"total": 2}


def test_in_the_published_dialect_a_broken_connection_ends_the_session(published):
    pending = published.begin(Request("step", {}))
    published.connection_lost("cut")
    assert str(pending.error) == "cut: reset() starts a new episode"
    with pytest.raises(SessionLost):
        published.begin(Request("step", {}))
    with pytest.raises(SessionLost):
        published.reconnection(SessionLost("cut"))
