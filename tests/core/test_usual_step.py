"""A step as nearly all are goes a shorter way through the server, and nobody sees a difference."""

import contextlib
import inspect
import json
import re

import pytest

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.conversation import Conversation
from openenv.core.env_server.declaration import declare
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.sessions import Sessions
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation, CountState, InlineEnvironment

STEPS = [
    {"amount": 1},
    {"amount": 2, "metadata": {"why": "so"}},
    {"amount": "3"},
    {"amount": 13},
    {"amount": 1.0},
    {"amount": -(2**70)},
    {"amount": 2**70},
    {"amount": None},
    {"nothing": 1},
    {},
    {"amount": 0, "mischief": "raise"},
    {"amount": 0, "mischief": "sys.exit"},
    {"amount": 0, "mischief": "nan"},
    {"amount": 0, "mischief": "numpy"},
    {"amount": 0, "mischief": "unserialisable"},
    {"amount": 0, "mischief": "wrong type"},
    {"amount": 20},
    {"amount": 1},
]
ODD = [
    b'{"type":"step","id":"a","data":{"amount":1}}',
    b'{"type":"step","id":"a","data":{"amount":1}}',
    b'{"type":"step","id":null,"data":{"amount":1}}',
    b'{"type":"step","id":"b","data":{"amount":1},"timeout_s":5}',
    b'{"type":"step","id":"c","data":[]}',
    b'{"type":"step","id":["d"],"data":{"amount":1}}',
    b'{"type":["step"],"id":"e","data":{"amount":1}}',
    b'{"type":"step","id":"\\ud800","data":{"amount":1}}',
    b'{"type":"step","id":"' + b"f" * 256 + b'","data":{"amount":1}}',
    b'{"type":"step","data":{"amount":1}}',
    b'["step"]',
    b'{"type":"step","id":"g","data":{"amount":1}} ',
    b'{"type":"step","id":"i","data":{"amount":0,"mischief":"raise"}}',
    b'{"type":"step","id":"i","data":{"amount":0,"mischief":"raise"}}',
    b'{"type":"step","id":"h","data":{"amount":1',
]


class Played:
    """A session over one of the two ways, from the inside."""

    def __init__(self, env: type[CountingEnvironment], config: ServerConfig, *, shortly: bool) -> None:
        self.sessions = Sessions(declare(env, CountAction, CountObservation, CountState, None, None), config)
        self._shortly = shortly
        self.num_short = 0

    async def open(self) -> "Played":
        self.session = session = await self.sessions.open()
        self._conversation = Conversation(self.sessions, JsonRpc(self.sessions), session, extended=True)
        if self._shortly:
            usual_step = session.usual_step

            def counted(request):
                said = usual_step(request)
                self.num_short += said is not None
                return said

            session.usual_step = counted
        else:
            self._conversation._usual_bytes = 0
        return self

    async def say(self, frame: bytes) -> bytes:
        reply = self._conversation.reply(frame)
        return await reply if inspect.isawaitable(reply) else reply

    def step(self, number: int, data: dict) -> bytes:
        return json.dumps({"type": "step", "id": f"s{number}", "data": data}, separators=(",", ":")).encode()

    async def figures(self) -> list[str]:
        """All that is counted; of times only how many."""
        lines = (await self.sessions.commons.metrics()).decode().splitlines()
        counted = [line for line in lines if re.match(r"openenv_(verbs|errors)|openenv_latency_seconds_count", line)]
        return [*counted, str(self.session.num_steps)]


async def both(env=InlineEnvironment, config=None):
    return [await Played(env, config or ServerConfig(), shortly=shortly).open() for shortly in (True, False)]


async def test_what_is_said_counted_and_kept_is_the_same_on_both_ways():
    short, long = await both()
    frames = [b'{"type":"reset","id":"r","data":{"seed":7}}']
    frames += [short.step(number, data) for number, data in enumerate(STEPS)]
    frames += [
        b'{"type":"reset","id":"r2","data":{"seed":8}}',
        *ODD,
        frames[-1],
        frames[1],
        b'{"type":"state","id":"z"}',
    ]
    for frame in frames:
        assert await short.say(frame) == await long.say(frame), frame
    assert await short.figures() == await long.figures()
    assert short.num_short == 12, "the others are refused before they are taken, or are no usual steps"
    figures = await short.figures()
    assert figures[-1] == "15"
    assert 'openenv_latency_seconds_count{phase="environment"} 18.0' in figures, "two resets, the state, the steps"


async def test_after_the_end_of_the_session_both_say_so():
    played = await both()
    for one in played:
        one.session.has_ended = True  # its environment is still to be closed
        assert b"has ended" in await one.say(one.step(1, {"amount": 1}))
        await one.sessions.end(one.session)
        assert b"has ended" in await one.say(one.step(0, {"amount": 1}))


@pytest.mark.parametrize(
    ("env", "config"),
    [
        (CountingEnvironment, ServerConfig()),
        (InlineEnvironment, ServerConfig(execution="thread")),
    ],
)
async def test_where_a_step_is_run_elsewhere_it_takes_the_long_way(env, config):
    short, _ = await both(env, config)
    await short.say(b'{"type":"reset","id":"r","data":{}}')
    said = json.loads(await short.say(short.step(0, {"amount": 1, "mischief": "thread"})))
    assert said["validity"] == "valid"
    assert short.num_short == 0
    assert said["data"]["observation"]["payload"] != "MainThread"


async def test_a_step_that_is_recorded_takes_the_long_way(tmp_path):
    (short, _) = await both(config=ServerConfig(record_dir=tmp_path))
    await short.say(b'{"type":"reset","id":"r","data":{}}')
    await short.say(short.step(0, {"amount": 1}))
    recorded = tmp_path / f"{short.session.id}.jsonl"
    assert [json.loads(line).get("verb") for line in recorded.read_text().splitlines()] == [None, "reset", "step"]


async def test_a_step_that_is_traced_takes_the_long_way():
    spans = []

    class Spans:
        def span(self, verb, _episode, _traceparent):
            spans.append(verb)
            return contextlib.nullcontext()

    (short, _) = await both()
    short.session._spans = Spans()
    await short.say(b'{"type":"reset","id":"r","data":{}}')
    await short.say(short.step(0, {"amount": 1}))
    assert spans == ["reset", "step"]
