"""Frames become messages however their bytes arrive, and one that is too large costs nothing but itself."""

import pytest

from openenv.core.net.frames import (
    PING,
    TEXT,
    TOO_BIG,
    FrameError,
    FrameReader,
    WebSocketMessage,
    client_frame,
    server_frame,
)

LIMIT = 1000


def parts(*payloads):
    """The frames of one text message in parts, with a ping between them."""
    frames = [server_frame(TEXT if i == 0 else 0, payload) for i, payload in enumerate(payloads)]
    frames[:-1] = [bytes([frame[0] & 0x7F]) + frame[1:] for frame in frames[:-1]]
    return server_frame(PING, b"p").join(frames)


def read(reader, data, size):
    return [message for at in range(0, len(data), size) for message in reader.feed(data[at : at + size])]


@pytest.mark.parametrize("size", [1, 2, 7, 400, 100_000])
def test_a_servers_message_above_the_limit_is_passed_over_but_for_its_head(size):
    sent = server_frame(TEXT, b"a") + server_frame(TEXT, b"h" * 300 + b"t" * 70_000) + server_frame(TEXT, b"b" * LIMIT)

    assert read(FrameReader(LIMIT, from_client=False), sent, size) == [
        WebSocketMessage(TEXT, b"a"), WebSocketMessage(TEXT, b"h" * 256, 70_300), WebSocketMessage(TEXT, b"b" * LIMIT),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 100_000])
@pytest.mark.parametrize("last", [b"", b"z" * 10, b"z" * 2000])
def test_a_message_in_parts_counts_as_one(size, last):
    sent = parts(b"x" * 600, b"y" * 600, last) + parts(b"x" * 600, b"y" * 400)
    pings = [WebSocketMessage(PING, b"p")] * 2

    read_back = read(FrameReader(LIMIT, from_client=False), sent, size)

    assert read_back == [
        *pings,
        WebSocketMessage(TEXT, b"x" * 256, 1200 + len(last)),
        pings[0],
        WebSocketMessage(TEXT, b"x" * 600 + b"y" * 400),
    ]


def test_a_clients_message_above_the_limit_ends_its_connection():
    with pytest.raises(FrameError, match="limit of 1000 bytes") as raised:
        list(FrameReader(LIMIT, from_client=True).feed(client_frame(TEXT, b"x" * 1001)))
    assert raised.value.code == TOO_BIG


@pytest.mark.parametrize("size", [0, 4, 119, 125, 126, 127, 1000, 65_535, 65_536])
def test_a_whole_text_frame_is_read_as_feed_reads_it(size):
    payload = b"x" * size

    for frame, from_client in ((server_frame(TEXT, payload), False), (client_frame(TEXT, payload), True)):
        text = FrameReader(1 << 20, from_client=from_client).whole_text(frame)
        assert text in (None, payload)
        assert list(FrameReader(1 << 20, from_client=from_client).feed(frame)) == [WebSocketMessage(TEXT, payload)]


@pytest.mark.parametrize(
    "data",
    [
        server_frame(TEXT, b"x" * 200)[:-1],
        server_frame(TEXT, b"x" * 200) + server_frame(TEXT, b"y"),
        server_frame(PING, b"x" * 20),
        client_frame(TEXT, b"x" * 20),
        server_frame(TEXT, b"x" * 1001),
        bytes([0x81, 127]) + (119).to_bytes(8, "big") + b"x" * 119,
        bytes([0x01, 20]) + b"x" * 20,
    ],
    ids=["cut short", "two", "a ping", "masked", "above the limit", "a length of 8 bytes", "a first part"],
)
def test_what_is_not_one_whole_text_frame_is_left_to_feed(data):
    assert FrameReader(LIMIT, from_client=False).whole_text(data) is None


def test_a_text_that_follows_half_a_frame_is_left_to_feed():
    reader = FrameReader(LIMIT, from_client=False)
    assert list(reader.feed(bytes([0x01, 20]) + b"x" * 20)) == []

    assert reader.whole_text(bytes([0x80, 20]) + b"y" * 20) is None
    assert reader.whole_text(server_frame(TEXT, b"a whole text")) is None
