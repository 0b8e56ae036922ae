"""Boxes: what an array field with a declared shape, dtype and bounds holds, and what its schema has of it."""

from random import Random
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BaseModel, Field, ValidationError

from openenv import Action, Observation
from openenv.auto.message_classes import message_class
from openenv.core.wire.arrays import Array, is_array_field
from openenv.core.wire.boxes import Box
from openenv.schema.samples import SchemaSampler
from openenv.text.derived import DerivedText
from openenv.text.fields import fields_text


class Arm(BaseModel):
    angles: Annotated[Array, Box(-3, 3, (2,))]


class Act(Action):
    free: Array
    force: Annotated[Array, Box(-1, 1, (2,))] = Field(description="Force in x and y")
    each: Annotated[Array, Box([0, -5], [1, 5])]
    grid: Annotated[Array, Box([[0, 1]], 9, dtype="float32")]
    cells: Annotated[Array, Box(0, 3, (2, 2), "int64")]
    switches: Annotated[Array, Box(shape=(3,), dtype=bool)]
    pixels: Annotated[Array, Box(shape=(2, 2, 3), dtype=np.uint8)]
    wide: Annotated[Array, Box(shape=(2,), dtype="int64")]
    any_shape: Annotated[Array, Box(-1, 1)]
    arm: Arm
    optional: Annotated[Array, Box(-1, 1, (2,))] | None = None


VALID: dict[str, Any] = SchemaSampler(Act.model_json_schema(), Random(3), optional=True).sample()


def test_random_samples_are_arrays_of_the_declared_dtype_and_shape() -> None:
    for seed in range(50):
        act = Act(**SchemaSampler(Act.model_json_schema(), Random(seed), optional=True).sample())

        assert act.force.shape == (2,)
        assert act.cells.dtype == np.int64
        assert act.pixels.dtype == np.uint8
        assert act.switches.dtype == np.bool_
        assert act.grid.dtype == np.float32
        assert act.arm.angles.shape == (2,)
        assert (act.each >= [0, -5]).all()
        assert (act.each <= [1, 5]).all()
        assert act.grid[0, 1] >= 1


def test_a_sample_without_a_shape_is_one_number_which_every_array_can_be_combined_with() -> None:
    act = Act(**VALID)

    assert (act.free + np.zeros((4, 3))).shape == (4, 3)
    assert act.any_shape.shape == (1,)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("force", [0.1], r"has the shape \(1,\): \(2,\) is declared"),
        ("force", [0.1, 2], "has numbers from 0.1 to 2: -1 to 1 is declared"),
        ("force", [0.1, float("nan")], "holds float64 numbers that are no float64"),
        ("force", ["a", "b"], "is no array of numbers"),
        ("each", [0, 6], "a bound of its own is declared for each"),
        ("cells", [[0, 1.5], [0, 0]], "holds float64 numbers that are no int64"),
        ("pixels", np.full((2, 2, 3), 256), "holds int64 numbers that are no uint8"),
        ("switches", [0.5, 0, 1], "holds float64 numbers that are no bool"),
        ("any_shape", [[[3]]], "has numbers from 3 to 3"),
    ],
)
@pytest.mark.finding("arrays work from the first line, or their author learns which type to write")
def test_an_array_that_is_not_in_the_box_is_refused_with_its_field_and_the_rule(
    field: str, value: Any, problem: str
) -> None:
    with pytest.raises(ValidationError, match=rf"(?s){field}.*{problem}"):
        Act(**{**VALID, field: value})


def test_arrays_and_nested_lists_are_both_accepted() -> None:
    given = Act(**{**VALID, "force": np.float32([0.5, -0.5]), "cells": np.float64([[0, 1], [2, 3]])})

    assert given.force.dtype == np.float64
    assert given.cells.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((1, -1), "no number is between"),
        (([0, 1], 1, (3,)), "low has the shape"),
        ((0, 1, (2,), "str"), "give integers, floats or bool"),
        ((0, 1, (-2,)), "give lengths"),
        ((float("nan"), 1), "no number is between"),
    ],
)
def test_a_box_without_arrays_is_refused(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=f"Box: .*{problem}"):
        Box(*arguments)


def test_very_many_bounds_become_the_widest_in_the_schema_and_are_all_checked() -> None:
    box = Box(np.arange(2000), 3000)

    assert box.json_schema()["items"] == {"type": "number", "minimum": 0, "maximum": 3000}
    with pytest.raises(ValueError, match="a bound of its own"):
        box.checked(np.zeros(2000))


def test_the_schema_is_plain_json_schema_with_lengths_and_bounds() -> None:
    schema = Act.model_json_schema()["properties"]

    assert schema["force"] == {
        "type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "minItems": 2, "maxItems": 2,
        "dtype": "float64", "shape": [2], "low": -1.0, "high": 1.0, "title": "Force",
        "description": "Force in x and y",
    }  # fmt: skip
    assert schema["pixels"]["items"]["items"]["items"] == {"type": "integer", "minimum": 0, "maximum": 255}
    assert schema["wide"]["low"] is schema["wide"]["high"] is None
    assert schema["each"]["prefixItems"] == [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "number", "minimum": -5, "maximum": 5},
    ]


def test_a_class_made_from_the_schema_has_the_same_boxes() -> None:
    schema = Act.model_json_schema()
    made = message_class(schema, Action)

    rebuilt = made.model_json_schema()["properties"]
    assert {name: rebuilt[name] for name in VALID} == {name: schema["properties"][name] for name in VALID} | {
        "arm": rebuilt["arm"]
    }
    assert is_array_field(made.model_fields["force"])
    assert made(**{**VALID, "force": np.array([0.5, 0.5])}).force.shape == (2,)
    with pytest.raises(ValidationError, match="has the shape"):
        made(**{**VALID, "force": [1, 0, 0]})


def test_a_model_is_shown_lengths_and_bounds() -> None:
    shown = fields_text(Act.model_json_schema())

    assert "- force (list of 2: number, at least -1, at most 1): Force in x and y\n" in shown
    assert "- each (list of 2: number, at least 0, at most 1; number, at least -5, at most 5)\n" in shown
    assert "- arm (object with angles (list of 2: number, at least -3, at most 3))\n" in shown


def test_of_a_large_array_a_model_is_shown_the_lengths_and_the_range() -> None:
    class Seen(Observation):
        screen: Array
        small: Array

    text = DerivedText(Act, Seen)

    seen = Seen(screen=np.arange(1200).reshape(20, 20, 3) % 251, small=np.ones((2, 2, 2)))
    assert text.describe(seen) == "screen: 20 x 20 x 3 numbers from 0 to 250\nsmall:\n1 1 1 1\n1 1 1 1"
