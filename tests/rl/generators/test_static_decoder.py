"""Replies that a GPU writes in places that do not move are those of a growing cache."""

import random
from typing import Any

import pytest
import torch

from openenv.formats.json_text import json_text
from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators import static_decoder
from openenv.rl.generators.drawing import drawn
from openenv.rl.generators.embedded import Generator
from openenv.rl.generators.replies import CapturedReplies
from openenv.rl.generators.static_decoder import can_decode
from openenv.rl.models.chat import Chat
from openenv.text.constraints import ReplyConstraint
from tests.rl.echo_game import WORDS
from tests.rl.models.small_models import ARCHITECTURES, DEVICES, STATEFUL, small_model

CHOICES = ReplyConstraint(choices=("red", "red and green", "a long way round, and back again: blue", "0 1 2 3 4 5 6"))
SCHEMA = ReplyConstraint(
    schema=json_text({"type": "object", "properties": {"n": {"enum": [3, 12345, 1234567]}}, "required": ["n"]})
)
CAPTURED = ["Qwen3", "Llama", "GPT-2", "Cohere", "Granite"]
"""Architectures with attention alone, to all that was read, that PyTorch computes."""


def pair(name: str, device: str, **settings: Any) -> tuple[Generator, Generator]:
    """A generator with a growing cache, and one with places that do not move, of one model."""
    model, tokenizer = small_model(name, device)
    model.set_attn_implementation("sdpa")
    growing, captured = (Generator(model, Chat(tokenizer), **settings) for _ in range(2))
    growing._captured = None
    captured._captured = CapturedReplies(model, captured.chat, captured.precision)
    return growing, captured


def written(
    generator: Generator, rows: int, constraint: ReplyConstraint | None = None
) -> tuple[list[Segment], list[float]]:
    """Replies, and the random number that each row would draw next."""
    conversations: list[list[ChatMessage]] = []
    for row in range(rows):
        text = " ".join(random.Random(row // 4).choices(WORDS, k=1 + row % 3))
        conversations.append([{"role": "user", "content": "what is shown comes from the table; " + text}])
    streams = [random.Random(row) for row in range(rows)]
    segments = generator.answer(conversations, streams, generator.chat, [constraint] * rows if constraint else ())
    return segments, [stream.random() for stream in streams]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("constraint", [None, CHOICES, SCHEMA], ids=["free", "choices", "schema"])
@pytest.mark.parametrize("name", CAPTURED)
def test_replies_and_their_log_probabilities_are_equal(
    name: str, constraint: ReplyConstraint | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, captured = pair(name, device, max_new_tokens=40)
    monkeypatch.setattr(static_decoder, "STAGE", 16)  # three stages

    expected, numbers = written(growing, 24, constraint)
    found, numbers_after = written(captured, 24, constraint)

    assert numbers_after == numbers
    assert [one.token_ids.tolist() for one in found] == [one.token_ids.tolist() for one in expected]
    assert [one.masks for one in found] == [one.masks for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert max(int(one.sampled.sum()) for one in found) > 3


def test_storage_for_a_whole_reply_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, captured = pair("Llama", "cpu", max_new_tokens=40)
    monkeypatch.setattr(static_decoder, "STAGE", 8)

    longest = max(int(one.sampled.sum()) for one in written(captured, 24)[0])

    assert captured._captured is not None
    widths = {width for _, width in captured._captured._decoders._known}
    assert len(widths) == -(-(longest - 1) // 8) > 2  # growth would have forgotten the first ones


@pytest.mark.parametrize("device", DEVICES)
def test_the_likeliest_tokens_are_equal(device: str) -> None:
    growing, captured = pair("Llama", device, max_new_tokens=30, temperature=0.0)

    assert [one.token_ids.tolist() for one in written(captured, 20)[0]] == [
        one.token_ids.tolist() for one in written(growing, 20)[0]
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_newer_weights_are_used_by_what_was_captured(device: str) -> None:
    growing, captured = pair("Llama", device, max_new_tokens=30)
    before = written(captured, 12)[0]

    with torch.no_grad():
        for weights in captured.model.parameters():
            weights.mul_(1.1)

    after = written(captured, 12)[0]
    assert [one.token_ids.tolist() for one in after] == [one.token_ids.tolist() for one in written(growing, 12)[0]]
    assert [one.token_ids.tolist() for one in after] != [one.token_ids.tolist() for one in before]


@pytest.mark.parametrize("device", DEVICES)
def test_more_rows_and_longer_prompts_than_before_get_larger_storage(device: str) -> None:
    growing, captured = pair("Llama", device, max_new_tokens=12)

    for rows in (3, 40, 7, 90):
        assert [one.token_ids.tolist() for one in written(captured, rows)[0]] == [
            one.token_ids.tolist() for one in written(growing, rows)[0]
        ]


@pytest.mark.parametrize("name", [*ARCHITECTURES, *STATEFUL])
def test_what_is_captured_is_attention_to_all_that_was_read(name: str) -> None:
    model, _ = small_model(name)
    model.config._attn_implementation = "sdpa"

    assert can_decode(model) == (name in CAPTURED)


def test_a_number_at_the_border_of_a_block_draws_no_token_of_probability_0() -> None:
    torch.manual_seed(0)
    blocks = torch.rand(200, 40, 64, dtype=torch.float64)
    blocks[:, :, :8] = 0  # where a number below its block would be found
    probabilities = (blocks / blocks.sum(dim=(1, 2), keepdim=True)).flatten(1)
    borders = probabilities.view(200, 40, 64).sum(dim=-1).cumsum(dim=-1)[:, :-1]
    rows = torch.arange(200).repeat_interleave(39)

    tokens = drawn(probabilities, rows, borders.flatten())

    assert (probabilities[rows, tokens] > 0).all()


@pytest.mark.parametrize("size", [2, 64, 65, 300, 5000])
def test_a_token_is_the_first_whose_cumulative_probability_exceeds_the_number(size: int) -> None:
    torch.manual_seed(0)
    probabilities = torch.rand(5, size, dtype=torch.float64)
    probabilities[:, ::2] = 0
    probabilities /= probabilities.sum(dim=-1, keepdim=True)
    rows, numbers = torch.randint(0, 5, (400,)), torch.rand(400, dtype=torch.float64)
    numbers[:2] = torch.tensor([0.0, 1 - 2**-53])

    tokens = drawn(probabilities, rows, numbers)

    assert (probabilities[rows, tokens] > 0).all()
    expected = torch.searchsorted(probabilities.cumsum(dim=-1)[rows], numbers[:, None], right=True)[:, 0]
    assert torch.equal(tokens[2:], expected[2:])
