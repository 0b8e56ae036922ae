"""Frames as the published server sends them, byte for byte where it matters."""

import json
import time

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from openenv.core.env_server.runner.observation_json import observation_data
from openenv.core.env_server.types import WSErrorCode
from openenv.core.errors import (
    InvalidJSON,
    InvalidMessage,
    MessageTooBig,
    RequestRefused,
    UnknownMessageType,
    error_from_wire,
)
from openenv.core.wire.arrays import BinaryFrame, pack
from openenv.core.wire.server_codec import checked, error_frame, read_request, refuse_too_big, unknown_keywords
from tests.core.counting_env import CountObservation


def data_of(**fields):
    return json.loads(observation_data(CountObservation(**fields)))


def test_reward_and_done_stand_beside_the_observation():
    data = data_of(total=3, reward=1.0, done=True)
    assert (data["reward"], data["done"]) == (1.0, True)
    assert data["observation"] == {"metadata": {}, "total": 3, "draw": 0.0, "payload": None}


def test_metadata_is_repeated_beside_the_observation_only_when_there_is_some():
    assert "metadata" not in data_of(total=1)
    assert data_of(total=1, metadata={"a": 1})["metadata"] == {"a": 1}


def test_nan_and_infinity_become_null():
    data = data_of(total=1, reward=float("nan"), draw=float("inf"), metadata={"x": float("nan")})
    assert (data["reward"], data["observation"]["draw"], data["metadata"]) == (None, None, {"x": None})


@pytest.mark.parametrize(
    ("frame", "error", "words"),
    [
        ("not json", InvalidJSON, "Invalid JSON: Expecting value: line 1 column 1"),
        ("[1, 2]", InvalidJSON, "a message is an object, this is list"),
        (b"\xff\xfe", InvalidJSON, "Invalid JSON"),
        ("[" * 100_000, InvalidJSON, "Invalid JSON"),
        ('{"type": "nope"}', UnknownMessageType, "Unknown message type: nope"),
        ("{}", UnknownMessageType, "Unknown message type: "),
        ('{"type": ["step"]}', UnknownMessageType, "Unknown message type"),
        ('{"type": "step"}', InvalidMessage, "data: Field required"),
        ('{"type": "step", "data": 3}', InvalidMessage, "data: Input should be a valid dictionary"),
        ('{"type": "step", "data": {}, "id": 7}', InvalidMessage, "id: Extra inputs are not permitted"),
        ('{"type": "state", "data": {}}', InvalidMessage, "data: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_frame_is_refused_with_its_reason(frame, error, words):
    with pytest.raises(error) as caught:
        read_request(frame)
    assert words in str(caught.value)


ODD = ["nope", "", [], {}, None, 3, True, "x" * 300]


@pytest.mark.parametrize("kind", ["step", "reset", "mcp", "state", *ODD])
def test_a_frame_with_just_type_data_and_id_is_read_as_any_other(kind):
    """`traceparent: null` has no effect, but the frame takes the general path of the parser."""
    for data in [{}, {"amount": 1}, {"method": "tools/list"}, *ODD]:
        for request_id in [None, *ODD]:
            message = {"type": kind, "data": data, "id": request_id}
            assert _read(message) == _read({**message, "traceparent": None}), message


def _read(message):
    try:
        return read_request(json.dumps(message).encode(), extended=True)._replace(body=None)
    except RequestRefused as error:
        details = json.loads(error_frame(error))["data"]
        return type(error), details["message"], [(row["type"], row["loc"]) for row in details.get("errors", [])]


@pytest.mark.parametrize(
    "frame",
    [
        '{"type": "\\ud800"}',
        '{"type": "step", "data": {}, "\\ud800": 1}',
        '{"type": "step", "data": ' + "9" * 400 + "}",
        '{"type": "step", "data": {}, "timeout_s": ' + "9" * 400 + "}",
        '{"type": "reset", "data": {"seed": ' + "9" * 5000 + "}}",
    ],
)
@pytest.mark.parametrize("extended", [False, True])
def test_odd_frames_are_refused_in_words_that_can_be_sent(frame, extended):
    with pytest.raises(RequestRefused) as caught:
        read_request(frame, extended=extended)
    assert json.loads(error_frame(caught.value))["type"] == "error"


def test_an_integer_is_exact_whatever_its_size_beside_floats_of_many_digits():
    fields = [2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 2**70 + 1, 0.0012345678901234567, 1e300, "1" * 20]
    request = read_request(json.dumps({"type": "step", "data": {"fields": fields}}))

    assert request.data["fields"] == fields
    assert [type(field) for field in request.data["fields"]] == [type(field) for field in fields]


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**19 - 1 + 2**64])
def test_an_integer_is_exact_wherever_it_stands(before, number):
    text = json.dumps({"type": "step", "data": {"a" * before: number}}, separators=(",", ":"))
    assert read_request(text).data["a" * before] == number


def test_a_binary_frame_of_json_is_read_like_text():
    assert read_request(b'{"type": "reset"}').verb == "reset"


def test_every_error_of_the_wire_has_a_code_that_is_listed_and_a_class_at_the_client():
    codes = {cls.code for cls in RequestRefused.__subclasses__()} | {"FORBIDDEN_ORIGIN", "FORBIDDEN_HOST"}
    assert codes == set(WSErrorCode)
    for cls in RequestRefused.__subclasses__():
        assert type(error_from_wire({"message": "why", "code": cls.code})) is cls


class Numbers(BaseModel):
    """A list, and no other field."""

    model_config = ConfigDict(extra="forbid")

    numbers: list[int] = []


MANY = 200_000
MANY_WRONG = {
    "unknown fields": ({f"k{n}": 1 for n in range(MANY)}, "k0"),
    "items of a list": ({"numbers": ["x"] * MANY}, "numbers"),
}


@pytest.mark.parametrize("name", MANY_WRONG)
@pytest.mark.finding("very many wrong fields cost little")
def test_a_message_of_very_many_wrong_fields_is_refused_without_a_row_for_each(name):
    data, first = MANY_WRONG[name]
    with pytest.raises(ValidationError) as all_wrong:
        Numbers.model_validate(data)
    started = time.process_time()
    num_rows = len(all_wrong.value.errors())
    all_rows_s = time.process_time() - started

    started = time.process_time()
    with pytest.raises(
        InvalidMessage, match=f"{num_rows} fields are wrong, of which these are the first 50"
    ) as refused:
        checked(Numbers, data)
    assert time.process_time() - started < 0.6 * all_rows_s
    assert refused.value.details["errors"][0]["loc"][0] == first


@pytest.mark.finding("very many wrong fields cost little")
def test_wrong_keywords_and_keys_of_a_frame_are_named_without_a_row_for_each():
    keys = {f"k{n}": 1 for n in range(MANY)}
    refused = unknown_keywords(set(keys), "no keywords", "reset")

    assert [row["loc"] for row in refused.details["errors"][:2]] == [["k0"], ["k1"]]
    assert f"{MANY} fields are wrong, of which these are the first 50" in str(refused)
    with pytest.raises(InvalidMessage, match=f"{MANY} fields are wrong"):
        read_request(json.dumps({"type": "step", "data": {}, **keys}))


MANY_VALUES = {
    "lists": ("[" + "[]," * 600_000 + "0]", "600001 lists and objects"),
    "objects": ("[" + "{}," * 600_000 + "0]", "600001 lists and objects"),
    "numbers": ("[" + "0," * 6_000_000 + "0]", "6000000 values"),
    "keys": ("{" + ",".join(f'"{n}":0' for n in range(2_600_000)) + "}", "5199999 values"),
}


@pytest.mark.parametrize("name", MANY_VALUES)
@pytest.mark.parametrize("form", [str, str.encode, lambda text: pack(text.encode(), [b"[" * 600_000])])
def test_a_message_that_would_take_long_to_parse_is_refused_by_its_marks(name, form):
    text, reason = MANY_VALUES[name]

    with pytest.raises(MessageTooBig, match=f"a message with {reason}"):
        refuse_too_big(form(text), 100 << 20)


def test_an_array_of_a_binary_frame_has_no_values_to_parse():
    refuse_too_big(pack(b"{}", [b"[{,:" * 2_000_000]), 100 << 20)


def test_a_long_text_and_many_numbers_pass():
    refuse_too_big(json.dumps({"code": "print(1)\n" * 3_000_000}), 100 << 20)
    refuse_too_big(json.dumps({"table": '["a\\"b", 1],' * 600_000}), 100 << 20)
    refuse_too_big(json.dumps({"pixels": [0.5] * 4_000_000}), 100 << 20)


def test_a_large_binary_frame_that_is_cut_short_is_refused_as_a_small_one():
    frame = BinaryFrame(b"\x01\0\0\0\xff\xff\xff\xff" + b"x" * 600_000)

    with pytest.raises(InvalidJSON, match="ends after 600000"):
        refuse_too_big(frame, 100 << 20)
