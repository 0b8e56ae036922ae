"""The connections of one event loop to one server share a socket, and nothing about any of them changes."""

import asyncio
import gc
import os
import socket
import struct
import time
import weakref

import pytest
import uvloop

from openenv.core.async_connection import AsyncConnection
from openenv.core.connection import Address
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.direct_connection import DirectConnection
from openenv.core.env_server.session import Session
from openenv.core.env_server.websocket_connection import WebSocketConnection
from openenv.core.errors import RequestRefused, Unauthorized
from openenv.core.local_socket import trunk_path
from openenv.core.trunk import Trunk
from openenv.core.trunk_transport import DATA, MOST_BYTES, TEXT, TrunkTransport
from tests.conftest import running
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.usefixtures("socket_folder")
WINDOW_BYTES = 1 << 20
PATIENCE_S = 10


class Inline(CountingEnvironment):
    """In the server's event loop. Says what the action said, however long."""

    execution = "inline"

    def step(self, action, **kwargs):
        return super().step(action).model_copy(update={"payload": action.mischief})


@pytest.fixture
def url(serving):
    """A server with a socket for trunks."""
    url = serving(create_app(Inline, max_concurrent_envs=64))
    port = int(url.rsplit(":", 1)[1])
    while trunk_path("127.0.0.1", port) is None:
        time.sleep(0.01)
    return url


def transport_of(env):
    return env._async._connection._transport


def trunk_of(env):
    transport = transport_of(env)
    return transport._trunk if isinstance(transport, TrunkTransport) else None


async def opened(url, num_sessions):
    return await asyncio.gather(*(CountEnv(url).__aenter__() for _ in range(num_sessions)))


async def closed(envs):
    await asyncio.gather(*(env.close() for env in envs))


async def count(env, amounts):
    await env.reset()
    return [(await env.step(CountAction(amount=amount))).observation.total for amount in amounts]


async def test_all_sessions_but_the_first_share_one_socket_and_each_plays_its_own_episode(url):
    envs = await opened(url, 9)
    assert [trunk_of(env) for env in envs] == [None, *[trunk_of(envs[1])] * 8]
    assert isinstance(trunk_of(envs[1]), Trunk)
    totals = await asyncio.gather(*(count(env, [i, 1, 1]) for i, env in enumerate(envs)))
    assert totals == [[i, i + 1, i + 2] for i in range(9)]
    trunk = trunk_of(envs[1])
    await closed(envs)
    assert not trunk.is_open, "it goes with its last connection"
    envs = await opened(url, 2)
    assert [trunk_of(env) is None for env in envs] == [True, False]
    await closed(envs)


def test_in_another_event_loop_too_and_nothing_stays_behind(url, recwarn):
    trunks = []

    async def play():
        envs = await opened(url, 3)
        trunks.append(weakref.ref(trunk_of(envs[2])))
        totals = await asyncio.gather(*(count(env, [2]) for env in envs))
        await closed(envs)
        return totals

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(play()) == [[2]] * 3
    loops = []
    for _ in range(2):
        loop = asyncio.new_event_loop()
        loops.append(weakref.ref(loop))
        assert loop.run_until_complete(play()) == [[2]] * 3
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    del loop
    gc.collect()
    assert [one() for one in (*trunks, *loops)] == [None] * 5
    assert [str(warning.message) for warning in recwarn if warning.category is ResourceWarning] == []


async def test_the_server_has_its_places_back_when_sessions_of_a_trunk_are_closed(serving):
    url = serving(create_app(Inline, max_concurrent_envs=4))
    for _ in range(3):
        envs = await opened(url, 4)
        assert await asyncio.gather(*(count(env, [1]) for env in envs)) == [[1]] * 4
        await closed(envs)


async def test_without_a_socket_for_trunks_each_session_has_its_own(url, socket_folder):
    for path in socket_folder.glob("*-trunk-*.sock"):
        path.unlink()
    envs = await opened(url, 3)
    assert [trunk_of(env) for env in envs] == [None] * 3
    assert await asyncio.gather(*(count(env, [3]) for env in envs)) == [[3]] * 3
    await closed(envs)


async def test_where_nobody_listens_for_trunks_any_more_each_session_has_its_own(url, socket_folder):
    for path in socket_folder.glob("*-trunk-*.sock"):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as deserted:
            deserted.bind(str(path))
    envs = await opened(url, 3)
    assert [trunk_of(env) for env in envs] == [None] * 3
    await closed(envs)


async def test_a_trunk_that_breaks_costs_no_session_its_episode(url):
    envs = await opened(url, 5)
    totals = await asyncio.gather(*(count(env, [1]) for env in envs))
    broken = trunk_of(envs[1])
    broken._transport.abort()
    totals = await asyncio.gather(*(env.step(CountAction(amount=2)) for env in envs))
    assert [result.observation.total for result in totals] == [3] * 5
    assert trunk_of(envs[1]) not in (None, broken)
    await closed(envs)


async def test_messages_of_many_windows_go_both_ways_while_others_play(url):
    envs = await opened(url, 3)
    await asyncio.gather(*(env.reset() for env in envs))
    large = "x" * (5 * WINDOW_BYTES)
    echoed = asyncio.gather(*(env.step(CountAction(amount=0, mischief=large)) for env in envs))
    small = [await env.step(CountAction(amount=1)) for env in envs]
    assert [len(result.observation.payload) for result in await echoed] == [len(large)] * 3
    assert [result.observation.total for result in small] == [1] * 3
    await closed(envs)


async def test_who_goes_while_an_answer_waits_for_him_frees_his_place(serving):
    app = create_app(Inline, config=ServerConfig(max_sessions=8, grace_s=0.1))
    url = serving(app)
    async with CountEnv(url) as first, CountEnv(url) as other:
        gone = await CountEnv(url).__aenter__()
        await gone.reset()
        asking = asyncio.ensure_future(gone.step(CountAction(amount=0, mischief="x" * (6 * WINDOW_BYTES))))
        connection = gone._async._connection
        await until(lambda: transport_of(gone)._num_read > 0 or asking.done())
        gone._async._coming_back = asking  # it does not come back
        connection._transport.abort()
        await until(lambda: len(app.state.sessions) == 2)
        asking.cancel()
        assert await count(first, [1]) == await count(other, [1]) == [1]


async def test_a_session_that_is_opened_while_its_trunk_is_full_is_welcomed(url, monkeypatch):
    full = []
    take_over = WebSocketConnection.take_over

    def taken_over_while_full(self):
        if isinstance(self._transport, TrunkTransport) and not full:
            full.append(self._transport._trunk)
            self._transport._trunk.pause_writing()
            asyncio.get_running_loop().call_later(0.1, self._transport._trunk.resume_writing)
        return take_over(self)

    monkeypatch.setattr(WebSocketConnection, "take_over", taken_over_while_full)
    async with asyncio.timeout(PATIENCE_S):
        envs = await opened(url, 2)
        assert await asyncio.gather(*(count(env, [2]) for env in envs)) == [[2]] * 2
    assert full
    await closed(envs)


async def test_who_opens_a_session_through_a_trunk_that_is_gone_finds_another_way(url):
    envs = await opened(url, 2)
    fd = trunk_of(envs[1])._transport.get_extra_info("socket").fileno()
    with socket.socket(fileno=os.dup(fd)) as trunk:
        trunk.shutdown(socket.SHUT_RDWR)  # as when its server dies
    async with CountEnv(url) as late:
        assert await count(late, [4]) == [4]
    await closed(envs)


async def test_a_session_that_has_ended_leaves_nothing_to_the_garbage_collector(serving):
    app = create_app(Inline, max_concurrent_envs=8)
    url = serving(app)
    gc.collect()
    gc.disable()
    try:
        envs = await opened(url, 4)
        await asyncio.gather(*(count(env, [1]) for env in envs))
        await closed(envs)
        await until(lambda: len(app.state.sessions) == 0)
        await until(lambda: not any(type(one) in (DirectConnection, Session) for one in gc.get_objects()))
    finally:
        gc.enable()


async def test_a_server_that_stops_waits_for_no_trunk():
    with running(create_app(Inline, max_concurrent_envs=8)) as url:
        envs = await opened(url, 4)
        await asyncio.gather(*(env.reset() for env in envs))
        began = time.monotonic()
    assert time.monotonic() - began < 2.5, "uvicorn's patience with connections is 3 s"
    await closed(envs)


async def test_a_connection_of_a_trunk_without_the_token_is_refused_and_the_others_play_on(serving):
    url = serving(create_app(Inline, config=ServerConfig(token="s3cret")))
    headers = {"Authorization": "Bearer s3cret"}
    async with CountEnv(url, headers=headers) as first, CountEnv(url, headers=headers) as second:
        assert trunk_of(second) is not None
        with pytest.raises(Unauthorized, match="wants its token"):
            await CountEnv(url).reset()
        assert await count(first, [1]) == await count(second, [1]) == [1]


async def test_texts_go_without_frames_once_the_server_has_sent_one_so(url, monkeypatch):
    sent = {"client": [], "server": []}
    send = Trunk.send

    def noted(self, kind, number, length=0, data=b""):
        sent["client" if self._accept is None else "server"].append((kind, data))
        send(self, kind, number, length, data)

    envs = await opened(url, 2)
    monkeypatch.setattr(Trunk, "send", noted)
    await count(envs[1], [1, 1])
    assert {end: [kind for kind, _ in said] for end, said in sent.items()} == {
        "client": [DATA, TEXT, TEXT],
        "server": [TEXT, TEXT, TEXT],
    }
    assert all(data.startswith(b'{"type":') for said in sent.values() for kind, data in said if kind == TEXT)
    await closed(envs)


async def test_an_answer_above_the_clients_limit_is_told_and_costs_nothing_else(url):
    async with CountEnv(url) as other, CountEnv(url, max_message_size_mb=0.001) as env:
        assert trunk_of(env) is not None
        await env.reset()
        with pytest.raises(RequestRefused, match="above this client's limit of 1048"):
            await env.step(CountAction(amount=1, mischief="x" * 2000))
        assert (await env.step(CountAction(amount=1))).observation.total == 2
        assert await count(other, [1]) == [1]


async def test_a_request_above_the_servers_limit_is_told_and_costs_nothing_else(serving):
    url = serving(create_app(Inline, config=ServerConfig(max_message_bytes=2000)))
    async with CountEnv(url) as other, CountEnv(url) as env:
        await env.reset()
        with pytest.raises(RequestRefused, match="above this server's limit of 2000"):
            await env.step(CountAction(amount=1, mischief="x" * 2000))
        assert (await env.step(CountAction(amount=1))).observation.total == 1
        assert await count(other, [1]) == [1]


# The two ends, without sessions.


class Peer(asyncio.Protocol):
    """What a transport tells its protocol."""

    def __init__(self):
        self.heard, self.told = bytearray(), []
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        assert data, "that would be the end"
        self.heard += data

    def text_received(self, text):
        self.heard += b"<%b>" % text

    def eof_received(self):
        self.told.append("end")

    def pause_writing(self):
        self.told.append("pause")

    def resume_writing(self):
        self.told.append("resume")

    def connection_lost(self, exc):
        self.lost.set_result(exc)


class Ends:
    """A trunk between a client and a server, and the protocols that the server has made."""

    def __init__(self):
        self.accepted = []

    def accept(self, make=Peer):
        self.accepted.append(make())
        return self.accepted[-1]

    async def connect(self):
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, self.client = await loop.create_connection(Trunk, sock=ours)
        _, self.server = await loop.create_connection(lambda: Trunk(self.accept), sock=theirs)
        return self

    async def pair(self):
        near = Peer()
        self.client.connect(near)
        await until(lambda: len(self.accepted) == self.client._next_number)
        return near, self.accepted[-1]


async def until(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what is waited for sets no event
            await asyncio.sleep(0.001)


async def test_who_does_not_read_holds_up_no_other_and_misses_nothing():
    ends = await Ends().connect()
    slow, (near, far) = await ends.pair(), await ends.pair()
    slow[1].transport.pause_reading()
    said = os.urandom(3 * WINDOW_BYTES)
    slow[0].transport.write(said)
    assert slow[0].told == ["pause"]
    assert slow[0].transport.get_write_buffer_size() == 2 * WINDOW_BYTES
    near.transport.write(b"quick")
    await until(lambda: far.heard == b"quick")
    assert slow[1].heard == b""
    slow[1].transport.resume_reading()
    await until(lambda: slow[1].heard == said)
    assert slow[0].told == ["pause", "resume"]


async def test_a_trunk_whose_socket_is_full_has_all_its_connections_wait():
    ours, theirs = socket.socketpair()
    _, client = await asyncio.get_running_loop().create_connection(Trunk, sock=ours)
    peers = [Peer() for _ in range(8)]
    for peer in peers:
        client.connect(peer)
        peer.transport.write(bytes(WINDOW_BYTES // 2))
    await until(lambda: all(peer.told == ["pause"] for peer in peers))
    theirs.setblocking(False)
    async with asyncio.timeout(PATIENCE_S):
        while not all(peer.told == ["pause", "resume"] for peer in peers):
            await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
    theirs.close()


async def test_close_sends_what_waits_and_abort_does_not():
    ends = await Ends().connect()
    (near, far), (other, distant) = await ends.pair(), await ends.pair()
    near.transport.write(bytes(3 * WINDOW_BYTES))
    near.transport.close()
    other.transport.write(bytes(3 * WINDOW_BYTES))
    other.transport.abort()
    assert await far.lost is await near.lost is await distant.lost is None
    assert len(far.heard) == 3 * WINDOW_BYTES > len(distant.heard)
    assert far.told == distant.told == ["end"]
    assert near.transport.is_closing()
    assert not near.transport.is_reading()
    near.transport.write(b"nothing more")


async def test_what_came_while_nobody_read_comes_first_and_the_end_last():
    ends = await Ends().connect()
    near, far = await ends.pair()
    far.transport.pause_reading()
    near.transport.write(b"one ")
    near.transport.write(b"")
    await asyncio.sleep(0.05)
    far.transport.resume_reading()
    far.transport.pause_reading()
    far.transport.resume_reading()
    ends.server.data_received(struct.pack("!BII", 1, 0, 4) + b"two " + struct.pack("!BII", 3, 0, 0))
    assert (far.heard, far.told) == (b"", []), "it is heard in the next turn"
    await near.lost
    assert (far.heard, far.told) == (b"one two ", ["end"])


async def test_texts_and_bytes_keep_their_order_also_while_nobody_reads():
    ends = await Ends().connect()
    near, far = await ends.pair()
    near.transport.write(b"one ")
    assert near.transport.write_text(b"two")
    await until(lambda: far.heard == b"one <two>")
    far.transport.pause_reading()
    near.transport.write(b" three ")
    assert near.transport.write_text(b"four")
    near.transport.write(b" five")
    await asyncio.sleep(0.05)
    assert far.heard == b"one <two>"
    far.transport.resume_reading()
    await until(lambda: far.heard == b"one <two> three <four> five")


async def test_texts_are_sent_within_what_is_granted_and_as_long_as_anything_can_be_said():
    ends = await Ends().connect()
    near, far = await ends.pair()
    text = bytes(MOST_BYTES)
    assert not near.transport.write_text(b"")
    assert not near.transport.write_text(text + b"x")
    far.transport.pause_reading()
    assert [near.transport.write_text(text) for _ in range(5)] == [True] * 4 + [False]
    far.transport.resume_reading()
    await until(lambda: len(far.heard) == 4 * (len(text) + 2))
    assert near.transport.write_text(text), "more is granted as it is read"
    near.transport.write_eof()
    assert not near.transport.write_text(b"late")
    far.transport.close()
    assert not far.transport.write_text(b"late")
    await far.lost
    assert far.heard.endswith(b"\0>")


async def test_a_text_for_a_protocol_that_takes_none_closes_its_connection_and_no_other(caplog):
    ends = await Ends().connect()
    (near, far), (other, plain) = await ends.pair(), await ends.pair()
    plain.text_received = None
    assert other.transport.write_text(b"what is that?")
    await plain.lost
    await other.lost
    assert "protocol of a trunk's connection failed" in caplog.text
    near.transport.write(b"goes on")
    await until(lambda: far.heard == b"goes on")


async def test_packets_leave_together_and_many_at_once():
    ends = await Ends().connect()
    near, far = await ends.pair()
    for _ in range(7):
        near.transport.write(b"x")
    assert len(ends.client._packets) == 14, "a head and a byte each"
    near.transport.write(b"x")
    assert ends.client._packets == []
    near.transport.write(b"y")
    await until(lambda: far.heard == b"xxxxxxxxy")


async def test_a_server_that_stops_closes_a_trunk_with_its_last_connection():
    ours, theirs = socket.socketpair()
    among = set()
    _, trunk = await asyncio.get_running_loop().create_connection(lambda: Trunk(Peer, among), sock=theirs)
    assert among == {trunk}
    trunk.data_received(struct.pack("!BII", 0, 0, 0))
    trunk.shutdown()
    assert not trunk._transport.is_closing()
    trunk.data_received(struct.pack("!BII", 0, 1, 0))
    assert set(trunk._connections) == {0}, "there are no new ones"
    trunk.data_received(struct.pack("!BII", 4, 0, 0))
    assert trunk._transport.is_closing()
    await until(lambda: among == set())
    ours.close()


async def test_one_direction_can_be_closed_alone_and_the_end_comes_last():
    ends = await Ends().connect()
    near, far = await ends.pair()
    far.transport.pause_reading()
    near.transport.write(bytes(2 * WINDOW_BYTES))
    near.transport.write_eof()
    near.transport.write(b"too late")
    far.transport.write(b"still heard")
    await until(lambda: near.heard == b"still heard")
    assert far.told == []
    far.transport.resume_reading()
    await far.lost
    assert len(far.heard) == 2 * WINDOW_BYTES
    assert far.told == ["end"]
    await near.lost


async def test_what_comes_in_pieces_is_put_together():
    ends = await Ends().connect()
    near, far = await ends.pair()
    near.transport.write(b"one")
    near.transport.write(b"two")
    packets = b"".join(ends.client._packets)
    ends.client._packets.clear()
    for byte in packets:
        ends.server.data_received(bytes([byte]))
    assert far.heard == b"onetwo"


async def test_a_protocol_that_fails_loses_its_own_connection(caplog):
    class Failing(Peer):
        def data_received(self, data):
            raise RuntimeError("cannot read this")

    ends = await Ends().connect()
    near, far = await ends.pair()
    failing = Failing()
    far.transport.set_protocol(failing)
    assert far.transport.get_protocol() is failing
    other = await ends.pair()
    near.transport.write(b"x")
    await near.lost
    await failing.lost
    assert "cannot read this" in caplog.text
    other[0].transport.write(b"y")
    await until(lambda: other[1].heard == b"y")


@pytest.mark.parametrize("callback", ["connection_made", "eof_received", "pause_writing", "resume_writing"])
async def test_what_a_protocol_raises_ends_its_own_connection_alone(callback, caplog):
    class Failing(Peer):
        pass

    def fail(self, *_arguments):
        raise RuntimeError("cannot bear this")

    setattr(Failing, callback, fail)
    ends = await Ends().connect()
    peers = [Peer(), Failing(), Peer()]
    for peer in peers:
        ends.client.connect(peer)
    ends.client.pause_writing()
    ends.client.resume_writing()
    await until(lambda: len(ends.accepted) == len(peers))
    if callback == "eof_received":
        ends.accepted[1].transport.close()
    await peers[1].lost
    assert "cannot bear this" in caplog.text
    assert peers[0].told == peers[2].told == ["pause", "resume"]
    peers[2].transport.write(b"z")
    await until(lambda: ends.accepted[2].heard == b"z")


async def test_who_sends_more_than_was_granted_is_cut_off(caplog):
    ends = await Ends().connect()
    _, far = await ends.pair()
    far.transport.pause_reading()
    for _ in range(9):
        ends.server.data_received(struct.pack("!BII", 1, 0, WINDOW_BYTES // 8) + bytes(WINDOW_BYTES // 8))
    await far.lost
    assert "more than it was granted" in caplog.text


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_is_given_up_while_its_trunk_opens_leaves_nothing(factory, turns, recwarn, caplog):
    async def give_up():
        first = await AsyncConnection.open(Address(base_url=url))
        opening = asyncio.create_task(AsyncConnection.open(Address(base_url=url)))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        await first.close()

    gc.collect()  # what other tests have left
    recwarn.clear()
    with running(create_app(Inline)) as url, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(give_up())
    gc.collect()
    assert [str(warning.message) for warning in recwarn if warning.category is ResourceWarning] == []
    assert caplog.text == ""


@pytest.mark.parametrize(
    "packet", [struct.pack("!BII", 9, 0, 0), struct.pack("!BII", 0, 0, 0), struct.pack("!BII", 1, 0, 1 << 30)]
)
async def test_who_breaks_the_protocol_loses_the_trunk_and_the_log_says_so(packet, caplog):
    ends = await Ends().connect()
    near, far = await ends.pair()
    ends.client._transport.write(packet)
    await near.lost
    await far.lost
    assert "the other end of a trunk sent" in caplog.text
    assert not ends.server.is_open
    assert not ends.client.is_open
