"""What random play sends where the schema has more than a type and its bounds."""

import re
from fractions import Fraction
from ipaddress import IPv4Interface, IPv6Network
from random import Random
from typing import Annotated
from uuid import UUID

import pytest
from pydantic import (
    UUID4,
    AwareDatetime,
    BaseModel,
    Field,
    FutureDate,
    FutureDatetime,
    IPvAnyAddress,
    IPvAnyNetwork,
    Json,
    PastDate,
    PastDatetime,
    create_model,
)

from openenv.auto.message_classes import message_class
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import SchemaSampler


def samples(cls, count=50):
    sampler = SchemaSampler(message_schema(cls), Random(0), optional=True)
    return [sampler.sample() for _ in range(count)]


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-h][1-8]$",
        r"^([a-h][1-8]){2}[qrbn]?$",
        r"^(?:up|down)[ab] \w+?\s\S.[^a-z]$",
        r"\d{3}-\d{4}",
        r"^[^\W\d]+@[\w.-]+\.(com|org)$",
    ],
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_text_with_a_pattern_matches_it(pattern):
    class Move(BaseModel):
        square: Annotated[str, Field(pattern=pattern)]
        more: list[Annotated[str, Field(pattern=pattern, max_length=20)]] = []

    drawn = samples(Move)

    assert all(re.search(pattern, text) for move in drawn for text in (move["square"], *move.get("more", ())))
    assert len({move["square"] for move in drawn}) > 5


@pytest.mark.parametrize(("pattern", "length"), [("^[A-Z]+$", 8), ("^[A-Z]*$", 6), (r"(a)?b\1|ab", 2)])
def test_a_text_with_a_pattern_and_a_length_has_both(pattern, length):
    schema = {"type": "string", "pattern": pattern, "minLength": length}
    texts = [SchemaSampler(schema, Random(seed)).sample() for seed in range(20)]

    assert all(re.search(pattern, text) and len(text) >= length for text in texts)


def test_a_text_with_a_pattern_has_the_lengths_allowed():
    class Move(BaseModel):
        word: Annotated[str, Field(pattern="^[ab]+$", min_length=3, max_length=4)]

    assert {len(move["word"]) for move in samples(Move)} == {3, 4}


@pytest.mark.parametrize("pattern", ["(?=a)b", "[", r"\p{L}", "((a{1000}){1000}){1000}", "(?:(?:){999999}){999999}"])
def test_a_text_whose_pattern_cannot_be_written_is_made_of_letters(pattern):
    schema = {"type": "string", "pattern": pattern}

    assert re.fullmatch("[a-z]{1,8}", SchemaSampler(schema, Random(0)).sample())


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_text_that_holds_json_holds_what_its_schema_allows():
    class Plan(BaseModel):
        moves: Json[list[int]]

    drawn = [Plan.model_validate(fields) for fields in samples(Plan)]

    assert any(plan.moves for plan in drawn)


@pytest.mark.parametrize(
    "kind",
    [UUID, UUID4, IPvAnyAddress, IPvAnyNetwork, IPv4Interface, IPv6Network, Fraction],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_text_of_a_format_is_read_as_its_type(kind):
    move = create_model("Move", part=(kind, ...))

    assert len({move.model_validate(fields).part for fields in samples(move)}) > 5


@pytest.mark.parametrize("kind", [PastDate, FutureDate, PastDatetime, FutureDatetime, AwareDatetime, PastDate | None])
@pytest.mark.parametrize("of", [lambda cls: cls, lambda cls: message_class(message_schema(cls), BaseModel)])
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_date_is_as_far_away_as_its_type_asks_also_in_a_class_that_a_client_made(kind, of):
    move = create_model("Move", day=(kind, ...))

    drawn = [move.model_validate(fields).day for fields in samples(of(move))]

    assert len(set(drawn)) > 5
