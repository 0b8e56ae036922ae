"""Arrays in messages: what a binary frame holds, what is refused, and that pixels arrive as they left."""

import json
import sys
from types import ModuleType

import httpx
import jsonschema
import numpy as np
import orjson
import pytest
from pydantic import Field
from websockets.sync.client import connect

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.runner.observation_json import observation_data, packed_observation_data
from openenv.core.wire.arrays import Array, Buffers, JsonOrArray, has_array_fields, inlined, pack, packed, unpacked
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL, SUBPROTOCOL


class PixelAction(Action):
    """What to add to each pixel."""

    shift: Array


class PixelObservation(Observation):
    """A screen, and angles inside another field."""

    screen: Array
    inside: dict[str, Array] = Field(default_factory=dict)


class PixelEnvironment(Environment[PixelAction, PixelObservation, State]):
    """Shows a screen of random bytes."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._rng = np.random.default_rng(seed)
        return PixelObservation(screen=self._rng.integers(0, 256, (5, 4, 3), dtype=np.uint8))

    def step(self, action, timeout_s=None, **kwargs):
        screen = self._rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
        return PixelObservation(screen=screen, inside={"angles": np.asarray(action.shift) * 2}, reward=1.0)

    @property
    def state(self):
        return State()


class ProcessPixels(PixelEnvironment):
    """The same in a process of its own."""

    execution = "process"


class MixedObservation(Observation):
    """A value of any kind, and an array in it or not."""

    value: JsonOrArray = 0


class PixelEnv(EnvClient[PixelAction, PixelObservation, State]):
    """Typed client: nothing to write."""


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([True, False, True]),
        np.zeros((0, 4), dtype=np.int64),
        np.arange(5, dtype=">i4"),
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array([0.5, np.inf], dtype=np.float16),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_an_array_arrives_as_it_left(array):
    message = unpacked(packed({"a": {"b": [1, array, "x"]}, "c": array}))
    assert message["a"]["b"][0] == 1
    for arrived in (message["a"]["b"][1], message["c"]):
        assert arrived.dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(arrived, array)


def frame(head, *parts):
    return pack(orjson.dumps(head), parts)


GOOD = [0, "<f4", [2]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "begins with"),
        (b"\x02\0\0\0\0\0\0\0", "begins with"),
        (b"\x01\0\0\0\xff\0\0\0{}", "ends after 2"),
        (b"\x01\0\0\0\x02\0\0\0{]", "Expecting property name"),
        (frame({"a": {"$array": GOOD}}, b"1234567"), None),
        (frame({"a": {"$array": GOOD}}), "beyond the frame's end"),
        (frame({"a": {"$array": [0, "<f4", [1 << 39, 1 << 39]]}}, bytes(8)), "beyond the frame's end"),
        (frame({"a": {"$array": [0, "<f4", [-2]]}}, bytes(8)), "a shape is a list of sizes"),
        (frame({"a": {"$array": [0, "<f4", [True]]}}, bytes(8)), "a shape is a list of sizes"),
        (frame({"a": {"$array": [1, "<f4", [2]]}}, bytes(8)), "array 0 is missing"),
        (frame({"a": {"$array": GOOD}, "b": {"$array": GOOD}}, bytes(8), bytes(8)), "named twice"),
        (frame({"a": {"$array": [0, "O", [1]]}}, bytes(8)), "none of booleans, integers and floats"),
        (frame({"a": {"$array": [0, "sausage", [1]]}}, bytes(8)), "none of booleans"),
        (frame({"a": {"$array": [0, "f4,(", [1]]}}, bytes(8)), "none of booleans"),
        (frame({"a": {"$array": [0, "<f3", [1]]}}, bytes(8)), "not known"),
        (frame({"a": {"$array": [0, "<f4", [3000000, 0]]}}), "without elements"),
        (frame({"a": {"$array": [0, ["x", "<f4"], [1]]}}, bytes(8)), "a text as dtype"),
        (frame({"a": {"$array": [0, "<f4", [[1]]]}}, bytes(8)), "whole numbers as shape"),
        (frame({"a": {"$array": [0, "<f4", [1.0]]}}, bytes(8)), "a shape is a list of sizes"),
        (frame({"a": {"$array": [0, "<f4", 2]}}, bytes(8)), "a shape is a list of at most 64"),
        (frame({"a": {"$array": [0, "<f4", [1] * 65]}}, bytes(8)), "a shape is a list of at most 64"),
        (frame({"a": {"$array": "no"}}, bytes(8)), r"is \[number, dtype, shape\]"),
        (b"\x01\0\0\0" + (2000).to_bytes(4, "little") + b"[" * 1000 + b"]" * 1000, "."),
    ],
)
def test_a_frame_that_is_none_is_refused_by_what_is_wrong(data, words):
    if words is None:
        unpacked(data)
        return
    with pytest.raises(ValueError, match=words):
        unpacked(data)


def test_arrays_are_found_by_their_numbers_wherever_they_are_named():
    message = {"late": {"$array": [1, "|u1", [3]]}, "inner": [{"early": {"$array": [0, "<f4", [2]]}}]}
    arrived = unpacked(frame(message, np.array([1.5, 2.5], "<f4").tobytes(), bytes([7, 8, 9])))
    assert arrived["late"].tolist() == [7, 8, 9]
    assert arrived["inner"][0]["early"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("size", [1.0, True], ids=str)
def test_a_size_that_is_no_integer_is_refused_also_after_an_equal_one_that_is(size):
    unpacked(frame({"a": {"$array": [0, "<f4", [1]]}}, bytes(4)))
    with pytest.raises(ValueError, match="a shape is a list of sizes"):
        unpacked(frame({"a": {"$array": [0, "<f4", [size]]}}, bytes(4)))


def test_arrays_left_out_of_the_json_can_be_put_back():
    buffers = Buffers()
    data = orjson.dumps({"screen": buffers.add(np.array([[1, 2], [3, 4]], dtype=np.uint8)), "reward": 1.5})
    assert json.loads(inlined(data, buffers.parts)) == {"screen": [[1, 2], [3, 4]], "reward": 1.5}
    assert json.loads(inlined(data[:-1] + b',"n":%d}' % 2**70, buffers.parts))["n"] == 2**70


@pytest.mark.parametrize("environment", [PixelEnvironment, ProcessPixels])
def test_pixels_arrive_as_arrays_where_both_ends_know_of_them(serving, environment):
    url = serving(create_app(environment))
    with PixelEnv(url) as env:
        first = env.reset(seed=3)
        result = env.step(PixelAction(shift=[0.25, 1.0]))
    rng = np.random.default_rng(3)
    for observation in (first.observation, result.observation):
        assert observation.screen.dtype == np.uint8
        np.testing.assert_array_equal(observation.screen, rng.integers(0, 256, (5, 4, 3), dtype=np.uint8))
    np.testing.assert_array_equal(result.observation.inside["angles"], [0.5, 2.0])


async def test_the_asynchronous_client_reads_them_too(serving):
    async with PixelEnv(serving(create_app(PixelEnvironment))) as env:
        result = await env.reset(seed=3)
    np.testing.assert_array_equal(
        result.observation.screen, np.random.default_rng(3).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    )


def test_a_client_that_reads_no_arrays_receives_nested_lists(serving):
    url = serving(create_app(PixelEnvironment))
    expected = np.random.default_rng(3).integers(0, 256, (5, 4, 3), dtype=np.uint8).tolist()
    assert httpx.post(f"{url}/reset", json={"seed": 3}).json()["observation"]["screen"] == expected
    for subprotocols in (None, [SUBPROTOCOL]):
        with connect(f"ws{url.removeprefix('http')}/ws", subprotocols=subprotocols) as socket:
            if subprotocols:
                socket.recv()
            socket.send('{"type":"reset","data":{"seed":3}}')
            assert json.loads(socket.recv())["data"]["observation"]["screen"] == expected


def test_a_binary_frame_that_is_none_is_answered_and_the_session_lives(serving):
    url = serving(create_app(PixelEnvironment))
    with connect(f"ws{url.removeprefix('http')}/ws", subprotocols=[ARRAYS_SUBPROTOCOL]) as socket:
        socket.recv()
        for wrong in (b"", b"\x01\0\0\0\xff\0\0\0{}", packed([1, 2]), packed({"type": "dance"})):
            socket.send(wrong)
            assert json.loads(socket.recv())["type"] == "error"
        socket.send(packed({"type": "reset", "id": "1", "data": {"seed": 3}}))
        answer = unpacked(socket.recv())
        assert (answer["type"], answer["id"]) == ("observation", "1")
        assert answer["data"]["observation"]["screen"].shape == (5, 4, 3)


def test_without_the_subprotocol_a_binary_frame_is_refused(serving):
    url = serving(create_app(PixelEnvironment))
    with connect(f"ws{url.removeprefix('http')}/ws", subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        socket.send(packed({"type": "state", "id": "1"}))
        assert "a message is a text frame" in json.loads(socket.recv())["data"]["message"]


def test_a_recorded_session_is_the_same_with_arrays_and_without(serving, tmp_path):
    hashes = []
    for name, client in (("arrays", PixelEnv), ("lists", None)):
        url = serving(create_app(PixelEnvironment, config=ServerConfig(record_dir=tmp_path / name)))
        if client:
            with client(url) as env:
                env.reset(seed=3)
        else:
            httpx.post(f"{url}/reset", json={"seed": 3})
        (file,) = (tmp_path / name).glob("*.jsonl")
        hashes.append(json.loads(file.read_text().splitlines()[1])["observation_sha256"])
    assert hashes[0] == hashes[1]


def test_what_is_no_array_is_a_clear_error():
    with pytest.raises(ValueError, match="no array of numbers"):
        PixelObservation(screen=["a", "b"])
    with pytest.raises(ValueError, match="no array of numbers"):
        PixelObservation(screen=[[1], [1, 2]])


def test_http_on_a_session_that_reads_arrays_has_them_as_lists(serving):
    url = serving(create_app(PixelEnvironment))
    with connect(url.replace("http", "ws") + "/ws", subprotocols=[ARRAYS_SUBPROTOCOL]) as socket:
        session_id = orjson.loads(socket.recv())["data"]["session_id"]
        body = httpx.post(f"{url}/reset", json={"seed": 1}, headers={"X-Session-Id": session_id}).json()

    assert np.shape(body["observation"]["screen"]) == (5, 4, 3)


def test_arrays_inside_a_mixed_value_travel_as_bytes_or_as_lists():
    seen = MixedObservation(value={"screen": np.arange(3, dtype=np.uint8), "parts": [np.zeros(2), 1.5, "text"]})

    assert has_array_fields(MixedObservation)
    lists = {"screen": [0, 1, 2], "parts": [[0.0, 0.0], 1.5, "text"]}
    assert orjson.loads(observation_data(seen))["observation"]["value"] == lists
    data, arrays = packed_observation_data(seen)
    assert [len(part) for part in arrays] == [3, 16]
    value = unpacked(pack(data, arrays))["observation"]["value"]
    assert value["screen"].dtype == np.uint8
    assert value["parts"][0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [3, 1.5, "text", [1, [2.5]], {"a": [1]}])
def test_a_mixed_value_without_arrays_is_plain_json(value):
    seen = MixedObservation(value=value)

    assert packed_observation_data(seen) == (observation_data(seen), [])
    assert orjson.loads(observation_data(seen))["observation"]["value"] == value
    assert MixedObservation.model_validate_json(seen.model_dump_json()).value == value


def test_a_value_is_written_while_another_thread_imports_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", ModuleType("numpy"))  # as an import leaves it until it has run

    observation = ValueObservation(value=[1.0, {"a": "b"}])

    assert json.loads(observation.model_dump_json())["value"] == [1.0, {"a": "b"}]


class ValueObservation(Observation):
    """Any value."""

    value: JsonOrArray


@pytest.mark.parametrize("values", [[True, False], [[1.5], [2.0]], [0, 255]])
def test_the_schema_of_an_array_takes_what_is_written(values):
    class Mask(Observation):
        mask: Array

    written = json.loads(Mask(mask=np.array(values)).model_dump_json())
    jsonschema.validate(written, Mask.model_json_schema())
