"""The derived text interface describes the declared fields, and reads replies by the action's schema."""

from random import Random
from typing import Literal, Self

import pytest
from pydantic import Field, model_validator

from openenv.core import Action, Observation
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool, ToolError, ToolErrorType
from openenv.text.derived import DerivedText


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"data": 3, "content": [{"type": "text", "text": "3"}]}, "3"),
        ({"data": None, "content": [{"text": "a lamp"}, {"type": "image"}, {"text": "costs 3"}]}, "a lamp\ncosts 3"),
        ({"data": None, "content": []}, "none"),
        ("plain", "plain"),
    ],
)
def test_a_tool_without_a_declared_type_of_result_shows_its_texts(result: object, value: str) -> None:
    text = DerivedText.for_environment(CallToolAction, Observation, "", [])

    assert text.describe(CallToolObservation(tool_name="prices", result=result)) == value


class Seen(Observation):
    """What a player sees."""

    position: float = Field(default=0.0, description="Where the cart is", json_schema_extra={"unit": "m"})
    moves: int | None = None


class Note(Observation):
    text: str


class Move(Action):
    direction: Literal["left", "right"]


class Guess(Action):
    number: int = Field(ge=-1, le=9)
    comment: str = ""


class Say(Action):
    message: str = Field(max_length=20, description="What you say")


class Bid(Action):
    price: float = Field(gt=0)


class Place(Action):
    row: int = Field(ge=0, le=2, description="From the top")
    column: int = Field(ge=0, le=2)
    mark: Literal["x", "o"] = "x"


class Pass(Action):
    """Nothing to choose."""


class Play(Action):
    card: int


class Element(Action):
    value: list[float] | int | str


class Table(Observation):
    hand: str = ""
    legal_actions: list[int] = Field(default_factory=list)


TOOLS = [
    Tool(
        name="add",
        description="Adds two numbers.",
        input_schema={
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    ),
    Tool(name="stop", description="Stops.", input_schema={"type": "object", "properties": {}}),
]


def text_of(action_class, observation_class=Note, tools=()):
    return DerivedText(action_class, observation_class, "A game.", tools)


@pytest.mark.parametrize(
    ("action_class", "reply", "fields"),
    [
        (Move, "left", {"direction": "left"}),
        (Move, "I go Right.", {"direction": "right"}),
        (Guess, "7", {"number": 7}),
        (Guess, "My guess is -1", {"number": -1}),
        (Say, "  hello there ", {"message": "hello there"}),
        (Bid, "I bid 2.5 dollars", {"price": 2.5}),
        (Place, 'Here: {"row": 1, "column": 2}', {"row": 1, "column": 2}),
        (Place, '```json\n{"row": 0, "column": 0, "mark": "o"}\n```', {"row": 0, "column": 0, "mark": "o"}),
        (Pass, "next", {}),
    ],
)
def test_a_reply_is_read_by_the_schema_of_the_action(action_class, reply, fields):
    assert text_of(action_class).parse(reply, Note(text="?")) == action_class(**fields)


@pytest.mark.parametrize(
    ("action_class", "reply", "problem"),
    [
        (Move, "left or right", "names none of the actions, or several. Reply with one of these: left, right."),
        (Guess, "12", "Reply with a whole number from -1 to 9"),
        (Say, "x" * 30, "message: String should have at most 20 characters"),
        (Bid, "none", "names no number, or several"),
        (Bid, "1 or 2", "names no number, or several"),
        (Bid, "-1", "price: Input should be greater than 0"),
        (Place, "row 1", "contains no JSON object. Reply with a JSON object of these fields:\n- row (integer"),
        (Place, '{"row": 5, "column": 0}', "row: Input should be less than or equal to 2"),
        (Place, '{"row": 1, "column": 0, "size": 3}', "size: Extra inputs are not permitted"),
    ],
)
def test_a_reply_that_names_no_action_is_refused_with_the_remedy(action_class, reply, problem):
    text, seen = text_of(action_class), Note(text="?")

    assert text.parse(reply, seen) is None
    assert problem in text.problem(reply, seen)


@pytest.mark.parametrize("action_class", [Move, Guess, Say, Bid, Place, Pass])
def test_random_replies_name_actions_and_wordings_name_them_again(action_class):
    text, seen, rng = text_of(action_class), Note(text="some words"), Random(3)
    for _ in range(50):
        reply, action = text.random_reply(seen, rng)
        assert text.parse(reply, seen) == action
        assert text.parse(text.wording(action, seen), seen) == action


def replies_of(action_class, number=200):
    rng, text = Random(0), text_of(action_class)
    return [text.random_reply(Note(text="?"), rng) for _ in range(number)]


def test_random_play_sets_optional_fields_of_an_object_in_half_of_the_replies():
    marked = [action.mark for reply, action in replies_of(Place) if "mark" in reply]

    assert 70 < len(marked) < 130
    assert set(marked) == {"x", "o"}


def test_random_play_leaves_optional_fields_out_that_would_break_a_rule_of_the_class():
    class Order(Action):
        side: Literal["buy", "sell"]
        size: int = Field(ge=1, le=3)
        limit: int | None = Field(default=None, ge=1)

        @model_validator(mode="after")
        def _has_a_limit_when_it_sells(self) -> Self:
            if self.side == "buy" and self.limit is not None:
                raise ValueError("only sales have a limit")
            return self

    actions = [action for _, action in replies_of(Order)]

    assert {action.side for action in actions if action.limit is not None} == {"sell"}
    assert {action.side for action in actions if action.limit is None} == {"buy", "sell"}


def test_random_texts_in_objects_and_calls_are_words_of_what_was_seen():
    class Take(Action):
        item: str
        place: str = ""

    calls = [Tool(name="take", description="", input_schema=Take.model_json_schema())]
    seen, rng = Note(text="An apple, a pear."), Random(0)

    taken = [DerivedText(Take, Note).random_reply(seen, rng)[1].item for _ in range(200)]
    called = [DerivedText(CallToolAction, Note, "", calls).random_reply(seen, rng)[1].arguments for _ in range(200)]

    assert {word for item in taken for word in item.split()} == {"An", "apple", "a", "pear"}
    assert {len(item.split()) for item in taken} == {1, 2}
    assert {word for call in called for word in call["item"].split()} == {"An", "apple", "a", "pear"}
    assert 70 < sum("place" in call for call in called) < 130


def test_random_numbers_are_short_and_recur():
    class Power(Action):
        share: float = Field(ge=0, le=1)

    shares = {reply for reply, _ in replies_of(Power, 2000)}

    assert {float(share) for share in shares} == {hundredth / 100 for hundredth in range(101)}
    assert max(map(len, shares)) == 4


def test_counted_actions_are_all_played_at_random():
    text, rng = text_of(Guess), Random(0)
    numbers = [text.random_reply(Note(text="?"), rng)[1].number for _ in range(2000)]
    assert {number: 100 < numbers.count(number) < 300 for number in range(-1, 10)} == dict.fromkeys(range(-1, 10), True)


def test_legal_actions_of_an_observation_are_the_replies():
    text = text_of(Play, Table)
    seen = Table(hand="two cards", legal_actions=[4, 9], metadata={"legal_action_names": ["Red 4", "Blue 9"]})

    assert text.describe(seen) == "two cards\nLegal replies: Red 4, Blue 9."
    assert text.parse("blue 9", seen) == Play(card=9)
    assert text.parse("4", seen) is None
    assert text.parse("4", Table(legal_actions=[4])) == Play(card=4)


def test_a_legal_action_goes_into_a_field_that_takes_its_type_among_others():
    assert text_of(Element, Table).parse("4", Table(legal_actions=[4, 9])) == Element(value=4)


def test_names_that_two_legal_actions_share_get_their_numbers():
    seen = Table(legal_actions=[4, 9], metadata={"legal_action_names": ["Red", "Red"]})
    assert list(text_of(Play, Table).replies(seen)) == ["Red #4", "Red #9"]


def test_tools_are_called_with_and_without_marks():
    text, seen = text_of(CallToolAction, tools=TOOLS), Note(text="?")
    call = CallToolAction(tool_name="add", arguments={"a": 1, "b": 2})

    assert text.parse('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>', seen) == call
    assert text.parse('I add: {"name": "add", "parameters": {"a": 1, "b": 2}}', seen) == call
    assert text.parse('[TOOL_CALLS][{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}]', seen) == call
    assert "there is no tool 'sub'. Tools: add, stop" in text.problem('{"name": "sub", "arguments": {}}', seen)
    assert "add needs b" in text.problem('{"name": "add", "arguments": {"a": 1}}', seen)
    assert [tool["function"]["name"] for tool in text.tools()] == ["add", "stop"]


def test_the_result_of_a_tool_is_shown_without_its_envelope():
    text = text_of(CallToolAction, tools=TOOLS)
    failed = ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message="no ink")

    assert text.describe(CallToolObservation(tool_name="add", result={"data": 3, "is_error": False})) == "3"
    assert text.describe(CallToolObservation(tool_name="add", error=failed)) == "error: no ink"


def test_choices_that_need_other_fields_are_no_choices():
    class Click(Action):
        kind: Literal["click", "wait"]
        x: int | None = None

        @model_validator(mode="after")
        def _has_place(self) -> Self:
            if self.kind == "click" and self.x is None:
                raise ValueError("click needs x")
            return self

    text = DerivedText(Click, Observation)

    assert text.replies(Observation()) == {}
    assert text.parse('{"kind": "click", "x": 3}', Observation()) == Click(kind="click", x=3)


def test_a_command_with_optional_arguments_is_an_object():
    class Trade(Action):
        kind: Literal["buy", "wait"]
        amount: int = Field(default=1, ge=1, le=2)

    text, actions = text_of(Trade), [action for _, action in replies_of(Trade)]

    assert text.parse('{"kind": "buy", "amount": 2}', Note(text="?")) == Trade(kind="buy", amount=2)
    assert {(action.kind, action.amount) for action in actions} == {
        ("buy", 1), ("buy", 2), ("wait", 1), ("wait", 2)
    }  # fmt: skip


def test_a_field_with_one_value_is_no_argument():
    class Step(Action):
        type: Literal["step"] = "step"
        direction: Literal["left", "right"]

    assert list(text_of(Step).replies(Note(text="?"))) == ["left", "right"]


def test_instructions_have_the_rules_the_fields_and_the_form_of_a_reply():
    assert text_of(Move, Seen).instructions(Seen()) == (
        "A game.\nposition (m): Where the cart is\nReply with one of these: left, right."
    )


@pytest.mark.parametrize(
    ("observation", "described"),
    [
        (Seen(position=1.23456), "position: 1.23 m"),
        (Seen(position=-0.5, moves=3), "position: -0.5 m\nmoves: 3"),
        (Note(text="only this"), "only this"),
    ],
)
def test_an_observation_is_described_by_its_fields_and_units(observation, described):
    assert text_of(Move, type(observation)).describe(observation) == described
