"""The fields of an action are described in words: types, limits, items of lists, fields of objects."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from openenv.text.fields import fields_text

Share = Annotated[int, Field(ge=0)]


class Place(BaseModel):
    row: int = Field(ge=0, le=7)
    side: int = 0


class Attack(BaseModel):
    kind: Literal["attack"]
    at: Place


class Wait(BaseModel):
    kind: Literal["wait"]


class Tree(BaseModel):
    branches: list["Tree"] = []


@pytest.mark.parametrize(
    ("declared", "described"),
    [
        (bool, "boolean"),
        (Annotated[int, Field(gt=0, le=9, multiple_of=3)], "integer, at most 9, above 0, a multiple of 3"),
        (Annotated[str, Field(pattern="[a-h][1-8]")], "string, matching [a-h][1-8]"),
        (Literal["low", "high"], "one of low, high"),
        (int | None, "integer, or null"),
        (int | str, "integer or string"),
        (list[int], "list: integer"),
        (list, "list"),
        (Annotated[list[Share], Field(min_length=3, max_length=3)], "list of 3: integer, at least 0"),
        (Annotated[list[str], Field(min_length=1)], "list of at least 1: string"),
        (Annotated[list[str], Field(max_length=2)], "list of 0 to 2: string"),
        (tuple[int, float], "list of 2: integer; number"),
        (Place, "object with row (integer, at least 0, at most 7), side (integer, optional)"),
        (dict[str, float], "object of names to number"),
        (dict, "object"),
        (object, "any value"),
    ],
)
def test_a_field_is_described_by_its_type(declared, described):
    schema = create_model("Act", field=(declared, ...)).model_json_schema()

    assert fields_text(schema) == f"- field ({described})"


def test_alternatives_have_their_own_fields():
    schema = create_model("Act", do=(Attack | Wait, Field(description="what you do"))).model_json_schema()

    assert fields_text(schema) == (
        "- do (object with kind (attack), at (object with row (integer, at least 0, at most 7), side (integer, "
        "optional)) or object with kind (wait)): what you do"
    )


def test_a_type_that_contains_itself_is_described_to_a_depth():
    schema = create_model("Act", tree=(Tree, ...)).model_json_schema()

    assert fields_text(schema) == (
        "- tree (object with branches (list: object with branches (list, optional), optional))"
    )
