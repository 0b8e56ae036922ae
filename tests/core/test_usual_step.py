"""A step as nearly all are goes a shorter way through the server, and nobody sees a difference."""

import contextlib
import gc
import inspect
import json
import re
import weakref
from collections import Counter
from typing import Any, ClassVar

import pytest
from pydantic import field_validator

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.conversation import Conversation
from openenv.core.env_server.declaration import declare
from openenv.core.env_server.episode_log import current_episode
from openenv.core.env_server.inline_limit import RUNNING
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.errors import NotSupported
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


_SHORT: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _counted(monkeypatch):
    usual_step = Session.usual_step

    def counted(self, request):
        said = usual_step(self, request)
        _SHORT[self.id] += said is not None
        return said

    monkeypatch.setattr(Session, "usual_step", counted)


class Played:
    """A session over one of the two ways, from the inside."""

    def __init__(self, env: type[CountingEnvironment], config: ServerConfig, action: Any, *, shortly: bool) -> None:
        self.sessions = Sessions(declare(env, action, CountObservation, CountState, None, None), config)
        self._shortly = shortly

    async def open(self) -> "Played":
        self.session = session = await self.sessions.open()
        self._conversation = Conversation(self.sessions, JsonRpc(self.sessions), session, extended=True)
        if not self._shortly:
            self._conversation._usual_bytes = 0
        return self

    @property
    def num_short(self) -> int:
        """Steps that took the short way."""
        return _SHORT[self.session.id]

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


async def both(env=InlineEnvironment, config=None, action=CountAction):
    return [await Played(env, config or ServerConfig(), action, shortly=shortly).open() for shortly in (True, False)]


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
    assert short.num_short == 16, "the others are no usual steps"
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

    short = Played(InlineEnvironment, ServerConfig(), CountAction, shortly=True)
    short.sessions._spans = Spans()
    await short.open()
    await short.say(b'{"type":"reset","id":"r","data":{}}')
    await short.say(short.step(0, {"amount": 1}))
    assert spans == ["reset", "step"]


class Judged(CountAction):
    """Its validator sees how long it may take, and in whose episode."""

    seen: ClassVar[list[tuple[bool, str]]] = []

    @field_validator("amount")
    @classmethod
    def _judge(cls, amount: int) -> int:
        episode = current_episode.get()
        cls.seen.append((RUNNING.deadline > 0, episode.session if episode else ""))
        if amount == 7:
            raise NotSupported("seven")
        if amount == 8:
            raise KeyError("eight")
        return amount


async def test_a_validator_runs_once_within_the_limit_and_may_raise_what_it_likes():
    Judged.seen.clear()
    short, long = await both(action=Judged)
    frames = [short.step(number, {"amount": amount}) for number, amount in enumerate([1, 7, 8, "no"])]
    for frame in [b'{"type":"reset","id":"r","data":{}}', *frames, frames[1]]:
        said = [json.loads(await one.say(frame)) for one in (short, long)]
        for one in said:
            one["data"].pop("observation", None)  # random numbers
        assert said[0] == said[1], frame
    assert await short.figures() == await long.figures()
    assert short.num_short == 4
    sessions = [short.session.id, long.session.id]
    assert Judged.seen == [(True, session) for _ in range(3) for session in sessions]


async def test_an_episode_that_may_be_stepped_on_after_its_end_is():
    class Endless(InlineEnvironment):
        ALLOWS_STEP_AFTER_DONE = True

    played = await both(Endless)
    for one in played:
        await one.say(b'{"type":"reset","id":"r","data":{}}')
        assert b'"done":true' in await one.say(one.step(0, {"amount": 20}))
        assert b'"validity":"valid"' in await one.say(one.step(1, {"amount": 1}))


async def test_where_the_server_is_told_to_run_all_in_the_event_loop_it_does():
    short, _ = await both(CountingEnvironment, ServerConfig(execution="inline"))
    await short.say(b'{"type":"reset","id":"r","data":{}}')
    said = json.loads(await short.say(short.step(0, {"amount": 1, "mischief": "thread"})))
    assert said["data"]["observation"]["payload"] == "MainThread"
    assert short.num_short == 1


async def test_a_refusal_that_is_kept_keeps_no_session():
    gc.collect()
    gc.disable()
    try:
        played = await both()
        sessions = [weakref.ref(one.session) for one in played]
        for one in played:
            await one.say(b'{"type":"reset","id":"r","data":{}}')
            await one.say(one.step(0, {"amount": 0, "mischief": "raise"}))
            await one.sessions.end(one.session)
        del played, one
        assert [session() for session in sessions] == [None, None]
    finally:
        gc.enable()
