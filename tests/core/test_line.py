"""A connection that is alone in its event loop is read past the loop, and nothing about it changes."""

import asyncio
import gc
import socket
import struct
import time
import weakref
from types import SimpleNamespace

import pytest
import uvloop

from openenv.core import watching, websocket_protocol
from openenv.core.containers.local_process import LocalServer
from openenv.core.generic_client import GenericEnvClient
from openenv.core.watching import NO_TURN_S, Line, LoopWatch

SOON_S = 0.01


class Hearing(asyncio.Protocol):
    """What the event loop itself tells a protocol."""

    def __init__(self):
        self.heard, self.lost = [], asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.heard.append(data)

    def connection_lost(self, exc):
        self.lost.set_result(exc)


async def connected():
    """A transport, its protocol, a line that hears into a list, the list, and the other end's socket."""
    ours, theirs = socket.socketpair()
    transport, protocol = await asyncio.get_running_loop().create_connection(Hearing, sock=ours)
    heard = []
    return transport, protocol, Line.of(transport, heard.append), heard, theirs


def in_a_moment():
    return time.perf_counter() + SOON_S


async def test_what_has_come_is_heard_without_a_turn_of_the_loop():
    transport, protocol, line, heard, theirs = await connected()
    assert not line.listen(in_a_moment()), "nothing has come"
    theirs.sendall(b"answer")
    assert line.listen(in_a_moment())
    await asyncio.sleep(SOON_S)
    assert (heard, protocol.heard) == ([b"answer"], [])
    theirs.sendall(b"late")
    await asyncio.sleep(SOON_S)
    assert protocol.heard == [b"late"], "the loop reads on"
    transport.close()
    theirs.close()


async def test_the_end_is_told_by_the_loop():
    _, protocol, line, heard, theirs = await connected()
    theirs.close()
    assert line.listen(in_a_moment())
    assert await asyncio.wait_for(protocol.lost, 5) is None
    assert heard == []


async def test_a_connection_that_breaks_is_told_by_the_loop():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    transport, protocol = await asyncio.get_running_loop().create_connection(Hearing, sock=ours)
    line = Line.of(transport, protocol.data_received)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    assert line.listen(in_a_moment())
    assert isinstance(await asyncio.wait_for(protocol.lost, 5), ConnectionResetError)


@pytest.mark.parametrize("stop", ["pause_reading", "close", "abort"])
async def test_a_transport_that_does_not_read_is_not_read_for(stop):
    transport, _, line, heard, theirs = await connected()
    theirs.sendall(b"unwanted")
    getattr(transport, stop)()
    assert not line.listen(in_a_moment())
    assert heard == []
    transport.abort()
    theirs.close()


async def test_a_connection_whose_words_cannot_be_read_is_closed(caplog):
    transport, protocol, _, _, theirs = await connected()
    line = Line.of(transport, lambda data: 1 / 0)
    theirs.sendall(b"nonsense")
    assert line.listen(in_a_moment())
    await asyncio.wait_for(protocol.lost, 5)
    assert "could not be read" in caplog.text
    theirs.close()


def test_loops_that_read_as_fast_themselves_are_left_alone():
    async def line():
        transport, _, line, _, theirs = await connected()
        transport.close()
        theirs.close()
        return line

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(line()) is None


async def test_enciphered_bytes_are_not_read_past_what_deciphers_them():
    class Enciphered(asyncio.Transport):
        def __init__(self):
            super().__init__({"sslcontext": object(), "socket": None})

    assert Line.of(Enciphered(), print) is None


class Listening:
    """A line, as far as a watch knows it, on which nothing comes."""

    def __init__(self):
        self.times = 0

    def listen(self, until):
        self.times += 1
        return False


@pytest.mark.parametrize(
    ("spoken", "expected", "listens"),
    [
        ("AA", "A", "A"),
        ("AA", "B", ""),
        ("AB", "B", ""),
        ("ABB", "B", "B"),
        ("ABA", "A", ""),
        ("", "A", ""),
        ("TT", "A", ""),
        ("AAT", "A", ""),
    ],
)
async def test_only_a_line_that_is_alone_is_listened_to(spoken, expected, listens):
    """spoken: on which lines something came last, T: on one of a trunk. expected: on which something comes next."""
    loop, watch, lines = asyncio.get_running_loop(), LoopWatch(), {"A": Listening(), "B": Listening()}
    for name in spoken:
        watch.heard(lines.get(name))
    watch.expect(loop, lines[expected])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "".join(name for name, line in lines.items() if line.times) == listens


class Answering(Listening):
    """A line on which something comes as soon as anybody listens, for a watch that looks at a clock of its own."""

    def __init__(self, watch, *, in_vain=0):
        super().__init__()
        self._watch, self.in_vain = watch, in_vain

    def listen(self, until):
        super().listen(until)
        if self.times <= self.in_vain:
            return False
        self._watch.heard(self)
        return True


@pytest.fixture
def clock(monkeypatch):
    """What a watch takes for the time, in seconds."""
    clock = SimpleNamespace(now=1.0)
    monkeypatch.setattr(watching.time, "perf_counter", lambda: clock.now)
    return clock


async def alone(loop, **kwargs):
    """A watch, and a line that has just been heard in a turn of its loop, and before."""
    watch = LoopWatch()
    line = Answering(watch, **kwargs)
    for _ in range(2):
        watch.heard(line)
    watch.expect(loop, line)
    await asyncio.sleep(0)
    assert line.times == 1, "first the loop has its turn"
    return watch, line


async def test_who_is_alone_is_answered_before_the_loop_has_its_turn_until_that_is_due(clock):
    loop = asyncio.get_running_loop()
    watch, line = await alone(loop)
    for _ in range(3):
        before = line.times
        for _ in range(10):
            clock.now += NO_TURN_S / 12
            watch.expect(loop, line)
        assert line.times == before + 10, "each is heard at once"
        clock.now += NO_TURN_S / 4
        watch.expect(loop, line)
        assert line.times == before + 10, "the loop's turn is due"
        await asyncio.sleep(0)
        assert line.times == before + 11, "and what is expected is heard in it"
    watch.heard(Listening())
    before = line.times
    watch.expect(loop, line)
    assert line.times == before, "it is alone no longer"


async def test_what_is_said_to_what_is_heard_at_once_keeps_the_loop_awake_once(clock):
    loop = asyncio.get_running_loop()
    watch, line = await alone(loop)

    def heard(heard_line):
        LoopWatch.heard(watch, heard_line)
        watch.expect(loop)  # as a ping is answered

    watch.heard = heard
    watch.expect(loop, line)
    del watch.heard
    turns = [handle for handle in loop._ready if "_stay_awake" in repr(handle)]
    watch.heard(line)
    assert len(turns) == 1


async def test_a_line_on_which_nothing_comes_at_once_is_left_to_the_loops_turns(clock):
    loop = asyncio.get_running_loop()
    watch, line = await alone(loop)
    heard_at_once = []
    for come_in_vain in (True, False, False, False, True, False, False, False):
        before = line.times
        line.in_vain = before + come_in_vain
        watch.expect(loop, line)
        heard_at_once.append(line.times - before)
        await asyncio.sleep(0)
        assert not watch._until, "what was not heard at once is heard in the loop's turn"
    assert heard_at_once == [1, 0, 1, 1] * 2, "in vain, left out, and as before"


@pytest.mark.parametrize("subprotocols", [None, []], ids=["extended", "published"])
async def test_a_client_that_is_alone_does_without_turns_of_its_loop(monkeypatch, subprotocols):
    for limit in ("SOON_S", "_AT_ONCE_S", "NO_TURN_S"):
        monkeypatch.setattr(watching, limit, 60.0)  # however slow this machine is
    if subprotocols is not None:
        monkeypatch.setattr(websocket_protocol, "SUBPROTOCOL", "none.that.is.known")
        monkeypatch.setattr(websocket_protocol, "ARRAYS_SUBPROTOCOL", "nor.this")
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        async with GenericEnvClient(base_url=server.base_url) as env:
            await env.reset()
            for number in range(5):
                await env.step({"message": str(number)})
            turns = []
            asyncio.get_running_loop().call_soon(turns.append, 1)
            said = [(await env.step({"message": str(number)})).observation["echoed_message"] for number in range(50)]
            assert (said, turns) == ([str(number) for number in range(50)], [])
            await asyncio.sleep(0)
            assert turns == [1]


class Interrupting(Listening):
    """A line that somebody interrupts the program at."""

    def listen(self, until):
        super().listen(until)
        raise KeyboardInterrupt


def test_a_loop_that_was_interrupted_listens_again():
    loop, watch, line = asyncio.new_event_loop(), LoopWatch(), Interrupting()

    async def play():
        watch.heard(line)
        watch.heard(line)
        watch.expect(loop, line)
        await asyncio.sleep(SOON_S)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(play())
        assert line.times == times
    loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop)))
    loop.close()


def test_loops_whose_clients_are_gone_are_gone_too():
    loops = []

    async def play(url):
        loops.append(weakref.ref(asyncio.get_running_loop()))
        async with GenericEnvClient(base_url=url) as env:
            await env.reset()
            for _ in range(5):
                await env.step({"message": "hello"})

    with LocalServer("openenv.envs.echo_env.server.app") as server:
        for _ in range(3):
            asyncio.run(play(server.base_url))
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


async def test_a_client_that_is_alone_and_many_at_once_play_alike():
    with LocalServer("openenv.envs.echo_env.server.app") as server:

        async def play():
            async with GenericEnvClient(base_url=server.base_url) as env:
                await env.reset()
                return [(await env.step({"message": str(n)})).observation["echoed_message"] for n in range(50)]

        everything = [str(n) for n in range(50)]
        assert await play() == everything
        assert await asyncio.gather(*(play() for _ in range(5))) == [everything] * 5
