"""A form has an input for each property of a schema, with its limits."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from openenv.web.forms import fields_of, keywords_schema, takes_any_keyword


class Order(BaseModel):
    """An order."""

    side: Literal["buy", "sell"] = Field(description="Which way.")
    shares: int = Field(ge=1, lt=100, json_schema_extra={"unit": "shares"})
    limit: float | None = Field(default=None, gt=0)
    is_final: bool = False
    note: str = Field(default="", max_length=20, pattern="[a-z]*")
    code: str = "pass"
    parts: list[int] = [1, 2]
    metadata: dict[str, Any] = {}


class Engine:
    """No schema describes it."""


FIELDS = {field.name: field for field in fields_of(Order.model_json_schema())}


def test_each_property_but_the_metadata_is_an_input_of_its_kind():
    assert {name: field.kind for name, field in FIELDS.items()} == {
        "side": "choice", "shares": "integer", "limit": "number", "is_final": "choice", "note": "text", "code": "text",
        "parts": "json",
    }  # fmt: skip
    assert [field.is_required for field in FIELDS.values()] == [True, True, False, False, False, False, False]
    assert FIELDS["code"].is_long
    assert not FIELDS["note"].is_long


def test_limits_choices_and_defaults_are_those_of_the_schema():
    shares, side = FIELDS["shares"], FIELDS["side"]

    assert (shares.minimum, shares.maximum, shares.step) == (1, 99, "1")
    assert shares.hint == "in shares; at least 1; below 100"
    assert (side.choices, side.hint) == ((('"buy"', "buy"), ('"sell"', "sell")), "Which way")
    assert (FIELDS["is_final"].choices[0], FIELDS["is_final"].default) == (("true", "yes"), "false")
    assert (FIELDS["limit"].default, FIELDS["limit"].hint, FIELDS["limit"].minimum) == ("", "above 0", None)
    assert (FIELDS["note"].max_length, FIELDS["note"].pattern) == (20, "[a-z]*")
    assert (FIELDS["parts"].default, FIELDS["parts"].placeholder) == ("[1, 2]", "[]")


def test_the_keywords_of_a_function_are_inputs_too():
    def reset(self, seed: int | None = None, level: Literal["a", "b"] = "a", odd: Engine | None = None) -> None: ...

    def open_reset(self, seed: int | None = None, **kwargs: Any) -> None: ...

    fields = fields_of(keywords_schema(reset))

    assert {field.name: field.kind for field in fields} == {"seed": "integer", "level": "choice", "odd": "json"}
    assert not any(field.is_required for field in fields)
    assert [takes_any_keyword(function) for function in (reset, open_reset)] == [False, True]
    assert [field.name for field in fields_of(keywords_schema(open_reset))] == ["seed"]
