"""Replies of pretrained models are read as people read them; where there is doubt, they name no action."""

import time
from typing import Any, Literal

import pytest
from pydantic import Field

from openenv.core import Action, Observation
from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.policies.conversations import action_of, problem_of
from openenv.policies.prompts import EndpointReply, SampledReply
from openenv.text.action_forms import ActionForm, ChoiceForm, ToolForm, form_of
from openenv.text.interface import TextInterface
from openenv.text.reading import last_block, named_in
from tests.text import replies


class Bid(Action):
    price: float


class Say(Action):
    message: str


class Word(Action):
    word: str = Field(pattern="^[a-z]{5}$")


class OrderAction(Action):
    kind: Literal["buy", "sell"]
    amount: int = Field(ge=1, le=9)


_PAIR = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [
    Tool(name="add", description="Adds.", input_schema={"type": "object", **_PAIR}),
    Tool(name="stop", description="Stops.", input_schema={"type": "object", "properties": {}}),
]


def choices(*names: str) -> ChoiceForm:
    return ChoiceForm({name: Action(metadata={"name": name}) for name in names})


FORMS: dict[str, ActionForm] = {
    "hit or stand": choices("hit", "stand"),
    "cells": choices(*(f"{column}{row}" for row in range(1, 4) for column in "abc")),
    "digits": choices(*map(str, range(10))),
    "1 to 10": choices(*map(str, range(1, 11))),
    "1 to 12": choices(*map(str, range(1, 13))),
    "words": choices("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "nim": choices("1 take 1", "2 take 3", "3 take 1", "3 take 5"),
    "signed": choices("-1", "0", "1"),
    "directions": choices("north", "south", "east", "west"),
    "letters": choices("A", "B", "C", "D"),
    "uno": choices("red 5", "blue skip", "wild draw 4 red", "draw"),
    "fire": choices("wait", "water 3 4", "water 4 3", "firebreak 2 5"),
    "joystick": choices("LEFT", "RIGHT", "NOOP", "UPLEFT"),
    "number": form_of(Bid),
    "text": form_of(Say),
    "five letters": form_of(Word),
    "order": form_of(OrderAction),
    "tools": ToolForm(TOOLS),
}
TABLES = {
    "hit or stand": replies.HIT_OR_STAND,
    "cells": replies.CELLS,
    "digits": replies.DIGITS,
    "words": replies.WORDS,
    "nim": replies.NIM,
    "signed": replies.SIGNED,
    "number": replies.NUMBER,
    "text": replies.TEXT,
    "five letters": replies.FIVE_LETTERS,
    "order": replies.ORDER,
    "tools": replies.TOOLS,
}
ROWS = [
    (form, reply, reading)
    for table in (TABLES, replies.OTHERS, replies.SMOLLM2)
    for form, rows in table.items()
    for reply, reading in rows
]


class OneForm(TextInterface[Action, Observation]):
    """A text interface of one form."""

    def __init__(self, form: ActionForm) -> None:
        self.form = form

    def instructions(self, observation: Observation) -> str:
        return self.form.instructions()

    def describe(self, observation: Observation) -> str:
        return ""

    def replies(self, observation: Observation) -> Any:
        return self.form.choices()

    def parse(self, reply: str, observation: Observation) -> Action | None:
        try:
            return self.form.parse(reply)
        except ValueError:
            return None


def reading_of(form: str, reply: str) -> Any:
    """What the table has for the action that a reply names."""
    action = action_of(reply, OneForm(FORMS[form]), Observation())
    if action is None or isinstance(action, CallToolAction):
        return action and {"tool_name": action.tool_name, "arguments": action.arguments}
    fields = action.model_dump(exclude={"metadata"})
    return action.metadata["name"] if not fields else fields if len(fields) > 1 else next(iter(fields.values()))


@pytest.mark.parametrize(("form", "reply", "reading"), ROWS)
@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_a_reply_is_read_as_people_read_it(form: str, reply: str, reading: Any) -> None:
    assert reading_of(form, reply) == reading


def test_the_table_has_replies_of_many_forms_and_of_a_model() -> None:
    assert len(ROWS) >= 200
    assert sum(map(len, replies.SMOLLM2.values())) >= 40


@pytest.mark.parametrize(("reply", "is_cut_off", "is_thought", "reading"), replies.THINKING)
@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_an_answer_follows_the_end_of_the_thinking(
    reply: str, is_cut_off: bool, is_thought: bool, reading: str | None
) -> None:
    sampled = SampledReply(reply, [1], is_cut_off=is_cut_off, is_thought=is_thought)

    assert reading_of("digits", sampled) == reading


@pytest.mark.parametrize(("form", "reply", "reading"), replies.CUT_OFF)
def test_a_reply_that_was_cut_off_names_what_more_text_cannot_change(form: str, reply: str, reading: Any) -> None:
    assert reading_of(form, EndpointReply(reply, is_cut_off=True)) == reading


def test_the_problem_of_a_reply_without_an_answer_is_why() -> None:
    text, seen = OneForm(FORMS["hit or stand"]), Observation()

    assert problem_of("<think> hit", text, seen) == "The thinking has no end, so that no answer follows it."
    assert "cut off at the limit of its tokens" in problem_of(EndpointReply("hi", is_cut_off=True), text, seen)


def test_the_case_of_letters_counts_where_wordings_differ_by_it() -> None:
    moves = ("Bxc3", "bxc3", "Nf3")

    assert named_in("bxc3", moves) == "bxc3"
    assert named_in("I play Bxc3.", moves) == "Bxc3"
    assert named_in("nf3", moves) == "Nf3"
    assert named_in("BXC3", moves) is None


def test_a_wording_inside_a_longer_one_is_not_counted() -> None:
    assert named_in("a double hit please", ["hit", "double hit"]) == "double hit"
    assert named_in("turn_left", ["turn left", "turn right"]) == "turn left"
    assert named_in("Option A", ["A", "B"]) == "A"
    assert named_in("It is a trap", ["A", "B"]) is None
    assert named_in("There is no way", ["yes", "no"]) is None
    assert named_in("No, thank you", ["yes", "no"]) == "no"
    assert named_in("Oh no.", ["yes", "no"]) is None


_LENGTH = 50_000
_PIECES = (
    *("Answer: ", "hit ", "<answer>", "- 5 ", "{", '{"a": ', "\\boxed{", "*", "not ", "`", "```\n", "?", "1, ", "-1"),
    *(" ", "\t", "\n", "\\", '"', "'", "(", "<think>", "{/*", '{"\\"', ", ", "that's right ", "stop() ", '{"a": 1} '),
    *("<function=add>{", "<function=add><parameter=a>", "<function=add><parameter=a>1</parameter>", "add(a=1) "),
)
_BEGINS = ("", "```", "Answer: a", "<function=add>", '{"')


@pytest.mark.parametrize("piece", _PIECES)
def test_a_long_reply_of_one_piece_is_read_in_a_time_that_grows_with_its_length(piece: str) -> None:
    begun = time.process_time()
    for form in ("hit or stand", "signed", "number", "text", "order", "tools"):
        for begin in _BEGINS:
            reading_of(form, begin + piece * (_LENGTH // len(piece)) + "\nAnswer: hit")
            assert time.process_time() - begun < 30.0, "a time that grows with the square of the length takes minutes"


def test_a_call_with_many_parameters_and_no_end_is_read_at_once() -> None:
    begun = time.process_time()

    assert reading_of("tools", "<function=add>" + "<parameter=a>1</parameter>" * 30) is None
    assert time.process_time() - begun < 10.0


def test_a_reply_that_repeats_one_mention_without_an_end_names_nothing() -> None:
    assert reading_of("hit or stand", "hit " * 1000) == "hit"
    assert reading_of("hit or stand", "hit " * 1001) is None


def test_a_fence_keeps_the_spaces_inside_and_loses_those_around_it() -> None:
    assert last_block("```python\n\n  a\n  b \n\n```") == "a\n  b"
    assert last_block("```a``` and ``` b```") == "b"
    assert last_block("``` never closed") == ""
